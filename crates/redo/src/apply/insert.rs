//! Inserts an index record.

use super::error::ApplyError;
use super::image::{Result, field};
use super::index::{
    HEAP_COMPACT, Index, N_OWNED_MAX, PAGE_DIRECTION_B, PAGE_FREE, PAGE_GARBAGE, PAGE_HEAP_TOP, PAGE_LAST_INSERT,
    PAGE_LEVEL, PAGE_N_DIRECTION, PAGE_N_HEAP, PAGE_N_RECS, PAGE_NO_DIRECTION, RedundantSizes,
};
use crate::record::{Insert, RecordSource, RowStyle};
use format::fil::{FIL_PAGE_TYPE, PageType};

/// Directions of inserts.
const PAGE_LEFT: u8 = 1;
const PAGE_RIGHT: u8 = 2;
/// The direction's bits in its byte.
const DIRECTION_MASK: u8 = 7;
/// Heap numbers have 13 bits.
const HEAP_NO_MAX: usize = 0x1FFF;
/// Status of a record on a non-leaf page, and the bit that marks metadata on a leaf.
const STATUS_NODE: u16 = 1;
const STATUS_INSTANT: usize = 4;

/// Space for the new record.
struct Room {
    /// Its start offset.
    start: usize,
    heap_no: usize,
}

/// The parts of the new record; lengths in bytes.
struct Parts<'a> {
    /// Complete header.
    header: usize,
    /// Complete payload.
    data: usize,
    /// The bytes of header and payload that the log record brings; the others are copied from the previous record.
    own_header: &'a [u8],
    own_data: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(insert: &Insert<'a>, fixed_header: usize) -> Result<Self> {
        let header = match insert.style {
            RowStyle::Dynamic => fixed_header + insert.header_copied + (insert.header >> 3),
            RowStyle::Redundant => {
                let (n_fields, is_short) = redundant_fields(insert);
                fixed_header + if is_short { n_fields } else { 2 * n_fields }
            }
        };
        let own = header.checked_sub(fixed_header + insert.header_copied).ok_or(ApplyError::RecordLength)?;
        let (own_header, own_data) = insert.data.split_at_checked(own).ok_or(ApplyError::RecordLength)?;
        Ok(Self { header, data: insert.data_copied + own_data.len(), own_header, own_data })
    }

    const fn len(&self) -> usize {
        self.header + self.data
    }
}

/// Number of fields, and whether end offsets take one byte each.
const fn redundant_fields(insert: &Insert<'_>) -> (usize, bool) {
    ((insert.header >> 3) + 1, insert.header & 4 != 0)
}

pub(super) fn insert(index: &mut Index<'_>, insert: &Insert<'_>) -> Result<()> {
    let prev = index.prev(insert.prev)?;
    let next = index.next(prev)?;
    let owner = index.owner(next)?;
    let slot = index.slot_of(owner)?;
    let owned = index.n_owned(owner)?;
    let parts = Parts::of(insert, index.layout.header)?;
    let room = match insert.place {
        RecordSource::Heap => from_heap(index, &parts)?,
        RecordSource::Reuse { shift } => from_free_list(index, &parts, shift)?,
    };
    let origin = room.start + parts.header;
    match insert.style {
        RowStyle::Dynamic => write_dynamic(index, insert, &parts, prev, &room)?,
        RowStyle::Redundant => write_redundant(index, insert, &parts, prev, &room)?,
    }
    let last = index.header(PAGE_LAST_INSERT)?;
    index.put_header(PAGE_LAST_INSERT, origin)?;
    index.link(origin, next)?;
    index.link(prev, origin)?;
    index.put_n_owned(owner, owned + 1)?;
    note_direction(index, last, prev, next)?;
    index.add_to_header(PAGE_N_RECS, 1)?;
    if owned >= N_OWNED_MAX { index.split_slot(slot) } else { Ok(()) }
}

fn from_heap(index: &mut Index<'_>, parts: &Parts<'_>) -> Result<Room> {
    let (start, heap_no) = (index.header(PAGE_HEAP_TOP)?, index.n_heap()?);
    let end = start + parts.len();
    if start < index.layout.heap || end > index.directory_start()? || heap_no > HEAP_NO_MAX {
        return Err(ApplyError::NoRoom { offset: start, len: parts.len() });
    }
    let compact = index.image.u16(PAGE_N_HEAP)? & HEAP_COMPACT;
    index.put_header(PAGE_HEAP_TOP, end)?;
    index.image.put_u16(PAGE_N_HEAP, compact | field(heap_no + 1)?)?;
    Ok(Room { start, heap_no })
}

/// Takes the first record on the free list. If the new one is smaller, the rest stays garbage.
fn from_free_list(index: &mut Index<'_>, parts: &Parts<'_>, shift: i32) -> Result<Room> {
    let free = index.header(PAGE_FREE)?;
    let header = match index.style {
        RowStyle::Dynamic => parts.header,
        RowStyle::Redundant => RedundantSizes::read(index, free)?.header,
    };
    let shift = isize::try_from(shift).map_err(|_| ApplyError::RecordLength)?;
    let start = free.checked_sub(header).and_then(|start| start.checked_add_signed(shift));
    let start = start.ok_or(ApplyError::RecordPointer { offset: free })?;
    let is_free = index.record(free)? >= index.layout.heap;
    if !is_free || start < index.layout.heap || start + parts.len() > index.header(PAGE_HEAP_TOP)? {
        return Err(ApplyError::NoRoom { offset: start, len: parts.len() });
    }
    let heap_no = index.heap_no(free)?;
    index.put_header(PAGE_FREE, index.next_pointer(free)?)?;
    index.subtract_from_header(PAGE_GARBAGE, parts.len())?;
    Ok(Room { start, heap_no })
}

/// Own header, copied header, fixed header, followed by the payload.
fn write_dynamic(
    index: &mut Index<'_>,
    insert: &Insert<'_>,
    parts: &Parts<'_>,
    prev: usize,
    room: &Room,
) -> Result<()> {
    let (copied, info) = (room.start + parts.own_header.len(), room.start + parts.header - index.layout.header);
    let copied_from = index.info(prev)?.checked_sub(insert.header_copied).ok_or(ApplyError::RecordLength)?;
    let status = match (index.header(PAGE_LEVEL)?, insert.header & STATUS_INSTANT) {
        (0, instant) => field(instant)?,
        _ => STATUS_NODE,
    };
    index.image.put(room.start, parts.own_header)?;
    index.image.shift(copied_from, copied, insert.header_copied)?;
    index.image.put_u8(info, info_bits(insert))?;
    index.image.put_u16(info + 1, field(room.heap_no << 3)? | status)?;
    write_payload(index, insert, parts, prev, room)
}

/// Own header, copied header and fixed header; the whole fixed header except flags and next pointer is rewritten.
fn write_redundant(
    index: &mut Index<'_>,
    insert: &Insert<'_>,
    parts: &Parts<'_>,
    prev: usize,
    room: &Room,
) -> Result<()> {
    let origin = room.start + parts.header;
    let (n_fields, is_short) = redundant_fields(insert);
    let copied = insert.header_copied + index.layout.header;
    let copied_from = prev.checked_sub(copied).ok_or(ApplyError::RecordLength)?;
    index.image.put(room.start, parts.own_header)?;
    index.image.shift(copied_from, room.start + parts.own_header.len(), copied)?;
    let info = index.info(origin)?;
    index.image.put_u8(info, info_bits(insert))?;
    // 13 bits of heap number, 10 of field count, 1 of end offset size.
    let (high, low) = (room.heap_no << 3 | n_fields >> 7, (n_fields & 0x7F) << 1 | usize::from(is_short));
    index.image.put_u16(info + 1, field(high)?)?;
    index.image.put_u8(info + 3, u8::try_from(low).map_err(|_| ApplyError::RecordLength)?)?;
    if RedundantSizes::read(index, origin)?.data != parts.data {
        return Err(ApplyError::RecordLength);
    }
    write_payload(index, insert, parts, prev, room)
}

fn write_payload(
    index: &mut Index<'_>,
    insert: &Insert<'_>,
    parts: &Parts<'_>,
    prev: usize,
    room: &Room,
) -> Result<()> {
    let origin = room.start + parts.header;
    index.image.shift(prev, origin, insert.data_copied)?;
    index.image.put(origin + insert.data_copied, parts.own_data)
}

/// The flags of the new record, which owns no records.
const fn info_bits(insert: &Insert<'_>) -> u8 {
    ((insert.header & 3) << 4) as u8
}

/// Counts inserts in the same direction, as the server does to predict the next position.
fn note_direction(index: &mut Index<'_>, last: usize, prev: usize, next: usize) -> Result<()> {
    if index.image.u16(FIL_PAGE_TYPE)? == PageType::RTREE.0 {
        return Ok(());
    }
    let byte = index.image.u8(PAGE_DIRECTION_B)?;
    let before = byte & DIRECTION_MASK;
    let direction = if last != 0 && last == prev && before != PAGE_LEFT {
        PAGE_RIGHT
    } else if last != 0 && last == next && before != PAGE_RIGHT {
        PAGE_LEFT
    } else {
        PAGE_NO_DIRECTION
    };
    index.image.put_u8(PAGE_DIRECTION_B, byte & !DIRECTION_MASK | direction)?;
    if direction == PAGE_NO_DIRECTION {
        return index.put_header(PAGE_N_DIRECTION, 0);
    }
    index.add_to_header(PAGE_N_DIRECTION, 1)
}
