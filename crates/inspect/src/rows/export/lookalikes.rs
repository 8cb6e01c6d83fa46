//! Values that a text format writes like another value of their column, or with characters that their charset does not have: the reader cannot
//! tell what was stored, so they are counted.

use format::charset::{Charset, Reversible};
use format::value::{ValueKind, ValueType, json};

use super::format::Change;
use super::text::TextFormat;
use crate::rows::batch::{Cell, Row};
use crate::rows::plan::RowPlan;

/// Why a value looks like another one.
#[derive(Debug, Clone)]
enum Look {
    /// The number of the member `''`, which an ENUM's 0 and an empty SET look like.
    Empty(usize),
    /// JSON's null beside SQL's.
    Null,
    /// Text of which the servers make other bytes.
    Other(Reversible),
}

impl Look {
    fn of(format: &TextFormat, value: &ValueType) -> Option<Self> {
        match (format, &value.kind) {
            // Statements name such members by their numbers, and quote a document.
            (TextFormat::Sql, _) => None,
            (TextFormat::JsonLines, ValueKind::Json) => Some(Self::Null),
            (_, ValueKind::Text | ValueKind::Char { .. }) if value.charset != Charset::Utf8 => {
                Some(Self::Other(Reversible::new(value.charset)))
            }
            _ => value.empty_member().map(Self::Empty),
        }
    }

    fn is_of(&self, value: &ValueType, stored: &[u8]) -> bool {
        match self {
            Self::Empty(member) => value.number_of_empty(*member, stored).is_some(),
            Self::Null => json::is_null(stored),
            Self::Other(reversible) => !reversible.is(stored),
        }
    }

    const fn what(&self) -> &'static str {
        match self {
            Self::Empty(_) => {
                "values (an ENUM's number 0, a SET that begins with the member '') look like others of the column"
            }
            Self::Null => "JSON nulls look like NULL",
            Self::Other(_) => {
                "values have codes that a server would not make of this text again (--format sql has their bytes)"
            }
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
