//! InnoDB's own dictionary, in the system tablespace of MariaDB and of MySQL up to 5.7: REDUNDANT tables with fields that are the
//! same on every server. It tells which index of which table begins where. MySQL 8.0 and later keep none ([`super::sdi`]).
//!
//! Facts: `dict0boot.h` and `dict0crea.cc` of MySQL 5.7 and MariaDB 10.11.

use super::IndexRoot;
use crate::bytes::be;
use crate::page::fil::FIL_PAGE_DATA;
use crate::record::{Record, RecordFields};
use crate::types::{PageNo, SpaceId};

/// The page of the system tablespace that names the roots.
pub const DICT_HDR_PAGE_NO: PageNo = PageNo(7);
const DICT_HDR_TABLES: usize = FIL_PAGE_DATA + 32;
const DICT_HDR_INDEXES: usize = FIL_PAGE_DATA + 44;

/// Where the dictionary's tables begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictionaryRoots {
    /// SYS_TABLES: [`SysTable`].
    pub tables: PageNo,
    /// SYS_INDEXES: [`SysIndex`].
    pub indexes: PageNo,
}

impl DictionaryRoots {
    /// Reads the dictionary's header, page [`DICT_HDR_PAGE_NO`]; `None` where there is no dictionary.
    #[must_use]
    pub fn read(page: &[u8]) -> Option<Self> {
        let root =
            |offset| be::u32_at(page, offset).filter(|page_no| *page_no != 0 && *page_no != u32::MAX).map(PageNo);
        Some(Self { tables: root(DICT_HDR_TABLES)?, indexes: root(DICT_HDR_INDEXES)? })
    }
}

/// A table, or a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysTable {
    /// `database/table`, both as their files are called; partitions have `#P#` and their name after it.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// Its tablespace.
    pub space: SpaceId,
}

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysIndex {
    /// Number of its table.
    pub table_id: u64,
    /// Its name; in the course of being built it begins with a byte FF.
    pub name: String,
    /// Its type bits: 1 clustered, 2 unique, 32 full-text, 64 spatial.
    pub kind: u32,
    /// Where it begins.
    pub root: IndexRoot,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl SysTable {
    /// Reads a leaf record of SYS_TABLES whose fields were found by [`crate::record::redundant::locate_stored`].
    #[must_use]
    pub fn read(record: &Record<'_>, fields: &RecordFields) -> Option<Self> {
        let field = |number| fields.bytes(record.page(), number);
        Some(Self { name: text(field(0)?), id: be::u64_at(field(3)?, 0)?, space: SpaceId(be::u32_at(field(9)?, 0)?) })
    }
}

impl SysIndex {
    /// Reads a leaf record of SYS_INDEXES whose fields were found by [`crate::record::redundant::locate_stored`].
    #[must_use]
    pub fn read(record: &Record<'_>, fields: &RecordFields) -> Option<Self> {
        let field = |number| fields.bytes(record.page(), number);
        let root = IndexRoot {
            id: be::u64_at(field(1)?, 0)?,
            space: Some(SpaceId(be::u32_at(field(7)?, 0)?)),
            root: PageNo(be::u32_at(field(8)?, 0)?),
        };
        Some(Self { table_id: be::u64_at(field(0)?, 0)?, name: text(field(4)?), kind: be::u32_at(field(6)?, 0)?, root })
    }
}
