//! SQL types and the room that their values take.

use super::charset;
use crate::record::Storage;

/// A type, as far as the storage of its values goes. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// TINYINT to BIGINT: 1, 2, 3, 4 or 8 bytes.
    Int {
        /// Bytes.
        bytes: u8,
        /// Without a sign.
        unsigned: bool,
    },
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DECIMAL.
    Decimal {
        /// Digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME, with digits of a second's fraction.
    Time(u8),
    /// DATETIME, with digits of a second's fraction.
    DateTime(u8),
    /// TIMESTAMP, with digits of a second's fraction.
    Timestamp(u8),
    /// TIME, DATETIME or TIMESTAMP as servers before 5.6 (MariaDB: 10.1) wrote them, without a fraction.
    OldTime,
    /// See [`SqlType::OldTime`].
    OldDateTime,
    /// See [`SqlType::OldTime`].
    OldTimestamp,
    /// MariaDB's own TIME with a fraction: so many bytes.
    HiresTime(u8),
    /// MariaDB's own DATETIME with a fraction: so many bytes.
    HiresDateTime(u8),
    /// MariaDB's own TIMESTAMP with a fraction: so many bytes.
    HiresTimestamp(u8),
    /// BIT, of so many bits.
    Bit(u8),
    /// ENUM: 1 or 2 bytes.
    Enum(u8),
    /// SET: 1 to 8 bytes.
    Set(u8),
    /// CHAR, or BINARY by its collation: at most so many bytes.
    Char(u16),
    /// VARCHAR, or VARBINARY by its collation: at most so many bytes.
    Varchar(u32),
    /// BLOB or TEXT; so many bytes count the length (1 to 4).
    Blob(u8),
    /// MySQL's JSON.
    Json,
    /// POINT, GEOMETRY and their kin.
    Geometry,
    /// MySQL's VECTOR.
    Vector,
    /// MariaDB's UUID, INET6 and INET4, and other types of so many bytes that compare as bytes.
    Bytes(u8),
    /// A type that is not known here. Its table's indexes cannot be built.
    Unknown(u8),
}

/// Fields that are longer than this are never of fixed length.
const MAX_FIXED_LEN: u32 = 768;

/// Storage of a column or of its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// In compact records.
    pub compact: Storage,
    /// In REDUNDANT ones, where that is fixed.
    pub redundant: Option<u16>,
    /// Most bytes, where values vary.
    pub max_len: Option<u32>,
}

/// Bytes of a fraction of a second with so many digits.
const fn fraction_bytes(digits: u8) -> u32 {
    digits.div_ceil(2) as u32
}

/// Bytes of a DECIMAL.
#[must_use]
pub fn decimal_bytes(precision: u8, scale: u8) -> u32 {
    const LEFTOVER: [u32; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let part = |digits: u8| u32::from(digits / 9) * 4 + LEFTOVER.get(usize::from(digits % 9)).copied().unwrap_or(0);
    part(precision.saturating_sub(scale)) + part(scale)
}

impl SqlType {
    /// Bytes of a value, where all values have the same number of them whatever the charset and the row format.
    #[must_use]
    pub fn fixed_bytes(self) -> Option<u32> {
        Some(match self {
            Self::Int { bytes, .. }
            | Self::Enum(bytes)
            | Self::Set(bytes)
            | Self::Bytes(bytes)
            | Self::HiresTime(bytes)
            | Self::HiresDateTime(bytes)
            | Self::HiresTimestamp(bytes) => u32::from(bytes),
            Self::Year => 1,
            Self::Date | Self::OldTime => 3,
            Self::Float | Self::OldTimestamp => 4,
            Self::Double | Self::OldDateTime => 8,
            Self::Decimal { precision, scale } => decimal_bytes(precision, scale),
            Self::Time(digits) => 3 + fraction_bytes(digits),
            Self::DateTime(digits) => 5 + fraction_bytes(digits),
            Self::Timestamp(digits) => 4 + fraction_bytes(digits),
            Self::Bit(bits) => u32::from(bits).div_ceil(8),
            Self::Char(_) | Self::Varchar(_) | Self::Blob(_) | Self::Json | Self::Geometry | Self::Vector => {
                return None;
            }
            Self::Unknown(_) => return None,
        })
    }

    /// How a field with this type is stored; `prefix` = bytes of its beginning that the field holds. `None` for unknown types.
    pub(super) fn room(self, collation: u16, prefix: Option<u32>) -> Option<Room> {
        let short = |len: u32| prefix.map_or(len, |prefix| prefix.min(len));
        let blob = Room { compact: Storage::Variable { big: true }, redundant: None, max_len: prefix };
        Some(match self {
            Self::Char(len) => char_room(u32::from(len), short(u32::from(len)), collation),
            Self::Varchar(len) => {
                Room { compact: Storage::Variable { big: len > 255 }, redundant: None, max_len: Some(short(len)) }
            }
            Self::Blob(_) | Self::Json | Self::Geometry | Self::Vector => blob,
            Self::Unknown(_) => return None,
            fixed => fixed_room(short(fixed.fixed_bytes()?)),
        })
    }
}

fn fixed_room(len: u32) -> Room {
    let bytes = u16::try_from(len).unwrap_or(u16::MAX);
    Room { compact: Storage::Fixed(bytes), redundant: Some(bytes), max_len: None }
}

/// CHAR is of fixed length in compact records where every character is, and in REDUNDANT ones always, up to a limit.
fn char_room(declared: u32, len: u32, collation: u16) -> Room {
    let (min, max) = charset::character_bytes(collation);
    let short = len <= MAX_FIXED_LEN;
    let bytes = u16::try_from(len).unwrap_or(u16::MAX);
    Room {
        compact: if min == max && short { Storage::Fixed(bytes) } else { Storage::Variable { big: declared > 255 } },
        redundant: short.then_some(bytes),
        max_len: Some(len),
    }
}
