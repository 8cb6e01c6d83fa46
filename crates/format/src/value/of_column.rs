//! From the definition of a column to the way its values are read.

use std::sync::Arc;

use super::temporal::Digits;
use super::{Kind, ValueType};
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
        // Digits that no server writes come out of a damaged definition: then nothing is known of the values.
        let timed = |digits: u8, kind: fn(Digits) -> Kind| Digits::new(digits).map_or(Kind::Unknown, kind);
        let kind = match column.sql_type {
            SqlType::Int { bytes, unsigned } => Kind::Int { bytes, unsigned },
            SqlType::Float => Kind::Float { decimals },
            SqlType::Double => Kind::Double { decimals },
            SqlType::Decimal { precision, scale } => Kind::Decimal { precision, scale },
            SqlType::Year => Kind::Year,
            SqlType::Date => Kind::Date,
            SqlType::Time(digits) => timed(digits, Kind::Time),
            SqlType::DateTime(digits) => timed(digits, Kind::DateTime),
            SqlType::Timestamp(digits) => timed(digits, Kind::Timestamp),
            SqlType::OldTime => Kind::OldTime,
            SqlType::OldDateTime => Kind::OldDateTime,
            SqlType::OldTimestamp => Kind::OldTimestamp,
            SqlType::HiresTime(digits) => timed(digits, Kind::HiresTime),
            SqlType::HiresDateTime(digits) => timed(digits, Kind::HiresDateTime),
            SqlType::HiresTimestamp(digits) => timed(digits, Kind::HiresTimestamp),
            SqlType::Bit(bits) => Kind::Bit(bits),
            SqlType::Enum(_) => Kind::Enum(members(column, charset)),
            SqlType::Set(_) => Kind::Set(members(column, charset)),
            SqlType::Char(bytes) if binary => Kind::Binary { bytes: bytes.into() },
            SqlType::Char(bytes) => Kind::Char { bytes: bytes.into() },
            SqlType::Varchar(_) | SqlType::Blob(_) if binary => Kind::Bytes,
            SqlType::Varchar(_) | SqlType::Blob(_) => Kind::Text,
            SqlType::Json => Kind::Json,
            SqlType::Geometry(_) => Kind::Geometry,
            SqlType::Vector(_) | SqlType::MariaDbVector(_) => Kind::Vector,
            SqlType::Uuid => Kind::Uuid,
            SqlType::Inet6 => Kind::Inet6,
            SqlType::Inet4 => Kind::Inet4,
            SqlType::Unknown(_) => Kind::Unknown,
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
            assert_ne!(of(6).kind, Kind::Unknown);
            for digits in [7, 8, 200, 255] {
                let value = of(digits);
                let stored = vec![0x80; value.fixed.unwrap_or(0).into()];
                assert_eq!(value.decode(&stored), Err(ValueError::Unknown), "{:?}", sql_type(digits));
            }
        }
    }
}
