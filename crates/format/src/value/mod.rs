//! The meaning of a column's stored bytes, and how the server writes it as text.
//!
//! ```text
//! ColumnDef -> ValueType -> decode(stored bytes) -> Value        numbers, dates, bytes: nothing is copied
//!                        -> write_text(stored bytes, out)        what SELECT shows, text as UTF-8
//!                        -> write_image(stored bytes, out)       what CHECKSUM TABLE adds up
//! ```
//!
//! Allocates nothing but the caller's output. Nested JSON takes a stack frame per level.
//!
//! Facts: `field.cc` and `my_time.cc` of both servers, `json_binary.cc` and `json_dom.cc` of MySQL 8.0; compared with what both
//! servers show and sum of tables with every type.

pub mod compressed;
pub mod decimal;
mod digits;
mod encode;
mod error;
pub mod float;
pub mod geometry;
mod image;
pub mod json;
mod kind;
pub mod net;
mod of_column;
pub mod row_shape;
pub mod row_sum;
pub mod show;
mod stored;
pub mod temporal;
mod text;

use crate::charset::Charset;
use stored::{exactly, signed, unsigned};
use temporal::{Date, DateTime, Digits, Time, Timestamp};

pub use digits::{write_int, write_uint};
pub use encode::Encoded;
pub use error::ValueError;
pub use kind::{ValueKind, ValueType};

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'v> {
    /// TINYINT to BIGINT.
    Int(i64),
    /// The same, UNSIGNED; BIT, as a number.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL: [`decimal::write`] reads the bytes.
    Decimal(&'v [u8]),
    /// YEAR; 0 is the year 0000.
    Year(u16),
    /// DATE.
    Date(Date),
    /// TIME.
    Time(Time),
    /// DATETIME.
    DateTime(DateTime),
    /// TIMESTAMP, as seconds since 1970 UTC and microseconds; `None` for the zero timestamp.
    Timestamp(Timestamp),
    /// BIT.
    Bit(&'v [u8]),
    /// ENUM: the member's number, from 1; 0 is the empty string.
    Enum(u16),
    /// SET: one bit per member.
    Set(u64),
    /// Text in the column's charset, without a CHAR's padding.
    Text(&'v [u8]),
    /// Bytes.
    Bytes(&'v [u8]),
    /// MySQL's binary JSON: [`json::write_text`] reads the bytes.
    Json(&'v [u8]),
    /// Spatial reference system and WKB: [`geometry::write_wkt`] reads the bytes.
    Geometry(&'v [u8]),
    /// Numbers of four bytes each, little-endian.
    Vector(&'v [u8]),
    /// UUID, in written order.
    Uuid([u8; 16]),
    /// INET6.
    Inet6([u8; 16]),
    /// INET4.
    Inet4([u8; 4]),
}

impl ValueType {
    /// Decodes a stored value that is not NULL: complete, including off-page data, and decompressed if the column is COMPRESSED.
    ///
    /// # Errors
    /// The bytes are not a value of the type.
    #[inline]
    pub fn decode<'v>(&self, stored: &'v [u8]) -> Result<Value<'v>, ValueError> {
        self.check_length(stored)?;
        Ok(match self.kind {
            ValueKind::Int { unsigned: false, .. } => Value::Int(signed(stored)),
            ValueKind::Int { unsigned: true, .. } => Value::UInt(unsigned(stored)),
            ValueKind::Float { .. } => Value::Float(float::single(exactly(stored)?)),
            ValueKind::Double { .. } => Value::Double(float::double(exactly(stored)?)),
            ValueKind::Decimal { .. } => Value::Decimal(stored),
            ValueKind::Year => Value::Year(match exactly(stored)? {
                [0] => 0,
                [year] => 1900 + u16::from(year),
            }),
            ValueKind::Date => Value::Date(Date::decode(exactly(stored)?)?),
            ValueKind::Time(digits) => Value::Time(Time::decode(stored, digits)?),
            ValueKind::OldTime => Value::Time(Time::decode_old(exactly(stored)?)?),
            ValueKind::HiresTime(digits) => Value::Time(Time::decode_hires(stored, digits)?),
            ValueKind::DateTime(digits) => Value::DateTime(DateTime::decode(stored, digits)?),
            ValueKind::OldDateTime => Value::DateTime(DateTime::decode_old(exactly(stored)?)?),
            ValueKind::HiresDateTime(digits) => Value::DateTime(DateTime::decode_hires(stored, digits)?),
            ValueKind::Timestamp(digits) => Value::Timestamp(temporal::timestamp(stored, digits)?),
            ValueKind::OldTimestamp => Value::Timestamp(temporal::timestamp(stored, Digits::NONE)?),
            ValueKind::HiresTimestamp(digits) => Value::Timestamp(temporal::hires_timestamp(stored, digits)?),
            ValueKind::Bit(_) => Value::Bit(stored),
            ValueKind::Enum(_) => Value::Enum(self.member(unsigned(stored))?),
            ValueKind::Set(_) => Value::Set(self.member_bits(unsigned(stored))?),
            ValueKind::Char { .. } => Value::Text(self.without_padding(stored)),
            ValueKind::Text => Value::Text(stored),
            ValueKind::Binary { .. } | ValueKind::Bytes => Value::Bytes(stored),
            ValueKind::Json => Value::Json(stored),
            ValueKind::Geometry => Value::Geometry(stored),
            ValueKind::Vector => Value::Vector(stored),
            ValueKind::Uuid => Value::Uuid(net::uuid(exactly(stored)?)),
            ValueKind::OldUuid => Value::Uuid(net::old_uuid(exactly(stored)?)),
            ValueKind::Inet6 => Value::Inet6(exactly(stored)?),
            ValueKind::Inet4 => Value::Inet4(exactly(stored)?),
            ValueKind::Unknown => return Err(ValueError::Unknown),
        })
    }

    fn check_length(&self, stored: &[u8]) -> Result<(), ValueError> {
        match self.fixed {
            Some(expected) if stored.len() != usize::from(expected) => {
                Err(ValueError::Length { found: stored.len(), expected: usize::from(expected) })
            }
            _ => Ok(()),
        }
    }

    /// The name of member `number` of an ENUM; empty for 0.
    #[must_use]
    pub fn member_name(&self, number: u16) -> &str {
        let number = usize::from(number).checked_sub(1);
        number.and_then(|at| self.members().get(at)).map_or("", String::as_str)
    }

    /// The number of the member `''` of an ENUM or SET, from 1.
    #[must_use]
    pub fn empty_member(&self) -> Option<usize> {
        self.members().iter().position(String::is_empty).map(|at| at + 1)
    }

    /// The number of a stored value whose text is that of another value, if the type has such an [`ValueType::empty_member`]: 0 of an ENUM,
    /// which the server stores for what is no member, and a SET whose first member is `''`. Statements can name it by its number only.
    #[must_use]
    pub fn number_of_empty(&self, empty_member: usize, stored: &[u8]) -> Option<u64> {
        let number = unsigned(stored);
        let is_taken_for_another = match self.kind {
            ValueKind::Enum(_) => number == 0,
            ValueKind::Set(_) => number != 0 && number.trailing_zeros() as usize + 1 == empty_member,
            _ => false,
        };
        is_taken_for_another.then_some(number)
    }

    /// The names of the members of an ENUM or SET, in UTF-8.
    #[must_use]
    pub fn members(&self) -> &[String] {
        match &self.kind {
            ValueKind::Enum(members) | ValueKind::Set(members) => members,
            _ => &[],
        }
    }

    fn member(&self, number: u64) -> Result<u16, ValueError> {
        let members = self.members().len();
        match u16::try_from(number) {
            Ok(known) if usize::from(known) <= members => Ok(known),
            _ => Err(ValueError::Member { number, members }),
        }
    }

    fn member_bits(&self, bits: u64) -> Result<u64, ValueError> {
        let members = self.members().len();
        let highest = u64::from(u64::BITS - bits.leading_zeros());
        if highest > members as u64 { Err(ValueError::Member { number: highest, members }) } else { Ok(bits) }
    }

    /// A CHAR without trailing spaces.
    fn without_padding<'v>(&self, stored: &'v [u8]) -> &'v [u8] {
        let end = match self.charset {
            Charset::Ucs2 | Charset::Utf16 => padded_end::<2>(stored, [0, 0x20]),
            Charset::Utf16Le => padded_end::<2>(stored, [0x20, 0]),
            Charset::Utf32 => padded_end::<4>(stored, [0, 0, 0, 0x20]),
            _ => padded_end::<1>(stored, *b" "),
        };
        stored.get(..end).unwrap_or(stored)
    }
}

fn padded_end<const N: usize>(stored: &[u8], space: [u8; N]) -> usize {
    let (characters, _) = stored.as_chunks::<N>();
    characters.iter().rposition(|character| *character != space).map_or(0, |last| (last + 1) * N)
}
