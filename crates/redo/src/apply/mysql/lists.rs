//! Changes to many index records at once.

use super::super::error::ApplyError;
use super::super::image::Result;
use super::super::index::{
    Index, PAGE_FREE, PAGE_GARBAGE, PAGE_LAST_INSERT, PAGE_LEVEL, PAGE_MAX_TRX_ID, PAGE_N_DIR_SLOTS, PAGE_N_RECS,
    create, no_direction,
};
use super::rows::{Row, before, bytes_of, delete, insert, insert_row, shape_of};
use super::shape::IndexShape;
use crate::record::mysql::change::{InsertBodies, InsertBody};
use format::fil::{FIL_PAGE_TYPE, PageType};

/// Smallest record size. A chain of more records than would fit at this size is a cycle.
const RECORD_MIN: usize = 5;

/// Upper limit of records on a page.
pub(super) const fn records_max(page: &Index<'_>) -> usize {
    page.image.size() / RECORD_MIN
}

/// Inserts records after the last one.
pub(super) fn insert_many(page: &mut Index<'_>, index: &IndexShape, bodies: &[u8]) -> Result<()> {
    let mut last = before(page, page.layout.supremum)?;
    for body in InsertBodies::new(bodies) {
        let body: InsertBody<'_> = body.map_err(|_| ApplyError::RecordLength)?;
        last = insert(page, index, last, &body)?;
    }
    no_direction(page)
}

/// Deletes a record and all records after it.
pub(super) fn delete_from(page: &mut Index<'_>, index: &IndexShape, record: usize) -> Result<()> {
    let supremum = page.layout.supremum;
    let record = if record == page.layout.infimum { page.next(record)? } else { page.record(record)? };
    if record == supremum {
        return Ok(());
    }
    let (mut owner, mut owned_here) = (record, 0);
    while page.n_owned(owner)? == 0 {
        owner = page.next(owner)?;
        owned_here += 1;
        if owned_here > records_max(page) {
            return Err(ApplyError::NoOwner { offset: record });
        }
    }
    let owned = usize::from(page.n_owned(owner)?).checked_sub(owned_here);
    let owned = owned.and_then(|owned| u8::try_from(owned).ok()).ok_or(ApplyError::NoOwner { offset: record })?;
    let (slot, prev, last) = (page.slot_of(owner)?, before(page, record)?, before(page, supremum)?);
    let (mut at, mut size, mut count) = (record, 0, 0);
    while at != supremum {
        size += shape_of(page, index, at)?.len();
        count += 1;
        if count > records_max(page) {
            return Err(ApplyError::RecordPointer { offset: at });
        }
        at = page.next(at)?;
    }
    page.put_header(PAGE_LAST_INSERT, 0)?;
    page.put_slot(slot, supremum)?;
    page.put_n_owned(supremum, owned)?;
    page.put_header(PAGE_N_DIR_SLOTS, slot + 1)?;
    page.link(prev, supremum)?;
    page.link(last, page.header(PAGE_FREE)?)?;
    page.put_header(PAGE_FREE, record)?;
    page.add_to_header(PAGE_GARBAGE, size)?;
    page.subtract_from_header(PAGE_N_RECS, count)
}

/// Deletes all records before one.
pub(super) fn delete_until(page: &mut Index<'_>, index: &IndexShape, record: usize) -> Result<()> {
    for _ in 0..records_max(page) {
        let first = page.next(page.layout.infimum)?;
        if first == record || first == page.layout.supremum {
            return Ok(());
        }
        delete(page, index, first)?;
    }
    Err(ApplyError::RecordPointer { offset: record })
}

/// Rewrites the records of a page contiguously, so that space deleted between them becomes free.
pub(super) fn reorganize(mut page: Index<'_>, index: &IndexShape) -> Result<()> {
    let mut rows: Vec<Row> = Vec::new();
    let mut at = page.next(page.layout.infimum)?;
    while at != page.layout.supremum {
        let shape = shape_of(&page, index, at)?;
        rows.push(Row::of(&page, at, &shape)?);
        if rows.len() > records_max(&page) {
            return Err(ApplyError::RecordPointer { offset: at });
        }
        at = page.next(at)?;
    }
    let page_type = PageType(page.image.u16(FIL_PAGE_TYPE)?);
    let is_leaf = page.header(PAGE_LEVEL)? == 0;
    let max_trx_id: [u8; 8] =
        *bytes_of(&page)?.get(PAGE_MAX_TRX_ID..).and_then(<[u8]>::first_chunk).ok_or(ApplyError::RecordLength)?;
    let style = page.style;
    create(&mut page.image, page_type, style)?;
    let mut last = page.layout.infimum;
    for row in &rows {
        last = insert_row(&mut page, index, last, row)?;
    }
    if is_leaf { page.image.put(PAGE_MAX_TRX_ID, &max_trx_id) } else { Ok(()) }
}
