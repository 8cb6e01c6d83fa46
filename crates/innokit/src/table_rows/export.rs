//! `innokit table export`.

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use inspect::rows::export::{ExportOptions, ExportReport, Geometry, SeparatedOptions, TextFormat, export};
use inspect::rows::key_range::KeyBounds;
use inspect::rows::reader::{OnDamage, Wanted};

use super::output::{RowsOutput, is_folder};
use super::{RowsArgs, print_pending};
use crate::document;
use crate::monitor::metrics::RowsRun;
use crate::print::{grouped, human, peak_memory};
use crate::progress::Bar;
use crate::terminal::{self, shown};

pub const EXPORT_EXAMPLES: &str = "\
Examples:
  innokit table export shop/orders.ibd --format csv > orders.csv
  innokit table export /backup/mysql --format jsonl -o dump/     one file per table
  innokit table export shop/orders.ibd --format sql | mysql shop
  innokit table export shop/orders.ibd --format parquet -o orders.parquet
  innokit table export orders.ibd --skip-damaged                 the readable rows of a damaged table
  innokit table export orders.ibd --create-table orders.sql      a file whose definition is lost
  innokit table export orders.ibd --deleted                      rows of a DELETE that was not purged yet

The rows are the newest versions in the pages. They include rows of transactions that had not committed, unless --committed leaves them \
out. After a clean shutdown there are no such rows; recover a crashed or copied datadir first (innokit recover).

Exit status:
  0  all rows of all tables were written
  1  damage found: with --skip-damaged all readable rows were written, without it those before the damage
  2  a table could not be exported for another reason";

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Fields between commas, strings in quotes.
    Csv,
    /// Fields between tabs: what LOAD DATA reads by default.
    Tsv,
    /// INSERT statements.
    Sql,
    /// One JSON object per line.
    Jsonl,
    /// Parquet, compressed by zstd (builds with the feature `parquet`).
    Parquet,
    /// An Arrow file, also known as Feather (builds with the feature `parquet`).
    Arrow,
}

/// `--wide-decimals`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WideDecimals {
    /// Text with all digits, which every reader accepts.
    Text,
    /// `decimal256`, which pyarrow reads, but Polars, DuckDB and Spark do not.
    Decimal256,
}

/// `--types`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Types {
    /// The server's, as exactly as Arrow has them.
    Exact,
    /// Those that Iceberg and Delta Lake have too: the next larger signed type for UNSIGNED, int64 microseconds for TIME, text for ENUM,
    /// JSON and UUID.
    Lakehouse,
}

/// `--geometry`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum GeometryForm {
    /// The bytes that the server stores, and can load again.
    Stored,
    /// Well-known text.
    Wkt,
}

/// Options of `table export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub rows: RowsArgs,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Csv, value_name = "FORMAT")]
    pub format: Format,

    /// Write to this file (one table), or one file per table into this directory [default: standard output, as with `-`].
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,

    /// Only these columns, in this order.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,

    /// Read this secondary index instead of the rows: its columns and those of the primary key, in its order.
    #[arg(long, value_name = "NAME")]
    pub index: Option<String>,

    /// Only rows whose key is between two values, both included: `5..90`, `2024-01-01..`. Compares the first column of the key, or the first
    /// ones: `(5,'a')..(5,'z')`. Reads only the pages that can hold such rows.
    #[arg(allow_hyphen_values = true, long, value_name = "FROM..TO")]
    pub where_key: Option<String>,

    /// Only the first N rows of each table.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,

    /// About N rows of each table, from leaves spread evenly over it.
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    pub sample: Option<u64>,

    /// Write rows in any order, which can be faster.
    #[arg(long)]
    pub unordered: bool,

    /// Write the readable rows of damaged tables, and list what is lost. If pages above the leaves are lost, search the whole file for
    /// leaves.
    #[arg(long)]
    pub skip_damaged: bool,

    /// Write deleted rows instead of live ones: rows that wait for purge, and rows in freed space that was not reused. The last column
    /// says which.
    #[arg(long)]
    pub deleted: bool,

    /// System-versioned tables of MariaDB: also write old row versions.
    #[arg(long)]
    pub history: bool,

    /// Only rows of committed transactions. Rows that other transactions inserted are left out. A table whose rows they changed or deleted
    /// is refused (with --skip-damaged: written without these rows), because the committed version is only in the undo logs. Needs a
    /// whole datadir.
    #[arg(long, conflicts_with = "deleted")]
    pub committed: bool,

    /// Print the outcome of each table as one JSON document on standard error.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Print the number of rows of each table on standard error.
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,

    /// Ends a field.
    #[arg(long, value_name = "TEXT", help_heading = "CSV and TSV")]
    pub fields_terminated_by: Option<String>,

    /// Encloses every field.
    #[arg(long, value_name = "CHAR", help_heading = "CSV and TSV")]
    pub fields_enclosed_by: Option<String>,

    /// Encloses every string.
    #[arg(long, value_name = "CHAR", conflicts_with = "fields_enclosed_by", help_heading = "CSV and TSV")]
    pub fields_optionally_enclosed_by: Option<String>,

    /// Escapes bytes that would have another meaning; empty: escape nothing.
    #[arg(long, value_name = "CHAR", help_heading = "CSV and TSV")]
    pub fields_escaped_by: Option<String>,

    /// Begins a line.
    #[arg(long, value_name = "TEXT", help_heading = "CSV and TSV")]
    pub lines_starting_by: Option<String>,

    /// Ends a line.
    #[arg(long, value_name = "TEXT", help_heading = "CSV and TSV")]
    pub lines_terminated_by: Option<String>,

    /// Write the column names as the first line.
    #[arg(long, help_heading = "CSV and TSV")]
    pub header: bool,

    /// Whose types columns have.
    #[arg(long, value_enum, default_value_t = Types::Exact, value_name = "TYPES", help_heading = "Parquet and Arrow")]
    pub types: Types,

    /// How to write a DECIMAL of more than 38 digits.
    #[arg(long, value_enum, default_value_t = WideDecimals::Text, value_name = "TYPE", help_heading = "Parquet and Arrow")]
    pub wide_decimals: WideDecimals,

    /// Compression level of zstd in Parquet files, from 1 (fast) to 22 (small).
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=22), help_heading = "Parquet and Arrow")]
    pub compression_level: i32,

    /// How to write geometries.
    #[arg(long, value_enum, default_value_t = GeometryForm::Stored, value_name = "FORM", help_heading = "CSV and TSV")]
    pub geometry: GeometryForm,
}

/// Exports the tables. Returns the exit status.
pub fn run_export(args: &ExportArgs) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    let options = options(args)?;
    let bar = Bar::new(args.rows.progress, Some(0));
    let file = args.output.as_deref().filter(|output| *output != Path::new("-"));
    let target = RowsOutput::new(file, extension(args.format));
    let report = match args.format {
        Format::Parquet | Format::Arrow => arrow_files(args, &options, &target, &bar),
        text => export_as(args, &options, &text_format(args, text)?, &target, &bar),
    };
    bar.finish();
    let report = match report {
        // The reader closed the pipe early (`| head`): it needs no words, and `run` sees to the status. Not every writer hands the error on.
        Err(_) if terminal::lost().is_some_and(|(kind, _)| *kind == io::ErrorKind::BrokenPipe) => return Ok(0),
        other => other?,
    };
    target.complete(&report, args.skip_damaged)?;
    let damaged = report.tables.iter().filter(|table| !table.damage.is_empty()).count() as u64;
    let refused =
        report.tables.iter().filter(|table| table.damage.is_empty() && table.refused.is_some()).count() as u64;
    let status = args.rows.write_metrics(&RowsRun {
        command: "export",
        status: report.exit_status(),
        seconds: report.seconds,
        rows: report.tables.iter().map(|table| table.rows).sum(),
        bytes: report.bytes_read,
        tables: [("sound", report.tables.len() as u64 - damaged - refused), ("damaged", damaged), ("refused", refused)],
        unread: report.unread.len() as u64,
    });
    let mut err = terminal::err();
    if args.json {
        document::write((started, status), false, &report, &mut err)?;
    } else {
        print_export(&report, args.verbose, &mut err)?;
    }
    Ok(status)
}

fn export_as<F: inspect::rows::export::Format>(
    args: &ExportArgs,
    options: &ExportOptions,
    format: &F,
    target: &RowsOutput<'_>,
    bar: &Bar,
) -> Result<ExportReport, datadir::Error> {
    let watch = bar.watch_total();
    export(&args.rows.paths, options, format, &mut |table| target.open(&table.name), watch.as_deref())
}

#[cfg(feature = "parquet")]
fn arrow_files(
    args: &ExportArgs,
    options: &ExportOptions,
    target: &RowsOutput<'_>,
    bar: &Bar,
) -> Result<ExportReport, datadir::Error> {
    let choices = arrow::ArrowOptions {
        wide_decimals: match args.wide_decimals {
            WideDecimals::Text => arrow::WideDecimals::Text,
            WideDecimals::Decimal256 => arrow::WideDecimals::Decimal256,
        },
        ..match args.types {
            Types::Exact => arrow::ArrowOptions::default(),
            Types::Lakehouse => arrow::ArrowOptions::lakehouse(),
        }
    };
    if args.format == Format::Arrow {
        return export_as(args, options, &arrow::ipc::ArrowFile::new(choices), target, bar);
    }
    let parquet = arrow::parquet::Parquet::new(choices, args.compression_level).map_err(datadir::Error::Usage)?;
    export_as(args, options, &parquet, target, bar)
}

#[cfg(not(feature = "parquet"))]
fn arrow_files(
    _args: &ExportArgs,
    _options: &ExportOptions,
    _target: &RowsOutput<'_>,
    _bar: &Bar,
) -> Result<ExportReport, datadir::Error> {
    Err(datadir::Error::Usage("this build has no Parquet and no Arrow: build with --features parquet".to_owned()))
}

fn print_export(report: &ExportReport, verbose: bool, out: &mut impl Write) -> io::Result<()> {
    for table in &report.tables {
        let name = shown(&table.table);
        if verbose {
            writeln!(out, "{}: {} rows, {}", name, grouped(table.rows), human(table.bytes as f64))?;
        }
        if !table.left_out.is_empty() {
            writeln!(
                out,
                "{}: left out, because the server computes them: {}",
                name,
                shown(&table.left_out.join(", "))
            )?;
        }
        for change in &table.changes {
            writeln!(out, "{}: column {}: {} {}", name, shown(&change.column), grouped(change.count), change.what)?;
        }
        if let Some(strays) = table.stray_leaves {
            writeln!(out, "{name}: {strays} leaves found that no page points to")?;
        }
        for note in &table.notes {
            writeln!(out, "{name}: {}", shown(note))?;
        }
        for damage in &table.damage {
            writeln!(out, "{name}: {}", shown(&damage.to_string()))?;
        }
        if let Some(why) = &table.refused {
            writeln!(out, "{name}: not exported: {}", shown(why))?;
        }
    }
    for why in &report.unread {
        writeln!(out, "{}", shown(why))?;
    }
    print_pending(&report.pending, "these are not the final rows", out)?;
    if report.tables.is_empty() {
        writeln!(out, "no table was found")?;
    }
    if verbose {
        let rows: u64 = report.tables.iter().map(|table| table.rows).sum();
        let rate = grouped((rows as f64 / report.seconds.max(1e-9)) as u64);
        writeln!(
            out,
            "{} rows, {} read in {:.2} s: {rate} rows/s",
            grouped(rows),
            human(report.bytes_read as f64),
            report.seconds
        )?;
        peak_memory(out)?;
    }
    Ok(())
}

fn options(args: &ExportArgs) -> Result<ExportOptions, String> {
    let mut scan = args.rows.scan();
    scan.on_damage = if args.skip_damaged { OnDamage::Skip } else { OnDamage::Stop };
    scan.wanted = if args.deleted { Wanted::Deleted } else { Wanted::Live };
    scan.rows_sampled = args.sample;
    Ok(ExportOptions {
        scan,
        page_size: args.rows.reading.page_size,
        keys: args.rows.reading.keys.files(),
        selection: args.rows.reading.selected.selection(),
        create_table: args.rows.create_table.clone(),
        only_file: args.output.clone().filter(|output| output.as_path() != Path::new("-") && !is_folder(output)),
        columns: args.columns.clone(),
        index: args.index.clone(),
        key_range: args.where_key.as_deref().map(KeyBounds::parse).transpose()?,
        limit: args.limit,
        unordered: args.unordered,
        committed: args.committed,
        history: args.history,
    })
}

fn text_format(args: &ExportArgs, format: Format) -> Result<TextFormat, String> {
    let mut separated = match format {
        Format::Sql => return Ok(TextFormat::Sql),
        Format::Jsonl => return Ok(TextFormat::JsonLines),
        Format::Tsv => SeparatedOptions::tsv(),
        _ => SeparatedOptions::csv(),
    };
    if let Some(text) = &args.fields_terminated_by {
        separated.field_end = unescaped(text);
    }
    if let Some(text) = &args.lines_terminated_by {
        separated.line_end = unescaped(text);
    }
    if let Some(text) = &args.lines_starting_by {
        separated.line_start = unescaped(text);
    }
    if let Some(text) = &args.fields_escaped_by {
        separated.escape = one_byte("--fields-escaped-by", text)?;
    }
    if let Some(text) = &args.fields_enclosed_by {
        (separated.quote, separated.quote_strings_only) = (one_byte("--fields-enclosed-by", text)?, false);
    }
    if let Some(text) = &args.fields_optionally_enclosed_by {
        (separated.quote, separated.quote_strings_only) = (one_byte("--fields-optionally-enclosed-by", text)?, true);
    }
    if let Some(letter) = separated.ambiguous() {
        return Err(format!(
            "`{letter}` cannot begin a separator: escaped within a value, it would mean something else"
        ));
    }
    separated.header = args.header;
    separated.geometry = match args.geometry {
        GeometryForm::Stored => Geometry::Stored,
        GeometryForm::Wkt => Geometry::Wkt,
    };
    Ok(TextFormat::Separated(separated))
}

/// Replaces `\t`, `\n`, `\r`, `\0` and `\\`, as SQL does.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match (byte, byte == b'\\') {
            (_, true) => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b'0') => 0,
                Some(other) => other,
                None => b'\\',
            },
            (byte, false) => byte,
        });
    }
    out
}

fn one_byte(option: &str, text: &str) -> Result<Option<u8>, String> {
    let bytes = if text == "\\" { vec![b'\\'] } else { unescaped(text) };
    match bytes.as_slice() {
        [] => Ok(None),
        [byte] => Ok(Some(*byte)),
        _ => Err(format!("{option} takes one byte, or nothing")),
    }
}

const fn extension(format: Format) -> &'static str {
    match format {
        Format::Csv => "csv",
        Format::Tsv => "tsv",
        Format::Sql => "sql",
        Format::Jsonl => "jsonl",
        Format::Parquet => "parquet",
        Format::Arrow => "arrow",
    }
}
