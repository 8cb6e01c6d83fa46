//! The uncompressed parts of a packed page: the header at the front, the trailer and the dense directory at the end.

use super::parts::{REFERENCE_BYTES, SYSTEM_BYTES};
use crate::bytes::be;
use crate::fil::FIL_PAGE_PREV;
use crate::page::index::{PAGE_DATA, PAGE_FREE, PAGE_HEAP_TOP, PAGE_LEVEL, PAGE_N_DIR_SLOTS, PAGE_N_HEAP, PAGE_N_RECS};
use crate::types::PageNo;
use crate::zip_damage::ZipDamage;

/// In a dense directory slot: the record is delete-marked.
pub(super) const SLOT_DELETED: u16 = 0x8000;
/// In a dense directory slot: the unpacked page's directory has a slot for the record.
pub(super) const SLOT_OWNER: u16 = 0x4000;
/// In a dense directory slot: the record's origin.
pub(super) const SLOT_ORIGIN: u16 = 0x3FFF;
const SLOT_BYTES: usize = 2;

/// Slot `number` of the dense directory; slot 0 is at the end of the page. `None` if it would overlap the headers.
pub(super) fn dense_slot(page: &[u8], number: usize) -> Option<u16> {
    let at = page.len().checked_sub(SLOT_BYTES * (number + 1)).filter(|at| *at >= PAGE_DATA)?;
    be::u16_at(page, at)
}

/// The page header fields needed for unpacking.
pub(super) struct Header {
    /// Records in the heap, without infimum and supremum.
    pub heap: u16,
    /// Records in the chain.
    pub records: u16,
    pub slots: u16,
    pub heap_top: u16,
    pub free: u16,
    pub leaf: bool,
    pub leftmost: bool,
}

impl Header {
    pub fn read(page: &[u8]) -> Self {
        let u16 = |offset| be::u16_at(page, offset).unwrap_or(0);
        Self {
            heap: (u16(PAGE_N_HEAP) & 0x7FFF).saturating_sub(2),
            records: u16(PAGE_N_RECS),
            slots: u16(PAGE_N_DIR_SLOTS),
            heap_top: u16(PAGE_HEAP_TOP),
            free: u16(PAGE_FREE),
            leaf: u16(PAGE_LEVEL) == 0,
            leftmost: be::u32_at(page, FIL_PAGE_PREV) == Some(PageNo::NONE.0),
        }
    }
}

/// The uncompressed part below the dense directory.
pub(super) struct Trailer {
    /// Its end, where the dense directory starts.
    pub end: usize,
}

impl Trailer {
    pub fn of(page: &[u8], header: &Header) -> Result<Self, ZipDamage> {
        let end = page.len().checked_sub(SLOT_BYTES * usize::from(header.heap)).filter(|end| *end > PAGE_DATA);
        Ok(Self { end: end.ok_or(ZipDamage::Directory { origin: 0 })? })
    }

    /// The `size` bytes of record `number`, in heap order.
    pub fn of_record<'p>(&self, page: &'p [u8], number: usize, size: usize) -> Option<&'p [u8]> {
        let end = self.end.checked_sub(size * number)?;
        page.get(end.checked_sub(size)?..end)
    }

    /// Reference `number`, below the parts of the `records` records of a clustered leaf.
    pub fn reference<'p>(&self, page: &'p [u8], records: usize, number: usize) -> Option<&'p [u8]> {
        let end = self.end.checked_sub(SYSTEM_BYTES * records + REFERENCE_BYTES * number)?;
        page.get(end.checked_sub(REFERENCE_BYTES)?..end)
    }
}
