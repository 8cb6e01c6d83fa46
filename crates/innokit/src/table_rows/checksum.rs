//! `innokit table checksum`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use inspect::rows::checksum::{ChecksumOptions, ChecksumReport, Comparison, TableChecksum, checksums};

use super::{RowsArgs, print_pending};
use crate::document;
use crate::monitor::metrics::RowsRun;
use crate::print::{grouped, human, written};
use crate::progress::Bar;
use crate::terminal::{self, shown};

pub const CHECKSUM_EXAMPLES: &str = "\
Examples:
  innokit table checksum shop/orders.ibd                the value of CHECKSUM TABLE
  innokit table checksum /backup/mysql                  the values of every table
  innokit table checksum /backup --compare live.txt     compared with `mysql -N -e 'CHECKSUM TABLE …' > live.txt`

Exit status:
  0  every table has a value, and it is the expected one
  1  a value is not the expected one, a table is missing, or damage was found
  2  a table has no value for another reason: a virtual column, no definition, another engine";

/// Options of `table checksum`.
#[derive(Debug, Args)]
pub struct ChecksumArgs {
    #[command(flatten)]
    pub rows: RowsArgs,

    /// Compare the values with those in this file. A line is a table's name and its value, as `mysql -N` prints CHECKSUM TABLE.
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,

    /// Print one JSON document instead of text.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Prints the checksums. Returns the exit status.
pub fn checksum(args: &ChecksumArgs) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    let expected = args.compare.as_deref().map(expected).transpose()?;
    let options = ChecksumOptions {
        scan: args.rows.scan(),
        page_size: args.rows.reading.page_size,
        keys: args.rows.reading.keys.files(),
        selection: args.rows.reading.selected.selection(),
        create_table: args.rows.create_table.clone(),
        expected,
    };
    let bar = Bar::new(args.rows.progress, Some(0));
    let report = checksums(&args.rows.paths, &options, bar.watch_total().as_deref())?;
    bar.finish();
    let damaged = report.tables.iter().filter(|table| !table.damage.is_empty()).count() as u64;
    let without = report.tables.iter().filter(|table| table.not_computable.is_some()).count() as u64;
    let sound = report.tables.iter().filter(|table| table.checksum.is_some()).count() as u64;
    let status = args.rows.write_metrics(&RowsRun {
        command: "checksum",
        status: report.exit_status(),
        seconds: report.seconds,
        rows: report.rows,
        bytes: report.bytes,
        tables: [("sound", sound), ("damaged", damaged), ("refused", without)],
        unread: report.unread.len() as u64,
    });
    written(print(&report, args.json.then_some((started, status))), status)
}

fn print(report: &ChecksumReport, json: Option<(SystemTime, u8)>) -> io::Result<()> {
    let mut out = terminal::out();
    match json {
        Some(head) => document::write(head, false, report, &mut out)?,
        None => print_checksums(report, &mut out)?,
    }
    out.flush()
}

/// Reads the expected values from lines of a table's name and its value.
fn expected(path: &Path) -> Result<BTreeMap<String, u32>, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut values = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let parts = line.rsplit_once(['\t', ' ']);
        let (name, value) =
            parts.ok_or_else(|| format!("{}: line {}: expected a table and a value", path.display(), number + 1))?;
        // Skip a value that is not a number: NULL for a table that does not exist, and the header that the client prints without -N.
        if let Ok(value) = value.parse() {
            values.insert(name.trim().to_owned(), value);
        }
    }
    Ok(values)
}

fn print_checksums(report: &ChecksumReport, out: &mut impl Write) -> io::Result<()> {
    for table in &report.tables {
        let value = table.checksum.map_or_else(|| "none".to_owned(), |value| value.to_string());
        writeln!(out, "{}\t{value}{}", shown(&table.table), remark(table))?;
        for damage in &table.damage {
            writeln!(out, "  damage: {}", shown(&damage.to_string()))?;
        }
        for note in &table.notes {
            writeln!(out, "  note: {}", shown(note))?;
        }
        if let Some(why) = &table.not_computable {
            writeln!(out, "  no value: {}", shown(why))?;
        }
    }
    for name in &report.missing {
        writeln!(out, "{}\tmissing: it is in the list, but not in the files", shown(name))?;
    }
    for other in &report.of_other_engines {
        let file = other.file.display();
        writeln!(out, "{}\tnot computed: its rows are in {file}, and innokit reads InnoDB's only", other.table)?;
    }
    out.flush()?;
    let mut err = terminal::err();
    for why in &report.unread {
        writeln!(err, "{}", shown(why))?;
    }
    print_pending(&report.pending, "these are not the final values", &mut err)?;
    let rate = report.rows as f64 / report.seconds.max(1e-9);
    writeln!(
        err,
        "{} tables, {} rows, {} read in {:.2} s: {} rows/s",
        report.tables.len(),
        grouped(report.rows),
        human(report.bytes as f64),
        report.seconds,
        grouped(rate as u64)
    )
}

fn remark(table: &TableChecksum) -> String {
    let older = table.checksum_without_generated;
    let older = older.map(|value| format!("\t(MariaDB up to 10.11.19: {value})")).unwrap_or_default();
    let compared = match (table.comparison, table.expected) {
        (Some(Comparison::Equal), _) => "\tequal".to_owned(),
        (Some(Comparison::Different), Some(expected)) => format!("\tDIFFERENT: expected {expected}"),
        (Some(Comparison::Unexpected), _) => "\tnot in the list".to_owned(),
        _ => String::new(),
    };
    older + &compared
}
