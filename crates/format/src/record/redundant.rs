//! REDUNDANT records: the header lists where each field ends, so no schema is needed to locate the fields.

use super::layout::{Present, REFERENCE_BYTES};
use super::{
    Instant, Layout, REC_INFO_DELETED, REC_INFO_VERSION, REC_N_OLD_EXTRA_BYTES, Record, RecordFields, Slot, Stored,
};
use crate::bytes::be;
use crate::page::index::{IndexFinding, IndexRule};

/// Flag in a one-byte end offset.
const NULL_1: u8 = 0x80;
/// Flag in a two-byte end offset.
const NULL_2: u16 = 0x8000;
const EXTERN_2: u16 = 0x4000;

/// Number of fields according to a REDUNDANT record, including the child page of a node pointer.
#[must_use]
pub fn field_count(record: &Record<'_>) -> usize {
    let word = be::u16_at(record.page(), usize::from(record.origin()).saturating_sub(4)).unwrap_or(0);
    usize::from((word & 0x07FE) >> 1)
}

/// Locates the fields of a REDUNDANT record as stored, without a schema. The last field of a node pointer, the child page, is split off.
///
/// # Errors
/// Offsets that exceed the page or run backwards, or no fields at all.
pub fn locate_stored(record: &Record<'_>, fields: &mut RecordFields) -> Result<(), IndexFinding> {
    fields.reset(record.origin());
    let count = field_count(record);
    let one_byte = record.below(3).unwrap_or(0) & 1 != 0;
    let version_byte = usize::from(record.info() & REC_INFO_VERSION != 0);
    let width = if one_byte { 1 } else { 2 };
    let below = REC_N_OLD_EXTRA_BYTES + version_byte + count * width;
    let Some(start) = usize::from(record.origin()).checked_sub(below).filter(|_| count > 0) else {
        return Err(record.finding(IndexRule::RecordHeader, below as u64, u64::from(record.origin())));
    };
    fields.start = start as u32;
    let mut before = 0;
    for number in 0..count {
        let distance = REC_N_OLD_EXTRA_BYTES + version_byte + (number + 1) * width;
        let (end, stored) = end_offset(record, distance, one_byte);
        if end < before {
            return Err(record.finding(IndexRule::FieldOffsets, u64::from(end), u64::from(before)));
        }
        let slot = Slot { start: u32::from(record.origin()) + u32::from(before), len: u32::from(end - before), stored };
        if stored == Stored::Extern && (slot.len as usize) < REFERENCE_BYTES {
            return Err(record.finding(IndexRule::ExternReference, u64::from(slot.len), REFERENCE_BYTES as u64));
        }
        fields.slots.push(slot);
        before = end;
    }
    fields.end = u32::from(record.origin()) + u32::from(before);
    if fields.end as usize > record.page().len() {
        return Err(record.finding(IndexRule::RecordEnd, u64::from(fields.end), record.page().len() as u64));
    }
    if record.is_leaf() { Ok(()) } else { split_child(record, fields) }
}

fn end_offset(record: &Record<'_>, distance: usize, one_byte: bool) -> (u16, Stored) {
    if one_byte {
        let stored = record.below(distance).unwrap_or(0);
        return (u16::from(stored & !NULL_1), if stored & NULL_1 != 0 { Stored::Null } else { Stored::Inline });
    }
    let stored = be::u16_at(record.page(), usize::from(record.origin()).saturating_sub(distance)).unwrap_or(0);
    let kind = match stored {
        stored if stored & NULL_2 != 0 => Stored::Null,
        stored if stored & EXTERN_2 != 0 => Stored::Extern,
        _ => Stored::Inline,
    };
    (stored & !(NULL_2 | EXTERN_2), kind)
}

fn split_child(record: &Record<'_>, fields: &mut RecordFields) -> Result<(), IndexFinding> {
    match fields.slots.pop() {
        Some(Slot { start, len: 4, stored: Stored::Inline }) => {
            fields.end = start;
            let leaves = record.finding(IndexRule::RecordEnd, u64::from(start) + 4, record.page().len() as u64);
            fields.take_child(record.page()).ok_or(leaves)
        }
        other => Err(record.finding(IndexRule::FieldLength, other.map_or(0, |slot| u64::from(slot.len)), 4)),
    }
}

/// See [`Layout::locate`].
pub(super) fn locate(layout: &Layout, record: &Record<'_>, fields: &mut RecordFields) -> Result<(), IndexFinding> {
    locate_stored(record, fields)?;
    let stored = fields.slots.len();
    if !record.is_leaf() {
        let expected = layout.key_fields();
        let wrong = record.finding(IndexRule::FieldCount, stored as u64, expected as u64);
        return if stored == expected { Ok(()) } else { Err(wrong) };
    }
    if drop_map(layout, record, fields) {
        return spread(layout, Present::First(stored - 1), record, fields);
    }
    let present = match layout.instant() {
        Instant::None => Present::All,
        Instant::MariaDb { .. } => Present::First(stored),
        Instant::MySql { .. } if record.info() & REC_INFO_VERSION != 0 => {
            Present::Version(u16::from(record.below(REC_N_OLD_EXTRA_BYTES + 1).unwrap_or(0)))
        }
        Instant::MySql { core: Some(_) } => Present::FirstUnversioned(stored),
        Instant::MySql { core: None } => Present::Version(0),
    };
    spread(layout, present, record, fields)
}

/// Removes the reference to MariaDB's field map from the metadata record. Returns whether there was one.
fn drop_map(layout: &Layout, record: &Record<'_>, fields: &mut RecordFields) -> bool {
    let metadata = record.is_min_rec() && record.info() & REC_INFO_DELETED != 0;
    let place = layout.trx_id().map(|at| at + 2).filter(|at| *at < fields.slots.len());
    match (metadata, layout.instant(), place) {
        (true, Instant::MariaDb { .. }, Some(at)) => {
            fields.slots.remove(at);
            true
        }
        _ => false,
    }
}

/// Assigns the stored fields to the layout's fields.
fn spread(
    layout: &Layout,
    present: Present,
    record: &Record<'_>,
    fields: &mut RecordFields,
) -> Result<(), IndexFinding> {
    let stored = fields.slots.len();
    if present == Present::All || present == Present::First(stored) {
        let expected = layout.fields().len();
        let fits = if present == Present::All { stored == expected } else { stored <= expected };
        fields.slots.resize(expected.max(stored), Slot::MISSING);
        let wrong = record.finding(IndexRule::FieldCount, stored as u64, expected as u64);
        return if fits { Ok(()) } else { Err(wrong) };
    }
    let mut from = std::mem::take(&mut fields.slots).into_iter();
    let mut unversioned = 0;
    for (number, field) in layout.fields().iter().enumerate() {
        let slot = if present.has(field, number, unversioned) { from.next() } else { Some(Slot::MISSING) };
        unversioned += usize::from(field.added == 0);
        match slot {
            Some(slot) => fields.slots.push(slot),
            None => return Err(record.finding(IndexRule::FieldCount, stored as u64, number as u64 + 1)),
        }
    }
    match from.len() {
        0 => Ok(()),
        more => Err(record.finding(IndexRule::FieldCount, stored as u64, (stored - more) as u64)),
    }
}
