//! The uncompressed parts of a packed page, and how they move when records are added and removed.
//!
//! From the end of the page down: the dense directory, the stored part of each heap record, references to off-page values. All three grow
//! downwards, towards the modification log, whose end mark is always a zero byte.

use super::edit_error::ZipEditError;
use super::header::Header;
use super::parts::{CHILD_BYTES, REFERENCE_BYTES, SYSTEM_BYTES};
use crate::record::Layout;

const SLOT_BYTES: usize = 2;

/// The facts about a packed page that only unpacking reveals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Where the modification log ends, with its end mark.
    pub log_end: usize,
    /// Number of off-page values in the chain's records.
    pub references: usize,
}

/// Trailer bytes per heap record.
pub(super) fn stored_bytes(layout: &Layout, leaf: bool) -> usize {
    match (leaf, layout.is_clustered()) {
        (false, _) => CHILD_BYTES,
        (true, true) => SYSTEM_BYTES,
        (true, false) => 0,
    }
}

/// The positions in the trailer of a page of `len` bytes with `heap` records of `stored` bytes each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    len: usize,
    heap: usize,
    stored: usize,
}

impl Places {
    pub fn of(packed: &[u8], layout: &Layout) -> Self {
        let header = Header::read(packed);
        Self { len: packed.len(), heap: header.heap.into(), stored: stored_bytes(layout, header.leaf) }
    }

    /// Where the dense directory starts.
    const fn directory(&self) -> usize {
        self.len.saturating_sub(SLOT_BYTES * self.heap)
    }

    /// Where the stored parts start, and the references end.
    const fn references_end(&self) -> usize {
        self.directory().saturating_sub(self.stored * self.heap)
    }

    /// Where a trailer with this many references starts.
    pub const fn start(&self, references: usize) -> usize {
        self.references_end().saturating_sub(REFERENCE_BYTES * references)
    }

    /// Bytes between the log and the trailer.
    pub const fn free(&self, extent: Extent) -> usize {
        self.start(extent.references).saturating_sub(extent.log_end)
    }

    /// The stored part of the record with this heap number. Infimum and supremum have 0 and 1.
    pub fn stored<'p>(&self, packed: &'p mut [u8], heap_no: u16) -> Option<&'p mut [u8]> {
        let number = usize::from(heap_no).checked_sub(1)?;
        let start = self.directory().checked_sub(self.stored * number)?;
        packed.get_mut(start..start + self.stored)
    }

    /// `count` references from number `number` on, the last one first.
    pub fn references<'p>(&self, packed: &'p mut [u8], number: usize, count: usize) -> Option<&'p mut [u8]> {
        packed.get_mut(self.start(number + count)..self.start(number))
    }

    /// Makes room for one more heap record: its slot and its stored part. `self` has the positions from before.
    pub fn grow(&self, packed: &mut [u8], extent: Extent) -> Result<(), ZipEditError> {
        let (wanted, free) = (SLOT_BYTES + self.stored, self.free(extent));
        let (directory, stored) = (self.directory(), self.references_end());
        let references = self.start(extent.references);
        // One byte marks the end of the log.
        if wanted >= free || directory > packed.len() {
            return Err(ZipEditError::NoRoom { wanted, free });
        }
        packed.copy_within(references..stored, references - wanted);
        packed.copy_within(stored..directory, stored - SLOT_BYTES);
        // The new record's part, which is the lowest.
        if let Some(own) = packed.get_mut(stored - wanted..stored - SLOT_BYTES) {
            own.fill(0);
        }
        Ok(())
    }

    /// Makes room for `count` references, starting at number `number`.
    pub fn add_references(
        &self,
        packed: &mut [u8],
        extent: &mut Extent,
        number: usize,
        count: usize,
    ) -> Result<(), ZipEditError> {
        let (wanted, free) = (REFERENCE_BYTES * count, self.free(*extent));
        let no_room = ZipEditError::NoRoom { wanted, free };
        let (start, end) = (self.start(extent.references), self.start(number));
        if wanted >= free || number > extent.references {
            return Err(no_room);
        }
        packed.copy_within(start..end, start - wanted);
        extent.references += count;
        Ok(())
    }

    /// Removes `count` references, starting at number `number`.
    pub fn remove_references(&self, packed: &mut [u8], extent: &mut Extent, number: usize, count: usize) {
        let (start, from) = (self.start(extent.references), self.start(number + count));
        let (bytes, left) = (REFERENCE_BYTES * count, extent.references.saturating_sub(count));
        if start <= from && from + bytes <= packed.len() {
            packed.copy_within(start..from, start + bytes);
            packed.get_mut(start..start + bytes).unwrap_or_default().fill(0);
            extent.references = left;
        }
    }
}
