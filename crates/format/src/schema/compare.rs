//! The order of the keys of an index.

use std::cmp::Ordering;

use super::IndexDef;
use crate::record::{RecordFields, Slot, Stored};

/// Compares the keys of two index records, given the pages they are on.
///
/// Compares the first `count` key fields: [`Layout::key_fields`](crate::record::Layout::key_fields) of them decide the order of records.
/// `None` if the order is unknown: an unknown collation, or a missing field.
#[must_use]
pub fn compare_keys(
    index: &IndexDef,
    count: usize,
    (a_page, a): (&[u8], &RecordFields),
    (b_page, b): (&[u8], &RecordFields),
) -> Option<Ordering> {
    let slots = a.slots().iter().zip(b.slots());
    for (field, (a, b)) in index.fields.iter().take(count).zip(slots) {
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
    (a.slots().len() >= count && b.slots().len() >= count && index.fields.len() >= count).then_some(Ordering::Equal)
}

#[inline]
fn value<'p>(page: &'p [u8], slot: &Slot) -> Option<&'p [u8]> {
    page.get(slot.start as usize..slot.start as usize + slot.len as usize)
}
