//! The facts needed to locate the fields of an index's records: how long each field is, and which records have it.

/// Length of the reference to an off-page value, at the end of the prefix kept in the record.
pub const REFERENCE_BYTES: usize = 20;

/// How a field's length is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Always this many bytes.
    Fixed(u16),
    /// As many bytes as the record's header says.
    Variable {
        /// Whether the length may take two bytes: the column's declared maximum exceeds 255 bytes, or it is a BLOB.
        big: bool,
    },
}

/// The storage of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldLayout {
    /// Its length in compact records. REDUNDANT records store the length of every field.
    pub storage: Storage,
    /// Whether it can be NULL. System columns cannot.
    pub nullable: bool,
    /// MySQL 8.0.29 and later: the row version that added it; 0 if it was there from the start.
    pub added: u16,
    /// MySQL 8.0.29 and later: the row version that dropped it.
    pub dropped: Option<u16>,
}

impl FieldLayout {
    /// A field that every record has.
    #[must_use]
    pub const fn new(storage: Storage, nullable: bool) -> Self {
        Self { storage, nullable, added: 0, dropped: None }
    }

    /// Whether records of row version `version` have it.
    #[inline]
    #[must_use]
    pub fn is_in_version(&self, version: u16) -> bool {
        self.added <= version && self.dropped.is_none_or(|dropped| dropped > version)
    }
}

/// How a table was altered without rewriting its rows. Recorded for the clustered index only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Instant {
    /// Not at all: every record has every field.
    #[default]
    None,
    /// MySQL: by row versions, by counts of fields, or by both.
    MySql {
        /// Fields of an unmarked record, if columns were added by MySQL 8.0.12 to 8.0.28.
        core: Option<u16>,
    },
    /// MariaDB: records with the status [`Instant`](super::Status::Instant) have more fields than others.
    MariaDb {
        /// Fields of a record without that status.
        core: u16,
        /// Whether the metadata record has a reference to a field map, after DB_ROLL_PTR: columns were dropped or moved.
        has_map: bool,
    },
}

/// The fields of an index's records in physical order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<FieldLayout>,
    key_fields: usize,
    instant: Instant,
    /// Bytes of the null bitmap in a leaf record with all fields.
    leaf_null_bytes: usize,
    /// Bytes of the null bitmap in a node pointer.
    node_null_bytes: usize,
    /// Index of DB_TRX_ID; clustered indexes only.
    trx_id: Option<usize>,
}

impl Layout {
    /// The layout of an index whose node pointers have the first `key_fields` of `fields`. `trx_id` is the index of DB_TRX_ID in a
    /// clustered index.
    #[must_use]
    pub fn new(fields: Vec<FieldLayout>, key_fields: usize, trx_id: Option<usize>, instant: Instant) -> Self {
        let count = |in_it: &dyn Fn(&FieldLayout) -> bool| fields.iter().filter(|f| f.nullable && in_it(f)).count();
        let leaf_null_bytes = count(&|_| true).div_ceil(8);
        // Node pointers of a clustered index have null bits for the nullable fields that its rows had initially.
        let node_nullable = match (trx_id, instant) {
            (None, _) => fields.iter().take(key_fields).filter(|field| field.nullable).count(),
            (Some(_), Instant::None) => count(&|_| true),
            (Some(_), Instant::MySql { core: None }) => count(&|field| field.added == 0),
            (Some(_), Instant::MySql { core: Some(core) } | Instant::MariaDb { core, .. }) => {
                let first = fields.iter().filter(|field| field.added == 0).take(usize::from(core));
                first.filter(|field| field.nullable).count()
            }
        };
        Self { leaf_null_bytes, node_null_bytes: node_nullable.div_ceil(8), fields, key_fields, instant, trx_id }
    }

    /// Sets another size for the null bitmap of node pointers, bytes.
    #[must_use]
    pub fn with_node_null_bytes(mut self, bytes: usize) -> Self {
        self.node_null_bytes = bytes;
        self
    }

    /// The fields in physical order.
    #[must_use]
    pub fn fields(&self) -> &[FieldLayout] {
        &self.fields
    }

    /// Number of fields in a node pointer. They decide the order of records.
    #[must_use]
    pub const fn key_fields(&self) -> usize {
        self.key_fields
    }

    /// How the table was altered.
    #[must_use]
    pub const fn instant(&self) -> Instant {
        self.instant
    }

    /// Index of DB_TRX_ID, which DB_ROLL_PTR follows; `None` in secondary indexes.
    #[must_use]
    pub const fn trx_id(&self) -> Option<usize> {
        self.trx_id
    }

    /// Whether it is a clustered index, whose leaves are the rows.
    #[must_use]
    pub const fn is_clustered(&self) -> bool {
        self.trx_id.is_some()
    }

    pub(crate) const fn leaf_null_bytes(&self) -> usize {
        self.leaf_null_bytes
    }

    pub(super) const fn node_null_bytes(&self) -> usize {
        self.node_null_bytes
    }
}

/// Which fields of the layout a record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Present {
    /// All fields.
    All,
    /// This many fields, from the first.
    First(usize),
    /// This many of the fields not added by a row version.
    FirstUnversioned(usize),
    /// The fields of a row version.
    Version(u16),
}

impl Present {
    /// Whether the record has `field`, given how many fields and how many unversioned fields precede it.
    #[inline]
    pub(super) fn has(self, field: &FieldLayout, before: usize, unversioned: usize) -> bool {
        match self {
            Self::All => true,
            Self::First(count) => before < count,
            Self::FirstUnversioned(count) => field.added == 0 && unversioned < count,
            Self::Version(version) => field.is_in_version(version),
        }
    }
}
