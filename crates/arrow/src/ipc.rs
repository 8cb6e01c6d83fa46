//! Arrow files: record batches as in memory, compressed by LZ4.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::SchemaRef;
use inspect::rows::Row;
use inspect::rows::export::{Change, Encoder, Format, Head, Output, Refused};
use inspect::rows::scan::RangeSize;

use crate::batch::BatchBuilder;
use crate::io_error;
use crate::types::{ArrowOptions, schema};

/// Leaves per range, bytes: what a worker collects before its turn.
const RANGE: u64 = 8 << 20;
/// A batch is closed at this many rows, or at this many bytes.
const BATCH_ROWS: usize = 1 << 16;
const BATCH_BYTES: usize = 16 << 20;

/// Rows as an Arrow file.
#[derive(Debug, Clone, Default)]
pub struct ArrowFile {
    options: ArrowOptions,
}

impl ArrowFile {
    /// A format with these options.
    #[must_use]
    pub const fn new(options: ArrowOptions) -> Self {
        Self { options }
    }
}

impl Format for ArrowFile {
    type Encoder = Batches;
    type Output = BatchFile;

    fn range(&self) -> RangeSize {
        RangeSize { bytes: RANGE, for_each_worker: 1 }
    }

    fn open(&self, head: &Head<'_>, out: Box<dyn Write + Send>) -> io::Result<BatchFile> {
        let schema = schema(head.plan, self.options, head.states);
        let options =
            IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).map_err(io_error)?;
        let out = Counted { out, bytes: 0 };
        let writer = FileWriter::try_new_with_options(out, &schema, options).map_err(io_error)?;
        Ok(BatchFile { writer, schema })
    }

    fn encoder(&self, head: &Head<'_>, out: &BatchFile) -> io::Result<Batches> {
        let rows = BatchBuilder::new(head.plan, self.options, head.states);
        if rows.schema().fields() != out.schema.fields() {
            return Err(io::Error::other("a partition has different columns from the others"));
        }
        Ok(Batches { rows })
    }
}

/// A worker's batch.
pub struct Batches {
    rows: BatchBuilder,
}

impl Encoder for Batches {
    type Piece = Option<RecordBatch>;

    fn row(&mut self, row: &Row<'_>) -> Result<(), Refused> {
        self.rows.push(row)
    }

    fn is_full(&mut self, _is_turn: &dyn Fn() -> bool) -> io::Result<bool> {
        Ok(self.rows.len() >= BATCH_ROWS || self.rows.bytes() >= BATCH_BYTES)
    }

    fn take(&mut self) -> io::Result<Option<RecordBatch>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        self.rows.take().map(Some).map_err(io_error)
    }

    fn changes(&self) -> Vec<Change> {
        self.rows.changes()
    }
}

/// An Arrow file.
pub struct BatchFile {
    writer: FileWriter<Counted>,
    schema: SchemaRef,
}

impl Output for BatchFile {
    type Piece = Option<RecordBatch>;

    fn write(&mut self, batch: Option<RecordBatch>) -> io::Result<()> {
        match batch {
            // The dictionaries of all batches are equal, and are written once. Every batch gets the file's own schema.
            Some(batch) => {
                self.writer.write(&batch.with_schema(Arc::clone(&self.schema)).map_err(io_error)?).map_err(io_error)
            }
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<u64> {
        self.writer.finish().map_err(io_error)?;
        Ok(self.writer.get_ref().bytes)
    }
}

struct Counted {
    out: Box<dyn Write + Send>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
