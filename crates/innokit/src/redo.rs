//! `innokit redo info`: options in, the log's description out.

use std::error::Error;
use std::io::{self, Write};
use std::time::SystemTime;

use jobs::source::keys::KeyFiles;
use jobs::{RedoInfo, RedoInfoOptions, RedoState};

use crate::args::RedoInfoArgs;
use crate::document;
use crate::print::{grouped, human};
use crate::terminal::{self, shown};

/// Width of the labels on the left.
const LABEL: usize = 18;

/// Describes the log. Returns the exit status.
pub fn run(args: &RedoInfoArgs) -> Result<u8, Box<dyn Error>> {
    let keys = KeyFiles { keyrings: args.keyring.clone(), key_file: args.key_file.clone() };
    let started = SystemTime::now();
    let report = jobs::redo_info(&args.path, &RedoInfoOptions { pages_max: args.pages, keys })?;
    let status = u8::from(report.state == RedoState::Damaged);
    match print(&report, args.json.then_some((started, status))) {
        // The reader closed the pipe early (`| head`): not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(status)
}

fn print(report: &RedoInfo, json: Option<(SystemTime, u8)>) -> io::Result<()> {
    let mut out = terminal::out();
    if let Some((started, status)) = json {
        document::write((started, status), false, report, &mut out)?;
    } else {
        facts(report, &mut out)?;
        tables(report, &mut out)?;
    }
    out.flush()
}

fn row(out: &mut impl Write, label: &str, value: &str) -> io::Result<()> {
    writeln!(out, "{label:<LABEL$} {}", shown(value))
}

fn facts(report: &RedoInfo, out: &mut impl Write) -> io::Result<()> {
    let encrypted = if report.encrypted { ", encrypted" } else { "" };
    row(out, "redo log", &format!("{} {}{encrypted}", report.family, report.format))?;
    row(out, "made by", &report.creator)?;
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

fn tables(report: &RedoInfo, out: &mut impl Write) -> io::Result<()> {
    if !report.records.is_empty() {
        writeln!(out, "\n{:<28} {:>12} {:>10}", "records", "number", "bytes")?;
    }
    for row in &report.records {
        writeln!(out, "{:<28} {:>12} {:>10}", row.name, grouped(row.records), human(row.bytes as f64))?;
    }
    if !report.tablespaces.is_empty() {
        writeln!(out, "\n{:>10} {:>10} {:>12} {:>10}  name", "tablespace", "pages", "records", "bytes")?;
    }
    for row in &report.tablespaces {
        let (pages, records, bytes) = (grouped(row.pages), grouped(row.records), human(row.bytes as f64));
        let name = shown(row.name.as_deref().unwrap_or_default());
        writeln!(out, "{}", format!("{:>10} {pages:>10} {records:>12} {bytes:>10}  {name}", row.space_id).trim_end())?;
    }
    if !report.busiest_pages.is_empty() {
        writeln!(out, "\n{:>10} {:>10} {:>12} {:>10}", "tablespace", "page", "records", "bytes")?;
    }
    for row in &report.busiest_pages {
        let (records, bytes) = (grouped(row.records), human(row.bytes as f64));
        writeln!(out, "{:>10} {:>10} {records:>12} {bytes:>10}", row.space_id, row.page_no)?;
    }
    Ok(())
}
