//! From rows to record batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use format::charset::Charset;
use format::value::{ValueKind, ValueType};
use inspect::rows::export::Change;
use inspect::rows::{Cell, Row, RowPlan};

use crate::column::{CHANGES, ColumnBuilder, Pushed};
use crate::types::{ArrowOptions, schema};

/// Collects rows of one plan; [`BatchBuilder::take`] turns them into a batch.
#[derive(Debug)]
pub struct BatchBuilder {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    /// The state of each row, if that is a column.
    states: Option<ColumnBuilder>,
    rows: usize,
    /// For each column, the number of values changed for each reason.
    changed: Vec<[u64; CHANGES.len()]>,
    /// The changes of the current row: the column, and the reason.
    changed_now: Vec<(usize, usize)>,
}

impl BatchBuilder {
    /// A builder for the rows of `plan`. With `states`, a last column gives the state of each row.
    #[must_use]
    pub fn new(plan: &RowPlan, options: ArrowOptions, states: bool) -> Self {
        let schema = schema(plan, options, states);
        let column = |(column, field): (&inspect::rows::RowColumn, &Arc<arrow_schema::Field>)| {
            let srid = plan.table.columns.get(column.column).and_then(|def| def.srid);
            ColumnBuilder::new(Arc::clone(field), column.value.clone(), srid)
        };
        let columns: Vec<ColumnBuilder> = plan.columns.iter().zip(schema.fields()).map(column).collect();
        let text = ValueType::new(ValueKind::Text, Charset::Utf8, None);
        let states = schema.fields().last().filter(|_| states);
        let states = states.map(|field| ColumnBuilder::new(Arc::clone(field), text, None));
        let changed = vec![[0; CHANGES.len()]; columns.len()];
        Self { schema, columns, states, rows: 0, changed, changed_now: Vec::new() }
    }

    /// The schema of all batches.
    #[must_use]
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows since the last batch.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows since the last batch.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Approximate size of these rows in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(ColumnBuilder::bytes).sum()
    }

    /// Appends a complete row, or nothing.
    ///
    /// # Errors
    /// The column whose value cannot be read, and why.
    pub fn push(&mut self, row: &Row<'_>) -> Result<(), (usize, String)> {
        self.changed_now.clear();
        for (number, column) in self.columns.iter_mut().enumerate() {
            let pushed = match row.get(number) {
                Cell::Null => column.push_null(),
                Cell::Bytes(stored) => column.push(stored),
                Cell::Lost(why) => Err(why.to_owned()),
            };
            match pushed {
                Ok(Pushed::Whole) => {}
                Ok(Pushed::Changed(why)) => self.changed_now.push((number, why)),
                Err(why) => {
                    self.forget_last();
                    return Err((number, why));
                }
            }
        }
        if let Some(states) = &mut self.states
            && let Err(why) = states.push(row.state().word().as_bytes())
        {
            self.forget_last();
            return Err((self.columns.len(), why));
        }
        self.rows += 1;
        for (column, why) in self.changed_now.drain(..) {
            if let Some(count) = self.changed.get_mut(column).and_then(|counts| counts.get_mut(why)) {
                *count += 1;
            }
        }
        Ok(())
    }

    fn forget_last(&mut self) {
        let rows = self.rows;
        self.columns.iter_mut().chain(&mut self.states).for_each(|column| column.truncate(rows));
    }

    /// Takes the rows since the last batch.
    ///
    /// # Errors
    /// If Arrow rejects an array.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.iter_mut().chain(&mut self.states).map(ColumnBuilder::take);
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }

    /// The values that Arrow's types could not represent, over all rows so far.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let of = |(counts, field): (&[u64; CHANGES.len()], &Arc<arrow_schema::Field>)| {
            let name = field.name().clone();
            counts
                .iter()
                .zip(CHANGES)
                .filter(|(count, _)| **count > 0)
                .map(move |(count, what)| Change { column: name.clone(), what, count: *count })
                .collect::<Vec<_>>()
        };
        self.changed.iter().zip(self.schema.fields()).flat_map(of).collect()
    }
}
