//! Parquet files. Each worker encodes all columns of the row groups of its ranges; the row groups go into the file in key order.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use inspect::rows::export::{Change, Encoder, Format, Head, Output, Refused};
use inspect::rows::scan::RangeSize;
use inspect::rows::{Row, RowPlan};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::batch::BatchBuilder;
use crate::io_error;
use crate::types::{ArrowOptions, schema};

/// A row group is closed at about this many bytes of leaves or of encoded columns.
const ROW_GROUP: u64 = 64 << 20;
/// Memory of all workers' row groups together, bytes.
const MEMORY_MAX: usize = 256 << 20;
/// Minimum size of a row group, however little memory there is.
const ROW_GROUP_MIN: usize = 4 << 20;
/// Maximum rows of a row group: readers give one to each thread.
const ROWS_MAX: usize = 1 << 20;
/// A column's dictionary is given up at this many bytes, half of what the library takes: a column with many distinct values would fill it
/// in every row group for nothing. A dictionary of 100,000 INTs still fits.
const DICTIONARY_MAX: usize = 512 << 10;
/// Rows encoded at a time.
const BATCH_ROWS: usize = 8192;
/// Bytes of rows encoded at a time, if rows are long.
const BATCH_BYTES: usize = 8 << 20;

/// Rows as Parquet, compressed by zstd, with statistics of pages and row groups.
#[derive(Debug, Clone)]
pub struct Parquet {
    options: ArrowOptions,
    /// Level of zstd.
    level: ZstdLevel,
}

impl Parquet {
    /// A format with this compression level.
    ///
    /// # Errors
    /// If zstd has no such level.
    pub fn new(options: ArrowOptions, level: i32) -> Result<Self, String> {
        let level = ZstdLevel::try_new(level).map_err(|error| error.to_string())?;
        Ok(Self { options, level })
    }

    fn properties(&self, plan: &RowPlan) -> WriterProperties {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(self.level))
            .set_dictionary_page_size_limit(DICTIONARY_MAX)
            .set_created_by(concat!("innokit ", env!("CARGO_PKG_VERSION")).to_owned());
        match unique_column(plan) {
            Some(name) => properties.set_column_dictionary_enabled(ColumnPath::from(name), false).build(),
            None => properties.build(),
        }
    }
}

/// The column that alone is the unique key of the index: a dictionary of its values would be built only to be given up.
fn unique_column(plan: &RowPlan) -> Option<&str> {
    let is_alone = plan.index.unique && plan.index.declared_parts == 1;
    let column = plan.columns.iter().find(|column| is_alone && column.field == 0)?;
    Some(&column.name)
}

impl Format for Parquet {
    type Encoder = RowGroups;
    type Output = ParquetFile;

    fn range(&self) -> RangeSize {
        RangeSize { bytes: ROW_GROUP, for_each_worker: 1 }
    }

    fn open(&self, head: &Head<'_>, out: Box<dyn Write + Send>) -> io::Result<ParquetFile> {
        let schema = schema(head.plan, self.options, head.states);
        let writer =
            ArrowWriter::try_new(out, Arc::clone(&schema), Some(self.properties(head.plan))).map_err(io_error)?;
        let (writer, factory) = writer.into_serialized_writer().map_err(io_error)?;
        Ok(ParquetFile { writer, factory: Arc::new(factory), schema })
    }

    fn encoder(&self, head: &Head<'_>, out: &ParquetFile) -> io::Result<RowGroups> {
        let rows = BatchBuilder::new(head.plan, self.options, head.states);
        if rows.schema().fields() != out.schema.fields() {
            return Err(io::Error::other("a partition has different columns from the others"));
        }
        let factory = Arc::clone(&out.factory);
        let bytes_max = (MEMORY_MAX / head.workers).clamp(ROW_GROUP_MIN, ROW_GROUP as usize);
        Ok(RowGroups { rows, factory, columns: Vec::new(), encoded: 0, bytes_max })
    }
}

/// A worker's row group.
pub struct RowGroups {
    rows: BatchBuilder,
    factory: Arc<ArrowRowGroupWriterFactory>,
    /// Empty between row groups.
    columns: Vec<ArrowColumnWriter>,
    /// Rows encoded into `columns`.
    encoded: usize,
    bytes_max: usize,
}

impl RowGroups {
    fn encode(&mut self) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        if self.columns.is_empty() {
            // The number of the row group matters only in encrypted files.
            self.columns = self.factory.create_column_writers(0).map_err(io_error)?;
        }
        let batch = self.rows.take().map_err(io_error)?;
        self.encoded += batch.num_rows();
        let mut writers = self.columns.iter_mut();
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array).map_err(io_error)? {
                if let Some(writer) = writers.next() {
                    writer.write(&leaf).map_err(io_error)?;
                }
            }
        }
        Ok(())
    }
}

impl Encoder for RowGroups {
    type Piece = Vec<ArrowColumnChunk>;

    fn row(&mut self, row: &Row<'_>) -> Result<(), Refused> {
        self.rows.push(row)
    }

    fn is_full(&mut self, _is_turn: &dyn Fn() -> bool) -> io::Result<bool> {
        if self.rows.len() < BATCH_ROWS && self.rows.bytes() < BATCH_BYTES {
            return Ok(false);
        }
        self.encode()?;
        let bytes: usize = self.columns.iter().map(ArrowColumnWriter::memory_size).sum();
        Ok(self.encoded >= ROWS_MAX || bytes >= self.bytes_max)
    }

    fn take(&mut self) -> io::Result<Vec<ArrowColumnChunk>> {
        self.encode()?;
        self.encoded = 0;
        self.columns.drain(..).map(|column| column.close().map_err(io_error)).collect()
    }

    fn changes(&self) -> Vec<Change> {
        self.rows.changes()
    }
}

/// A Parquet file.
pub struct ParquetFile {
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
    factory: Arc<ArrowRowGroupWriterFactory>,
    schema: SchemaRef,
}

impl Output for ParquetFile {
    type Piece = Vec<ArrowColumnChunk>;

    fn write(&mut self, columns: Vec<ArrowColumnChunk>) -> io::Result<()> {
        // A range without rows has no row group.
        if columns.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        for column in columns {
            column.append_to_row_group(&mut group).map_err(io_error)?;
        }
        group.close().map_err(io_error)?;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<u64> {
        self.writer.finish().map_err(io_error)?;
        Ok(self.writer.bytes_written() as u64)
    }
}
