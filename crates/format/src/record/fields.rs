//! Positions of a record's fields: filled by [`super::Layout::locate`], reused for the next record.

use crate::bytes::be;
use crate::types::PageNo;

/// How the value of a field is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stored {
    /// On this page.
    Inline,
    /// Only a prefix is here, the rest on other pages; the last 20 bytes are the reference to them.
    Extern,
    /// NULL.
    Null,
    /// The record was written before the field was added, or after it was dropped.
    Missing,
}

/// One field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Offset of the first byte from the start of the page.
    pub start: u32,
    /// Bytes on this page, including the reference of an off-page value.
    pub len: u32,
    /// How it is stored.
    pub stored: Stored,
}

impl Slot {
    pub(super) const MISSING: Self = Self { start: 0, len: 0, stored: Stored::Missing };
}

/// The fields of one record, in the physical order of its index. One instance serves all records of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFields {
    pub(super) slots: Vec<Slot>,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) child: Option<PageNo>,
    /// Whether all fields are known to be on this page.
    pub(super) is_on_page: bool,
}

impl RecordFields {
    /// No fields yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new(), start: 0, end: 0, child: None, is_on_page: false }
    }

    pub(super) fn reset(&mut self, origin: u16) {
        self.slots.clear();
        self.start = u32::from(origin);
        self.end = u32::from(origin);
        self.child = None;
        self.is_on_page = false;
    }

    /// Whether every field is known to be NULL or entirely on this page. `false` proves nothing: not all records are examined for this.
    #[inline]
    #[must_use]
    pub const fn is_on_page(&self) -> bool {
        self.is_on_page
    }

    /// One per field of the index; for a node pointer, one per key field.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Offset of the record's first byte, including its header, from the start of the page.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start as usize
    }

    /// End of the record's data, from the start of the page.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.end as usize
    }

    /// Bytes of heap that the record takes, header and data.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// The child page of a node pointer.
    #[must_use]
    pub const fn child(&self) -> Option<PageNo> {
        self.child
    }

    /// The bytes of field `number` on `page`, the record's page; `None` if it is NULL or missing.
    #[inline]
    #[must_use]
    pub fn bytes<'p>(&self, page: &'p [u8], number: usize) -> Option<&'p [u8]> {
        let slot = self.slots.get(number)?;
        match slot.stored {
            Stored::Inline | Stored::Extern => page.get(slot.start as usize..slot.start as usize + slot.len as usize),
            Stored::Null | Stored::Missing => None,
        }
    }

    /// The off-page fields: their numbers and the bytes of their references.
    pub fn references<'s, 'p: 's>(&'s self, page: &'p [u8]) -> impl Iterator<Item = (usize, &'p [u8])> + 's {
        let outside = self.slots.iter().enumerate().filter(|(_, slot)| slot.stored == Stored::Extern);
        outside.filter_map(move |(number, slot)| {
            let end = slot.start as usize + slot.len as usize;
            Some((number, page.get(end.checked_sub(20)?..end)?))
        })
    }

    pub(super) fn take_child(&mut self, page: &[u8]) -> Option<()> {
        self.child = Some(PageNo(be::u32_at(page, self.end as usize)?));
        self.end += 4;
        Some(())
    }
}
