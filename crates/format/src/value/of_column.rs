//! Derives from a column's definition how to read its values.

use std::sync::Arc;

use super::temporal::Digits;
use super::{ValueKind, ValueType};
use crate::charset::Charset;
use crate::schema::charset::BINARY;
use crate::schema::{ColumnDef, SqlType};

impl ValueType {
    /// How to read the values of `column`.
    #[must_use]
    pub fn of(column: &ColumnDef) -> Self {
        let charset = Charset::of(column.collation);
        let fixed = column.sql_type.fixed_bytes().and_then(|bytes| u16::try_from(bytes).ok());
        let decimals = column.decimals;
        let binary = column.collation == BINARY;
        // A digit count that no server writes comes from a damaged definition, so the values cannot be read.
        let timed = |digits: u8, kind: fn(Digits) -> ValueKind| Digits::new(digits).map_or(ValueKind::Unknown, kind);
        let kind = match column.sql_type {
            SqlType::Int { bytes, unsigned } => ValueKind::Int { bytes, unsigned },
            SqlType::Float => ValueKind::Float { decimals },
            SqlType::Double => ValueKind::Double { decimals },
            SqlType::Decimal { precision, scale } => ValueKind::Decimal { precision, scale },
            SqlType::Year => ValueKind::Year,
            SqlType::Date => ValueKind::Date,
            SqlType::Time(digits) => timed(digits, ValueKind::Time),
            SqlType::DateTime(digits) => timed(digits, ValueKind::DateTime),
            SqlType::Timestamp(digits) => timed(digits, ValueKind::Timestamp),
            SqlType::OldTime => ValueKind::OldTime,
            SqlType::OldDateTime => ValueKind::OldDateTime,
            SqlType::OldTimestamp => ValueKind::OldTimestamp,
            SqlType::HiresTime(digits) => timed(digits, ValueKind::HiresTime),
            SqlType::HiresDateTime(digits) => timed(digits, ValueKind::HiresDateTime),
            SqlType::HiresTimestamp(digits) => timed(digits, ValueKind::HiresTimestamp),
            SqlType::Bit(bits) => ValueKind::Bit(bits),
            SqlType::Enum(_) => ValueKind::Enum(members(column, charset)),
            SqlType::Set(_) => ValueKind::Set(members(column, charset)),
            SqlType::Char(bytes) if binary => ValueKind::Binary { bytes: bytes.into() },
            SqlType::Char(bytes) => ValueKind::Char { bytes: bytes.into() },
            SqlType::Varchar(_) | SqlType::Blob(_) if binary => ValueKind::Bytes,
            SqlType::Varchar(_) | SqlType::Blob(_) => ValueKind::Text,
            SqlType::Json => ValueKind::Json,
            SqlType::Geometry(_) => ValueKind::Geometry,
            SqlType::Vector(_) | SqlType::MariaDbVector(_) => ValueKind::Vector,
            SqlType::Uuid => ValueKind::Uuid,
            SqlType::OldUuid => ValueKind::OldUuid,
            SqlType::Inet6 => ValueKind::Inet6,
            SqlType::Inet4 => ValueKind::Inet4,
            SqlType::Unknown(_) => ValueKind::Unknown,
        };
        let zerofill = if column.zerofill { u16::try_from(column.width).unwrap_or(0) } else { 0 };
        Self { compressed: column.compressed, ..Self::new(kind, charset, fixed).zerofill(zerofill) }
    }
}

fn members(column: &ColumnDef, charset: Charset) -> Arc<[String]> {
    let utf8 = |member: &Vec<u8>| {
        let mut out = Vec::new();
        charset.to_utf8(member, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    column.members.iter().map(utf8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::ValueError;

    #[test]
    fn digits_that_no_type_has_make_it_unknown() {
        type Timed = fn(u8) -> SqlType;
        let timed: [Timed; 6] = [
            SqlType::Time,
            SqlType::DateTime,
            SqlType::Timestamp,
            SqlType::HiresTime,
            SqlType::HiresDateTime,
            SqlType::HiresTimestamp,
        ];
        for sql_type in timed {
            let of = |digits| ValueType::of(&ColumnDef::plain("c", sql_type(digits)));
            assert_ne!(of(6).kind, ValueKind::Unknown);
            for digits in [7, 8, 200, 255] {
                let value = of(digits);
                let stored = vec![0x80; value.fixed.unwrap_or(0).into()];
                assert_eq!(value.decode(&stored), Err(ValueError::Unknown), "{:?}", sql_type(digits));
            }
        }
    }
}
