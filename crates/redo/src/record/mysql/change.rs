//! What a MySQL record does to its page.

use super::cursor::Cursor;
use super::index_info::IndexInfo;
use crate::record::{RecordFault, RowStyle};
use format::fil::PageType;

/// Flag of an update or a delete mark: DB_TRX_ID and DB_ROLL_PTR stay unchanged.
const KEEP_SYS: u8 = 4;
const ROLL_PTR_SIZE: usize = 7;
const REFERENCE_SIZE: usize = 20;
const CHILD_SIZE: usize = 4;

/// DB_TRX_ID and DB_ROLL_PTR of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemFields<'a> {
    /// Number of the field DB_TRX_ID; the other follows.
    pub position: usize,
    /// The transaction.
    pub trx_id: u64,
    /// 7 bytes.
    pub roll_ptr: &'a [u8],
}

/// An index record, given as the part it shares with the previous record, and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsertBody<'a> {
    /// The differences in its header, if there are any.
    pub head: Option<InsertHead>,
    /// What follows the copied bytes.
    pub end: &'a [u8],
}

/// The header of a record to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsertHead {
    /// Flags in the upper half, status in the lower.
    pub info_and_status: u8,
    /// Bytes of the record before its origin.
    pub extra: usize,
    /// Bytes copied from the previous record.
    pub copied: usize,
}

/// What a record does to its page. Offsets are bytes from the start of the page; index records are identified by their origins. Neither is
/// checked against the page, which only [`Replay`](crate::apply::Replay) knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// MLOG_1BYTE to MLOG_8BYTES.
    Write {
        /// First byte written.
        offset: usize,
        /// 1, 2, 4 or 8.
        len: usize,
        /// The value to write.
        value: u64,
    },
    /// MLOG_WRITE_STRING.
    WriteString {
        /// First byte written.
        offset: usize,
        /// The bytes to write.
        data: &'a [u8],
    },
    /// MLOG_INIT_FILE_PAGE2: nothing of the old content is kept.
    InitPage,
    /// MLOG_IBUF_BITMAP_INIT.
    InitBitmap,
    /// MLOG_PAGE_CREATE and its variants: an index page without records.
    CreateIndex {
        /// The kind of index.
        page_type: PageType,
        /// The format of its records.
        style: RowStyle,
    },
    /// MLOG_REC_INSERT.
    Insert {
        /// The index.
        index: IndexInfo<'a>,
        /// The record before it.
        cursor: usize,
        /// The record.
        body: InsertBody<'a>,
    },
    /// MLOG_LIST_END_COPY_CREATED: records to append after the last one.
    InsertMany {
        /// The index.
        index: IndexInfo<'a>,
        /// Consecutive [`InsertBody`]s.
        bodies: &'a [u8],
    },
    /// MLOG_REC_CLUST_DELETE_MARK and MLOG_REC_SEC_DELETE_MARK.
    DeleteMark {
        /// The index, if it matters.
        index: Option<IndexInfo<'a>>,
        /// Whether to set the mark.
        value: bool,
        /// System fields to write as well.
        system: Option<SystemFields<'a>>,
        /// The record.
        record: usize,
    },
    /// MLOG_REC_UPDATE_IN_PLACE.
    Update {
        /// The index.
        index: IndexInfo<'a>,
        /// System fields to write as well.
        system: Option<SystemFields<'a>>,
        /// The record.
        record: usize,
        /// Its flags.
        info_bits: u8,
        /// The changed fields and their new values.
        updates: Updates<'a>,
    },
    /// MLOG_REC_DELETE.
    Delete {
        /// The index.
        index: IndexInfo<'a>,
        /// The record.
        record: usize,
    },
    /// MLOG_LIST_END_DELETE: a record and all after it.
    DeleteFrom {
        /// The index.
        index: IndexInfo<'a>,
        /// The first record to delete.
        record: usize,
    },
    /// MLOG_LIST_START_DELETE: all before a record.
    DeleteUntil {
        /// The index.
        index: IndexInfo<'a>,
        /// The first record to keep.
        record: usize,
    },
    /// MLOG_PAGE_REORGANIZE.
    Reorganize {
        /// The index.
        index: IndexInfo<'a>,
        /// For a compressed page: its compression level.
        level: Option<u8>,
    },
    /// MLOG_REC_MIN_MARK.
    MinMark {
        /// The record.
        record: usize,
    },
    /// MLOG_UNDO_INSERT: an undo record, without the pointers around it.
    UndoInsert(&'a [u8]),
    /// MLOG_UNDO_ERASE_END.
    UndoEraseEnd,
    /// MLOG_UNDO_INIT: an empty undo page, of inserts (1) or updates (2).
    UndoInit(u32),
    /// MLOG_UNDO_HDR_REUSE, by this transaction.
    UndoHeaderReuse(u64),
    /// MLOG_UNDO_HDR_CREATE, by this transaction.
    UndoHeaderCreate(u64),
    /// MLOG_ZIP_WRITE_NODE_PTR, MLOG_ZIP_WRITE_BLOB_PTR and MLOG_ZIP_WRITE_HEADER.
    ZipWrite {
        /// Offset in the page.
        offset: usize,
        /// Offset in the page as stored.
        zip_offset: usize,
        /// Written to both places.
        data: &'a [u8],
        /// Which of the three.
        kind: ZipWrite,
    },
    /// MLOG_ZIP_PAGE_COMPRESS: the page as stored.
    ZipImage {
        /// The previous and the next page, 4 bytes each.
        neighbours: [&'a [u8]; 2],
        /// From the page type on.
        front: &'a [u8],
        /// The end of the page.
        trailer: &'a [u8],
    },
    /// MLOG_ZIP_PAGE_COMPRESS_NO_DATA: the page is recompressed.
    ZipCompress {
        /// The index.
        index: IndexInfo<'a>,
        /// The compression level.
        level: u8,
    },
    /// MLOG_UNDO_HDR_DISCARD, which has no effect.
    None,
}

/// The part of a ROW_FORMAT=COMPRESSED page that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZipWrite {
    /// The child of a node pointer.
    Child,
    /// The reference to the rest of a long value.
    Reference,
    /// The page header.
    Header,
}

/// The fields that an update changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updates<'a> {
    count: u32,
    bytes: &'a [u8],
}

/// The new value of a field; `None` for NULL.
pub(crate) type FieldUpdate<'a> = (usize, Option<&'a [u8]>);

impl<'a> Updates<'a> {
    fn parse(cursor: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let count = cursor.cint()?;
        let from = *cursor;
        for _ in 0..count {
            field_update(cursor)?;
        }
        let len = cursor.position() - from.position();
        Ok(Self { count, bytes: { from }.take(len)? })
    }

    /// Field numbers and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<FieldUpdate<'a>, RecordFault>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        (0..self.count).map(move |_| field_update(&mut cursor))
    }
}

fn field_update<'a>(cursor: &mut Cursor<'a>) -> Result<FieldUpdate<'a>, RecordFault> {
    let field = cursor.cint_size()?;
    let value = match cursor.cint()? {
        u32::MAX => None,
        len => Some(cursor.take(usize::try_from(len).map_err(|_| RecordFault::Fields)?)?),
    };
    Ok((field, value))
}

impl<'a> InsertBody<'a> {
    pub(crate) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let code = cursor.cint_size()?;
        let head = if code & 1 == 1 {
            let info_and_status = cursor.byte()?;
            Some(InsertHead { info_and_status, extra: cursor.cint_size()?, copied: cursor.cint_size()? })
        } else {
            None
        };
        Ok(Self { head, end: cursor.take(code >> 1)? })
    }
}

/// Consecutive records to insert.
pub(crate) struct InsertBodies<'a>(Cursor<'a>);

impl<'a> InsertBodies<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(Cursor::new(bytes))
    }
}

impl<'a> Iterator for InsertBodies<'a> {
    type Item = Result<InsertBody<'a>, RecordFault>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_at_end()).then(|| InsertBody::parse(&mut self.0))
    }
}

fn insert_many<'a>(index: IndexInfo<'a>, cursor: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    let len = usize::try_from(cursor.u32()?).map_err(|_| RecordFault::Fields)?;
    let bodies = cursor.take(len)?;
    // The list states its own length, so a body that needs more bytes is a fault.
    let mut all = InsertBodies::new(bodies);
    all.try_for_each(|body| body.map(|_| ())).map_err(|_| RecordFault::Fields)?;
    Ok(Change::InsertMany { index, bodies })
}

fn system_fields<'a>(cursor: &mut Cursor<'a>, flags: u8) -> Result<Option<SystemFields<'a>>, RecordFault> {
    let position = cursor.cint_size()?;
    let (roll_ptr, trx_id) = (cursor.take(ROLL_PTR_SIZE)?, cursor.c64()?);
    Ok((flags & KEEP_SYS == 0).then_some(SystemFields { position, trx_id, roll_ptr }))
}

fn delete_mark<'a>(index: IndexInfo<'a>, cursor: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    let (flags, value) = (cursor.byte()?, cursor.byte()? != 0);
    let system = system_fields(cursor, flags)?;
    Ok(Change::DeleteMark { index: Some(index), value, system, record: cursor.size()? })
}

fn update<'a>(index: IndexInfo<'a>, cursor: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    let flags = cursor.byte()?;
    let system = system_fields(cursor, flags)?;
    let (record, info_bits) = (cursor.size()?, cursor.byte()?);
    Ok(Change::Update { index, system, record, info_bits, updates: Updates::parse(cursor)? })
}

fn zip_image<'a>(cursor: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    let (size, trailer) = (cursor.size()?, cursor.size()?);
    let neighbours = [cursor.take(CHILD_SIZE)?, cursor.take(CHILD_SIZE)?];
    Ok(Change::ZipImage { neighbours, front: cursor.take(size)?, trailer: cursor.take(trailer)? })
}

/// A write of 1, 2, 4 or 8 bytes, into which the value must fit.
fn write<'a>(len: u8, cursor: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    let offset = cursor.size()?;
    let value = if len == 8 { cursor.c64()? } else { cursor.cint()?.into() };
    if len < 8 && value >> (8 * len) != 0 {
        return Err(RecordFault::Fields);
    }
    Ok(Change::Write { offset, len: len.into(), value })
}

fn zip_write<'a>(kind: ZipWrite, len: usize, cursor: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    let (offset, zip_offset) = (cursor.size()?, cursor.size()?);
    Ok(Change::ZipWrite { offset, zip_offset, data: cursor.take(len)?, kind })
}

const fn create(page_type: PageType, style: RowStyle) -> Change<'static> {
    Change::CreateIndex { page_type, style }
}

/// The basic type of an index record, and the form of its index description: before 8.0.29 without or with COMP, or since then.
const fn index_kind(kind: u8) -> Option<(u8, IndexForm)> {
    use IndexForm::{Compact, New, Redundant};
    Some(match kind {
        9 | 10 | 13 | 14 | 15 | 16 | 17 | 18 => (kind, Redundant),
        38 | 39 => (kind - 29, Compact),
        41 | 42 => (kind - 28, Compact),
        43..=46 => (kind - 28, Compact),
        67 | 68 => (kind - 58, New),
        69 => (14, New),
        70 => (13, New),
        71 | 72 => (kind - 54, New),
        73 => (53, New),
        74 => (52, New),
        75 | 76 => (kind - 60, New),
        52 | 53 => (kind, Compact),
        _ => return None,
    })
}

enum IndexForm {
    Redundant,
    Compact,
    New,
}

/// The body of a page record of this type. `None` if there is no such type.
pub(crate) fn parse<'a>(kind: u8, cursor: &mut Cursor<'a>) -> Result<Option<Change<'a>>, RecordFault> {
    if let Some((kind, form)) = index_kind(kind) {
        let index = match form {
            IndexForm::New => IndexInfo::parse(cursor)?,
            IndexForm::Redundant => IndexInfo::parse_old(cursor, false)?,
            IndexForm::Compact => IndexInfo::parse_old(cursor, true)?,
        };
        return index_change(kind, index, cursor).map(Some);
    }
    use RowStyle::{Dynamic, Redundant};
    Ok(Some(match kind {
        1 | 2 | 4 | 8 => write(kind, cursor)?,
        11 => DeleteMarkOf(None).parse(cursor)?,
        40 => DeleteMarkOf(Some(IndexInfo::parse_old(cursor, true)?)).parse(cursor)?,
        19 => create(PageType::INDEX, Redundant),
        37 => create(PageType::INDEX, Dynamic),
        57 => create(PageType::RTREE, Redundant),
        58 => create(PageType::RTREE, Dynamic),
        63 => create(PageType::SDI, Redundant),
        64 => create(PageType::SDI, Dynamic),
        20 => {
            let len = cursor.size()?;
            Change::UndoInsert(cursor.take(len)?)
        }
        21 => Change::UndoEraseEnd,
        22 => Change::UndoInit(cursor.cint()?),
        23 => Change::None,
        24 => Change::UndoHeaderReuse(cursor.c64()?),
        25 => Change::UndoHeaderCreate(cursor.c64()?),
        26 | 36 => Change::MinMark { record: cursor.size()? },
        27 => Change::InitBitmap,
        29 | 59 => Change::InitPage,
        30 => {
            let (offset, len) = (cursor.size()?, cursor.size()?);
            Change::WriteString { offset, data: cursor.take(len)? }
        }
        48 => zip_write(ZipWrite::Child, CHILD_SIZE, cursor)?,
        49 => zip_write(ZipWrite::Reference, REFERENCE_SIZE, cursor)?,
        50 => {
            let (offset, len) = (usize::from(cursor.byte()?), cursor.byte()?);
            let data = cursor.take(len.into())?;
            Change::ZipWrite { offset, zip_offset: offset, data, kind: ZipWrite::Header }
        }
        51 => zip_image(cursor)?,
        _ => return Ok(None),
    }))
}

/// MLOG_REC_SEC_DELETE_MARK.
struct DeleteMarkOf<'a>(Option<IndexInfo<'a>>);

impl<'a> DeleteMarkOf<'a> {
    fn parse(self, cursor: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
        let value = cursor.byte()? != 0;
        Ok(Change::DeleteMark { index: self.0, value, system: None, record: cursor.size()? })
    }
}

fn index_change<'a>(kind: u8, index: IndexInfo<'a>, cursor: &mut Cursor<'a>) -> Result<Change<'a>, RecordFault> {
    Ok(match kind {
        9 => Change::Insert { index, cursor: cursor.size()?, body: InsertBody::parse(cursor)? },
        10 => delete_mark(index, cursor)?,
        13 => update(index, cursor)?,
        14 => Change::Delete { index, record: cursor.size()? },
        15 => Change::DeleteFrom { index, record: cursor.size()? },
        16 => Change::DeleteUntil { index, record: cursor.size()? },
        17 => insert_many(index, cursor)?,
        18 => Change::Reorganize { index, level: None },
        52 => Change::ZipCompress { index, level: cursor.byte()? },
        53 => Change::Reorganize { index, level: Some(cursor.byte()?) },
        other => return Err(RecordFault::Type(other)),
    })
}

impl Change<'_> {
    /// The server's name for the record's type.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Write { len: 1, .. } => "MLOG_1BYTE",
            Self::Write { len: 2, .. } => "MLOG_2BYTES",
            Self::Write { len: 4, .. } => "MLOG_4BYTES",
            Self::Write { .. } => "MLOG_8BYTES",
            Self::WriteString { .. } => "MLOG_WRITE_STRING",
            Self::InitPage => "MLOG_INIT_FILE_PAGE2",
            Self::InitBitmap => "MLOG_IBUF_BITMAP_INIT",
            Self::CreateIndex { page_type: PageType::RTREE, .. } => "MLOG_PAGE_CREATE_RTREE",
            Self::CreateIndex { page_type: PageType::SDI, .. } => "MLOG_PAGE_CREATE_SDI",
            Self::CreateIndex { .. } => "MLOG_PAGE_CREATE",
            Self::Insert { .. } => "MLOG_REC_INSERT",
            Self::InsertMany { .. } => "MLOG_LIST_END_COPY_CREATED",
            Self::DeleteMark { system: None, .. } => "MLOG_REC_SEC_DELETE_MARK",
            Self::DeleteMark { .. } => "MLOG_REC_CLUST_DELETE_MARK",
            Self::Update { .. } => "MLOG_REC_UPDATE_IN_PLACE",
            Self::Delete { .. } => "MLOG_REC_DELETE",
            Self::DeleteFrom { .. } => "MLOG_LIST_END_DELETE",
            Self::DeleteUntil { .. } => "MLOG_LIST_START_DELETE",
            Self::Reorganize { level: None, .. } => "MLOG_PAGE_REORGANIZE",
            Self::Reorganize { .. } => "MLOG_ZIP_PAGE_REORGANIZE",
            Self::MinMark { .. } => "MLOG_REC_MIN_MARK",
            Self::UndoInsert(_) => "MLOG_UNDO_INSERT",
            Self::UndoEraseEnd => "MLOG_UNDO_ERASE_END",
            Self::UndoInit(_) => "MLOG_UNDO_INIT",
            Self::UndoHeaderReuse(_) => "MLOG_UNDO_HDR_REUSE",
            Self::UndoHeaderCreate(_) => "MLOG_UNDO_HDR_CREATE",
            Self::ZipWrite { kind: ZipWrite::Child, .. } => "MLOG_ZIP_WRITE_NODE_PTR",
            Self::ZipWrite { kind: ZipWrite::Reference, .. } => "MLOG_ZIP_WRITE_BLOB_PTR",
            Self::ZipWrite { .. } => "MLOG_ZIP_WRITE_HEADER",
            Self::ZipImage { .. } => "MLOG_ZIP_PAGE_COMPRESS",
            Self::ZipCompress { .. } => "MLOG_ZIP_PAGE_COMPRESS_NO_DATA",
            Self::None => "MLOG_UNDO_HDR_DISCARD",
        }
    }

    /// Whether the page is created from nothing unless it is newer than this record: pages may have been written without redo
    /// (MLOG_INDEX_LOAD), and then the file's content counts.
    #[must_use]
    pub const fn makes_page(&self) -> bool {
        matches!(self, Self::InitPage)
    }
}
