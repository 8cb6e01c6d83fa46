//! EXTENDED records: changes that are logged by what was done, not by the bytes that it changed.

use super::cursor::Cursor;
use super::{Change, RecordFault};

/// The two layouts of index records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowStyle {
    /// ROW_FORMAT=REDUNDANT, and the internal tables of every server.
    Redundant,
    /// ROW_FORMAT=COMPACT and DYNAMIC.
    Dynamic,
}

/// Where an inserted record gets its space from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The end of the heap.
    Heap,
    /// The first record of the page's free list.
    Reuse {
        /// How much later than the freed record's header the new one begins, bytes; negative: earlier.
        shift: i32,
    },
}

/// An index record is inserted behind another. What the two have in common is copied from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert<'a> {
    /// Layout of the record.
    pub style: RowStyle,
    /// Where its space comes from.
    pub place: Place,
    /// Origin of the record before it, bytes after the origin of the infimum.
    pub prev: usize,
    /// Dynamic: bytes of the header that are in `data`, times 8, and flags. Redundant: fields less one, times 8, and flags.
    pub header: usize,
    /// Bytes of the header copied from the record before.
    pub header_copied: usize,
    /// Bytes of the payload copied from the record before.
    pub data_copied: usize,
    /// What is not copied: first the header's, then the payload's.
    pub data: &'a [u8],
}

impl Insert<'_> {
    /// The server's name for the record's subtype.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match (self.place, self.style) {
            (Place::Heap, RowStyle::Redundant) => "INSERT_HEAP_REDUNDANT",
            (Place::Reuse { .. }, RowStyle::Redundant) => "INSERT_REUSE_REDUNDANT",
            (Place::Heap, RowStyle::Dynamic) => "INSERT_HEAP_DYNAMIC",
            (Place::Reuse { .. }, RowStyle::Dynamic) => "INSERT_REUSE_DYNAMIC",
        }
    }
}

/// The index record behind another is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete {
    /// Layout of the record.
    pub style: RowStyle,
    /// Origin of the record before it, bytes after the origin of the infimum.
    pub prev: usize,
    /// Dynamic: bytes of its header without the fixed part. The redundant style finds it in the record.
    pub header_size: usize,
    /// Dynamic: bytes of its payload. The redundant style finds it in the record.
    pub data_size: usize,
}

/// The shortest undo record: its type and table, and no more.
const UNDO_RECORD_MIN: usize = 3;

pub(super) fn parse<'a>(body: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    use RowStyle::{Dynamic, Redundant};
    match body.byte()? {
        0 => body.ended(Change::InitIndex(Redundant)),
        1 => body.ended(Change::InitIndex(Dynamic)),
        2 => body.ended(Change::UndoInit),
        3 => match body.rest()? {
            record if record.len() >= UNDO_RECORD_MIN => Ok(Change::UndoAppend(record)),
            _ => Err(RecordFault::Fields),
        },
        4 => insert(Redundant, false, body),
        5 => insert(Redundant, true, body),
        6 => insert(Dynamic, false, body),
        7 => insert(Dynamic, true, body),
        8 => {
            let delete = Delete { style: Redundant, prev: body.size()?, header_size: 0, data_size: 0 };
            body.ended(Change::Delete(delete))
        }
        9 => {
            let (prev, header_size, data_size) = (body.size()?, body.size()?, body.size()?);
            body.ended(Change::Delete(Delete { style: Dynamic, prev, header_size, data_size }))
        }
        10 => body.ended(Change::Trim),
        subtype => Err(RecordFault::Subtype(subtype)),
    }
}

fn insert<'a>(style: RowStyle, reuse: bool, body: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    let prev = body.size()?;
    let place = match (reuse, style) {
        (false, _) => Place::Heap,
        (true, RowStyle::Redundant) => Place::Reuse { shift: 0 },
        (true, RowStyle::Dynamic) => Place::Reuse { shift: shift(body.size()?)? },
    };
    let (header, header_copied, data_copied) = (body.size()?, body.size()?, body.size()?);
    // A record that has all in common with the one before it cannot be: what identifies it differs.
    let data = body.rest()?;
    Ok(Change::Insert(Insert { style, place, prev, header, header_copied, data_copied, data }))
}

/// The sign is the lowest bit; set, the new record begins earlier.
fn shift(code: usize) -> Result<i32, RecordFault> {
    let distance = i32::try_from(code >> 1).map_err(|_| RecordFault::Fields)?;
    Ok(if code & 1 == 1 { -distance } else { distance })
}
