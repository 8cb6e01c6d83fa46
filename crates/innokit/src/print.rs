//! Reports as text and as JSON. Text says first what is wrong, one line each, then the sums.

use std::io::{self, BufWriter, Write};

use jobs::out::report::{Totals, Unit, UnitTotals};
use jobs::{Finding, Report, Severity};

/// How much text.
#[derive(Clone, Copy)]
pub struct Style {
    /// Findings only.
    pub quiet: bool,
    /// Also each file.
    pub verbose: bool,
}

/// The document of `docs/check.md`.
pub fn json(report: &impl serde::Serialize, out: &mut impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, report)?;
    writeln!(out)?;
    out.flush()
}

/// Findings, then the summary.
pub fn text(report: &Report, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    for finding in &report.findings {
        writeln!(out, "{}", line(finding))?;
    }
    let hidden = report.totals.findings - report.findings.len() as u64;
    if hidden > 0 {
        writeln!(out, "... and {} more findings (see --max-findings)", grouped(hidden))?;
    }
    if style.verbose {
        files(report, &mut out)?;
    }
    if !style.quiet {
        if report.totals.findings > 0 || style.verbose {
            writeln!(out)?;
        }
        summary(report, &mut out)?;
    }
    out.flush()
}

/// `db/t.ibd: page 3 (index page of index 157): what is wrong`.
fn line(finding: &Finding) -> String {
    let weight = match finding.severity {
        Severity::Damage => "",
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
    format!("{}: {place}{weight}{}", finding.path, finding.message)
}

fn files(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for file in &report.files {
        let counts = &file.counts;
        let shape = match (file.family, file.page_size) {
            (Some(family), Some(size)) => format!("{family} {}, {} KiB pages", file.kind, f64::from(size) / 1024.0),
            (Some(family), None) => format!("{family} {}", file.kind),
            _ => file.error.clone().unwrap_or_else(|| file.kind.to_owned()),
        };
        if file.unit == Unit::Members {
            writeln!(out, "{}: {shape}", file.path)?;
            continue;
        }
        let algorithm = file.algorithm.as_deref().unwrap_or("no checksum");
        let (unit, examined) = (file.unit.name(), counts.pages);
        writeln!(
            out,
            "{}: {shape}, {algorithm}: {examined} {unit}, {} ok, {} empty, {} corrupt, {} unverifiable",
            file.path, counts.ok, counts.empty, counts.corrupt, counts.unverifiable
        )?;
    }
    for file in &report.skipped {
        writeln!(out, "{}: skipped: {}", file.path, file.why)?;
    }
    Ok(())
}

fn summary(report: &Report, out: &mut impl Write) -> io::Result<()> {
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
    writeln!(out, "result  {verdict}")?;
    writeln!(
        out,
        "files   {} checked, {} skipped, {} failed",
        grouped(totals.files),
        grouped(totals.skipped_files),
        grouped(totals.failed_files)
    )?;
    write!(
        out,
        "pages   {} ok, {} empty, {} corrupt, {} unverifiable",
        grouped(counts.ok),
        grouped(counts.empty),
        grouped(counts.corrupt),
        grouped(counts.unverifiable)
    )?;
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

/// What was verified besides pages: log blocks, mini-transactions, slots of doublewrite files, events of binary logs.
fn logs(totals: &Totals) -> [(&'static str, UnitTotals); 4] {
    [
        ("blocks ", totals.log_blocks),
        ("mtrs   ", totals.mini_transactions),
        ("slots  ", totals.slots),
        ("events ", totals.events),
    ]
}

/// How the bytes came: for `--verbose`, on standard error, because it differs from run to run.
pub fn effort(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let effort = &report.effort;
    for note in &effort.notes {
        writeln!(out, "innokit: {note}")?;
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

/// The process's peak of memory, where the kernel counts it.
pub fn peak_memory(out: &mut impl Write) -> io::Result<()> {
    match peak_memory_mib() {
        Some(peak) => writeln!(out, "innokit: peak memory {peak} MiB"),
        None => Ok(()),
    }
}

/// The process's peak of resident memory as the kernel counts it.
fn peak_memory_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib.div_ceil(1024))
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

/// Bytes with a decimal unit, as device vendors count: `5.2 GB`.
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
