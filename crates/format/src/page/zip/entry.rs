//! A modification log entry, in the server's format.

use super::parts::{HEADER_BYTES, locate, packed_parts};
use super::trailer::Places;
use crate::bytes::be;
use crate::record::{Layout, RecordFields};
use crate::zip_damage::ZipDamage;

/// The first heap number that takes two bytes.
const LONG: u16 = 64;

/// The heap number of a record.
pub(super) fn heap_no(page: &[u8], origin: u16) -> u16 {
    be::u16_at(page, usize::from(origin).saturating_sub(HEADER_BYTES - 1)).unwrap_or(0) >> 3
}

/// Writes to `entry` the log entry for the record at `origin` of `page`: its heap number, its header from the fixed part down, and its data
/// without the part in the trailer. `fields` are the record's fields.
pub(super) fn write(
    entry: &mut Vec<u8>,
    page: &[u8],
    origin: u16,
    layout: &Layout,
    leaf: bool,
    fields: &RecordFields,
) -> Result<(), ZipDamage> {
    let missing = ZipDamage::Missing { origin };
    let number = heap_no(page, origin).checked_sub(1).ok_or(missing)?;
    entry.clear();
    if number >= LONG {
        entry.push(0x80 | (number >> 7) as u8);
    }
    entry.push((number << 1) as u8);
    let origin = usize::from(origin);
    let lengths = page.get(fields.start()..origin - HEADER_BYTES).ok_or(missing)?;
    entry.extend(lengths.iter().rev());
    for (start, end) in packed_parts(layout, fields, origin, leaf) {
        entry.extend_from_slice(page.get(start..end).ok_or(missing)?);
    }
    Ok(())
}

/// The part of a record that the trailer stores, as a range of the page.
pub(super) fn stored_part(layout: &Layout, fields: &RecordFields, leaf: bool) -> std::ops::Range<usize> {
    use super::parts::{CHILD_BYTES, SYSTEM_BYTES};
    if !leaf {
        return fields.end() - CHILD_BYTES..fields.end();
    }
    let system = layout.trx_id().and_then(|number| fields.slots().get(number));
    system.map_or(0..0, |slot| slot.start as usize..slot.start as usize + SYSTEM_BYTES)
}

/// Copies the trailer part of the record at `origin`, except references.
pub(super) fn store(
    packed: &mut [u8],
    places: &Places,
    page: &[u8],
    origin: u16,
    part: std::ops::Range<usize>,
) -> Result<(), ZipDamage> {
    let missing = ZipDamage::Missing { origin };
    let part = page.get(part).ok_or(missing)?;
    let target = places.stored(packed, heap_no(page, origin)).filter(|target| target.len() == part.len());
    target.ok_or(missing)?.copy_from_slice(part);
    Ok(())
}

/// Number of off-page values of the record at `origin`.
pub(super) fn references_in(
    layout: &Layout,
    page: &[u8],
    origin: u16,
    leaf: bool,
    fields: &mut RecordFields,
) -> Result<usize, ZipDamage> {
    locate(layout, page, origin, leaf, fields)?;
    Ok(fields.references(page).count())
}
