//! The modification log: records written after the page was compressed, in that order.

use super::header::Header;
use super::parts::{HEADER_BYTES, locate, packed_parts};
use super::rebuild;
use super::unpacker::Unpacker;
use crate::bytes::be;
use crate::record::{Layout, RecordFields};
use crate::zip_damage::ZipDamage;

/// Upper limit for a record's null bitmap and lengths: 128 bytes of bits, and 2 bytes of length for each of 1023 fields.
const LENGTHS_MAX: usize = 2304;
/// Origin of a record in the draft.
const DRAFT_ORIGIN: usize = 4096;

const _: () = assert!(DRAFT_ORIGIN > LENGTHS_MAX + HEADER_BYTES);

/// Applies the log that starts at byte `at` of `packed`, the page without its dense directory. Returns the offset where the log ends.
pub(super) fn apply(
    unpacker: &mut Unpacker,
    packed: &[u8],
    mut at: usize,
    header: &Header,
    layout: &Layout,
    out: &mut [u8],
) -> Result<usize, ZipDamage> {
    let Unpacker { origins, draft, fields, .. } = unpacker;
    draft.resize(DRAFT_ORIGIN + out.len(), 0);
    // One above the highest heap number so far.
    let known = origins.iter().take_while(|origin| heap_word(out, **origin) != 0).count();
    let mut next = known + 2;
    // No entry is shorter than a byte.
    while at < packed.len() {
        let damaged = ZipDamage::Log { at: u32::try_from(at).unwrap_or(u32::MAX) };
        let (value, taken) = entry_value(packed, at).ok_or(damaged)?;
        if value == 0 {
            return Ok(at);
        }
        let (number, clears) = (usize::from(value >> 1), value & 1 != 0);
        let heap_no = number + 1;
        let origin = number.checked_sub(1).and_then(|at| origins.get(at)).copied().ok_or(damaged)?;
        if heap_no > next || heap_no == next && clears {
            return Err(damaged);
        }
        next = next.max(heap_no + 1);
        rebuild::set_heap_word(out, usize::from(origin), heap_no as u16, header.leaf);
        at += taken;
        if clears {
            locate(layout, out, origin, header.leaf, fields)?;
            out.get_mut(usize::from(origin)..fields.end()).ok_or(damaged)?.fill(0);
            continue;
        }
        let rest = packed.get(at..).ok_or(damaged)?;
        let entry = Entry { rest, origin: usize::from(origin), header, layout };
        at += entry.apply(draft, fields, out).map_err(|damage| damage.unwrap_or(damaged))?;
    }
    Ok(at)
}

fn heap_word(out: &[u8], origin: u16) -> u16 {
    be::u16_at(out, usize::from(origin) - HEADER_BYTES + 1).unwrap_or(0)
}

/// The value at the start of an entry, and the bytes it takes.
fn entry_value(packed: &[u8], at: usize) -> Option<(u16, usize)> {
    let first = *packed.get(at)?;
    if first & 0x80 == 0 {
        return Some((u16::from(first), 1));
    }
    Some((u16::from(first & 0x7F) << 8 | u16::from(*packed.get(at + 1)?), 2))
}

/// An entry that writes a record.
struct Entry<'l> {
    rest: &'l [u8],
    origin: usize,
    header: &'l Header,
    layout: &'l Layout,
}

impl Entry<'_> {
    /// Writes the record. Returns how many bytes of the log it took; the error is `None` if the log ends too early.
    fn apply(&self, draft: &mut [u8], fields: &mut RecordFields, out: &mut [u8]) -> Result<usize, Option<ZipDamage>> {
        // The bytes below the header come in reverse order, and their number is known only from their content.
        let top = DRAFT_ORIGIN - HEADER_BYTES;
        let candidates = self.rest.len().min(LENGTHS_MAX);
        let lengths = draft.get_mut(top - candidates..top).ok_or(None)?;
        for (target, byte) in lengths.iter_mut().rev().zip(self.rest) {
            *target = *byte;
        }
        rebuild::set_heap_word(draft, DRAFT_ORIGIN, 2, self.header.leaf);
        locate(self.layout, draft, DRAFT_ORIGIN as u16, self.header.leaf, fields).map_err(Some)?;
        let count = top - fields.start();
        let target_end = self.origin - HEADER_BYTES;
        let source = draft.get(top - count..top).filter(|_| count <= candidates).ok_or(None)?;
        let target = out.get_mut(target_end.checked_sub(count).ok_or(None)?..target_end).ok_or(None)?;
        target.copy_from_slice(source);
        let mut used = count;
        for (start, end) in packed_parts(self.layout, fields, DRAFT_ORIGIN, self.header.leaf) {
            let source = self.rest.get(used..used + (end - start)).ok_or(None)?;
            let at = start - DRAFT_ORIGIN + self.origin;
            out.get_mut(at..at + source.len()).ok_or(None)?.copy_from_slice(source);
            used += source.len();
        }
        Ok(used)
    }
}
