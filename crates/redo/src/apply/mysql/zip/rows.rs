//! Rows of a ROW_FORMAT=COMPRESSED page.

use super::super::super::error::ApplyError;
use super::super::super::image::{Image, Result, field};
use super::super::super::index::{Index, PAGE_FREE, PAGE_LEVEL, no_direction};
use super::super::rows::{self, Room, Row, build, put_row, room_in_heap, shape_of, take_free};
use super::super::shape::{IndexShape, Shape};
use super::super::{DELETED, MIN_RECORD, lists};
use crate::record::RowStyle;
use crate::record::mysql::change::{InsertBodies, InsertBody, SystemFields, Updates};
use format::page::zip::{Editor, ZipEditError};

const CHILD_SIZE: usize = 4;
/// DB_TRX_ID and DB_ROLL_PTR.
const SYSTEM_SIZE: usize = 13;
/// Compression level if no record gives it.
const LEVEL_MAX: u8 = 9;

/// Both versions of a page.
pub(super) struct Pages<'p> {
    pub editor: &'p mut Editor,
    pub packed: &'p mut [u8],
}

impl Pages<'_> {
    /// Inserts a record into both pages. Returns its origin.
    pub(super) fn insert(&mut self, index: &IndexShape, cursor: usize, body: &InsertBody<'_>) -> Result<usize> {
        let mut page = inside(self.editor)?;
        let cursor = page.record(cursor)?;
        let row = build(&page, index, cursor, body)?;
        let reused = reuse(&mut page, index, &row)?;
        let from_heap = reused.is_none();
        let room = reused.map_or_else(|| room_in_heap(&mut page, row.bytes.len()), Ok)?;
        let origin = put_row(&mut page, cursor, &row, room)?;
        let told = self.editor.inserted(self.packed, field(origin)?, from_heap);
        self.or_repacked(told)?;
        Ok(origin)
    }

    /// Inserts a record into the page inside only, by the rules for uncompressed pages: the server found the modification log full.
    pub(super) fn insert_inside(&mut self, index: &IndexShape, cursor: usize, body: &InsertBody<'_>) -> Result<()> {
        let mut page = inside(self.editor)?;
        let cursor = page.record(cursor)?;
        rows::insert(&mut page, index, cursor, body).map(|_| ())
    }

    /// Inserts records after the last one.
    pub(super) fn insert_many(&mut self, index: &IndexShape, bodies: &[u8]) -> Result<()> {
        let page = inside(self.editor)?;
        let mut last = rows::before(&page, page.layout.supremum)?;
        for body in InsertBodies::new(bodies) {
            last = self.insert(index, last, &body.map_err(|_| ApplyError::RecordLength)?)?;
        }
        no_direction(&mut inside(self.editor)?)?;
        Ok(self.editor.mirror(self.packed)?)
    }

    pub(super) fn mark_deleted(
        &mut self,
        index: Option<&IndexShape>,
        value: bool,
        system: Option<&SystemFields<'_>>,
        record: usize,
    ) -> Result<()> {
        let mut page = inside(self.editor)?;
        rows::set_flag(&mut page, record, DELETED, value)?;
        if let (Some(system), Some(index)) = (system, index) {
            rows::put_system_fields(&mut page, index, record, system)?;
            self.editor.stored(self.packed, field(record)?)?;
        }
        Ok(self.editor.mirror(self.packed)?)
    }

    /// Marks the lowest record of its level. The packed page has no such flag: the page's place implies it.
    pub(super) fn mark_lowest(&mut self, record: usize) -> Result<()> {
        rows::set_flag(&mut inside(self.editor)?, record, MIN_RECORD, true)
    }

    pub(super) fn update(
        &mut self,
        index: &IndexShape,
        record: usize,
        system: Option<&SystemFields<'_>>,
        info_bits: u8,
        updates: &Updates<'_>,
    ) -> Result<()> {
        rows::update(&mut inside(self.editor)?, index, record, system, info_bits, updates)?;
        let told = self.editor.updated(self.packed, field(record)?);
        self.or_repacked(told)
    }

    pub(super) fn delete(&mut self, index: &IndexShape, record: usize) -> Result<()> {
        rows::delete(&mut inside(self.editor)?, index, record)?;
        Ok(self.editor.removed(self.packed, field(record)?)?)
    }

    /// Deletes a record and all records after it, one by one: each must be freed separately.
    pub(super) fn delete_from(&mut self, index: &IndexShape, record: usize) -> Result<()> {
        let page = inside(self.editor)?;
        let supremum = page.layout.supremum;
        let mut at = if record == page.layout.infimum { page.next(record)? } else { page.record(record)? };
        if at != supremum {
            at = rows::user_record(&page, at)?;
        }
        for _ in 0..lists::records_max(&page) {
            if at == supremum {
                return Ok(());
            }
            let next = inside(self.editor)?.next(at)?;
            self.delete(index, at)?;
            at = next;
        }
        Err(ApplyError::RecordPointer { offset: record })
    }

    /// Deletes all records before one.
    pub(super) fn delete_until(&mut self, index: &IndexShape, record: usize) -> Result<()> {
        let records_max = lists::records_max(&inside(self.editor)?);
        for _ in 0..records_max {
            let page = inside(self.editor)?;
            let first = page.next(page.layout.infimum)?;
            if first == record || first == page.layout.supremum {
                return Ok(());
            }
            self.delete(index, first)?;
        }
        Err(ApplyError::RecordPointer { offset: record })
    }

    /// Recompresses the page at the highest level if its modification log has no room. The log had room in the server, so the page was
    /// recompressed here before, less tightly than by the server.
    fn or_repacked(&mut self, told: std::result::Result<(), ZipEditError>) -> Result<()> {
        match told {
            Err(ZipEditError::NoRoom { .. }) => Ok(self.editor.repack(self.packed, LEVEL_MAX)?),
            other => Ok(other?),
        }
    }
}

/// The page inside, as an index page.
pub(super) fn inside(editor: &mut Editor) -> Result<Index<'_>> {
    Index::open(Image::new(editor.page()), RowStyle::Dynamic)
}

/// The space of the last freed record, if the new one fits there with the same origin. The packed page identifies free records by their
/// origins.
fn reuse(page: &mut Index<'_>, index: &IndexShape, row: &Row) -> Result<Option<Room>> {
    let free = page.header(PAGE_FREE)?;
    if free == 0 {
        return Ok(None);
    }
    let freed = shape_of(page, index, free)?;
    let len = row.bytes.len();
    // Shorter length fields leave bytes unused before the header.
    let Some(unused) = freed.extra.checked_sub(row.extra).filter(|unused| freed.len() >= len + unused) else {
        return Ok(None);
    };
    let heap_no = take_free(page, free, len)?;
    zero_stored(page, index, free, &freed, len)?;
    Ok(Some(Room { start: free - freed.extra + unused, heap_no }))
}

/// Zeroes the part of the freed record that the packed page keeps in its trailer, unless the new record overwrites all of it: unpacking
/// leaves zeros there.
fn zero_stored(page: &mut Index<'_>, index: &IndexShape, free: usize, freed: &Shape, len: usize) -> Result<()> {
    if page.header(PAGE_LEVEL)? != 0 {
        if freed.len() <= len {
            return Ok(());
        }
        let end = free + freed.data;
        return page.image.fill(end.checked_sub(CHILD_SIZE).ok_or(ApplyError::RecordLength)?, CHILD_SIZE, 0);
    }
    if !index.is_clustered {
        return Ok(());
    }
    let (_, trx_id) = freed.place(index.n_unique).ok_or(ApplyError::RecordLength)?;
    if freed.extra + trx_id.bytes.start + SYSTEM_SIZE <= len {
        return Ok(());
    }
    page.image.fill(free + trx_id.bytes.start, SYSTEM_SIZE, 0)
}
