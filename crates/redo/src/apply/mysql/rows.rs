//! Inserts, changes and deletes one index record.

use super::super::directory::N_OWNED_MIN;
use super::super::error::ApplyError;
use super::super::image::{Result, field};
use super::super::index::{
    HEAP_COMPACT, Index, N_OWNED_MAX, PAGE_DIRECTION, PAGE_FREE, PAGE_GARBAGE, PAGE_HEAP_TOP, PAGE_LAST_INSERT,
    PAGE_N_DIRECTION, PAGE_N_HEAP, PAGE_N_RECS, no_direction,
};
use super::shape::{IndexShape, Shape, redundant_end};
use crate::record::RowStyle;
use crate::record::mysql::change::{InsertBody, SystemFields, Updates};

/// Directions of inserts.
const PAGE_LEFT: u16 = 1;
const PAGE_RIGHT: u16 = 2;
/// Heap numbers have 13 bits.
const HEAP_NO_MAX: usize = 0x1FFF;
/// The flags that an update logs. The others describe the row's version.
const LOGGED_FLAGS: u8 = 0x30;
/// Fields from this number on are virtual columns, which are not stored in the row.
const FIELDS_MAX: usize = 1017;
/// Status of a record, in the low bits of its heap number field.
const STATUS_MASK: u8 = 7;
const TRX_ID_SIZE: usize = 6;
const ROLL_PTR_SIZE: usize = 7;

/// A record on its own: all its bytes, and its origin in them.
pub(super) struct Row {
    pub bytes: Vec<u8>,
    pub extra: usize,
}

impl Row {
    /// The record at `origin` of a page.
    pub(super) fn of(page: &Index<'_>, origin: usize, shape: &Shape) -> Result<Self> {
        let start = origin.checked_sub(shape.extra).ok_or(ApplyError::RecordPointer { offset: origin })?;
        Ok(Self { bytes: page.image.bytes(start, shape.len())?.to_vec(), extra: shape.extra })
    }
}

/// All bytes of the page.
pub(super) fn bytes_of<'i>(page: &'i Index<'_>) -> Result<&'i [u8]> {
    page.image.bytes(0, page.image.size())
}

/// The shape of the record at `origin` of the page.
pub(super) fn shape_of(page: &Index<'_>, index: &IndexShape, origin: usize) -> Result<Shape> {
    index.shape(bytes_of(page)?, page.record(origin)?)
}

/// Builds a record from the one at `cursor` and the bytes that differ.
pub(super) fn build(page: &Index<'_>, index: &IndexShape, cursor: usize, body: &InsertBody<'_>) -> Result<Row> {
    let before = shape_of(page, index, cursor)?;
    let info_at = page.info(cursor)?;
    let (info_and_status, extra, copied) = match body.head {
        Some(head) => (head.info_and_status, head.extra, head.copied),
        None => {
            let status = match page.style {
                RowStyle::Dynamic => page.image.u8(cursor - 3)? & STATUS_MASK,
                RowStyle::Redundant => 0,
            };
            let copied = before.len().checked_sub(body.end.len()).ok_or(ApplyError::RecordLength)?;
            (page.image.u8(info_at)? & 0xF0 | status, before.extra, copied)
        }
    };
    let start = cursor.checked_sub(before.extra).ok_or(ApplyError::RecordPointer { offset: cursor })?;
    let mut bytes = page.image.bytes(start, copied)?.to_vec();
    bytes.extend_from_slice(body.end);
    let put = |bytes: &mut Vec<u8>, back: usize, mask: u8, value: u8| -> Result<()> {
        let at = extra.checked_sub(back).ok_or(ApplyError::RecordLength)?;
        let byte = bytes.get_mut(at).ok_or(ApplyError::RecordLength)?;
        *byte = *byte & !mask | value & mask;
        Ok(())
    };
    put(&mut bytes, page.layout.header, 0xF0, info_and_status)?;
    if page.style == RowStyle::Dynamic {
        put(&mut bytes, 3, STATUS_MASK, info_and_status)?;
    }
    let shape = index.shape(&bytes, extra)?;
    if shape.extra != extra || shape.len() != bytes.len() {
        return Err(ApplyError::RecordLength);
    }
    Ok(Row { bytes, extra })
}

/// Inserts a record after the one at `cursor`. Returns its origin.
pub(super) fn insert(page: &mut Index<'_>, index: &IndexShape, cursor: usize, body: &InsertBody<'_>) -> Result<usize> {
    let row = build(page, index, cursor, body)?;
    insert_row(page, index, cursor, &row)
}

pub(super) fn insert_row(page: &mut Index<'_>, index: &IndexShape, cursor: usize, row: &Row) -> Result<usize> {
    let room = room(page, index, row.bytes.len())?;
    put_row(page, cursor, row, room)
}

/// Space for a record.
pub(super) struct Room {
    /// Its start offset.
    pub start: usize,
    pub heap_no: usize,
}

/// Writes a record to the given space and links it after the one at `cursor`. Returns its origin.
pub(super) fn put_row(page: &mut Index<'_>, cursor: usize, row: &Row, room: Room) -> Result<usize> {
    let Room { start, heap_no } = room;
    if cursor == page.layout.supremum {
        return Err(ApplyError::RecordPointer { offset: cursor });
    }
    let next = page.next(cursor)?;
    let owner = page.owner(next)?;
    let slot = page.slot_of(owner)?;
    let owned = page.n_owned(owner)?;
    page.image.put(start, &row.bytes)?;
    let origin = start + row.extra;
    put_heap_no(page, origin, heap_no)?;
    page.put_n_owned(origin, 0)?;
    page.link(origin, next)?;
    page.link(cursor, origin)?;
    page.add_to_header(PAGE_N_RECS, 1)?;
    note_direction(page, cursor, next)?;
    page.put_header(PAGE_LAST_INSERT, origin)?;
    page.put_n_owned(owner, owned + 1)?;
    if owned >= N_OWNED_MAX {
        page.split_slot(slot)?
    }
    Ok(origin)
}

/// Allocates space for a record: the last freed record's space if it is large enough, otherwise the end of the heap.
fn room(page: &mut Index<'_>, index: &IndexShape, len: usize) -> Result<Room> {
    let free = page.header(PAGE_FREE)?;
    if free != 0 {
        let freed = shape_of(page, index, free)?;
        if freed.len() >= len {
            return Ok(Room { heap_no: take_free(page, free, len)?, start: free - freed.extra });
        }
    }
    room_in_heap(page, len)
}

/// Takes `len` bytes of the first record on the free list. Returns its heap number.
pub(super) fn take_free(page: &mut Index<'_>, free: usize, len: usize) -> Result<usize> {
    let heap_no = page.heap_no(free)?;
    page.put_header(PAGE_FREE, page.next_pointer(free)?)?;
    page.subtract_from_header(PAGE_GARBAGE, len)?;
    Ok(heap_no)
}

/// Allocates space at the end of the heap.
pub(super) fn room_in_heap(page: &mut Index<'_>, len: usize) -> Result<Room> {
    let (start, heap_no) = (page.header(PAGE_HEAP_TOP)?, page.n_heap()?);
    let end = start + len;
    if start < page.layout.heap || end > page.directory_start()? || heap_no > HEAP_NO_MAX {
        return Err(ApplyError::NoRoom { offset: start, len });
    }
    page.put_header(PAGE_HEAP_TOP, end)?;
    let compact = page.image.u16(PAGE_N_HEAP)? & HEAP_COMPACT;
    page.image.put_u16(PAGE_N_HEAP, compact | field(heap_no + 1)?)?;
    Ok(Room { start, heap_no })
}

fn put_heap_no(page: &mut Index<'_>, origin: usize, heap_no: usize) -> Result<()> {
    let at = page.info(origin)? + 1;
    let low = page.image.u16(at)? & u16::from(STATUS_MASK);
    page.image.put_u16(at, field(heap_no << 3)? | low)
}

/// Counts inserts in the same direction, as the server does to predict the next position.
fn note_direction(page: &mut Index<'_>, cursor: usize, next: usize) -> Result<()> {
    let (last, before) = (page.header(PAGE_LAST_INSERT)?, page.image.u16(PAGE_DIRECTION)?);
    let direction = if last != 0 && last == cursor && before != PAGE_LEFT {
        PAGE_RIGHT
    } else if last != 0 && last == next && before != PAGE_RIGHT {
        PAGE_LEFT
    } else {
        return no_direction(page);
    };
    page.image.put_u16(PAGE_DIRECTION, direction)?;
    page.add_to_header(PAGE_N_DIRECTION, 1)
}

/// The record before the one at `record`.
pub(super) fn before(page: &Index<'_>, record: usize) -> Result<usize> {
    let slot = page.slot_of(page.owner(record)?)?;
    let mut at = page.slot_record(slot.checked_sub(1).ok_or(ApplyError::NoSlot { offset: record })?)?;
    for _ in 0..=N_OWNED_MAX {
        let next = page.next(at)?;
        if next == record {
            return Ok(at);
        }
        at = next;
    }
    Err(ApplyError::RecordPointer { offset: record })
}

/// Checks that `record` is a user record, not the infimum or supremum.
pub(super) fn user_record(page: &Index<'_>, record: usize) -> Result<usize> {
    let is_bound = record == page.layout.infimum || record == page.layout.supremum;
    if is_bound { Err(ApplyError::RecordPointer { offset: record }) } else { page.record(record) }
}

/// Removes a record from the chain and the directory.
pub(super) fn delete(page: &mut Index<'_>, index: &IndexShape, record: usize) -> Result<()> {
    let record = user_record(page, record)?;
    let len = shape_of(page, index, record)?.len();
    let owner = page.owner(record)?;
    let slot = page.slot_of(owner)?;
    let owned = page.n_owned(owner)?.saturating_sub(1);
    let prev = before(page, record)?;
    page.put_header(PAGE_LAST_INSERT, 0)?;
    page.link(prev, page.next(record)?)?;
    if owner == record {
        page.put_slot(slot, prev)?;
        page.put_n_owned(prev, owned)?;
    } else {
        page.put_n_owned(owner, owned)?;
    }
    page.link(record, page.header(PAGE_FREE)?)?;
    page.put_header(PAGE_FREE, record)?;
    page.add_to_header(PAGE_GARBAGE, len)?;
    page.subtract_from_header(PAGE_N_RECS, 1)?;
    if owned < N_OWNED_MIN { page.balance_slot(slot) } else { Ok(()) }
}

/// Sets or clears one of a record's flags.
pub(super) fn set_flag(page: &mut Index<'_>, record: usize, flag: u8, value: bool) -> Result<()> {
    let at = page.info(user_record(page, record)?)?;
    let info = page.image.u8(at)?;
    page.image.put_u8(at, if value { info | flag } else { info & !flag })
}

/// Writes DB_TRX_ID and DB_ROLL_PTR.
pub(super) fn put_system_fields(
    page: &mut Index<'_>,
    index: &IndexShape,
    record: usize,
    system: &SystemFields<'_>,
) -> Result<()> {
    let shape = shape_of(page, index, record)?;
    let places = [(system.position, TRX_ID_SIZE), (system.position + 1, ROLL_PTR_SIZE)];
    let trx_id = system.trx_id.to_be_bytes();
    let values = [trx_id.get(trx_id.len() - TRX_ID_SIZE..).unwrap_or_default(), system.roll_ptr];
    for ((number, len), value) in places.into_iter().zip(values) {
        let (_, place) = shape.place(number).ok_or(ApplyError::RecordLength)?;
        if place.is_null || place.bytes.len() != len {
            return Err(ApplyError::RecordLength);
        }
        page.image.put(record + place.bytes.start, value)?;
    }
    Ok(())
}

/// Changes fields of a record without changing their lengths.
pub(super) fn update(
    page: &mut Index<'_>,
    index: &IndexShape,
    record: usize,
    system: Option<&SystemFields<'_>>,
    info_bits: u8,
    updates: &Updates<'_>,
) -> Result<()> {
    let record = user_record(page, record)?;
    if let Some(system) = system {
        put_system_fields(page, index, record, system)?;
    }
    let shape = shape_of(page, index, record)?;
    let at = page.info(record)?;
    let info = page.image.u8(at)?;
    page.image.put_u8(at, info & !LOGGED_FLAGS | info_bits & LOGGED_FLAGS)?;
    for update in updates.iter() {
        let (number, value) = update.map_err(|_| ApplyError::RecordLength)?;
        if number < FIELDS_MAX {
            put_field(page, &shape, record, number, value)?;
        }
    }
    Ok(())
}

fn put_field(page: &mut Index<'_>, shape: &Shape, record: usize, number: usize, value: Option<&[u8]>) -> Result<()> {
    let (at, place) = shape.place(number).ok_or(ApplyError::RecordLength)?;
    let start = record + place.bytes.start;
    match value {
        Some(value) if value.len() == place.bytes.len() => {
            if place.is_null {
                set_null(page, record, at, false)?;
            }
            page.image.put(start, value)
        }
        None if page.style == RowStyle::Redundant => {
            set_null(page, record, at, true)?;
            page.image.fill(start, place.bytes.len(), 0)
        }
        None if place.is_null => Ok(()),
        _ => Err(ApplyError::RecordLength),
    }
}

/// Only REDUNDANT rows reserve space for NULL values.
fn set_null(page: &mut Index<'_>, record: usize, at: usize, is_null: bool) -> Result<()> {
    const NULL: u8 = 0x80;
    if page.style == RowStyle::Dynamic {
        return Err(ApplyError::RecordLength);
    }
    let (end, _) = redundant_end(bytes_of(page)?, record, at).ok_or(ApplyError::RecordLength)?;
    let byte = page.image.u8(end)?;
    page.image.put_u8(end, if is_null { byte | NULL } else { byte & !NULL })
}
