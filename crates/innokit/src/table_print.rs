//! The text of `innokit table`: findings first, one per line, then the indexes, then the sums.

use std::collections::BTreeMap;
use std::io::{self, Write};

use datadir::{FindingCode, Severity};
use inspect::TableReport;
use inspect::report::table_finding::TableFinding;
use inspect::table::{IndexReport, TreeKind};

use crate::print::{Lines, Style, fold, grouped, human, lines_max, peak_memory, pending, result};
use crate::terminal::{Paint, shown};
use crate::{count_summary, hurt_print};

/// Findings; every index if `verbose`; the summary unless `quiet`.
pub fn check(report: &TableReport, style: Style, out: &mut impl Paint) -> io::Result<()> {
    let Style { quiet, verbose, .. } = style;
    findings(report, Lines { each: verbose, max: lines_max(verbose || style.all) }, quiet, out)?;
    if let Some(tables) = &report.tables {
        hurt_print::verdicts(tables, out)?;
    }
    if verbose {
        indexes(report, out)?;
        left_out(report, out)?;
        for file in &report.skipped {
            writeln!(out, "{}: skipped: {}", shown(&file.path), shown(&file.why))?;
        }
    }
    if !quiet {
        if report.totals.findings > 0 || verbose || report.tables.is_some() {
            writeln!(out)?;
        }
        summary(report, verbose, out)?;
    }
    if !report.hurt.is_empty() {
        writeln!(out)?;
        hurt_print::hurt(&report.hurt, out)?;
    }
    Ok(())
}

/// Every index with its rows, or a summary of many, and why some could not be counted.
pub fn counts(report: &TableReport, style: Style, out: &mut impl Write) -> io::Result<()> {
    let all = style.all || style.verbose;
    findings(report, Lines { each: true, max: lines_max(all) }, style.quiet, out)?;
    if all || !count_summary::is_needed(report) {
        indexes(report, out)?;
    } else {
        count_summary::text(report, out)?;
    }
    if !style.quiet {
        writeln!(out, "time    {:.2} s", report.totals.seconds)?;
    }
    Ok(())
}

fn findings(report: &TableReport, lines: Lines, quiet: bool, out: &mut impl Write) -> io::Result<()> {
    let kind = |finding: &&TableFinding| (finding.path.clone(), finding.index_id, finding.rule, finding.severity as u8);
    let totals = &report.totals;
    let is_troubled = totals.damage + totals.undecided > 0;
    let is_note = |finding: &&TableFinding| finding.severity == Severity::Notice;
    // What a running server may explain is not read without that.
    let is_said = |finding: &&TableFinding| {
        !is_note(finding) || (is_troubled && finding.rule == FindingCode::SERVER_RUNNING) || !quiet
    };
    let listed: Vec<&TableFinding> = report.findings.iter().filter(is_said).collect();
    fold(&listed, lines, kind, |finding| line(finding), |finding| finding.page.map(|page| (page, 1)), out)?;
    let notes = listed.iter().filter(|finding| is_note(finding)).count() as u64;
    let all = if quiet { totals.damage + totals.undecided + notes } else { totals.findings };
    let hidden = all.saturating_sub(listed.len() as u64);
    if hidden > 0 {
        writeln!(out, "... and {} more findings (see --max-findings)", grouped(hidden))?;
    }
    let unread = || report.files.iter().filter_map(|file| Some((&file.path, file.error.as_ref()?)));
    for (path, error) in unread().take(lines.max) {
        writeln!(out, "{}: not checked: {}", shown(path), shown(error))?;
    }
    match unread().count().saturating_sub(lines.max) {
        0 => Ok(()),
        more => writeln!(out, "... and {} more files not checked (--all prints them)", grouped(more as u64)),
    }
}

/// `shop/t.ibd: index b of shop.t: page 7, record at byte 126: what is wrong [rule]`.
pub fn line(finding: &TableFinding) -> String {
    let index = match (&finding.index, finding.index_id) {
        (Some(name), _) => format!(" index {name}"),
        (None, Some(id)) => format!(" index {id}"),
        (None, None) => String::new(),
    };
    let table = finding.table.as_ref().map(|table| format!(" of {table}")).unwrap_or_default();
    let named = if index.is_empty() { String::new() } else { format!("{index}{table}:") };
    let page = match (finding.page, finding.record) {
        (Some(page), Some(record)) => format!(" page {page}, record at byte {record}:"),
        (Some(page), None) => format!(" page {page}:"),
        (None, _) => String::new(),
    };
    let weight = match finding.severity {
        Severity::Damage => "damage",
        Severity::Undecided => "undecided",
        Severity::Notice => "note",
    };
    let text = format!("{named}{page} {weight}: {} [{}]", finding.message, finding.rule);
    format!("{}:{}", shown(&finding.path), shown(&text))
}

fn indexes(report: &TableReport, out: &mut impl Write) -> io::Result<()> {
    for file in report.files.iter().filter(|file| file.error.is_none()) {
        for index in &file.indexes {
            one_index(&file.path, index, out)?;
        }
    }
    Ok(())
}

/// `shop/t.ibd: index b of shop.t: 3 rows, ...`.
pub fn one_index(path: &str, index: &IndexReport, out: &mut impl Write) -> io::Result<()> {
    let incomplete = if index.complete { "" } else { ", and more that could not be seen" };
    writeln!(
        out,
        "{}: {}: {} rows, {} deleted, {} pages on {} {}, {:.3} s{incomplete}",
        shown(path),
        shown(&title(index)),
        grouped(index.rows),
        grouped(index.deleted),
        grouped(index.pages),
        index.levels,
        if index.levels == 1 { "level" } else { "levels" },
        index.seconds
    )
}

fn title(index: &IndexReport) -> String {
    let name = index.name.clone().unwrap_or_else(|| index.id.to_string());
    let table = index.table.as_ref().map(|table| format!(" of {table}")).unwrap_or_default();
    match index.kind {
        TreeKind::Clustered => format!("clustered index {name}{table}"),
        TreeKind::Spatial => format!("spatial index {name}{table}"),
        TreeKind::Secondary | TreeKind::Sdi | TreeKind::Unknown => format!("index {name}{table}"),
    }
}

/// What was not checked, with the number of indexes affected.
fn left_out(report: &TableReport, out: &mut impl Write) -> io::Result<()> {
    for (clause, (indexes, first)) in left_out_clauses(report) {
        let where_it_is = if indexes == 1 { first } else { format!("{first} and {} more", grouped(indexes - 1)) };
        writeln!(out, "not checked: {clause} ({})", shown(&where_it_is))?;
    }
    Ok(())
}

fn left_out_clauses(report: &TableReport) -> BTreeMap<&str, (u64, String)> {
    let mut clauses: BTreeMap<&str, (u64, String)> = BTreeMap::new();
    for file in &report.files {
        let of_indexes =
            file.indexes.iter().flat_map(|index| index.left_out.iter().map(move |clause| (clause, Some(index))));
        for (clause, index) in of_indexes.chain(file.left_out.iter().map(|clause| (clause, None))) {
            let place = match index {
                Some(index) => format!("{}, {}", file.path, title(index)),
                None => file.path.clone(),
            };
            clauses.entry(clause).or_insert((0, place)).0 += 1;
        }
    }
    clauses
}

fn summary(report: &TableReport, verbose: bool, out: &mut impl Paint) -> io::Result<()> {
    let totals = &report.totals;
    let verdict = match report.exit_status() {
        1 => "DAMAGE FOUND",
        2 => "NOT ALL COULD BE CHECKED",
        _ if totals.indexes == 0 => "nothing to check",
        _ => "all well",
    };
    result((verdict, ""), report.exit_status() == 1, report.incomplete, out)?;
    pending(&report.pending, out)?;
    writeln!(
        out,
        "files   {} checked, {} skipped, {} failed",
        grouped(totals.files - totals.failed_files),
        grouped(totals.skipped_files),
        grouped(totals.failed_files)
    )?;
    writeln!(
        out,
        "trees   {} indexes, {} pages, {} entries",
        grouped(totals.indexes),
        grouped(totals.pages),
        grouped(totals.entries)
    )?;
    let indexes = || report.files.iter().flat_map(|file| &file.indexes);
    if indexes().any(|index| index.matched.is_some()) {
        let matched: u64 = indexes().filter_map(|index| index.matched).sum();
        writeln!(out, "rows    {} entries matched to a row", grouped(matched))?;
    }
    let clauses = left_out_clauses(report).len();
    if clauses > 0 && !verbose {
        writeln!(out, "left    {clauses} kinds of checks left out for some indexes (see --verbose)")?;
    }
    let (bytes, seconds) = (report.effort.bytes as f64, totals.seconds.max(1e-9));
    writeln!(out, "time    {:.2} s, {}/s", totals.seconds, human(bytes / seconds))
}

/// How the bytes were read: for `--verbose`, on standard error, because it differs from run to run.
pub fn effort(report: &TableReport, out: &mut impl Write) -> io::Result<()> {
    let effort = &report.effort;
    writeln!(
        out,
        "innokit: {} workers, {} requests, at most {} in flight for a worker; {} read",
        effort.workers,
        grouped(effort.requests),
        effort.in_flight_max,
        human(effort.bytes as f64)
    )?;
    peak_memory(out)
}
