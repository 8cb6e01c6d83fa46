//! What a table is: its columns and indexes, as far as finding and ordering the records of its indexes takes.
//!
//! ```text
//! SDI (MySQL 8.0 and later)  -> from_sdi  ┐
//! .frm (MariaDB, MySQL 5.7)  -> from_frm  ├-> TableDef { columns, indexes: IndexDef { fields, layout, id, root } }
//! known to every server      -> builtin   ┘
//! IndexDef + Record -> Layout::locate -> RecordFields -> compare_keys, EntryPlan
//! ```
//!
//! Facts: field lists of clustered and secondary indexes after `dict0dict.cc` and `dict0dd.cc` (MySQL 8.0) and `dict0mem.cc`
//! (MariaDB 10.11), lengths of types after `ha_innodb.cc`; compared with the data of both servers.

pub mod builtin;
pub mod charset;
pub mod collations;
mod column;
mod compare;
pub mod declared;
pub mod dictionary;
pub mod entry;
mod fields;
pub mod filename;
pub mod frm;
pub mod instant;
mod order;
pub mod sdi;
pub mod show;
pub mod show_create;
pub mod sql;
pub mod types;

use crate::page::kind::Family;
use crate::record::{Instant, Layout, RecordStyle};
use crate::types::{PageNo, SpaceId};

pub use column::{ColumnDef, ColumnDefault, Generated, InstantDefault, Versioned, Visibility};
pub use compare::compare_keys;
pub use declared::Declared;
pub use entry::{EntryImage, EntryPlan, RowDefaults};
pub use fields::{BuildError, FieldPart, IndexParts};
pub use order::KeyOrder;
pub use types::{GeometryKind, SqlType};

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDef {
    /// The database it is in; empty where the source does not say.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Which server wrote the definition.
    pub family: Family,
    /// The server that wrote the definition: 90704 is MySQL 9.7.4, 101119 MariaDB 10.11.19; 0 where the source does not say.
    pub server_version: u32,
    /// Shape of its records, where the definition says it; else the pages do.
    pub style: Option<RecordStyle>,
    /// The collation of columns that name none.
    pub collation: u16,
    /// How the server numbers NULL bits in its own rows: from 0, or from 1 after a marker. `CHECKSUM TABLE` depends on it.
    pub pack_record: bool,
    /// Its columns: those of the user, hidden and dropped ones among them, not DB_ROW_ID, DB_TRX_ID and DB_ROLL_PTR.
    pub columns: Vec<ColumnDef>,
    /// Checks of the whole table, in the order of the source.
    pub checks: Vec<CheckDef>,
    /// What its declaration says beside columns and checks.
    pub declared: Declared,
    /// Its indexes that are trees, the clustered one first. Full-text indexes are not: they are tables of their own.
    pub indexes: Vec<IndexDef>,
    /// Its partitions, by name; empty for a table of one piece.
    pub partitions: Vec<PartitionDef>,
}

/// A check of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckDef {
    /// Its name.
    pub name: String,
    /// What must hold.
    pub expression: String,
    /// Whether it is held: MySQL can leave checks aside.
    pub enforced: bool,
}

/// A partition: the same indexes elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDef {
    /// `p0`, or `p0#sp0` for a subpartition.
    pub name: String,
    /// Ids and roots of the table's indexes, in the order of [`TableDef::indexes`].
    pub roots: Vec<Option<IndexRoot>>,
    /// How its rows were altered, which is not the same in all partitions.
    pub instant: Instant,
}

/// Where an index begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexRoot {
    /// Its number.
    pub id: u64,
    /// Its tablespace, where the source says it.
    pub space: Option<SpaceId>,
    /// Its root page.
    pub root: PageNo,
}

/// What an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Its leaves are the rows.
    Clustered,
    /// Its leaves are keys and the key of the row.
    Secondary,
    /// An R-tree.
    Spatial,
}

/// An index: a tree of records that all have these fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDef {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: IndexKind,
    /// Whether no two rows may have the same declared parts, NULL aside.
    pub unique: bool,
    /// Fields of the key as declared; all fields of the key in the tree are [`Layout::key_fields`].
    pub declared_parts: usize,
    /// Where it begins; `None` where the source does not say (.frm), and where each partition has its own.
    pub root: Option<IndexRoot>,
    /// Shape of its records, where the source says it.
    pub style: Option<RecordStyle>,
    /// Several entries for one row (over a JSON array), or none.
    pub is_multi_valued: bool,
    /// Its fields in physical order.
    pub fields: Vec<FieldDef>,
    /// How to find them in a record.
    pub layout: Layout,
}

/// A field of an index, as far as its meaning goes. Its bytes are in the [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldDef {
    /// What it holds.
    pub source: FieldSource,
    /// Bytes of the column's beginning that the field holds; `None` = all of it.
    pub prefix: Option<u32>,
    /// Whether greater values come first.
    pub descending: bool,
    /// How its values compare.
    pub order: KeyOrder,
    /// Bytes in REDUNDANT records, where that is fixed.
    pub redundant_len: Option<u16>,
    /// Most bytes of a value of variable length; `None` where the type sets no limit worth testing.
    pub max_len: Option<u32>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldSource {
    /// A column: its place in [`TableDef::columns`].
    Column(usize),
    /// DB_ROW_ID, the key of tables that have no other.
    RowId,
    /// DB_TRX_ID, the transaction that wrote the row.
    TrxId,
    /// DB_ROLL_PTR, the way to the row's earlier version.
    RollPtr,
    /// MariaDB: a column that was dropped, of which nothing else is known.
    Dropped,
}

impl IndexDef {
    /// Whether its leaves are the rows.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.kind == IndexKind::Clustered
    }

    /// The same index with its root there.
    #[must_use]
    pub fn at(mut self, root: IndexRoot) -> Self {
        self.root = Some(root);
        self
    }

    /// The same index over rows that were altered in this way. Secondary indexes stay as they are.
    #[must_use]
    pub fn altered(mut self, instant: Instant) -> Self {
        if self.is_clustered() && instant != self.layout.instant() {
            let fields = self.layout.fields().to_vec();
            self.layout = Layout::new(fields, self.layout.key_fields(), self.layout.trx_id(), instant);
        }
        self
    }
}

impl TableDef {
    /// The indexes of all its pieces, each with its root: of the table itself, or of each of its partitions (whose name is given).
    /// Left out is what has no root here.
    pub fn trees(&self) -> impl Iterator<Item = (Option<&PartitionDef>, IndexDef)> + '_ {
        let own = self.indexes.iter().filter(|index| index.root.is_some()).map(|index| (None, index.clone()));
        let parts = self.partitions.iter().flat_map(|part| {
            let rooted = self.indexes.iter().zip(&part.roots);
            rooted.filter_map(move |(index, root)| Some((Some(part), index.clone().at((*root)?).altered(part.instant))))
        });
        own.chain(parts)
    }
}
