//! Memory for opening pages.

use super::error::CodecError;
use super::inflate::Inflater;
use crate::cipher::CipherMode;
use crate::types::PageSize;

/// Buffers and decoders for opening pages: created once per worker, used for all its pages.
pub struct Scratch {
    /// The decrypted page.
    pub(super) plain: Box<[u8]>,
    /// The inflated page.
    pub(super) image: Box<[u8]>,
    pub(super) inflater: Inflater,
    /// The mode to try first: the last one that fitted. No file records MariaDB's cipher mode.
    pub(super) mode: CipherMode,
}

impl Scratch {
    /// Space for pages of every size: 128 KiB and the decoders.
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
        // Do not print the buffers: they hold decrypted data.
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// The first `len` bytes of a [`Scratch`] buffer, which is large enough for every page size.
pub(super) fn front(buffer: &mut [u8], len: usize) -> Result<&mut [u8], CodecError> {
    buffer.get_mut(..len).ok_or(CodecError::PageSize { len })
}

/// Copies `page` to the front of `buffer`.
pub(super) fn copy_into<'b>(page: &[u8], buffer: &'b mut [u8]) -> Result<&'b mut [u8], CodecError> {
    let copy = front(buffer, page.len())?;
    copy.copy_from_slice(page);
    Ok(copy)
}
