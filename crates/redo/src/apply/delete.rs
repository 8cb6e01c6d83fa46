//! Removes an index record.

use super::directory::N_OWNED_MIN;
use super::error::ApplyError;
use super::image::{Result, field};
use super::index::{
    HEAP_COMPACT, Index, PAGE_FREE, PAGE_GARBAGE, PAGE_HEAP_TOP, PAGE_LAST_INSERT, PAGE_N_HEAP, PAGE_N_RECS,
    RedundantSizes,
};
use crate::record::{Delete, RowStyle};

/// Removes the record that follows the one the log record names.
pub(super) fn delete(index: &mut Index<'_>, delete: &Delete) -> Result<()> {
    let prev = index.prev(delete.prev)?;
    let record = index.next(prev)?;
    if record == index.layout.supremum {
        return Err(ApplyError::RecordPointer { offset: record });
    }
    let (header, data) = match delete.style {
        RowStyle::Dynamic => (index.layout.header + delete.header_size, delete.data_size),
        RowStyle::Redundant => {
            let sizes = RedundantSizes::read(index, record)?;
            (sizes.header, sizes.data)
        }
    };
    let end = record + data;
    let start = record.checked_sub(header).filter(|&start| start >= index.layout.heap);
    let start = start.filter(|_| end <= usize::from(u16::MAX)).ok_or(ApplyError::RecordLength)?;
    if end > index.header(PAGE_HEAP_TOP)? {
        return Err(ApplyError::RecordLength);
    }
    let mut owner = index.owner(record)?;
    let slot = index.slot_of(owner)?;
    let owned = index.n_owned(owner)?.saturating_sub(1);
    if owner == record {
        owner = prev;
        index.put_slot(slot, prev)?;
    }
    index.link(prev, index.next(record)?)?;
    index.put_n_owned(owner, owned)?;
    free(index, record, start, end)?;
    index.put_header(PAGE_LAST_INSERT, 0)?;
    index.subtract_from_header(PAGE_N_RECS, 1)?;
    if owned < N_OWNED_MIN { index.balance_slot(slot) } else { Ok(()) }
}

/// Frees a record's space: returns it to the heap if it is the last record there, otherwise adds it to the free list.
fn free(index: &mut Index<'_>, record: usize, start: usize, end: usize) -> Result<()> {
    let n_heap = index.n_heap()?;
    if index.heap_no(record)? + 1 == n_heap {
        // Leftover bytes of a longer record, which this one replaced, may follow it.
        let left_over = index.header(PAGE_HEAP_TOP)?.saturating_sub(end);
        let compact = index.image.u16(PAGE_N_HEAP)? & HEAP_COMPACT;
        index.subtract_from_header(PAGE_GARBAGE, left_over)?;
        index.put_header(PAGE_HEAP_TOP, start)?;
        index.image.put_u16(PAGE_N_HEAP, compact | field(n_heap - 1)?)?;
        return index.image.fill(start, end - start, 0);
    }
    let first = index.header(PAGE_FREE)?;
    index.link(record, first)?;
    index.put_header(PAGE_FREE, record)?;
    index.add_to_header(PAGE_GARBAGE, end - start)?;
    index.image.fill(record, end - record, 0)
}
