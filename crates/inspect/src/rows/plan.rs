//! Which columns to read from which fields of an index, and how to read their bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use format::Family;
use format::charset::Charset;
use format::record::{Record, RecordFields};
use format::schema::{FieldSource, IndexDef, InstantDefault, TableDef, Versioned, Visibility};
use format::value::{ValueKind, ValueType};

use super::key_range::KeyRange;

const TRX_ID_BYTES: usize = 6;
const ROLL_PTR_BYTES: usize = 7;
/// Flag in a roll pointer: the row was inserted, so there is no earlier version.
const ROLL_PTR_INSERT: u64 = 1 << 55;

/// A column to read.
#[derive(Debug, Clone)]
pub struct RowColumn {
    /// Its index in [`TableDef::columns`].
    pub column: usize,
    /// Its name.
    pub name: String,
    /// Its index among the index's fields.
    pub field: usize,
    /// How to read its bytes.
    pub value: ValueType,
    /// Whether it can be NULL.
    pub nullable: bool,
}

/// How to read the rows of one tree.
#[derive(Debug, Clone)]
pub struct RowPlan {
    /// The table.
    pub table: Arc<TableDef>,
    /// The index whose leaves are read, in the layout of its records.
    pub index: IndexDef,
    /// Number of the index.
    pub index_id: u64,
    /// The columns, in output order.
    pub columns: Vec<RowColumn>,
    /// For each field, the value of rows older than its column.
    pub defaults: Vec<Option<InstantDefault>>,
    /// Requested columns that no leaf stores: virtual generated ones.
    pub left_out: Vec<String>,
    /// For a system-versioned table, if historical rows are not wanted: the field that says until when a row was valid.
    pub until: Option<usize>,
    /// The range of keys; all if `None`.
    pub keys: Option<KeyRange>,
    /// Open transactions, if their rows are not wanted.
    pub open: Option<Arc<BTreeSet<u64>>>,
}

/// The owner of a row, if open transactions matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Of a transaction that has committed.
    Committed,
    /// Inserted by an open transaction.
    Inserted,
    /// Changed or deleted by this open transaction: the committed version is in the undo log.
    Changed(u64),
}

/// The end of time in a row that is still valid: before MariaDB 11.5, since then, and with transaction-based versioning.
const NOW: [&[u8]; 3] =
    [&[0x7F, 0xFF, 0xFF, 0xFF, 0x0F, 0x42, 0x3F], &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x42, 0x3F], &[0xFF; 8]];

impl RowPlan {
    /// Every column that the server shows, as far as the leaves of `index` store it; or only those in `only`.
    ///
    /// # Errors
    /// A column of `only` does not exist, or no leaf has it.
    pub fn new(table: &Arc<TableDef>, index: IndexDef, only: Option<&[String]>) -> Result<Self, String> {
        let index_id = index.root.map_or(0, |root| root.id);
        let (mut columns, mut left_out) = (Vec::new(), Vec::new());
        let shown = |at: &usize| {
            let column = table.columns.get(*at);
            column.is_some_and(|column| {
                matches!(column.visibility, Visibility::Visible | Visibility::Invisible) && column.dropped.is_none()
            })
        };
        let wanted: Vec<usize> = match only {
            None => (0..table.columns.len()).filter(shown).collect(),
            Some(names) => names.iter().map(|name| place(table, name)).collect::<Result<_, _>>()?,
        };
        for at in wanted {
            let Some(column) = table.columns.get(at) else { continue };
            match index.field_of(at) {
                Some(field) => columns.push(row_column(table, at, field)),
                None if only.is_some() => {
                    return Err(format!("the value of column {} is not in index {}", column.name, index.name));
                }
                None => left_out.push(column.name.clone()),
            }
        }
        let default = |source| match source {
            FieldSource::Column(at) => table.columns.get(at).and_then(|column| column.instant_default.clone()),
            _ => None,
        };
        let defaults = index.fields.iter().map(|field| default(field.source)).collect();
        Ok(Self {
            table: Arc::clone(table),
            index,
            index_id,
            columns,
            defaults,
            left_out,
            until: None,
            keys: None,
            open: None,
        })
    }

    /// Leaves out the historical rows that a system-versioned table keeps.
    #[must_use]
    pub fn current(mut self) -> Self {
        let ends = |column: &format::schema::ColumnDef| column.versioned == Versioned::RowEnd;
        let column = self.table.columns.iter().position(ends);
        self.until = column.and_then(|column| self.index.field_of(column));
        self
    }

    /// Whether a row is historical, given its [`RowPlan::until`] field.
    #[must_use]
    pub fn is_past(until: &[u8]) -> bool {
        !NOW.contains(&until)
    }

    /// A plan for every column that `CHECKSUM TABLE` includes and that rows store.
    #[must_use]
    pub fn for_checksum(table: &Arc<TableDef>, index: IndexDef) -> Self {
        let mut plan = Self {
            index_id: index.root.map_or(0, |root| root.id),
            defaults: Vec::new(),
            columns: Vec::new(),
            left_out: Vec::new(),
            until: None,
            keys: None,
            open: None,
            table: Arc::clone(table),
            index,
        };
        for (at, column) in table.columns.iter().enumerate() {
            let counts = column.visibility != Visibility::Hidden && column.dropped.is_none();
            if let Some(field) = plan.index.field_of(at).filter(|_| counts) {
                plan.columns.push(row_column(table, at, field));
            }
        }
        let default = |source| match source {
            FieldSource::Column(at) => table.columns.get(at).and_then(|column| column.instant_default.clone()),
            _ => None,
        };
        plan.defaults = plan.index.fields.iter().map(|field| default(field.source)).collect();
        plan
    }

    /// The columns' fields, if their bytes are the values; `None` if some must be decompressed.
    #[must_use]
    pub fn fields_on_page(&self) -> Option<Vec<u16>> {
        let field = |column: &RowColumn| u16::try_from(column.field).ok().filter(|_| !column.value.compressed);
        self.columns.iter().map(field).collect()
    }

    /// Whether transaction id and roll pointer are both zero, which they are in no row that was ever written.
    pub(super) fn is_wiped(&self, page: &[u8], fields: &RecordFields) -> bool {
        let is_zero = |field: usize| fields.bytes(page, field).is_none_or(|bytes| bytes.iter().all(|byte| *byte == 0));
        self.index.layout.trx_id().is_some_and(|at| is_zero(at) && is_zero(at + 1))
    }

    /// The row's owner, from its system columns.
    pub(super) fn owner(&self, page: &[u8], fields: &RecordFields) -> Owner {
        let Some(open) = &self.open else { return Owner::Committed };
        let number = |at: usize, len: usize| {
            let bytes = fields.bytes(page, at).filter(|bytes| bytes.len() == len)?;
            Some(bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)))
        };
        let Some(at) = self.index.layout.trx_id() else { return Owner::Committed };
        let Some(transaction) = number(at, TRX_ID_BYTES).filter(|transaction| open.contains(transaction)) else {
            return Owner::Committed;
        };
        match number(at + 1, ROLL_PTR_BYTES) {
            Some(pointer) if pointer & ROLL_PTR_INSERT != 0 => Owner::Inserted,
            _ => Owner::Changed(transaction),
        }
    }

    /// The vendor whose server wrote the table.
    #[must_use]
    pub fn family(&self) -> Family {
        self.table.family
    }
}

fn place(table: &TableDef, name: &str) -> Result<usize, String> {
    let found = table.columns.iter().position(|column| {
        column.name.eq_ignore_ascii_case(name) && column.visibility != Visibility::Hidden && column.dropped.is_none()
    });
    found.ok_or_else(|| format!("the table has no column {name}"))
}

fn row_column(table: &TableDef, at: usize, field: usize) -> RowColumn {
    let column = table.columns.get(at);
    RowColumn {
        column: at,
        name: column.map(|column| column.name.clone()).unwrap_or_default(),
        field,
        value: column.map_or(ValueType::new(ValueKind::Unknown, Charset::Binary, None), ValueType::of),
        nullable: column.is_some_and(|column| column.nullable),
    }
}

impl RowPlan {
    /// A record's key in words, `id = 17`; `None` for the leftmost node pointer, and if it cannot be read.
    #[must_use]
    pub fn key_text(&self, record: &Record<'_>) -> Option<String> {
        if record.is_min_rec() {
            return None;
        }
        let mut fields = RecordFields::new();
        self.index.layout.locate(record, &mut fields).ok()?;
        let text = |number: usize| {
            let field = self.index.fields.get(number)?;
            let FieldSource::Column(at) = field.source else { return Some("DB_ROW_ID".to_owned()) };
            let column = self.table.columns.get(at)?;
            let mut out = Vec::new();
            match fields.bytes(record.page(), number) {
                None => out.extend_from_slice(b"NULL"),
                Some(stored) => ValueType::of(column).write_readable(stored, &mut out).ok()?,
            }
            Some(format!("{} = {}", column.name, String::from_utf8_lossy(&out)))
        };
        let parts: Option<Vec<String>> = (0..self.index.declared_parts.max(1)).map(text).collect();
        Some(parts?.join(", "))
    }
}
