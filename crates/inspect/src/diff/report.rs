//! The result of a comparison.

use datadir::Outcome;
use datadir::redo_log::Pending;
use serde::Serialize;

use crate::rows::damage::RowDamage;

/// What is known about a table after a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Both have it.
    InBoth,
    /// Only A has it.
    OnlyInA,
    /// Only B has it.
    OnlyInB,
}

/// The differences in one table.
#[derive(Debug, Clone, Serialize)]
pub struct TableDiff {
    /// `schema.table`.
    pub table: String,
    /// Who has it.
    pub found: Found,
    /// Rows that only B has.
    pub added: u64,
    /// Rows that only A has.
    pub removed: u64,
    /// Rows that both have, with other values.
    pub changed: u64,
    /// Of all these, rows of transactions that had not committed.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_committed: u64,
    /// Lines of the definition that only one has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub definition: Vec<String>,
    /// Columns that were not compared, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_compared: Vec<String>,
    /// Pages with rows or above them that were read of both.
    pub pages_read: u64,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<RowDamage>,
    /// Why the rows were not compared, or not all, although nothing is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What the output does not say exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inexact: Option<String>,
    /// Whether some of its differences were passed on, and others could not be found.
    #[serde(skip)]
    pub is_cut: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TableDiff {
    pub(super) fn new(table: &str, found: Found) -> Self {
        Self {
            table: table.to_owned(),
            found,
            added: 0,
            removed: 0,
            changed: 0,
            not_committed: 0,
            definition: Vec::new(),
            not_compared: Vec::new(),
            pages_read: 0,
            damage: Vec::new(),
            refused: None,
            inexact: None,
            is_cut: false,
        }
    }

    /// Whether both have the same rows and the same definition, as far as they were compared.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.found == Found::InBoth && self.added + self.removed + self.changed == 0 && self.definition.is_empty()
    }

    /// Whether that was found out completely.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.refused.is_none() && self.damage.is_empty()
    }
}

/// The differences in all tables.
#[derive(Debug, Clone, Serialize)]
pub struct DiffReport {
    /// The tables that differ or could not be compared, by name.
    pub tables: Vec<TableDiff>,
    /// Tables without a difference.
    pub same: usize,
    /// Files that should hold a table but could not be read, and why.
    pub unread: Vec<String>,
    /// Datadirs of these files that still need crash recovery, which will change the rows.
    pub pending: Vec<Pending>,
    /// Notes about a side: transactions that had not committed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Pages with rows or above them that were read of both.
    pub pages_read: u64,
    /// Elapsed time.
    pub seconds: f64,
}

impl DiffReport {
    /// Like `diff`: 0 if all is the same, 1 if something differs, 2 if something could not be compared.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let is_open = !self.unread.is_empty() || !self.pending.is_empty() || (self.tables.is_empty() && self.same == 0);
        let is_open = is_open || self.tables.iter().any(|table| !table.is_decided());
        // A table that was read on one side only says nothing about whether the sets differ.
        Outcome::of_comparison(is_open, Outcome::of(!self.tables.is_empty(), false)).exit_status()
    }
}
