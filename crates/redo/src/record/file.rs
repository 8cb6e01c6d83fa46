//! Records about files.

use super::cursor::Cursor;
use super::fault::RecordFault;
use format::types::{Lsn, SpaceId};

/// A file operation. Names are as the server wrote them: relative to the datadir (`./db/t.ibd`) or absolute.
///
/// The last name that the log gives a tablespace is valid; earlier records may belong to it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRecord<'a> {
    /// FILE_CREATE: the file is created; its page 0 follows in the same mini-transaction.
    Create {
        /// The tablespace.
        space: SpaceId,
        /// Its file.
        name: &'a [u8],
    },
    /// FILE_DELETE: the file is about to be deleted; no record of the tablespace needs to be applied.
    Delete {
        /// The tablespace.
        space: SpaceId,
        /// Its file.
        name: &'a [u8],
    },
    /// FILE_RENAME: the file is about to be renamed.
    Rename {
        /// The tablespace.
        space: SpaceId,
        /// Its old name.
        from: &'a [u8],
        /// Its new name.
        to: &'a [u8],
    },
    /// FILE_MODIFY: the tablespace is changed for the first time since the checkpoint.
    Modify {
        /// The tablespace.
        space: SpaceId,
        /// Its file.
        name: &'a [u8],
    },
    /// FILE_CHECKPOINT: a checkpoint was made.
    Checkpoint(Lsn),
    /// Zeros that pad a write.
    Padding,
    /// MLOG_FILE_EXTEND: the file has at least this many bytes.
    Extend {
        /// The tablespace.
        space: SpaceId,
        /// Its end, in bytes.
        end: u64,
    },
    /// MLOG_INDEX_LOAD: pages of the index were written without redo.
    Load {
        /// The tablespace.
        space: SpaceId,
        /// The index.
        index: u64,
    },
    /// MLOG_TABLE_DYNAMIC_META: a table state that the dictionary gets later.
    Table(TableState<'a>),
}

/// A part of a table's state that changes so often that it reaches the dictionary only at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableState<'a> {
    /// The table's id in the dictionary.
    pub table: u64,
    /// Version of its definition.
    pub version: u64,
    /// The last AUTO_INCREMENT value given; `None` if the record is about corrupt indexes.
    pub auto_increment: Option<u64>,
    /// Everything after the version, as stored in the log.
    pub state: &'a [u8],
}

impl FileRecord<'_> {
    /// The server's name for the record's type.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "FILE_CREATE",
            Self::Delete { .. } => "FILE_DELETE",
            Self::Rename { .. } => "FILE_RENAME",
            Self::Modify { .. } => "FILE_MODIFY",
            Self::Checkpoint(_) | Self::Padding => "FILE_CHECKPOINT",
            Self::Extend { .. } => "FILE_EXTEND",
            Self::Load { .. } => "INDEX_LOAD",
            Self::Table(_) => "TABLE_DYNAMIC_META",
        }
    }
}

const SUFFIX: &[u8] = b".ibd";

pub(super) fn parse<'a>(first: u8, body: &mut Cursor<'a>) -> Result<FileRecord<'a>, RecordFault> {
    const FILE_CHECKPOINT: u8 = 0xF0;
    let kind = first & 0xF0;
    let mut all = *body;
    if kind == FILE_CHECKPOINT && all.rest().is_ok_and(format::bytes::is_zero) {
        return Ok(FileRecord::Padding);
    }
    let (space, page_no) = (SpaceId(body.varint()?), body.varint()?);
    if page_no != 0 {
        return Err(RecordFault::Fields);
    }
    match kind {
        FILE_CHECKPOINT if space == SpaceId::SYSTEM => {
            let lsn = body.u64()?;
            body.ended(FileRecord::Checkpoint(Lsn(lsn)))
        }
        0x80 => Ok(FileRecord::Create { space, name: name(body.rest()?)? }),
        0x90 => Ok(FileRecord::Delete { space, name: name(body.rest()?)? }),
        0xA0 => {
            let both = body.rest()?;
            let middle = both.iter().position(|&byte| byte == 0).ok_or(RecordFault::FileName)?;
            let (from, to) = both.split_at_checked(middle).ok_or(RecordFault::FileName)?;
            Ok(FileRecord::Rename { space, from: name(from)?, to: name(to.get(1..).unwrap_or_default())? })
        }
        0xB0 => Ok(FileRecord::Modify { space, name: name(body.rest()?)? }),
        FILE_CHECKPOINT => Err(RecordFault::Fields),
        _ => Err(RecordFault::Type(first >> 4)),
    }
}

/// A name without zeros and with the file extension of tablespaces.
fn name(bytes: &[u8]) -> Result<&[u8], RecordFault> {
    let is_name = bytes.len() > SUFFIX.len() && bytes.ends_with(SUFFIX) && !bytes.contains(&0);
    if is_name { Ok(bytes) } else { Err(RecordFault::FileName) }
}
