//! Record batches for another thread, in key order: `export_table -> BatchStream -> a bounded channel -> its reader`.
//!
//! Memory: the batches in the channel, and for each worker the rows of the range that it reads, at most about 64 MiB of them.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use inspect::rows::Row;
use inspect::rows::export::{Change, Encoder, Format, Head, Output, Refused};
use inspect::rows::scan::RangeSize;

use crate::batch::BatchBuilder;
use crate::io_error;
use crate::types::{ArrowOptions, schema};

/// Leaves per range if several workers read, bytes.
const RANGE: u64 = 8 << 20;
/// A batch of long rows is closed at this many bytes, even if it has few rows.
const BATCH_BYTES: usize = 32 << 20;
/// Once a worker has this many bytes of batches it waits for its turn.
const HELD_MAX: usize = 64 << 20;

/// Rows as record batches, sent to a channel. [`Format::open`] writes nothing to its `out`. A receiver that is dropped ends the export with
/// [`io::ErrorKind::BrokenPipe`].
#[derive(Debug, Clone)]
pub struct BatchStream {
    options: ArrowOptions,
    /// Rows of a batch, at most.
    rows_max: usize,
    /// Whether workers share the table.
    is_shared: bool,
    sender: SyncSender<RecordBatch>,
}

impl BatchStream {
    /// A format for `workers` workers, whose batches have `rows_max` rows at most, and fewer at the end of a range.
    #[must_use]
    pub fn new(options: ArrowOptions, rows_max: usize, workers: usize, sender: SyncSender<RecordBatch>) -> Self {
        Self { options, rows_max: rows_max.max(1), is_shared: workers > 1, sender }
    }
}

impl Format for BatchStream {
    type Encoder = StreamEncoder;
    type Output = StreamOutput;

    fn range(&self) -> RangeSize {
        RangeSize { bytes: if self.is_shared { RANGE } else { u64::MAX }, for_each_worker: 1 }
    }

    fn held(&self) -> usize {
        1
    }

    fn open(&self, head: &Head<'_>, _out: Box<dyn Write + Send>) -> io::Result<StreamOutput> {
        Ok(StreamOutput { sender: self.sender.clone(), schema: schema(head.plan, self.options, head.states), bytes: 0 })
    }

    fn encoder(&self, head: &Head<'_>, out: &StreamOutput) -> io::Result<StreamEncoder> {
        let rows = BatchBuilder::new(head.plan, self.options, head.states);
        if rows.schema().fields() != out.schema.fields() {
            return Err(io::Error::other("a partition has different columns from the others"));
        }
        Ok(StreamEncoder { rows, rows_max: self.rows_max, full: Vec::new(), held: 0, failed: None, keeps_rest: false })
    }
}

/// A worker's batches.
pub struct StreamEncoder {
    rows: BatchBuilder,
    rows_max: usize,
    /// Closed batches.
    full: Vec<RecordBatch>,
    /// Bytes of the closed batches.
    held: usize,
    failed: Option<ArrowError>,
    /// Whether the open batch stays for more rows when the closed ones are taken.
    keeps_rest: bool,
}

impl StreamEncoder {
    fn close(&mut self) {
        let bytes = self.rows.bytes();
        match self.rows.take() {
            Ok(batch) => {
                self.full.push(batch);
                self.held += bytes;
            }
            Err(error) => self.failed = Some(error),
        }
    }
}

impl Encoder for StreamEncoder {
    type Piece = Vec<RecordBatch>;

    fn row(&mut self, row: &Row<'_>) -> Result<(), Refused> {
        self.rows.push(row)?;
        if self.rows.len() >= self.rows_max {
            self.close();
        }
        Ok(())
    }

    fn is_full(&mut self, is_turn: &dyn Fn() -> bool) -> io::Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(io_error(error));
        }
        if self.rows.bytes() >= BATCH_BYTES {
            self.close();
        }
        self.keeps_rest = !self.full.is_empty() && (self.held >= HELD_MAX || is_turn());
        Ok(self.keeps_rest)
    }

    fn take(&mut self) -> io::Result<Vec<RecordBatch>> {
        if !std::mem::take(&mut self.keeps_rest) && !self.rows.is_empty() {
            self.close();
        }
        self.held = 0;
        match self.failed.take() {
            Some(error) => Err(io_error(error)),
            None => Ok(std::mem::take(&mut self.full)),
        }
    }

    fn changes(&self) -> Vec<Change> {
        self.rows.changes()
    }
}

/// The sending end.
pub struct StreamOutput {
    sender: SyncSender<RecordBatch>,
    schema: SchemaRef,
    bytes: u64,
}

impl Output for StreamOutput {
    type Piece = Vec<RecordBatch>;

    fn write(&mut self, batches: Vec<RecordBatch>) -> io::Result<()> {
        for batch in batches {
            self.bytes += batch.get_array_memory_size() as u64;
            let batch = batch.with_schema(Arc::clone(&self.schema)).map_err(io_error)?;
            self.sender.send(batch).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}
