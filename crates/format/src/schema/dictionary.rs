//! InnoDB's own dictionary in the system tablespace of MariaDB, and of MySQL up to 5.7: REDUNDANT tables with the same fields on every
//! server. It gives the root of each table's indexes. MySQL 8.0 and later use SDI instead ([`super::sdi`]).
//!
//! Facts: `dict0boot.h` and `dict0crea.cc` of MySQL 5.7 and MariaDB 10.11.

use super::IndexRoot;
use super::declared::Rule;
use crate::bytes::be;
use crate::fil::FIL_PAGE_DATA;
use crate::record::{Record, RecordFields};
use crate::types::{PageNo, SpaceId};

/// The page of the system tablespace with the roots.
pub const DICT_HDR_PAGE_NO: PageNo = PageNo(7);
const DICT_HDR_TABLES: usize = FIL_PAGE_DATA + 32;
const DICT_HDR_INDEXES: usize = FIL_PAGE_DATA + 44;

/// Roots of the dictionary's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictionaryRoots {
    /// SYS_TABLES: [`SysTable`].
    pub tables: PageNo,
    /// SYS_INDEXES: [`SysIndex`].
    pub indexes: PageNo,
}

impl DictionaryRoots {
    /// Reads the dictionary header, page [`DICT_HDR_PAGE_NO`]; `None` if there is no dictionary.
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
    /// `database/table` in file name spelling; partitions append `#P#` and their name.
    pub name: String,
    /// Its id.
    pub id: u64,
    /// Its tablespace.
    pub space: SpaceId,
    /// Columns stored in its rows, without those that InnoDB adds to every table.
    pub columns: u16,
    /// Whether `ALTER TABLE ... DISCARD TABLESPACE` removed its file.
    pub is_discarded: bool,
}

/// Flag in SYS_TABLES.MIX_LEN: the tablespace was discarded (`DICT_TF2_DISCARDED`).
const TABLE_DISCARDED: u32 = 1 << 5;
/// In N_COLS: the number of stored columns. The number of virtual ones is above it.
const COLS_STORED: u32 = 0xFFFF;
/// Flag in SYS_TABLES.N_COLS: rows are not REDUNDANT. Without it, MIX_LEN may be left over from servers before MySQL 4.1.
const COLS_COMPACT: u32 = 1 << 31;

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysIndex {
    /// Id of its table.
    pub table_id: u64,
    /// Its name; under construction it starts with a byte FF.
    pub name: String,
    /// Its type bits: 1 clustered, 2 unique, 32 full-text, 64 spatial.
    pub kind: u32,
    /// Its root.
    pub root: IndexRoot,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl SysTable {
    /// Reads a leaf record of SYS_TABLES, with fields located by [`crate::record::redundant::locate_stored`].
    #[must_use]
    pub fn read(record: &Record<'_>, fields: &RecordFields) -> Option<Self> {
        let field = |number| fields.bytes(record.page(), number);
        let number = |place| be::u32_at(field(place)?, 0);
        let flags = number(7).filter(|_| number(4).is_some_and(|columns| columns & COLS_COMPACT != 0));
        Some(Self {
            name: text(field(0)?),
            id: be::u64_at(field(3)?, 0)?,
            space: SpaceId(number(9)?),
            columns: (number(4)? & COLS_STORED) as u16,
            is_discarded: flags.is_some_and(|flags| flags & TABLE_DISCARDED != 0),
        })
    }
}

impl SysIndex {
    /// Reads a leaf record of SYS_INDEXES, with fields located by [`crate::record::redundant::locate_stored`].
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

/// The path of a tablespace: a row of SYS_DATAFILES, in MySQL 5.6 and 5.7, and MariaDB up to 10.5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysDatafile {
    /// Its space id.
    pub space: SpaceId,
    /// Its file, relative to the datadir or absolute.
    pub path: String,
}

impl SysDatafile {
    /// Reads a leaf record, with fields located by [`crate::record::redundant::locate_stored`].
    #[must_use]
    pub fn read(record: &Record<'_>, fields: &RecordFields) -> Option<Self> {
        let field = |number| fields.bytes(record.page(), number);
        Some(Self { space: SpaceId(be::u32_at(field(0)?, 0)?), path: text(field(3)?) })
    }
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysForeign {
    /// Its name, preceded by the database if the server generated it.
    pub id: String,
    /// The referencing table: `database/table` in file name spelling.
    pub table: String,
    /// The referenced table.
    pub other_table: String,
    /// The rule for deleted rows of the referenced table.
    pub on_delete: Rule,
    /// The rule for changed keys of the referenced table.
    pub on_update: Rule,
}

/// A column of a foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysForeignColumn {
    /// [`SysForeign::id`].
    pub key: String,
    /// Its position in the key, from 0.
    pub position: u32,
    /// The column.
    pub column: String,
    /// The referenced column.
    pub other_column: String,
}

const DELETE_CASCADE: u32 = 1;
const DELETE_SET_NULL: u32 = 2;
const UPDATE_CASCADE: u32 = 4;
const UPDATE_SET_NULL: u32 = 8;
const DELETE_NO_ACTION: u32 = 16;
const UPDATE_NO_ACTION: u32 = 32;

/// The rule for the first bit set.
const fn rule(bits: u32, cascade: u32, set_null: u32, no_action: u32) -> Rule {
    if bits & cascade != 0 {
        Rule::Cascade
    } else if bits & set_null != 0 {
        Rule::SetNull
    } else if bits & no_action != 0 {
        Rule::NoAction
    } else {
        Rule::Default
    }
}

impl SysForeign {
    /// Reads a leaf record of SYS_FOREIGN, with fields located by [`crate::record::redundant::locate_stored`].
    #[must_use]
    pub fn read(record: &Record<'_>, fields: &RecordFields) -> Option<Self> {
        let field = |number| fields.bytes(record.page(), number);
        // The number of columns has the rules in its upper byte.
        let bits = be::u32_at(field(5)?, 0)? >> 24;
        Some(Self {
            id: text(field(0)?),
            table: text(field(3)?),
            other_table: text(field(4)?),
            on_delete: rule(bits, DELETE_CASCADE, DELETE_SET_NULL, DELETE_NO_ACTION),
            on_update: rule(bits, UPDATE_CASCADE, UPDATE_SET_NULL, UPDATE_NO_ACTION),
        })
    }
}

impl SysForeignColumn {
    /// Reads a leaf record of SYS_FOREIGN_COLS, with fields located by [`crate::record::redundant::locate_stored`].
    #[must_use]
    pub fn read(record: &Record<'_>, fields: &RecordFields) -> Option<Self> {
        let field = |number| fields.bytes(record.page(), number);
        let (column, other_column) = (text(field(4)?), text(field(5)?));
        Some(Self { key: text(field(0)?), position: be::u32_at(field(1)?, 0)?, column, other_column })
    }
}
