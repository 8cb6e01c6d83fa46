//! Rebuilds the page's records from the stream, and adds what the stream leaves out.

use super::header::{Header, SLOT_DELETED, SLOT_ORIGIN, SLOT_OWNER, Trailer, dense_slot};
use super::parts::{CHILD_BYTES, HEADER_BYTES, REFERENCE_BYTES, SYSTEM_BYTES, locate, packed_parts};
use super::unpacker::Unpacker;
use crate::bytes::be;
use crate::fil::FIL_PAGE_DATA_END;
use crate::page::index::{PAGE_DATA, PAGE_DIR_SLOT_SIZE};
use crate::record::{Layout, REC_INFO_DELETED, REC_INFO_MIN_REC, RecordStyle, Stored};
use crate::zip_damage::ZipDamage;

pub(super) const INFIMUM: u16 = RecordStyle::Compact.infimum();
pub(super) const SUPREMUM: u16 = RecordStyle::Compact.supremum();
/// Infimum and supremum, the same on every page except for the infimum's next record and the supremum's `n_owned`.
const SYSTEM_RECORDS: [u8; 26] = *b"\x01\x00\x02\x00\x00infimum\x00\x00\x00\x0B\x00\x00supremum";

/// Consumes bytes of the stream.
struct Stream<'s> {
    rest: &'s [u8],
}

impl Stream<'_> {
    /// Fills `page` from `start` to `end`. Returns whether there were enough bytes.
    fn fill(&mut self, page: &mut [u8], start: usize, end: usize) -> Option<bool> {
        let target = page.get_mut(start..end)?;
        let count = target.len().min(self.rest.len());
        let (taken, rest) = self.rest.split_at(count);
        target.get_mut(..count)?.copy_from_slice(taken);
        self.rest = rest;
        Some(count == end - start)
    }
}

/// Writes the records that the stream holds.
pub(super) fn records(
    unpacker: &mut Unpacker,
    header: &Header,
    layout: &Layout,
    out: &mut [u8],
) -> Result<(), ZipDamage> {
    out.fill(0);
    let Unpacker { data, origins, fields, .. } = unpacker;
    let mut stream = Stream { rest: data };
    let mut at = usize::from(RecordStyle::Compact.heap_start());
    for (heap_no, origin) in (2_u16..).zip(origins.iter()) {
        let damaged = ZipDamage::Directory { origin: u32::from(*origin) };
        let origin_at = usize::from(*origin);
        let whole = stream.fill(out, at, origin_at - HEADER_BYTES).ok_or(damaged)?;
        let ended = stream.rest.is_empty();
        if whole {
            set_heap_word(out, origin_at, heap_no, header.leaf);
            at = origin_at;
        }
        if ended {
            // The rest were added later and are in the log.
            return Ok(());
        }
        if header.leaf && !layout.is_clustered() {
            // The stream has these records in full, so their bytes are read along with those of the next record.
            continue;
        }
        locate(layout, out, *origin, header.leaf, fields)?;
        if header.leaf {
            // The record's lengths are in place now, so the parts that the stream lacks are known.
            for (start, end) in packed_parts(layout, fields, origin_at, header.leaf) {
                if !stream.fill(out, start, end).ok_or(damaged)? {
                    return Err(ZipDamage::Stream);
                }
            }
        } else if !stream.fill(out, origin_at, fields.end() - CHILD_BYTES).ok_or(damaged)? {
            return Err(ZipDamage::Stream);
        }
        at = fields.end();
    }
    // After the last record: its data, or the rest of a longer record that was there before.
    let end = usize::from(header.heap_top).max(at);
    stream.fill(out, at, end).ok_or(ZipDamage::Stream)?;
    match stream.rest.len() {
        0 => Ok(()),
        more => Err(ZipDamage::TooLong { more: u32::try_from(more).unwrap_or(u32::MAX) }),
    }
}

/// Heap number and status.
pub(super) fn set_heap_word(out: &mut [u8], origin: usize, heap_no: u16, leaf: bool) {
    let word = heap_no << 3 | u16::from(!leaf);
    // The origins were checked: the header is on the page.
    put(out, origin - HEADER_BYTES + 1, word);
}

/// Restores the parts that are in neither stream nor log: the page header, the trailer's parts, the chain and the directory. Returns the
/// number of references in the trailer.
pub(super) fn restore(
    unpacker: &mut Unpacker,
    page: &[u8],
    header: &Header,
    layout: &Layout,
    trailer: &Trailer,
    out: &mut [u8],
) -> Result<usize, ZipDamage> {
    let headers = page.get(..PAGE_DATA).unwrap_or(&[]);
    let system = PAGE_DATA..PAGE_DATA + SYSTEM_RECORDS.len();
    for (range, bytes) in [(0..headers.len(), headers), (system, &SYSTEM_RECORDS[..])] {
        if let Some(target) = out.get_mut(range) {
            target.copy_from_slice(bytes);
        }
    }
    let references = trailer_parts(unpacker, page, header, layout, trailer, out)?;
    chain(page, header, out)?;
    free_list(page, header, out)?;
    Ok(references)
}

fn trailer_parts(
    unpacker: &mut Unpacker,
    page: &[u8],
    header: &Header,
    layout: &Layout,
    trailer: &Trailer,
    out: &mut [u8],
) -> Result<usize, ZipDamage> {
    let free = free_origins(page, header);
    let Unpacker { origins, fields, .. } = unpacker;
    let mut references = 0;
    for (number, origin) in origins.iter().enumerate() {
        let missing = ZipDamage::Missing { origin: *origin };
        if be::u16_at(out, usize::from(*origin) - HEADER_BYTES + 1) == Some(0) {
            return Err(missing);
        }
        if header.leaf && !layout.is_clustered() {
            continue;
        }
        locate(layout, out, *origin, header.leaf, fields)?;
        let (at, size) = match layout.trx_id().and_then(|at| fields.slots().get(at)).filter(|_| header.leaf) {
            Some(slot) => (slot.start as usize, SYSTEM_BYTES),
            None => (fields.end() - CHILD_BYTES, CHILD_BYTES),
        };
        let part = trailer.of_record(page, number, size).ok_or(missing)?;
        out.get_mut(at..at + size).ok_or(missing)?.copy_from_slice(part);
        let is_free = free.binary_search(origin).is_ok();
        for slot in fields.slots().iter().filter(|slot| slot.stored == Stored::Extern && header.leaf) {
            let end = (slot.start + slot.len) as usize;
            let target = out.get_mut(end - REFERENCE_BYTES..end).ok_or(missing)?;
            if is_free {
                target.fill(0);
            } else {
                target.copy_from_slice(trailer.reference(page, origins.len(), references).ok_or(missing)?);
                references += 1;
            }
        }
    }
    Ok(references)
}

/// Origins of the free records, ascending.
fn free_origins(page: &[u8], header: &Header) -> Vec<u16> {
    let slots = usize::from(header.records)..usize::from(header.heap);
    let mut free: Vec<u16> =
        slots.filter_map(|number| dense_slot(page, number)).map(|slot| slot & SLOT_ORIGIN).collect();
    free.sort_unstable();
    free
}

/// Rebuilds the record chain, the info bits and the directory.
fn chain(page: &[u8], header: &Header, out: &mut [u8]) -> Result<(), ZipDamage> {
    let (mut before, mut owned, mut slots) = (INFIMUM, 0_u8, 1_u32);
    set_slot(out, 0, INFIMUM);
    for number in 0..usize::from(header.records) {
        let slot = dense_slot(page, number).unwrap_or(0);
        let origin = slot & SLOT_ORIGIN;
        owned = owned.saturating_add(1);
        let mut info = if slot & SLOT_DELETED != 0 { REC_INFO_DELETED } else { 0 };
        if number == 0 && !header.leaf && header.leftmost {
            info |= REC_INFO_MIN_REC;
        }
        if slot & SLOT_OWNER != 0 {
            set_slot(out, slots, origin);
            info |= owned.min(0x0F);
            (owned, slots) = (0, slots + 1);
        }
        set_info(out, origin, info);
        set_next(out, before, origin);
        before = origin;
    }
    set_next(out, before, SUPREMUM);
    set_info(out, SUPREMUM, owned.saturating_add(1).min(0x0F));
    set_slot(out, slots, SUPREMUM);
    let (found, expected) = (slots + 1, u32::from(header.slots));
    if found == expected { Ok(()) } else { Err(ZipDamage::Slots { found, expected }) }
}

fn free_list(page: &[u8], header: &Header, out: &mut [u8]) -> Result<(), ZipDamage> {
    let slots = usize::from(header.records)..usize::from(header.heap);
    let mut before = None;
    for slot in slots.filter_map(|number| dense_slot(page, number)) {
        let origin = slot & SLOT_ORIGIN;
        match before {
            Some(before) => set_next(out, before, origin),
            None if origin != header.free => return Err(ZipDamage::Directory { origin: u32::from(origin) }),
            None => {}
        }
        set_info(out, origin, if slot & SLOT_DELETED != 0 { REC_INFO_DELETED } else { 0 });
        before = Some(origin);
    }
    match before {
        // The last record's next pointer is zero already.
        Some(last) => {
            put(out, usize::from(last) - 2, 0);
            Ok(())
        }
        None if header.free != 0 => Err(ZipDamage::Directory { origin: u32::from(header.free) }),
        None => Ok(()),
    }
}

// The origins were checked: this writes inside the page.

fn set_info(out: &mut [u8], origin: u16, info: u8) {
    if let Some(byte) = out.get_mut(usize::from(origin) - HEADER_BYTES) {
        *byte = info;
    }
}

fn set_next(out: &mut [u8], origin: u16, next: u16) {
    put(out, usize::from(origin) - 2, next.wrapping_sub(origin));
}

fn set_slot(out: &mut [u8], number: u32, origin: u16) {
    let below = FIL_PAGE_DATA_END + PAGE_DIR_SLOT_SIZE * (number as usize + 1);
    if let Some(at) = out.len().checked_sub(below) {
        put(out, at, origin);
    }
}

fn put(out: &mut [u8], at: usize, value: u16) {
    if let Some(field) = out.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
