//! Builds the dense directory from the records of the unpacked page.

use super::header::{Header, SLOT_DELETED, SLOT_ORIGIN, SLOT_OWNER};
use super::parts::HEADER_BYTES;
use super::rebuild::{INFIMUM, SUPREMUM};
use crate::bytes::be;
use crate::record::{REC_INFO_DELETED, RecordStyle};
use crate::zip_damage::ZipDamage;

const N_OWNED_MASK: u8 = 0x0F;
/// Lowest origin that a record of the heap can have.
const ORIGIN_MIN: u16 = RecordStyle::Compact.heap_start() + HEADER_BYTES as u16;

/// The dense directory slots of an unpacked page, in order: the chain, then the free list.
pub(super) fn slots_of(page: &[u8], header: &Header, slots: &mut Vec<u16>) -> Result<(), ZipDamage> {
    slots.clear();
    if header.records > header.heap {
        return Err(ZipDamage::Counts { records: header.records, heap: header.heap });
    }
    let mut at = INFIMUM;
    for _ in 0..header.records {
        at = checked(next(page, at), header)?;
        slots.push(at | flags(page, at));
    }
    if next(page, at) != SUPREMUM {
        return Err(ZipDamage::Directory { origin: u32::from(at) });
    }
    let mut free = header.free;
    for _ in header.records..header.heap {
        // Free records have no flags and no slot.
        slots.push(checked(free, header)?);
        free = next(page, free);
    }
    if free == 0 { Ok(()) } else { Err(ZipDamage::Directory { origin: u32::from(free) }) }
}

/// Writes the slots, with the first one at the end of the page.
pub(super) fn put_slots(packed: &mut [u8], slots: &[u16]) {
    for (place, slot) in packed.rchunks_exact_mut(2).zip(slots) {
        place.copy_from_slice(&slot.to_be_bytes());
    }
}

fn checked(origin: u16, header: &Header) -> Result<u16, ZipDamage> {
    let is_one = (ORIGIN_MIN..=header.heap_top.min(SLOT_ORIGIN)).contains(&origin);
    if is_one { Ok(origin) } else { Err(ZipDamage::Directory { origin: u32::from(origin) }) }
}

/// The record after the one at `origin`; 0 if there is none.
fn next(page: &[u8], origin: u16) -> u16 {
    match be::u16_at(page, usize::from(origin) - 2).unwrap_or(0) {
        0 => 0,
        distance => origin.wrapping_add(distance),
    }
}

fn flags(page: &[u8], origin: u16) -> u16 {
    let info = page.get(usize::from(origin) - HEADER_BYTES).copied().unwrap_or(0);
    let deleted = if info & REC_INFO_DELETED == 0 { 0 } else { SLOT_DELETED };
    let owner = if info & N_OWNED_MASK == 0 { 0 } else { SLOT_OWNER };
    deleted | owner
}
