//! Undo pages.

use super::error::ApplyError;
use super::image::{Image, Result, field};
use format::fil::{FIL_PAGE_DATA_END, FIL_PAGE_TYPE, PageType};

/// Type of the undo log; written as zero since 10.3. 2 bytes.
pub(super) const TRX_UNDO_PAGE_TYPE: usize = 38;
/// First undo record of the last undo log on the page. 2 bytes.
pub(super) const TRX_UNDO_PAGE_START: usize = 40;
/// End of the undo records. 2 bytes.
pub(super) const TRX_UNDO_PAGE_FREE: usize = 42;
/// The page's node in a list of pages: two file addresses. 12 bytes.
const TRX_UNDO_PAGE_NODE: usize = 44;
/// Where the undo records begin.
pub(super) const TRX_UNDO_PAGE_DATA: usize = 56;
/// An address in no list: page "none", offset 0.
const NULL_ADDRESS: [u8; 6] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0];
/// Size of the pointers at the start and the end of an undo record.
pub(super) const POINTER_SIZE: usize = 2;
/// The trailer, which holds only the page's LSN and checksum.
pub(super) const TRAILER_SIZE: usize = FIL_PAGE_DATA_END;

pub(super) fn init(image: &mut Image<'_>) -> Result<()> {
    let data = field(TRX_UNDO_PAGE_DATA)?;
    image.put_u16(FIL_PAGE_TYPE, PageType::UNDO_LOG.0)?;
    image.put_u16(TRX_UNDO_PAGE_TYPE, 0)?;
    image.put_u16(TRX_UNDO_PAGE_START, data)?;
    image.put_u16(TRX_UNDO_PAGE_FREE, data)?;
    image.put(TRX_UNDO_PAGE_NODE, &NULL_ADDRESS)?;
    image.put(TRX_UNDO_PAGE_NODE + NULL_ADDRESS.len(), &NULL_ADDRESS)
}

/// Adds a record. A record starts with a pointer to the next one and ends with a pointer to itself.
pub(super) fn append(image: &mut Image<'_>, data: &[u8]) -> Result<()> {
    let start = usize::from(image.u16(TRX_UNDO_PAGE_FREE)?);
    let end = start + POINTER_SIZE + data.len() + POINTER_SIZE;
    // The server keeps two bytes more free than the record needs.
    if start < TRX_UNDO_PAGE_DATA || end + POINTER_SIZE >= image.size().saturating_sub(TRAILER_SIZE) {
        return Err(ApplyError::UndoEnd { offset: start, len: data.len() });
    }
    image.put_u16(TRX_UNDO_PAGE_FREE, field(end)?)?;
    image.put_u16(start, field(end)?)?;
    image.put(start + POINTER_SIZE, data)?;
    image.put_u16(end - POINTER_SIZE, field(start)?)
}
