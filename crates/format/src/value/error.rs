//! Errors in decoding a value.

use thiserror::Error;

/// Why stored bytes are not a value of their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ValueError {
    /// Too few bytes, or too many.
    #[error("{found} bytes are stored, but the type has {expected}")]
    Length {
        /// Number of bytes found.
        found: usize,
        /// Number of bytes of the type.
        expected: usize,
    },
    /// More than nine digits in a group, or a digit beyond the type's.
    #[error("the bytes are not a DECIMAL")]
    Decimal,
    /// A part out of range, like month 13 or hour 25.
    #[error("the bytes are not a date or time")]
    Temporal,
    /// A number beyond the members of an ENUM or SET.
    #[error("member {number} is stored, but there are only {members}")]
    Member {
        /// The number, from 1.
        number: u64,
        /// Number of members.
        members: usize,
    },
    /// Not the binary form of a JSON document.
    #[error("the bytes are not a JSON document")]
    Json,
    /// Not a geometry.
    #[error("the bytes are not a geometry")]
    Geometry,
    /// A value of a COMPRESSED column that cannot be decompressed.
    #[error("the compressed value cannot be unpacked")]
    Compressed,
    /// An unknown type.
    #[error("innokit does not know the type")]
    Unknown,
}
