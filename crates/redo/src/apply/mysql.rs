//! Applies MySQL's records to pages.
//!
//! Index records are identified by their origins. So the effect of a log record is repeated step by step, allocating and freeing space in
//! the server's order: later log records then find their records where the server had them.

mod lists;
mod rows;
mod shape;
mod undo;
mod zip;

pub(super) use zip::ZipPage;

use super::error::ApplyError;
use super::image::{Image, Result};
use super::index::{HEAP_COMPACT, Index, PAGE_N_HEAP, create};
use crate::record::RowStyle;
use crate::record::mysql::change::Change;
use crate::record::mysql::index_info::IndexInfo;
use format::fil::{FIL_PAGE_OFFSET, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE};
use format::types::PageId;
use shape::IndexShape;

/// Start of the bitmap on its page.
const IBUF_BITMAP: usize = 94;
/// Page type of a change buffer bitmap.
const IBUF_BITMAP_TYPE: u16 = 5;
/// Flags of an index record: the lowest of its level; delete-marked.
const MIN_RECORD: u8 = 0x10;
const DELETED: u8 = 0x20;

/// Applies one record to its page, which is not compressed.
pub(super) fn apply(change: &Change<'_>, id: PageId, page: &mut [u8]) -> Result<()> {
    let mut image = Image::new(page);
    match *change {
        Change::Write { offset, len, value } => {
            let bytes = value.to_be_bytes();
            image.put(offset, bytes.get(bytes.len().saturating_sub(len)..).unwrap_or_default())
        }
        Change::WriteString { offset, data } => image.put(offset, data),
        Change::InitPage => init_page(&mut image, id),
        Change::InitBitmap => {
            image.put_u16(FIL_PAGE_TYPE, IBUF_BITMAP_TYPE)?;
            let len = image.size() / 2;
            image.fill(IBUF_BITMAP, len, 0)
        }
        Change::CreateIndex { page_type, style } => create(&mut image, page_type, style),
        Change::UndoInsert(data) => undo::insert(&mut image, data),
        Change::UndoEraseEnd => undo::erase_end(&mut image),
        Change::UndoInit(kind) => undo::init(&mut image, kind),
        Change::UndoHeaderReuse(trx_id) => undo::reuse_header(&mut image, trx_id),
        Change::UndoHeaderCreate(trx_id) => undo::create_header(&mut image, trx_id),
        Change::None => Ok(()),
        Change::ZipWrite { .. } | Change::ZipImage { .. } | Change::ZipCompress { .. } => {
            Err(ApplyError::NotCompressed)
        }
        _ => on_records(change, image),
    }
}

/// Changes to index records.
fn on_records(change: &Change<'_>, image: Image<'_>) -> Result<()> {
    match *change {
        Change::Insert { index, cursor, ref body } => {
            let (mut page, shape) = open(image, &index)?;
            let cursor = page.record(cursor)?;
            rows::insert(&mut page, &shape, cursor, body).map(|_| ())
        }
        Change::InsertMany { index, bodies } => {
            let (mut page, shape) = open(image, &index)?;
            lists::insert_many(&mut page, &shape, bodies)
        }
        Change::DeleteMark { ref index, value, ref system, record } => {
            let mut page = of_page(image)?;
            rows::set_flag(&mut page, record, DELETED, value)?;
            match (system, index) {
                (Some(system), Some(index)) => {
                    rows::put_system_fields(&mut page, &IndexShape::of(index)?, record, system)
                }
                _ => Ok(()),
            }
        }
        Change::MinMark { record } => rows::set_flag(&mut of_page(image)?, record, MIN_RECORD, true),
        Change::Update { index, ref system, record, info_bits, ref updates } => {
            let (mut page, shape) = open(image, &index)?;
            rows::update(&mut page, &shape, record, system.as_ref(), info_bits, updates)
        }
        Change::Delete { index, record } => {
            let (mut page, shape) = open(image, &index)?;
            rows::delete(&mut page, &shape, record)
        }
        Change::DeleteFrom { index, record } => {
            let (mut page, shape) = open(image, &index)?;
            lists::delete_from(&mut page, &shape, record)
        }
        Change::DeleteUntil { index, record } => {
            let (mut page, shape) = open(image, &index)?;
            lists::delete_until(&mut page, &shape, record)
        }
        Change::Reorganize { index, level: None } => {
            let (page, shape) = open(image, &index)?;
            lists::reorganize(page, &shape)
        }
        _ => Err(ApplyError::NotCompressed),
    }
}

fn style(is_compact: bool) -> RowStyle {
    if is_compact { RowStyle::Dynamic } else { RowStyle::Redundant }
}

/// The page, whatever format its records have.
fn of_page(image: Image<'_>) -> Result<Index<'_>> {
    let is_compact = image.u16(PAGE_N_HEAP)? & HEAP_COMPACT != 0;
    Index::open(image, style(is_compact))
}

/// The page, if its record format matches the log's.
fn open<'p>(image: Image<'p>, index: &IndexInfo<'_>) -> Result<(Index<'p>, IndexShape)> {
    Ok((Index::open(image, style(index.is_compact))?, IndexShape::of(index)?))
}

fn init_page(image: &mut Image<'_>, id: PageId) -> Result<()> {
    image.fill(0, image.size(), 0)?;
    image.put(FIL_PAGE_OFFSET, &id.page_no.0.to_be_bytes())?;
    image.put(FIL_PAGE_SPACE_ID, &id.space.0.to_be_bytes())
}
