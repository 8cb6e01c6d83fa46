//! `innokit redo info`: options in, the log's description out.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::time::SystemTime;

use datadir::Outcome;
use datadir::keys::KeyFiles;
use inspect::{RedoInfo, RedoInfoOptions, RedoState};

use crate::args::RedoInfoArgs;
use crate::document;
use crate::print::{grouped, human};
use crate::terminal::{self, shown};

/// Width of the labels on the left.
const LABEL: usize = 18;

/// With more tablespaces than this, the log's databases and largest tablespaces are listed.
const SPACES_MAX: usize = 40;
const LISTED: usize = 20;

/// Describes the log. Returns the exit status.
pub fn run(args: &RedoInfoArgs) -> Result<u8, Box<dyn Error>> {
    let keys = KeyFiles { keyrings: args.keyring.clone(), key_file: args.key_file.clone() };
    let started = SystemTime::now();
    let options = RedoInfoOptions { pages_max: args.pages, keys, selection: args.selected.selection() };
    let report = inspect::redo_info(&args.path, &options)?;
    let status = Outcome::of(report.state == RedoState::Damaged, false).exit_status();
    match print(&report, args.all, args.json.then_some((started, status))) {
        // The reader closed the pipe early (`| head`): not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(status)
}

fn print(report: &RedoInfo, all: bool, json: Option<(SystemTime, u8)>) -> io::Result<()> {
    let mut out = terminal::out();
    if let Some((started, status)) = json {
        document::write((started, status), false, report, &mut out)?;
    } else {
        facts(report, &mut out)?;
        tables(report, all, &mut out)?;
    }
    out.flush()
}

fn row(out: &mut impl Write, label: &str, value: &str) -> io::Result<()> {
    writeln!(out, "{label:<LABEL$} {}", shown(value))
}

fn facts(report: &RedoInfo, out: &mut impl Write) -> io::Result<()> {
    let encrypted = if report.encrypted { ", encrypted" } else { "" };
    row(out, "redo log", &format!("{} {}{encrypted}", report.family, report.format))?;
    // A log that is kept as an archive does not say.
    if !report.creator.is_empty() {
        row(out, "made by", &report.creator)?;
    }
    for file in &report.files {
        let text = format!("{}, {}, from LSN {}", file.path, human(file.bytes as f64), file.first_lsn);
        row(out, "file", &text)?;
    }
    let end = report.checkpoint.end_lsn.map(|lsn| format!(", taken when the log ended at {lsn}")).unwrap_or_default();
    row(out, "checkpoint", &format!("LSN {}{end}", report.checkpoint.lsn))?;
    if let Some(older) = &report.older_checkpoint {
        row(out, "checkpoint before", &format!("LSN {}", older.lsn))?;
    }
    row(out, "end of the log", &format!("LSN {}", report.end_lsn))?;
    let state = match report.state {
        RedoState::Clean => "clean: the data files have everything".to_owned(),
        RedoState::Damaged => "DAMAGED: the newest checkpoint is incomplete, and no server starts on it".to_owned(),
        RedoState::NeedsRecovery => format!("to recover: {} after the checkpoint", human(report.bytes as f64)),
    };
    row(out, "state", &state)?;
    if let (Some(mtrs), Some(pages)) = (report.mtrs, report.pages) {
        let records: u64 = report.records.iter().map(|row| row.records).sum();
        let (mtrs, records, pages) = (grouped(mtrs), grouped(records), grouped(pages));
        row(out, "after it", &format!("{mtrs} mini-transactions, {records} records, {pages} pages"))?;
    }
    report.note.as_ref().map_or(Ok(()), |note| row(out, "note", note))
}

fn tables(report: &RedoInfo, all: bool, out: &mut impl Write) -> io::Result<()> {
    if !report.records.is_empty() {
        writeln!(out, "\n{:<28} {:>12} {:>10}", "records", "number", "bytes")?;
    }
    for row in &report.records {
        writeln!(out, "{:<28} {:>12} {:>10}", row.name, grouped(row.records), human(row.bytes as f64))?;
    }
    tablespaces(report, all, out)?;
    if !report.busiest_pages.is_empty() {
        writeln!(out, "\n{:>10} {:>10} {:>12} {:>10}", "tablespace", "page", "records", "bytes")?;
    }
    for row in &report.busiest_pages {
        let (records, bytes) = (grouped(row.records), human(row.bytes as f64));
        writeln!(out, "{:>10} {:>10} {records:>12} {bytes:>10}", row.space_id, row.page_no)?;
    }
    Ok(())
}

/// Tablespaces by bytes of redo; of many, the databases and the largest.
fn tablespaces(report: &RedoInfo, all: bool, out: &mut impl Write) -> io::Result<()> {
    let rows = &report.tablespaces;
    if rows.is_empty() {
        return Ok(());
    }
    let is_summary = rows.len() > SPACES_MAX && !all;
    if is_summary {
        databases(report, out)?;
    }
    writeln!(out, "\n{:>10} {:>10} {:>12} {:>10}  name", "tablespace", "pages", "records", "bytes")?;
    for row in rows.iter().take(if is_summary { LISTED } else { usize::MAX }) {
        let (pages, records, bytes) = (grouped(row.pages), grouped(row.records), human(row.bytes as f64));
        let name = shown(row.name.as_deref().unwrap_or_default());
        writeln!(out, "{}", format!("{:>10} {pages:>10} {records:>12} {bytes:>10}  {name}", row.space_id).trim_end())?;
    }
    if is_summary {
        writeln!(out, "... and {} more (--all lists them)", grouped((rows.len() - LISTED) as u64))?;
    }
    Ok(())
}

/// The databases with the most redo.
fn databases(report: &RedoInfo, out: &mut impl Write) -> io::Result<()> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in &report.tablespaces {
        let name = row.name.as_deref().unwrap_or_default().trim_start_matches("./");
        let (tablespaces, bytes) = sums.entry(name.split_once('/').map_or("", |(database, _)| database)).or_default();
        *tablespaces += 1;
        *bytes += row.bytes;
    }
    let mut sums: Vec<(&str, (u64, u64))> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
    writeln!(
        out,
        "\n{} tablespaces are changed, in {} databases",
        grouped(report.tablespaces.len() as u64),
        grouped(sums.len() as u64)
    )?;
    writeln!(out, "\n{:>11} {:>10}  database", "tablespaces", "bytes")?;
    for (name, (tablespaces, bytes)) in sums.iter().take(LISTED) {
        let name = if name.is_empty() { "(the server's own, or without a name)".into() } else { shown(name) };
        writeln!(out, "{:>11} {:>10}  {name}", grouped(*tablespaces), human(*bytes as f64))?;
    }
    Ok(())
}
