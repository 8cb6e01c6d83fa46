//! Table definitions: columns and indexes, as far as needed to locate and order index records.
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
mod order;
pub mod placement;
pub mod quoted;
pub mod sdi;
pub mod sql;
pub mod types;

use std::sync::Arc;

use crate::kind::Family;
use crate::record::{Instant, Layout, RecordStyle};
use crate::types::{PageNo, SpaceId};

pub use column::{ColumnDef, ColumnDefault, Generated, InstantDefault, Versioned, Visibility};
pub use compare::{KeyCopy, compare_keys};
pub use declared::Declared;
pub use entry::{EntryImage, EntryPlan, RowDefaults};
pub use fields::{BuildError, FieldPart, IndexParts};
pub use order::KeyOrder;
pub use placement::Placement;
pub use types::{GeometryKind, SqlType};

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDef {
    /// The database; empty if the source does not give it.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The vendor whose server wrote the definition.
    pub family: Family,
    /// The server version that wrote the definition: 90704 is MySQL 9.7.4, 101119 MariaDB 10.11.19; 0 if the source does not give it.
    pub server_version: u32,
    /// Style of its records; `None` if only the pages show it.
    pub style: Option<RecordStyle>,
    /// The default collation of columns.
    pub collation: u16,
    /// How the server numbers NULL bits in its own rows: from 0, or from 1 after a marker. `CHECKSUM TABLE` depends on it.
    pub pack_record: bool,
    /// Its columns, including hidden and dropped ones, but not DB_ROW_ID, DB_TRX_ID and DB_ROLL_PTR.
    pub columns: Vec<ColumnDef>,
    /// Checks of the table, in source order.
    pub checks: Vec<CheckDef>,
    /// Its declaration except for columns and checks.
    pub declared: Declared,
    /// Its indexes that are trees, the clustered one first. Full-text indexes are not trees but separate tables.
    pub indexes: Vec<IndexDef>,
    /// Its partitions by name; empty for an unpartitioned table.
    pub partitions: Vec<PartitionDef>,
}

/// A check of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckDef {
    /// Its name.
    pub name: String,
    /// The condition.
    pub expression: String,
    /// Whether it is enforced: MySQL can switch checks off.
    pub enforced: bool,
}

/// A partition: the same indexes with roots of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDef {
    /// `p0`, or `p0#sp0` for a subpartition.
    pub name: String,
    /// Ids and roots of the table's indexes, in the order of [`TableDef::indexes`].
    pub roots: Vec<Option<IndexRoot>>,
    /// How its rows were altered; partitions may differ.
    pub instant: Instant,
}

/// The root of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexRoot {
    /// Its index id.
    pub id: u64,
    /// Its tablespace, if the source gives it.
    pub space: Option<SpaceId>,
    /// Its root page.
    pub root: PageNo,
}

/// The kind of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Its leaves are the rows.
    Clustered,
    /// Its leaves hold a key and the key of the row.
    Secondary,
    /// An R-tree.
    Spatial,
}

/// An index: a tree of records that all have these fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDef {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: IndexKind,
    /// Whether no two rows may have equal declared parts, NULL aside.
    pub unique: bool,
    /// Number of declared key fields; [`Layout::key_fields`] is the number in the tree.
    pub declared_parts: usize,
    /// Its root; `None` if the source does not give it (.frm), or if each partition has its own.
    pub root: Option<IndexRoot>,
    /// Style of its records, if the source gives it.
    pub style: Option<RecordStyle>,
    /// Whether a row may have several entries, or none, as with a JSON array.
    pub is_multi_valued: bool,
    /// Its fields in physical order.
    pub fields: Vec<FieldDef>,
    /// How to locate them in a record.
    pub layout: Layout,
    /// Which rows belong in it, if it is that of a partition, and that can be computed.
    pub placement: Option<Arc<Placement>>,
}

impl IndexDef {
    /// The field that has the whole column with this index in the table, not just a prefix.
    #[must_use]
    pub fn field_of(&self, column: usize) -> Option<usize> {
        self.fields.iter().position(|field| field.source == FieldSource::Column(column) && field.prefix.is_none())
    }
}

/// The meaning of an index field. Its storage is in the [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldDef {
    /// Its content.
    pub source: FieldSource,
    /// Length of the prefix it holds, in bytes; `None` for the whole column.
    pub prefix: Option<u32>,
    /// Descending order.
    pub descending: bool,
    /// How its values compare.
    pub order: KeyOrder,
    /// Bytes in REDUNDANT records, if fixed.
    pub redundant_len: Option<u16>,
    /// Upper limit of a variable-length value, in bytes; `None` if the type sets no limit worth checking.
    pub max_len: Option<u32>,
}

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldSource {
    /// A column: its index in [`TableDef::columns`].
    Column(usize),
    /// DB_ROW_ID, the key of tables that declare no usable one.
    RowId,
    /// DB_TRX_ID, the transaction that wrote the row.
    TrxId,
    /// DB_ROLL_PTR, which points to the row's previous version.
    RollPtr,
    /// MariaDB: a dropped column. Nothing else is known about it.
    Dropped,
}

impl IndexDef {
    /// Whether its leaves are the rows.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.kind == IndexKind::Clustered
    }

    /// Sets the root.
    #[must_use]
    pub fn at(mut self, root: IndexRoot) -> Self {
        self.root = Some(root);
        self
    }

    /// Sets how the rows were altered. Secondary indexes stay unchanged.
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
    /// All trees of the table, each with its root: its own indexes, or those of each partition, returned with the partition. Indexes
    /// without a known root are left out.
    pub fn trees(&self) -> impl Iterator<Item = (Option<&PartitionDef>, IndexDef)> + '_ {
        let own = self.indexes.iter().filter(|index| index.root.is_some()).map(|index| (None, index.clone()));
        let parts = self.partitions.iter().flat_map(|part| {
            let rooted = self.indexes.iter().zip(&part.roots);
            rooted.filter_map(move |(index, root)| Some((Some(part), index.clone().at((*root)?).altered(part.instant))))
        });
        own.chain(parts)
    }
}
