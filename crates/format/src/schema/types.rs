//! SQL types and the storage of their values.

use super::charset;
use crate::record::Storage;

/// The storage of a type. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// TINYINT to BIGINT: 1, 2, 3, 4 or 8 bytes.
    Int {
        /// Bytes.
        bytes: u8,
        /// UNSIGNED.
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
        /// Decimal digits.
        scale: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME, with this many fraction digits.
    Time(u8),
    /// DATETIME, with this many fraction digits.
    DateTime(u8),
    /// TIMESTAMP, with this many fraction digits.
    Timestamp(u8),
    /// TIME, DATETIME or TIMESTAMP in the format of servers before 5.6 (MariaDB: 10.1), without a fraction.
    OldTime,
    /// See [`SqlType::OldTime`].
    OldDateTime,
    /// See [`SqlType::OldTime`].
    OldTimestamp,
    /// MariaDB's own TIME, with this many fraction digits (never 0).
    HiresTime(u8),
    /// MariaDB's own DATETIME, with this many fraction digits (never 0).
    HiresDateTime(u8),
    /// MariaDB's own TIMESTAMP, with this many fraction digits (never 0).
    HiresTimestamp(u8),
    /// BIT, of this many bits.
    Bit(u8),
    /// ENUM: 1 or 2 bytes. The column has the members.
    Enum(u8),
    /// SET: 1 to 8 bytes. The column has the members.
    Set(u8),
    /// CHAR, or BINARY by its collation: the longest value in bytes.
    Char(u16),
    /// VARCHAR, or VARBINARY by its collation: the longest value in bytes.
    Varchar(u32),
    /// BLOB or TEXT, with the size of its length field (1 to 4).
    Blob(u8),
    /// MySQL's JSON.
    Json,
    /// POINT, GEOMETRY and so on.
    Geometry(GeometryKind),
    /// MySQL's VECTOR, stored like a BLOB, with its maximum of dimensions.
    Vector(u32),
    /// MariaDB's VECTOR, stored like a VARBINARY, with its exact number of dimensions.
    MariaDbVector(u32),
    /// MariaDB's UUID: those of versions 1 to 5 are stored with their groups swapped.
    Uuid,
    /// UUID of a table that an early server made: all are stored with their groups swapped.
    OldUuid,
    /// MariaDB's INET6: 16 bytes in network order.
    Inet6,
    /// MariaDB's INET4: 4 bytes in network order.
    Inet4,
    /// An unknown type. Indexes of its table cannot be built.
    Unknown(u8),
}

/// The shapes of a geometry column. The numbers are the servers'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are SQL's own")]
pub enum GeometryKind {
    Geometry,
    Point,
    LineString,
    Polygon,
    MultiPoint,
    MultiLineString,
    MultiPolygon,
    GeometryCollection,
}

impl GeometryKind {
    /// The kind for a number in either server's dictionary. An unknown number counts as any shape.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Point,
            2 => Self::LineString,
            3 => Self::Polygon,
            4 => Self::MultiPoint,
            5 => Self::MultiLineString,
            6 => Self::MultiPolygon,
            7 => Self::GeometryCollection,
            _ => Self::Geometry,
        }
    }
}

/// Longer fields are never fixed-length.
const MAX_FIXED_LEN: u32 = 768;

/// Storage of a column or of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// In compact records.
    pub compact: Storage,
    /// Bytes in REDUNDANT records, if fixed.
    pub redundant: Option<u16>,
    /// Upper limit in bytes, if values vary.
    pub max_len: Option<u32>,
}

/// Bytes of a fraction with `digits` digits.
const fn fraction_bytes(digits: u8) -> u32 {
    digits.div_ceil(2) as u32
}

/// Bytes of a temporal value by its fraction digits, 1 to 6.
fn by_digits(bytes: [u32; 6], digits: u8) -> u32 {
    bytes.get(usize::from(digits).saturating_sub(1)).copied().unwrap_or(bytes[5])
}

/// Bytes of a DECIMAL.
#[must_use]
pub fn decimal_bytes(precision: u8, scale: u8) -> u32 {
    const LEFTOVER: [u32; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let part = |digits: u8| u32::from(digits / 9) * 4 + LEFTOVER.get(usize::from(digits % 9)).copied().unwrap_or(0);
    part(precision.saturating_sub(scale)) + part(scale)
}

impl SqlType {
    /// Bytes of a value, if all values have the same length in every charset and row format.
    #[must_use]
    pub fn fixed_bytes(self) -> Option<u32> {
        Some(match self {
            Self::Int { bytes, .. } | Self::Enum(bytes) | Self::Set(bytes) => u32::from(bytes),
            Self::HiresTime(digits) => by_digits([4, 4, 5, 5, 5, 6], digits),
            Self::HiresDateTime(digits) => by_digits([6, 6, 7, 7, 7, 8], digits),
            Self::HiresTimestamp(digits) => 4 + fraction_bytes(digits),
            Self::Uuid | Self::OldUuid | Self::Inet6 => 16,
            Self::Inet4 => 4,
            Self::Year => 1,
            Self::Date | Self::OldTime => 3,
            Self::Float | Self::OldTimestamp => 4,
            Self::Double | Self::OldDateTime => 8,
            Self::Decimal { precision, scale } => decimal_bytes(precision, scale),
            Self::Time(digits) => 3 + fraction_bytes(digits),
            Self::DateTime(digits) => 5 + fraction_bytes(digits),
            Self::Timestamp(digits) => 4 + fraction_bytes(digits),
            Self::Bit(bits) => u32::from(bits).div_ceil(8),
            Self::Char(_) | Self::Varchar(_) | Self::Blob(_) | Self::Json | Self::Geometry(_) => return None,
            Self::Vector(_) | Self::MariaDbVector(_) | Self::Unknown(_) => return None,
        })
    }

    /// How a field of this type is stored; `prefix` is the length of the prefix it holds. `None` for unknown types.
    pub(super) fn room(self, collation: u16, prefix: Option<u32>) -> Option<Room> {
        let short = |len: u32| prefix.map_or(len, |prefix| prefix.min(len));
        let blob = Room { compact: Storage::Variable { big: true }, redundant: None, max_len: prefix };
        let varying =
            |len| Room { compact: Storage::Variable { big: len > 255 }, redundant: None, max_len: Some(short(len)) };
        Some(match self {
            Self::Char(len) => char_room(u32::from(len), short(u32::from(len)), collation),
            Self::Varchar(len) => varying(len),
            Self::MariaDbVector(dimensions) => varying(dimensions.saturating_mul(4)),
            Self::Blob(_) | Self::Json | Self::Geometry(_) | Self::Vector(_) => blob,
            Self::Unknown(_) => return None,
            fixed => fixed_room(short(fixed.fixed_bytes()?)),
        })
    }
}

fn fixed_room(len: u32) -> Room {
    let bytes = u16::try_from(len).unwrap_or(u16::MAX);
    Room { compact: fixed(bytes), redundant: Some(bytes), max_len: None }
}

/// To InnoDB a fixed length of 0 means "varies": compact records have a length byte for BINARY(0), and for CHAR(0) of any charset.
const fn fixed(bytes: u16) -> Storage {
    if bytes == 0 { Storage::Variable { big: false } } else { Storage::Fixed(bytes) }
}

/// The storage of a CHAR. Up to a limit, it is fixed-length in compact records if every character is, and always in REDUNDANT ones.
fn char_room(declared: u32, len: u32, collation: u16) -> Room {
    let (min, max) = charset::character_bytes(collation);
    let short = len <= MAX_FIXED_LEN;
    let bytes = u16::try_from(len).unwrap_or(u16::MAX);
    Room {
        compact: if min == max && short { fixed(bytes) } else { Storage::Variable { big: declared > 255 } },
        redundant: short.then_some(bytes),
        max_len: Some(len),
    }
}

const DECIMAL_DIGITS_MAX: u32 = 65;

/// Computes a DECIMAL from its display width, which includes sign and point.
pub(super) fn decimal(width: u32, scale: u32, unsigned: bool) -> SqlType {
    let precision = width.saturating_sub(u32::from(scale > 0)).saturating_sub(u32::from(!unsigned));
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    // A statement like CREATE ... SELECT may declare more digits; the servers store that, and read the column with as many as there can be.
    SqlType::Decimal { precision: byte(precision.min(DECIMAL_DIGITS_MAX)), scale: byte(scale) }
}

/// Bytes of a SET with this many members.
pub(super) fn set_bytes(members: usize) -> u8 {
    match members.div_ceil(8) {
        0 => 1,
        bytes @ 1..=4 => bytes as u8,
        _ => 8,
    }
}
