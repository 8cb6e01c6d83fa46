//! Rows as text in any format: what comes before, between and after them.

use std::io::{self, Write};

use super::format::{Change, Encoder, Format, Head, Output, Refused};
use super::lookalikes::Lookalikes;
use super::row_text::RowText;
use super::separated::SeparatedOptions;
use crate::rows::batch::Row;
use crate::rows::plan::RowPlan;
use crate::rows::scan::RangeSize;
use crate::rows::source::TableSource;

/// A worker's encoded text is written once it exceeds this many bytes and it is the range's turn.
pub const CHUNK: usize = 4 << 20;
/// With this much text, a worker waits for its turn.
const CHUNK_MAX: usize = 4 * CHUNK;

/// The text format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextFormat {
    /// CSV, TSV.
    Separated(SeparatedOptions),
    /// INSERT statements.
    Sql,
    /// JSON lines.
    JsonLines,
}

/// A writer for rows of this plan.
#[must_use]
pub fn writer(format: &TextFormat, table: &TableSource, plan: &RowPlan, states: bool) -> Box<dyn RowText + Send> {
    match format {
        TextFormat::Separated(options) => Box::new(super::separated::Separated::new(options.clone(), plan, states)),
        TextFormat::Sql => Box::new(super::sql::Inserts::new(&table.name, plan, states)),
        TextFormat::JsonLines => Box::new(super::jsonl::JsonLines::new(plan, states)),
    }
}

/// Writes what precedes a table's rows.
pub fn write_head(format: &TextFormat, table: &TableSource, plan: &RowPlan, states: bool, out: &mut Vec<u8>) {
    match format {
        TextFormat::Separated(options) if options.header => {
            super::separated::write_names(options, plan, states, out);
        }
        TextFormat::Sql => super::sql::write_head(&table.name, plan, out),
        _ => {}
    }
}

/// Ranges per worker: enough for all workers to finish at about the same time.
const RANGES_A_WORKER: usize = 16;

impl Format for TextFormat {
    type Encoder = TextEncoder;
    type Output = TextOutput;

    fn range(&self) -> RangeSize {
        // A range's text should fit what a worker holds until its turn comes.
        RangeSize { bytes: CHUNK as u64, for_each_worker: RANGES_A_WORKER }
    }

    fn held(&self) -> usize {
        1
    }

    fn open(&self, head: &Head<'_>, mut out: Box<dyn Write + Send>) -> io::Result<TextOutput> {
        let mut text = Vec::new();
        write_head(self, head.table, head.plan, head.states, &mut text);
        out.write_all(&text)?;
        Ok(TextOutput { out, bytes: text.len() as u64 })
    }

    fn encoder(&self, head: &Head<'_>, _out: &TextOutput) -> io::Result<TextEncoder> {
        let text = writer(self, head.table, head.plan, head.states);
        Ok(TextEncoder { text, out: Vec::new(), lookalikes: Lookalikes::new(self, head.plan) })
    }
}

/// Encodes rows as text.
pub struct TextEncoder {
    text: Box<dyn RowText + Send>,
    out: Vec<u8>,
    lookalikes: Lookalikes,
}

impl Encoder for TextEncoder {
    type Piece = Vec<u8>;

    fn row(&mut self, row: &Row<'_>) -> Result<(), Refused> {
        if self.out.is_empty() {
            self.out.reserve(CHUNK + CHUNK / 4);
            self.text.begin(&mut self.out);
        }
        self.text.row(row, &mut self.out)?;
        self.lookalikes.count(row);
        Ok(())
    }

    fn is_full(&mut self, is_turn: &dyn Fn() -> bool) -> io::Result<bool> {
        Ok(self.out.len() >= CHUNK_MAX || self.out.len() >= CHUNK && is_turn())
    }

    fn take(&mut self) -> io::Result<Vec<u8>> {
        if !self.out.is_empty() {
            self.text.end(&mut self.out);
        }
        Ok(std::mem::take(&mut self.out))
    }

    fn changes(&self) -> Vec<Change> {
        self.lookalikes.changes()
    }
}

/// A file of text.
pub struct TextOutput {
    out: Box<dyn Write + Send>,
    bytes: u64,
}

impl Output for TextOutput {
    type Piece = Vec<u8>;

    fn write(&mut self, piece: Vec<u8>) -> io::Result<()> {
        self.bytes += piece.len() as u64;
        self.out.write_all(&piece)
    }

    fn finish(&mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }
}
