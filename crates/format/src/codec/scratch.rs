//! The memory in which pages are opened.

use super::cipher::CipherMode;
use super::error::CodecError;
use super::inflate::Inflater;
use crate::types::PageSize;

/// The buffers and decoders that opening pages needs: made once for a worker, used for all its pages.
pub struct Scratch {
    /// A page, decrypted.
    pub(super) plain: Box<[u8]>,
    /// A page, inflated.
    pub(super) image: Box<[u8]>,
    pub(super) inflater: Inflater,
    /// MariaDB's cipher mode is not stored anywhere: the one that fitted last is tried first.
    pub(super) mode: CipherMode,
}

impl Scratch {
    /// Room for pages of every size: 128 KiB and the decoders.
    #[must_use]
    pub fn new() -> Self {
        Self {
            plain: vec![0; PageSize::MAX.bytes()].into_boxed_slice(),
            image: vec![0; PageSize::MAX.bytes()].into_boxed_slice(),
            inflater: Inflater::new(),
            mode: CipherMode::Cbc,
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The buffers hold what was encrypted.
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// The first `len` bytes of a buffer of [`Scratch`], which all page sizes fit.
pub(super) fn front(buffer: &mut [u8], len: usize) -> Result<&mut [u8], CodecError> {
    buffer.get_mut(..len).ok_or(CodecError::PageSize { len })
}

/// A copy of `page` at the front of `buffer`.
pub(super) fn copy_into<'b>(page: &[u8], buffer: &'b mut [u8]) -> Result<&'b mut [u8], CodecError> {
    let copy = front(buffer, page.len())?;
    copy.copy_from_slice(page);
    Ok(copy)
}
