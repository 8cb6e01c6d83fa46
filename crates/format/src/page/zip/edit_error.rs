//! Why a compressed page cannot be changed.

use thiserror::Error;

use crate::zip_damage::ZipDamage;

/// Why a change to a ROW_FORMAT=COMPRESSED page is impossible or cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ZipEditError {
    /// The page is invalid before or after the change.
    #[error("{0}")]
    Damage(#[from] ZipDamage),
    /// Stream, log and trailer would overlap.
    #[error("the compressed page has no room for {wanted} more bytes: {free} are free")]
    NoRoom {
        /// Bytes that the change takes.
        wanted: usize,
        /// Bytes between log and trailer, including the log's end mark.
        free: usize,
    },
    /// After recompression the page is larger than before.
    #[error("the page does not fit into {len} bytes when it is compressed again")]
    TooLarge {
        /// Size of a compressed page, bytes.
        len: usize,
    },
    /// After the changes the compressed page does not unpack to the page inside.
    #[error("after the changes, the compressed page and the page inside it differ")]
    Different,
}
