//! Reports as text and as JSON. Text lists the findings first, one per line, then the sums.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};

use datadir::redo_log::Pending;
use datadir::server::BinlogPosition;
use datadir::{FindingCode, Severity};
use inspect::report::document::{Totals, Unit, UnitTotals};
use inspect::{Finding, Report};

use crate::hurt_print;
use crate::terminal::{Paint, shown};

/// How much text to print.
#[derive(Clone, Copy)]
pub struct Style {
    /// Findings only.
    pub quiet: bool,
    /// Each file too.
    pub verbose: bool,
    /// Every finding, however many.
    pub all: bool,
}

/// Findings, then the summary.
pub fn text(report: &Report, style: Style, out: &mut impl Paint) -> io::Result<()> {
    let totals = &report.totals;
    let is_troubled = totals.damage + totals.undecided > 0;
    // What a running server may explain is not read without that.
    let is_said = |finding: &Finding| {
        is_trouble(finding) || (is_troubled && finding.reason == FindingCode::SERVER_RUNNING) || !style.quiet
    };
    let listed: Vec<&Finding> = report.findings.iter().filter(|finding| is_said(finding)).collect();
    findings(&listed, style, out)?;
    let notes = listed.iter().filter(|finding| !is_trouble(finding)).count() as u64;
    let all = if style.quiet { totals.damage + totals.undecided + notes } else { totals.findings };
    let hidden = all.saturating_sub(listed.len() as u64);
    if hidden > 0 {
        writeln!(out, "... and {} more findings (see --max-findings)", grouped(hidden))?;
    }
    if style.verbose {
        files(report, out)?;
    }
    if let Some(tables) = &report.tables {
        hurt_print::verdicts(tables, out)?;
    }
    let has_said = report.totals.findings > 0 || style.verbose || report.tables.is_some();
    if !style.quiet {
        if has_said {
            writeln!(out)?;
        }
        summary(report, out)?;
    }
    out.flush()
}

/// The end of the report: what is hurt, and what to do about it.
pub fn hurt(report: &Report, out: &mut impl Write) -> io::Result<()> {
    if report.hurt.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    hurt_print::hurt(&report.hurt, out)?;
    out.flush()
}

/// If an index has more than this many findings of one kind, they are folded.
const ALIKE_MAX: usize = 3;

/// One line per finding; similar ones share a line unless each is wanted.
fn findings(findings: &[&Finding], style: Style, out: &mut impl Write) -> io::Result<()> {
    let kind = |finding: &&Finding| (finding.path.clone(), finding.index_id, finding.reason, finding.severity as u8);
    let lines = Lines { each: style.verbose, max: lines_max(style.verbose || style.all) };
    fold(findings, lines, kind, |finding| line(finding), |finding| finding.page.map(|page| (page, finding.pages)), out)
}

/// Notes are for people who look; a nightly job should be silent when all is well.
fn is_trouble(finding: &Finding) -> bool {
    finding.severity != Severity::Notice
}

/// Lines of findings, unless all are wanted.
const LINES_MAX: usize = 100;

pub const fn lines_max(all: bool) -> usize {
    if all { usize::MAX } else { LINES_MAX }
}

/// How findings become lines.
#[derive(Clone, Copy)]
pub struct Lines {
    /// Each has its own line, also if others are like it.
    pub each: bool,
    /// More are only counted.
    pub max: usize,
}

/// Writes a line per finding. Of many findings of one kind, it writes the first and the pages of the others.
pub fn fold<F, K: Ord>(
    findings: &[F],
    lines: Lines,
    kind: impl Fn(&F) -> K,
    line: impl Fn(&F) -> String,
    pages: impl Fn(&F) -> Option<(u32, u64)>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut alike: BTreeMap<K, Vec<&F>> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| !lines.each && pages(finding).is_some()) {
        alike.entry(kind(finding)).or_default().push(finding);
    }
    let (mut written, mut left) = (0, 0_u64);
    for finding in findings {
        let group = alike.get(&kind(finding)).filter(|group| group.len() > ALIKE_MAX);
        let group = group.filter(|_| pages(finding).is_some());
        if group.is_some_and(|group| !group.first().is_some_and(|first| std::ptr::eq(*first, finding))) {
            continue;
        }
        if written == lines.max {
            left += group.map_or(1, |group| group.len() as u64);
            continue;
        }
        written += 1;
        writeln!(out, "{}", line(finding))?;
        if let Some(group) = group {
            let rest: Vec<(u32, u64)> = group.iter().skip(1).filter_map(|finding| pages(finding)).collect();
            writeln!(out, "    and {} more like it: {}", grouped(rest.len() as u64), stretches(rest))?;
        }
    }
    if left > 0 {
        writeln!(out, "... and {} more findings (--all prints them)", grouped(left))?;
    }
    Ok(())
}

/// `pages 3 to 9, 12, 14 to 20 and more`.
fn stretches(mut pages: Vec<(u32, u64)>) -> String {
    const SHOWN_MAX: usize = 8;
    pages.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (first, count) in pages {
        let (first, end) = (u64::from(first), u64::from(first) + count.max(1));
        match runs.last_mut().filter(|(_, before)| first <= *before) {
            Some((_, before)) => *before = end.max(*before),
            None => runs.push((first, end)),
        }
    }
    let text = |(first, end): &(u64, u64)| match end - first {
        1 => first.to_string(),
        _ => format!("{first} to {}", end - 1),
    };
    let more = if runs.len() > SHOWN_MAX { " and more (-v lists all)" } else { "" };
    let shown: Vec<String> = runs.iter().take(SHOWN_MAX).map(text).collect();
    format!("pages {}{more}", shown.join(", "))
}

/// `db/t.ibd: page 3 (index page of index 157): what is wrong`.
pub fn line(finding: &Finding) -> String {
    let weight = match finding.severity {
        Severity::Damage => "damage: ",
        // This is no verdict on the bytes: they were never read.
        Severity::Undecided if finding.reason == FindingCode::UNREADABLE_FILE => "not checked: ",
        Severity::Undecided => "undecided: ",
        Severity::Notice => "note: ",
    };
    let pages = match (finding.page, finding.pages) {
        (None, _) => String::new(),
        (Some(page), 0 | 1) => format!("page {page}"),
        (Some(page), pages) => format!("pages {page} to {}", u64::from(page) + pages - 1),
    };
    let place = match (finding.page_type, finding.index_id) {
        _ if pages.is_empty() => pages,
        (Some(kind), Some(index)) => format!("{pages} ({kind} page of index {index}): "),
        (Some(kind), None) => format!("{pages} ({kind} page): "),
        (None, _) => format!("{pages}: "),
    };
    format!("{}: {place}{weight}{}", shown(&finding.path), shown(&finding.message))
}

fn files(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for file in &report.files {
        let counts = &file.counts;
        let shape = match (file.family, file.page_size) {
            (Some(family), Some(size)) => format!("{family} {}, {} KiB pages", file.kind, f64::from(size) / 1024.0),
            (Some(family), None) => format!("{family} {}", file.kind),
            _ => file.error.as_deref().map_or_else(|| file.kind.to_string(), |error| shown(error).into_owned()),
        };
        if file.unit == Unit::Members {
            writeln!(out, "{}: {shape}", shown(&file.path))?;
            continue;
        }
        let algorithm = file.algorithm.as_deref().unwrap_or("no checksum");
        let (unit, examined) = (file.unit.name(), counts.pages);
        writeln!(
            out,
            "{}: {shape}, {algorithm}: {examined} {unit}, {} ok, {} empty, {} corrupt, {} unverifiable",
            shown(&file.path),
            counts.ok,
            counts.empty,
            counts.corrupt,
            counts.unverifiable
        )?;
    }
    for file in &report.skipped {
        writeln!(out, "{}: skipped: {}", shown(&file.path), shown(&file.why))?;
    }
    Ok(())
}

/// One line per datadir that needs crash recovery.
pub fn pending(pending: &[Pending], out: &mut impl Write) -> io::Result<()> {
    pending.iter().try_for_each(|Pending { path, why }| writeln!(out, "pending {}: {}", shown(path), shown(why)))
}

fn summary(report: &Report, out: &mut impl Paint) -> io::Result<()> {
    let totals = &report.totals;
    let counts = &totals.counts;
    let verdict = match report.exit_status() {
        1 => "DAMAGE FOUND",
        2 => "NOT ALL COULD BE VERIFIED",
        _ if counts.pages + logs(totals).iter().map(|(_, units)| units.examined).sum::<u64>() == 0 => {
            "nothing to verify"
        }
        _ => "all well",
    };
    result((verdict, &limits(report)), report.exit_status() == 1, report.incomplete, out)?;
    pending(&report.pending, out)?;
    writeln!(
        out,
        "files   {} checked, {} skipped, {} failed",
        grouped(totals.files),
        grouped(totals.skipped_files),
        grouped(totals.failed_files)
    )?;
    if report.incomplete {
        writeln!(out, "left    {} files not started", grouped(totals.unread_files))?;
    }
    write!(
        out,
        "pages   {} ok, {} empty, {} corrupt, {} unverifiable",
        grouped(counts.ok),
        grouped(counts.empty),
        grouped(counts.corrupt),
        grouped(counts.unverifiable)
    )?;
    if counts.older > 0 {
        write!(out, ", {} older and not verified", grouped(counts.older))?;
    }
    if counts.freed_damage > 0 {
        write!(out, ", {} damaged but free", grouped(counts.freed_damage))?;
    }
    if counts.missing > 0 {
        write!(out, ", {} missing", grouped(counts.missing))?;
    }
    writeln!(out)?;
    for (name, units) in logs(totals).into_iter().filter(|(_, units)| units.examined > 0) {
        writeln!(
            out,
            "{name} {} ok, {} empty, {} corrupt, {} unverifiable",
            grouped(units.ok),
            grouped(units.empty),
            grouped(units.corrupt),
            grouped(units.unverifiable)
        )?;
    }
    writeln!(out, "bytes   {}", grouped(counts.bytes))?;
    let seconds = totals.seconds.max(1e-9);
    let rate = counts.bytes as f64 / seconds;
    writeln!(out, "time    {seconds:.2} s, {}/s, {:.0}% I/O wait", human(rate), report.effort.wait_share * 100.0)
}

/// The limits of the verdict: ` in part 3 of 7`, ` since LSN 80703969`.
pub fn limits(report: &Report) -> String {
    let part = report.part.map(|part| format!(" in part {} of {}", part.number, part.of));
    let since = report.since_lsn.map(|lsn| format!(" since LSN {}", grouped(lsn)));
    [part, since].into_iter().flatten().collect()
}

/// The line that everybody reads, with `verdict` in words and its `limits`.
pub fn result(
    (verdict, limits): (&'static str, &str),
    is_damage: bool,
    is_incomplete: bool,
    out: &mut impl Paint,
) -> io::Result<()> {
    write!(out, "result  ")?;
    match (is_incomplete, is_damage) {
        (true, false) => return writeln!(out, "INCOMPLETE: stopped before the end"),
        (true, true) => out.alarm("INCOMPLETE, ")?,
        (false, _) => {}
    }
    if is_damage {
        out.alarm(verdict)?;
    } else {
        write!(out, "{verdict}")?;
    }
    writeln!(out, "{limits}")
}

/// What was verified besides pages: log blocks, mini-transactions, doublewrite slots, binary log events.
fn logs(totals: &Totals) -> [(&'static str, UnitTotals); 4] {
    [
        ("blocks ", totals.log_blocks),
        ("mtrs   ", totals.mini_transactions),
        ("slots  ", totals.slots),
        ("events ", totals.events),
    ]
}

/// How the bytes were read: for `--verbose`, on standard error, because it differs from run to run.
pub fn effort(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let effort = &report.effort;
    for note in &effort.notes {
        writeln!(out, "innokit: {}", shown(note))?;
    }
    writeln!(
        out,
        "innokit: {} workers, engine {}, {} requests, at most {} in flight for a worker; {} from the page cache, {} direct; buffers {}",
        effort.workers,
        effort.engine,
        grouped(effort.requests),
        effort.in_flight_max,
        human(effort.bytes_cached as f64),
        human(effort.bytes_direct as f64),
        human(effort.buffer_bytes as f64)
    )?;
    peak_memory(out)
}

/// Returns the exit status after a report was printed. A reader that closed the pipe early (`| head`) is no error to speak of; `run` sees to
/// the status.
pub fn written(printed: io::Result<()>, status: u8) -> Result<u8, Box<dyn Error>> {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(status),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(status),
    }
}

/// The process's peak memory, if the kernel counts it.
pub fn peak_memory(out: &mut impl Write) -> io::Result<()> {
    match peak_memory_mib() {
        Some(peak) => writeln!(out, "innokit: peak memory {peak} MiB"),
        None => Ok(()),
    }
}

/// The process's peak resident memory, according to the kernel.
fn peak_memory_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib.div_ceil(1024))
}

/// `db1-bin.000004 at 1846, GTID 0-7-5310`.
pub fn position(binlog: &BinlogPosition) -> String {
    let gtid = if binlog.gtid.is_empty() { String::new() } else { format!(", GTID {}", binlog.gtid) };
    shown(&format!("{} at {}{gtid}", binlog.file, binlog.position)).into_owned()
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes with a decimal unit, as device vendors count them: `5.2 GB`.
pub fn human(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes;
    let mut unit = "B";
    for name in UNITS {
        unit = name;
        if value < 999.5 || name == "TB" {
            break;
        }
        value /= 1000.0;
    }
    if unit == "B" { format!("{value:.0} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn bytes_carry_decimal_units() {
        assert_eq!(human(512.0), "512 B");
        assert_eq!(human(5_200_000_000.0), "5.2 GB");
        assert_eq!(human(999_900.0), "1.0 MB");
    }
}
