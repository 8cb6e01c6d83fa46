//! Why bytes are no value.

use thiserror::Error;

/// Why stored bytes are no value of their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ValueError {
    /// Too few bytes, or too many.
    #[error("{found} bytes are stored, the type has {expected}")]
    Length {
        /// Bytes that are there.
        found: usize,
        /// Bytes that the type has.
        expected: usize,
    },
    /// More than nine digits where nine fit, or a digit beyond the type's.
    #[error("the bytes are no DECIMAL")]
    Decimal,
    /// A month 13, an hour 25.
    #[error("the bytes are no date or time")]
    Temporal,
    /// A number beyond the members of an ENUM or SET.
    #[error("member {number} of {members} is stored")]
    Member {
        /// The number, from 1.
        number: u64,
        /// How many there are.
        members: usize,
    },
    /// Not the binary form of a JSON document.
    #[error("the bytes are no JSON document")]
    Json,
    /// Not a geometry.
    #[error("the bytes are no geometry")]
    Geometry,
    /// A COMPRESSED column's packed value that cannot be unpacked.
    #[error("the compressed value cannot be unpacked")]
    Compressed,
    /// A type that is not known here.
    #[error("the type is not known to innokit")]
    Unknown,
}
