//! How callers change stretches of a file.

use super::changes::Changes;
use crate::FileId;

/// A stretch of a file in which some blocks will be changed. No two stretches of a run overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The file.
    pub file: FileId,
    /// Where it begins, bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Read the old bytes first; otherwise the buffer starts as zeros.
    pub is_read: bool,
    /// The caller's tag.
    pub tag: usize,
}

/// Changes stretches, on any thread, in any order.
pub trait Change: Sync {
    /// State that a thread keeps from one stretch to the next.
    type Scratch: Default;
    /// Why a change failed.
    type Error: Send;

    /// Changes the bytes of a stretch, and records which.
    ///
    /// # Errors
    /// The run ends with this error. Earlier changes may have been written.
    fn change(
        &self,
        stretch: &Stretch,
        bytes: &mut [u8],
        changes: &mut Changes,
        scratch: &mut Self::Scratch,
    ) -> Result<(), Self::Error>;
}
