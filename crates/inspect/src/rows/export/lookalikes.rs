//! Values that a text format writes like another value of their column: the reader cannot tell them apart, so they are counted.

use format::value::{ValueKind, ValueType, json};

use super::format::Change;
use super::text::TextFormat;
use crate::rows::batch::{Cell, Row};
use crate::rows::plan::RowPlan;

/// Why a value looks like another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The number of the member `''`, which an ENUM's 0 and an empty SET look like.
    Empty(usize),
    /// JSON's null beside SQL's.
    Null,
}

impl Look {
    fn of(format: &TextFormat, value: &ValueType) -> Option<Self> {
        match (format, &value.kind) {
            // Statements name such members by their numbers, and quote a document.
            (TextFormat::Sql, _) => None,
            (TextFormat::JsonLines, ValueKind::Json) => Some(Self::Null),
            _ => value.empty_member().map(Self::Empty),
        }
    }

    fn is_of(self, value: &ValueType, stored: &[u8]) -> bool {
        match self {
            Self::Empty(member) => value.number_of_empty(member, stored).is_some(),
            Self::Null => json::is_null(stored),
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Empty(_) => {
                "values (an ENUM's number 0, a SET that begins with the member '') look like others of the column"
            }
            Self::Null => "JSON nulls look like NULL",
        }
    }
}

/// A column that may have such values.
struct Watched {
    /// Its place in the output.
    number: usize,
    name: String,
    value: ValueType,
    look: Look,
    count: u64,
}

/// Counts them.
pub(super) struct Lookalikes(Vec<Watched>);

impl Lookalikes {
    pub(super) fn new(format: &TextFormat, plan: &RowPlan) -> Self {
        let watched = plan.columns.iter().enumerate().filter_map(|(number, column)| {
            let look = Look::of(format, &column.value)?;
            Some(Watched { number, name: column.name.clone(), value: column.value.clone(), look, count: 0 })
        });
        Self(watched.collect())
    }

    /// Counts those of a row that was written.
    pub(super) fn count(&mut self, row: &Row<'_>) {
        for watched in &mut self.0 {
            if let Cell::Bytes(stored) = row.get(watched.number)
                && watched.look.is_of(&watched.value, stored)
            {
                watched.count += 1;
            }
        }
    }

    pub(super) fn changes(&self) -> Vec<Change> {
        let found = self.0.iter().filter(|watched| watched.count > 0);
        found
            .map(|watched| Change { column: watched.name.clone(), what: watched.look.what(), count: watched.count })
            .collect()
    }
}
