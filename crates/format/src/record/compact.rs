//! Records of COMPACT, DYNAMIC and unpacked COMPRESSED pages: the header grows down from the origin, the data up.

use super::layout::{Present, REFERENCE_BYTES};
use super::{
    FieldLayout, Instant, Layout, REC_INFO_DELETED, REC_INFO_INSTANT, REC_INFO_VERSION, REC_N_NEW_EXTRA_BYTES, Record,
    RecordFields, Slot, Status, Storage, Stored,
};
use crate::page::index::{IndexFinding, IndexRule};

/// In the first of two length bytes: there are two.
const LENGTH_TWO_BYTES: u8 = 0x80;
/// In the first of two length bytes: the value continues off-page.
const LENGTH_EXTERN: u8 = 0x40;

/// See [`Layout::locate`].
#[inline]
pub(super) fn locate(layout: &Layout, record: &Record<'_>, fields: &mut RecordFields) -> Result<(), IndexFinding> {
    if layout.instant() == Instant::None && record.status() == Status::Ordinary {
        // Enough for nearly every record. The slow path says what is wrong with the others.
        if whole(layout, record, fields).is_some() {
            return Ok(());
        }
    }
    by_header(layout, record, fields)
}

/// Bytes of the null bitmap read as one number.
const NULL_BYTES_MAX: usize = 8;

/// The variable part of an ordinary record's header: the lengths, to be read from their last byte backwards, and the null bitmap as a
/// number whose lowest bit belongs to the first nullable field. `None` if it would begin before the page, or the bitmap has more than eight
/// bytes.
#[inline]
pub(crate) fn header<'p>(record: &Record<'p>, null_bytes: usize) -> Option<(&'p [u8], u64)> {
    if null_bytes > NULL_BYTES_MAX {
        return None;
    }
    let header = record.page.get(..usize::from(record.origin).checked_sub(REC_N_NEW_EXTRA_BYTES)?)?;
    let (lengths, bitmap) = header.split_at_checked(header.len().checked_sub(null_bytes)?)?;
    Some((lengths, bitmap.iter().fold(0, |nulls, byte| nulls << 8 | u64::from(*byte))))
}

/// Takes the next length off the end of `lengths`; `None` if no length is left.
#[inline]
pub(crate) fn next_length(lengths: &mut &[u8], big: bool) -> Option<(u32, Stored)> {
    match *lengths {
        [rest @ .., first] if !big || first & LENGTH_TWO_BYTES == 0 => {
            *lengths = rest;
            Some((u32::from(*first), Stored::Inline))
        }
        [rest @ .., second, first] => {
            *lengths = rest;
            let stored = if first & LENGTH_EXTERN != 0 { Stored::Extern } else { Stored::Inline };
            Some((u32::from(first & 0x3F) << 8 | u32::from(*second), stored))
        }
        _ => None,
    }
}

/// Locates the fields of a row that has every field; `None` unless the row is entirely on the page. One check after the last field covers
/// all bounds: until then only the header is read.
fn whole(layout: &Layout, record: &Record<'_>, fields: &mut RecordFields) -> Option<()> {
    let (mut lengths, mut nulls) = header(record, layout.leaf_null_bytes())?;
    let (mut end, mut is_whole, mut is_outside) = (u32::from(record.origin()), true, false);
    fields.slots.clear();
    fields.slots.extend(layout.fields().iter().map(|field| {
        if field.nullable {
            let is_null = nulls & 1 == 1;
            nulls >>= 1;
            if is_null {
                return Slot { start: end, len: 0, stored: Stored::Null };
            }
        }
        let (len, stored) = match field.storage {
            Storage::Fixed(len) => (u32::from(len), Stored::Inline),
            Storage::Variable { big } => match next_length(&mut lengths, big) {
                Some((len, stored)) => {
                    is_outside |= stored == Stored::Extern;
                    is_whole &= stored == Stored::Inline || len as usize >= REFERENCE_BYTES;
                    (len, stored)
                }
                None => {
                    is_whole = false;
                    (0, Stored::Missing)
                }
            },
        };
        let start = end;
        end += len;
        Slot { start, len, stored }
    }));
    if !is_whole || end as usize > record.page().len() {
        return None;
    }
    (fields.start, fields.end, fields.child) = (lengths.len() as u32, end, None);
    fields.is_on_page = !is_outside;
    Some(())
}

/// Locates the fields of any record, one by one.
fn by_header(layout: &Layout, record: &Record<'_>, fields: &mut RecordFields) -> Result<(), IndexFinding> {
    fields.reset(record.origin());
    let node = record.status() == Status::NodePointer;
    let Head { present, mut below, hole } = head(layout, record)?;
    let (count, null_bytes) = if node {
        (layout.key_fields(), layout.node_null_bytes())
    } else {
        (layout.fields().len(), null_bytes(layout, present))
    };
    let mut walk = Walk { record, end: usize::from(record.origin()), bitmap: Bitmap::new(below), lengths: below };
    walk.lengths += null_bytes;
    let mut unversioned = 0;
    for (number, field) in layout.fields().iter().take(count).enumerate() {
        let slot = if present.has(field, number, unversioned) { walk.field(field)? } else { Slot::MISSING };
        unversioned += usize::from(field.added == 0);
        fields.slots.push(slot);
        if hole == Some(number) {
            walk.end += REFERENCE_BYTES;
            // There may be no later field whose check would notice.
            if walk.end > record.page().len() {
                return Err(walk.beyond(0));
            }
        }
    }
    below = walk.lengths;
    let start = usize::from(record.origin()).checked_sub(below - 1);
    let start =
        start.ok_or_else(|| record.finding(IndexRule::RecordHeader, below as u64, u64::from(record.origin())))?;
    fields.start = start as u32;
    fields.end = walk.end as u32;
    if node {
        fields.take_child(record.page()).ok_or_else(|| walk.beyond(4))?;
    }
    Ok(())
}

/// The facts in a record's header that decide how to read the rest.
struct Head {
    present: Present,
    /// Distance from the origin down to the first byte of the null bitmap.
    below: usize,
    /// The field followed by 20 bytes that belong to no field.
    hole: Option<usize>,
}

fn head(layout: &Layout, record: &Record<'_>) -> Result<Head, IndexFinding> {
    let below = REC_N_NEW_EXTRA_BYTES + 1;
    let plain = |present| Ok(Head { present, below, hole: None });
    match record.status() {
        Status::NodePointer => return plain(Present::All),
        Status::Ordinary | Status::Instant => {}
        other => return Err(record.finding(IndexRule::RecordStatus, u64::from(other.bits()), 0)),
    }
    match layout.instant() {
        Instant::None if record.status() == Status::Ordinary => plain(Present::All),
        Instant::MySql { core } if record.status() == Status::Ordinary => mysql_head(layout, record, core),
        Instant::MariaDb { core, .. } if record.status() == Status::Ordinary => {
            plain(Present::First(usize::from(core)))
        }
        Instant::MariaDb { core, .. } => mariadb_head(layout, record, usize::from(core)),
        _ => Err(record.finding(IndexRule::RecordStatus, u64::from(record.status().bits()), 0)),
    }
}

fn mysql_head(layout: &Layout, record: &Record<'_>, core: Option<u16>) -> Result<Head, IndexFinding> {
    let below = REC_N_NEW_EXTRA_BYTES + 1;
    let byte = |at: usize| record.below(at).ok_or_else(|| record.finding(IndexRule::RecordHeader, at as u64, 0));
    if record.info() & REC_INFO_VERSION != 0 {
        let version = u16::from(byte(below)?);
        return Ok(Head { present: Present::Version(version), below: below + 1, hole: None });
    }
    if record.info() & REC_INFO_INSTANT != 0 {
        let first = byte(below)?;
        let (count, taken) = match first & 0x80 {
            0 => (u16::from(first), 1),
            _ => (u16::from(first & 0x7F) << 8 | u16::from(byte(below + 1)?), 2),
        };
        let present = Present::FirstUnversioned(field_count(layout, record, usize::from(count))?);
        return Ok(Head { present, below: below + taken, hole: None });
    }
    let present = match core {
        Some(core) => Present::FirstUnversioned(usize::from(core)),
        None => Present::Version(0),
    };
    Ok(Head { present, below, hole: None })
}

fn mariadb_head(layout: &Layout, record: &Record<'_>, core: usize) -> Result<Head, IndexFinding> {
    let below = REC_N_NEW_EXTRA_BYTES + 1;
    let byte = |at: usize| record.below(at).ok_or_else(|| record.finding(IndexRule::RecordHeader, at as u64, 0));
    let first = byte(below)?;
    let (added, taken) = match first & 0x80 {
        0 => (usize::from(first), 1),
        _ => (usize::from(first & 0x7F) | usize::from(byte(below + 1)?) << 7, 2),
    };
    let has_map = record.is_min_rec() && record.info() & REC_INFO_DELETED != 0;
    let count = core + added + 1 - usize::from(has_map);
    let present = Present::First(field_count(layout, record, count)?);
    let hole = if has_map { layout.trx_id().map(|at| at + 1) } else { None };
    Ok(Head { present, below: below + taken, hole })
}

fn field_count(layout: &Layout, record: &Record<'_>, count: usize) -> Result<usize, IndexFinding> {
    let limit = layout.fields().len();
    if count > limit {
        return Err(record.finding(IndexRule::FieldCount, count as u64, limit as u64));
    }
    Ok(count)
}

fn null_bytes(layout: &Layout, present: Present) -> usize {
    if present == Present::All {
        return layout.leaf_null_bytes();
    }
    let (mut unversioned, mut nullable) = (0, 0_usize);
    for (number, field) in layout.fields().iter().enumerate() {
        nullable += usize::from(field.nullable && present.has(field, number, unversioned));
        unversioned += usize::from(field.added == 0);
    }
    nullable.div_ceil(8)
}

/// The null bitmap, bit by bit; its first byte is the one nearest to the header.
struct Bitmap {
    below: usize,
    mask: u8,
}

impl Bitmap {
    const fn new(below: usize) -> Self {
        Self { below, mask: 1 }
    }

    /// The next bit; `None` if its byte would be before the page.
    fn next(&mut self, record: &Record<'_>) -> Option<bool> {
        let bit = record.below(self.below)? & self.mask != 0;
        self.mask = self.mask.rotate_left(1);
        self.below += usize::from(self.mask == 1);
        Some(bit)
    }
}

/// Walks down through the lengths and up through the data.
struct Walk<'r, 'a> {
    record: &'r Record<'a>,
    /// End of the data so far.
    end: usize,
    bitmap: Bitmap,
    /// Distance from the origin down to the next length.
    lengths: usize,
}

impl Walk<'_, '_> {
    #[inline]
    fn field(&mut self, field: &FieldLayout) -> Result<Slot, IndexFinding> {
        if field.nullable && self.bitmap.next(self.record).ok_or_else(|| self.header_leaves())? {
            return Ok(Slot { start: self.end as u32, len: 0, stored: Stored::Null });
        }
        let (len, stored) = match field.storage {
            Storage::Fixed(len) => (usize::from(len), Stored::Inline),
            Storage::Variable { big } => self.length(big)?,
        };
        if stored == Stored::Extern && len < REFERENCE_BYTES {
            return Err(self.record.finding(IndexRule::ExternReference, len as u64, REFERENCE_BYTES as u64));
        }
        let start = self.end;
        self.end += len;
        if self.end > self.record.page().len() {
            return Err(self.beyond(0));
        }
        Ok(Slot { start: start as u32, len: len as u32, stored })
    }

    #[inline]
    fn length(&mut self, big: bool) -> Result<(usize, Stored), IndexFinding> {
        let first = self.take()?;
        if !big || first & LENGTH_TWO_BYTES == 0 {
            return Ok((usize::from(first), Stored::Inline));
        }
        let len = usize::from(first & 0x3F) << 8 | usize::from(self.take()?);
        Ok((len, if first & LENGTH_EXTERN != 0 { Stored::Extern } else { Stored::Inline }))
    }

    #[inline]
    fn take(&mut self) -> Result<u8, IndexFinding> {
        let byte = self.record.below(self.lengths).ok_or_else(|| self.header_leaves())?;
        self.lengths += 1;
        Ok(byte)
    }

    fn header_leaves(&self) -> IndexFinding {
        self.record.finding(IndexRule::RecordHeader, self.lengths as u64, u64::from(self.record.origin()))
    }

    fn beyond(&self, more: usize) -> IndexFinding {
        self.record.finding(IndexRule::RecordEnd, (self.end + more) as u64, self.record.page().len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordStyle;
    use crate::record::any::{self, next};

    #[test]
    fn the_short_way_finds_the_fields_that_the_long_way_finds() {
        let (mut seed, mut found) = (7, 0);
        for _ in 0..4000 {
            let layout = any::layout(&mut seed);
            // Mostly short lengths: otherwise hardly any record would fit.
            let mut page: Vec<u8> = (0..1200).map(|_| (next(&mut seed) as u8) & (next(&mut seed) as u8)).collect();
            let origin = (next(&mut seed) % 1100) as u16 + 5;
            if let Some(status) = page.get_mut(usize::from(origin) - 3) {
                *status &= !7;
            }
            let record = Record::new(&page, origin, RecordStyle::Compact, true).expect("inside the page");
            let (mut short, mut long) = (RecordFields::new(), RecordFields::new());
            let by_header = by_header(&layout, &record, &mut long);
            let whole = whole(&layout, &record, &mut short);
            let is_short = layout.leaf_null_bytes() <= NULL_BYTES_MAX;
            assert_eq!(whole.is_some(), by_header.is_ok() && is_short, "{layout:?}");
            if whole.is_some() {
                found += 1;
                let is_outside = short.slots.iter().any(|slot| slot.stored == Stored::Extern);
                assert_eq!(std::mem::take(&mut short.is_on_page), !is_outside);
                assert_eq!(short, long, "{layout:?}");
            }
        }
        assert!(found > 500, "{found} records only");
    }
}
