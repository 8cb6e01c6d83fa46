//! Why a change cannot be made to a compressed page.

use thiserror::Error;

use super::damage::ZipDamage;

/// Why a change to a page of ROW_FORMAT=COMPRESSED cannot be made, or is not to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ZipEditError {
    /// The page before or after the change is none.
    #[error("{0}")]
    Damage(#[from] ZipDamage),
    /// Stream, log and trailer would overlap.
    #[error("the compressed page has no room for {wanted} bytes more, {free} are free")]
    NoRoom {
        /// Bytes that the change takes.
        wanted: usize,
        /// Bytes between log and trailer, the log's end mark among them.
        free: usize,
    },
    /// Compressed again, the page is larger than before.
    #[error("the page does not fit into {len} bytes when it is compressed again")]
    TooLarge {
        /// Bytes of a compressed page.
        len: usize,
    },
    /// After the changes, the compressed page does not unpack to the page that they made.
    #[error("the compressed page and the page inside it became different by the changes")]
    Different,
}
