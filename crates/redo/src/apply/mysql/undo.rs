//! Undo pages of MySQL.

use super::super::error::ApplyError;
use super::super::image::{Image, Result, field};
use super::super::undo::{
    POINTER_SIZE, TRAILER_SIZE, TRX_UNDO_PAGE_DATA, TRX_UNDO_PAGE_FREE, TRX_UNDO_PAGE_START, TRX_UNDO_PAGE_TYPE,
};
use format::fil::{FIL_PAGE_TYPE, PageType};
use format::page::rollback::{TRX_UNDO_LAST_LOG, TRX_UNDO_STATE, TRX_UNDO_TRX_ID};

/// Header of the first undo log, the only one that is reused.
const FIRST_HEADER: usize = 86;
/// In an undo log header: transaction (8 bytes), needs purge (2), first record (2), flags (1), changed the dictionary (1), next and
/// previous log (2 each).
const TRX_UNDO_DEL_MARKS: usize = 16;
const TRX_UNDO_LOG_START: usize = 18;
const TRX_UNDO_FLAGS: usize = 20;
const TRX_UNDO_DICT_TRANS: usize = 21;
const TRX_UNDO_NEXT_LOG: usize = 30;
const TRX_UNDO_PREV_LOG: usize = 32;
const HEADER_SIZE: usize = 46;
const TRX_UNDO_ACTIVE: u16 = 1;

pub(super) fn init(image: &mut Image<'_>, kind: u32) -> Result<()> {
    let kind = u16::try_from(kind).map_err(|_| ApplyError::UndoEnd { offset: TRX_UNDO_PAGE_TYPE, len: 2 })?;
    image.put_u16(TRX_UNDO_PAGE_TYPE, kind)?;
    image.put_u16(TRX_UNDO_PAGE_START, field(TRX_UNDO_PAGE_DATA)?)?;
    image.put_u16(TRX_UNDO_PAGE_FREE, field(TRX_UNDO_PAGE_DATA)?)?;
    image.put_u16(FIL_PAGE_TYPE, PageType::UNDO_LOG.0)
}

/// Adds a record. A record starts with a pointer to the next one and ends with a pointer to itself.
pub(super) fn insert(image: &mut Image<'_>, data: &[u8]) -> Result<()> {
    let start = usize::from(image.u16(TRX_UNDO_PAGE_FREE)?);
    let end = start + POINTER_SIZE + data.len() + POINTER_SIZE;
    if start < TRX_UNDO_PAGE_DATA || end > image.size().saturating_sub(TRAILER_SIZE) {
        return Err(ApplyError::UndoEnd { offset: start, len: data.len() });
    }
    image.put_u16(start, field(end)?)?;
    image.put(start + POINTER_SIZE, data)?;
    image.put_u16(end - POINTER_SIZE, field(start)?)?;
    image.put_u16(TRX_UNDO_PAGE_FREE, field(end)?)
}

pub(super) fn erase_end(image: &mut Image<'_>) -> Result<()> {
    let start = usize::from(image.u16(TRX_UNDO_PAGE_FREE)?);
    let len = image.size().saturating_sub(TRAILER_SIZE).checked_sub(start);
    image.fill(start, len.ok_or(ApplyError::UndoEnd { offset: start, len: 0 })?, 0xFF)
}

/// Creates the header of a new undo log after the last one.
pub(super) fn create_header(image: &mut Image<'_>, trx_id: u64) -> Result<()> {
    let header = usize::from(image.u16(TRX_UNDO_PAGE_FREE)?);
    let start = field(header + HEADER_SIZE)?;
    let last = image.u16(TRX_UNDO_LAST_LOG)?;
    image.bytes(header, HEADER_SIZE)?;
    image.put_u16(TRX_UNDO_PAGE_START, start)?;
    image.put_u16(TRX_UNDO_PAGE_FREE, start)?;
    image.put_u16(TRX_UNDO_STATE, TRX_UNDO_ACTIVE)?;
    if last != 0 {
        image.put_u16(usize::from(last) + TRX_UNDO_NEXT_LOG, field(header)?)?;
    }
    image.put_u16(TRX_UNDO_LAST_LOG, field(header)?)?;
    image.put_u16(header + TRX_UNDO_DEL_MARKS, 1)?;
    image.put_u16(header + TRX_UNDO_NEXT_LOG, 0)?;
    image.put_u16(header + TRX_UNDO_PREV_LOG, last)?;
    begin_log(image, header, start, trx_id)
}

/// Reuses the page's first undo log for another transaction.
pub(super) fn reuse_header(image: &mut Image<'_>, trx_id: u64) -> Result<()> {
    let start = field(FIRST_HEADER + HEADER_SIZE)?;
    image.put_u16(TRX_UNDO_PAGE_START, start)?;
    image.put_u16(TRX_UNDO_PAGE_FREE, start)?;
    image.put_u16(TRX_UNDO_STATE, TRX_UNDO_ACTIVE)?;
    begin_log(image, FIRST_HEADER, start, trx_id)
}

fn begin_log(image: &mut Image<'_>, header: usize, start: u16, trx_id: u64) -> Result<()> {
    image.put(header + TRX_UNDO_TRX_ID, &trx_id.to_be_bytes())?;
    image.put_u16(header + TRX_UNDO_LOG_START, start)?;
    image.put_u8(header + TRX_UNDO_FLAGS, 0)?;
    image.put_u8(header + TRX_UNDO_DICT_TRANS, 0)
}
