//! Rows that met in a merge, on their way to what takes the differences.

use std::io;

use super::change::{Change, Changes, Compared};
use super::merge::Met;
use super::report::TableDiff;
use super::side::SideTables;
use super::stream::RowAt;

/// The differences in one table, as they are found.
pub(super) struct FoundRows<'f> {
    pub compared: Compared<'f>,
    pub sides: (&'f SideTables, &'f SideTables),
    /// The tablespaces of the trees that are compared now.
    pub spaces: (usize, usize),
    pub diff: TableDiff,
    pub changes: &'f mut dyn Changes,
    /// Whether [`Changes::begin`] was called, or [`Changes::lone`] stands for it.
    pub has_begun: bool,
    /// Whether rows are passed on: it was not refused.
    is_taken: bool,
    pub differing: Vec<usize>,
}

impl<'f> FoundRows<'f> {
    pub fn new(
        compared: Compared<'f>,
        sides: (&'f SideTables, &'f SideTables),
        diff: TableDiff,
        changes: &'f mut dyn Changes,
    ) -> Self {
        Self { compared, sides, spaces: (0, 0), diff, changes, has_begun: false, is_taken: true, differing: Vec::new() }
    }

    /// Rows that follow without [`Changes::begin`].
    #[must_use]
    pub fn begun(self) -> Self {
        Self { has_begun: true, ..self }
    }

    /// Takes a row, or two of one key.
    pub fn take(&mut self, met: Met<'_>) -> io::Result<()> {
        let plan = self.compared.plan;
        let (before, after) = match met {
            Met::OnlyA(row) => (Some(row), None),
            Met::OnlyB(row) => (None, Some(row)),
            Met::Both(a, b) => {
                plan.differing(a, b, &mut self.differing);
                if self.differing.is_empty() {
                    return Ok(());
                }
                (Some(a), Some(b))
            }
        };
        if !std::mem::replace(&mut self.has_begun, true)
            && let Err(why) = self.changes.begin(self.compared)?
        {
            (self.diff.refused, self.is_taken) = (Some(why), false);
        }
        let open = |side: &SideTables, space, row: Option<&RowAt>| {
            row.map(|row| plan.transaction(row)).filter(|number| side.is_open(space, *number))
        };
        let open = open(self.sides.1, self.spaces.1, after).or_else(|| open(self.sides.0, self.spaces.0, before));
        let differing = if before.is_some() && after.is_some() { self.differing.as_slice() } else { &[] };
        if self.is_taken
            && self.diff.refused.is_none()
            && let Err(why) = self.changes.row(&Change { plan, before, after, differing, open })?
        {
            self.diff.refused = Some(why);
        }
        let count = match (before.is_some(), after.is_some()) {
            (true, true) => &mut self.diff.changed,
            (true, false) => &mut self.diff.removed,
            _ => &mut self.diff.added,
        };
        *count += 1;
        self.diff.not_committed += u64::from(open.is_some());
        Ok(())
    }

    pub fn end(mut self) -> io::Result<TableDiff> {
        if self.has_begun {
            self.diff.inexact = self.changes.end()?;
        }
        self.diff.is_cut = self.has_begun && self.is_taken && !self.diff.is_decided();
        Ok(self.diff)
    }
}
