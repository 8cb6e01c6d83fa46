//! The order of the keys of an index.

use std::cmp::Ordering;

use super::IndexDef;
use crate::record::{RecordFields, Slot, Stored};

/// Compares the keys of two index records, given the pages they are on.
///
/// Compares the first `count` key fields. [`Layout::key_fields`](crate::record::Layout::key_fields) is how many decide the order of
/// records. `None` if the order is unknown: an unknown collation, or a missing field.
#[must_use]
pub fn compare_keys(
    index: &IndexDef,
    count: usize,
    (a_page, a): (&[u8], &RecordFields),
    (b_page, b): (&[u8], &RecordFields),
) -> Option<Ordering> {
    compare_slots(index, count, (a_page, a.slots()), (b_page, b.slots()))
}

#[inline]
fn compare_slots(
    index: &IndexDef,
    count: usize,
    (a_page, a_slots): (&[u8], &[Slot]),
    (b_page, b_slots): (&[u8], &[Slot]),
) -> Option<Ordering> {
    for (field, (a, b)) in index.fields.iter().take(count).zip(a_slots.iter().zip(b_slots)) {
        let order = match (a.stored, b.stored) {
            (Stored::Null, Stored::Null) => Ordering::Equal,
            (Stored::Null, Stored::Inline) => Ordering::Less,
            (Stored::Inline, Stored::Null) => Ordering::Greater,
            (Stored::Inline, Stored::Inline) => field.order.compare(value(a_page, a)?, value(b_page, b)?)?,
            _ => return None,
        };
        match order {
            Ordering::Equal => {}
            order => return Some(if field.descending { order.reverse() } else { order }),
        }
    }
    (a_slots.len() >= count && b_slots.len() >= count && index.fields.len() >= count).then_some(Ordering::Equal)
}

/// A copy of a record's key, to be kept without its page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyCopy {
    bytes: Box<[u8]>,
    slots: Box<[Slot]>,
}

impl KeyCopy {
    /// Copies the first `count` fields of a record on `page`.
    #[must_use]
    pub fn new(page: &[u8], fields: &RecordFields, count: usize) -> Self {
        let mut bytes = Vec::new();
        let copied = |slot: &Slot| match value(page, slot) {
            Some(value) => {
                let start = bytes.len() as u32;
                bytes.extend_from_slice(value);
                Slot { start, ..*slot }
            }
            // The value is not on the page: its order stays unknown.
            None => Slot { stored: Stored::Missing, ..*slot },
        };
        let slots = fields.slots().iter().take(count).map(copied).collect();
        Self { bytes: bytes.into(), slots }
    }

    /// Compares two keys of an index like [`compare_keys`].
    #[must_use]
    pub fn compare(&self, other: &Self, index: &IndexDef, count: usize) -> Option<Ordering> {
        compare_slots(index, count, (&self.bytes, &self.slots), (&other.bytes, &other.slots))
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + size_of_val(&*self.slots)
    }
}

#[inline]
fn value<'p>(page: &'p [u8], slot: &Slot) -> Option<&'p [u8]> {
    page.get(slot.start as usize..slot.start as usize + slot.len as usize)
}
