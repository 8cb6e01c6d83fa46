//! Records of MySQL's redo log: type, tablespace and page, and a body whose length only its content gives.

use crate::record::mysql::change;
use crate::record::mysql::cursor::Cursor;
use crate::record::{Change, FileRecord, PageRecord, RecordError, RecordFault, RedoRecord, TableState};
use format::types::{PageId, SpaceId};

/// Flag in the type: the record is a mini-transaction of its own.
pub(crate) const SINGLE_RECORD: u8 = 0x80;
/// Ends a mini-transaction of several records.
pub(crate) const MLOG_MULTI_REC_END: u8 = 31;
/// Padding.
pub(crate) const MLOG_DUMMY_RECORD: u8 = 32;
const MLOG_FILE_CREATE: u8 = 33;
const MLOG_FILE_RENAME: u8 = 34;
const MLOG_FILE_DELETE: u8 = 35;
const MLOG_INDEX_LOAD: u8 = 61;
const MLOG_TABLE_DYNAMIC_META: u8 = 62;
const MLOG_FILE_EXTEND: u8 = 65;
/// In MLOG_TABLE_DYNAMIC_META: the kind of state.
const META_CORRUPT: u8 = 1;
const META_AUTO_INCREMENT: u8 = 2;

/// The first record of `bytes`, and its length. `None` for end marks and padding.
///
/// # Errors
/// [`RecordFault::Length`] if more bytes are needed; any other if there is no such record.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Option<RedoRecord<'_>>, usize), RecordFault> {
    let mut cursor = Cursor::new(bytes);
    let first = cursor.byte()?;
    let kind = first & !SINGLE_RECORD;
    let record = match kind {
        MLOG_MULTI_REC_END | MLOG_DUMMY_RECORD if first != kind => return Err(RecordFault::Type(first)),
        MLOG_MULTI_REC_END | MLOG_DUMMY_RECORD => None,
        MLOG_TABLE_DYNAMIC_META => Some(RedoRecord::File(FileRecord::Table(table_state(&mut cursor)?))),
        _ => {
            let id = PageId::new(cursor.cint()?, cursor.cint()?);
            match file_record(kind, id.space, &mut cursor)? {
                Some(file) => Some(RedoRecord::File(file)),
                None => {
                    let change = change::parse(kind, &mut cursor)?.ok_or(RecordFault::Kind(kind))?;
                    let bytes = bytes.get(..cursor.position()).unwrap_or_default();
                    Some(RedoRecord::Page(PageRecord { id, change: Change::MySql(change), bytes }))
                }
            }
        }
    };
    Ok((record, cursor.position()))
}

fn file_record<'a>(kind: u8, space: SpaceId, cursor: &mut Cursor<'a>) -> Result<Option<FileRecord<'a>>, RecordFault> {
    Ok(Some(match kind {
        MLOG_FILE_CREATE => {
            cursor.u32()?;
            FileRecord::Create { space, name: name(cursor)? }
        }
        MLOG_FILE_RENAME => FileRecord::Rename { space, from: name(cursor)?, to: name(cursor)? },
        MLOG_FILE_DELETE => FileRecord::Delete { space, name: name(cursor)? },
        MLOG_FILE_EXTEND => {
            let (offset, len) = (cursor.u64()?, cursor.u64()?);
            FileRecord::Extend { space, end: offset.checked_add(len).ok_or(RecordFault::Fields)? }
        }
        MLOG_INDEX_LOAD => FileRecord::Load { space, index: cursor.u64()? },
        _ => return Ok(None),
    }))
}

/// A name with its terminating zero.
fn name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], RecordFault> {
    let len = cursor.size()?;
    match cursor.take(len)?.split_last() {
        Some((0, name)) if !name.is_empty() && !name.contains(&0) => Ok(name),
        _ => Err(RecordFault::FileName),
    }
}

fn table_state<'a>(cursor: &mut Cursor<'a>) -> Result<TableState<'a>, RecordFault> {
    let (table, version) = (cursor.mc64()?, cursor.mc64()?);
    let from = *cursor;
    let auto_increment = part_of_state(cursor)?;
    let len = cursor.position() - from.position();
    Ok(TableState { table, version, auto_increment, state: { from }.take(len)? })
}

/// The last AUTO_INCREMENT value in a table's state, as the log and `mysql.innodb_dynamic_metadata` have it: parts of one kind each.
#[must_use]
pub fn counter_in(state: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(state);
    loop {
        // Its end is an error, too: then there is no counter.
        if let Some(counter) = part_of_state(&mut cursor).ok()? {
            return Some(counter);
        }
    }
}

/// Reads a part of a table's state. Returns the counter if it is one.
fn part_of_state(cursor: &mut Cursor<'_>) -> Result<Option<u64>, RecordFault> {
    match cursor.byte()? {
        META_AUTO_INCREMENT => Ok(Some(cursor.mc64()?)),
        META_CORRUPT => {
            for _ in 0..cursor.byte()? {
                cursor.take(12)?;
            }
            Ok(None)
        }
        _ => Err(RecordFault::Fields),
    }
}

/// The records in `bytes`: those of one mini-transaction, or some of them.
#[must_use]
pub const fn records(bytes: &[u8]) -> Records<'_> {
    Records { bytes, at: 0, failed: false }
}

/// See [`records`]. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    failed: bool,
}

impl Records<'_> {
    /// Length of the records so far, which is where the next one starts.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RedoRecord<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty() && !self.failed)?;
            match parse(rest) {
                Ok((record, len)) => {
                    self.at += len;
                    if let Some(record) = record {
                        return Some(Ok(record));
                    }
                }
                Err(fault) => {
                    self.failed = true;
                    return Some(Err(RecordError { at: self.at, fault }));
                }
            }
        }
    }
}
