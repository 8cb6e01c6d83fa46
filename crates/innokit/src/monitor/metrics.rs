//! `--metrics FILE`: the result in Prometheus' text format, for node_exporter's textfile collector.
//!
//! The collector may read at any moment, so the file is replaced by a rename: the collector sees the old run or the new one, never a part.
//! Facts: Prometheus, "Exposition formats", text format 0.0.4; node_exporter, "Textfile collector".

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use inspect::Report;
use inspect::report::document::{Counts, Unit};
use inspect::report::shown;
use recovery::ArchiveStatus;

use crate::{named_file, terminal};

/// Sums over everything below one of the command line's paths.
#[derive(Default)]
struct PathSums {
    files: u64,
    failed: u64,
    counts: Counts,
    /// Damage, undecided, notice: findings listed for this path.
    findings: [u64; 3],
}

/// Writes the metrics of `report` to `file`, completely or not at all.
pub fn write(file: &Path, paths: &[PathBuf], report: &Report, status: u8) -> io::Result<()> {
    replace(file, &text(paths, report, status, now()))
}

/// The message for metrics that could not be written.
pub fn not_written(file: &Path, error: &io::Error) -> String {
    format!("the metrics could not be written to {}: {error}", file.display())
}

/// The exit status of a run after it wrote its metrics. A failure to write them is printed.
pub fn status_after(written: Result<(), String>, status: u8) -> u8 {
    let Err(why) = written else { return status };
    terminal::say(&why);
    // Damage outranks work that could not be done.
    if status == 1 { 1 } else { 2 }
}

/// The outcome of reading the rows of tables.
pub struct RowsRun<'r> {
    /// `checksum` or `export`.
    pub command: &'r str,
    /// The exit status.
    pub status: u8,
    /// Wall time.
    pub seconds: f64,
    /// Rows read.
    pub rows: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Number of tables per outcome.
    pub tables: [(&'r str, u64); 3],
    /// Files that should have a table, but none could be read.
    pub unread: u64,
}

/// Writes the metrics of a run over rows to `file`, completely or not at all.
pub fn write_rows(file: &Path, run: &RowsRun<'_>) -> io::Result<()> {
    replace(file, &rows_text(run, now()))
}

fn rows_text(run: &RowsRun<'_>, ended: f64) -> String {
    let mut out = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let command = run.command;
    family(&mut out, "build_info", "The version of innokit that ran.", [(format!("version=\"{version}\""), 1.0)]);
    let mut one = |name: &str, help: &str, value: f64| {
        family(&mut out, &format!("table_{command}_{name}"), help, [(String::new(), value)]);
    };
    let help = "Exit status of the last run: 0 all well, 1 damage or a difference, 2 not all tables could be read.";
    one("exit_status", help, f64::from(run.status));
    one("end_timestamp_seconds", "When the last run ended.", ended);
    one("duration_seconds", "Wall time of the last run.", run.seconds);
    one("rows", "Rows of the last run.", run.rows as f64);
    one("bytes", "Bytes read.", run.bytes as f64);
    one("unread_files", "Files that should hold a table, but none could be read.", run.unread as f64);
    let tables = run.tables.map(|(state, count)| (format!("state=\"{state}\""), count as f64));
    family(&mut out, &format!("table_{command}_tables"), "Tables by outcome.", tables);
    out
}

/// Writes the metrics of a redo log's archive to `file`, completely or not at all.
pub fn write_archive(file: &Path, status: &ArchiveStatus) -> io::Result<()> {
    replace(file, &archive_text(status, now()))
}

fn archive_text(status: &ArchiveStatus, at: f64) -> String {
    let mut out = String::new();
    let version = env!("CARGO_PKG_VERSION");
    family(&mut out, "build_info", "The version of innokit that ran.", [(format!("version=\"{version}\""), 1.0)]);
    let mut one = |name: &str, help: &str, value: f64| {
        family(&mut out, &format!("redo_archive_{name}"), help, [(String::new(), value)]);
    };
    one("timestamp_seconds", "When this was written: an archiver that runs writes it every ten seconds.", at);
    one("lsn", "LSN at which the archive ends.", status.lsn as f64);
    one("bytes", "Bytes of log archived by this run.", status.bytes as f64);
    one("lag_bytes", "Bytes that the log is known to be ahead of the archive.", status.lag_bytes as f64);
    one("lag_ratio", "The same as a part of the log's capacity: at 1 there is a gap.", status.lag());
    one("gaps", "Gaps met by this run; innokit redo verify names all of the archive.", status.gaps as f64);
    one("timeline", "Timeline of the archive.", f64::from(status.timeline));
    out
}

/// Writes a new file and renames it over the old one.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    named_file::write(file, text.as_bytes(), |dir| {
        // The collector reads `*.prom`: without that suffix, it ignores the unfinished file.
        let unfinished = tempfile::Builder::new().prefix(".innokit-metrics-").tempfile_in(dir)?;
        // The collector rarely runs as the user who runs the check, and a temporary file is readable only by its owner.
        unfinished.as_file().set_permissions(Permissions::from_mode(0o644))?;
        Ok(unfinished)
    })
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The document. `ended` is the end of the run in seconds since 1970.
fn text(paths: &[PathBuf], report: &Report, status: u8, ended: f64) -> String {
    let sums: Vec<(String, PathSums)> = by_path(paths, report);
    let mut out = String::new();
    let version = env!("CARGO_PKG_VERSION");
    family(&mut out, "build_info", "The version of innokit that ran.", [(format!("version=\"{version}\""), 1.0)]);
    if let Some(part) = report.part {
        let row = [(format!("of=\"{}\"", part.of), f64::from(part.number))];
        family(&mut out, "check_part", "Which part of the files the last check read: --part K/N.", row);
    }
    let help = "Exit status of the last check: 0 all well, 1 damage found, 2 something could not be verified.";
    family(&mut out, "check_exit_status", help, [(String::new(), f64::from(status))]);
    family(&mut out, "check_end_timestamp_seconds", "When the last check ended.", [(String::new(), ended)]);
    let seconds = [(String::new(), report.totals.seconds)];
    family(&mut out, "check_duration_seconds", "Wall time of the last check.", seconds);
    family(
        &mut out,
        "check_pages",
        "Pages by verdict.",
        sums.iter().flat_map(|(path, sums)| pages(path, &sums.counts)),
    );
    let findings = sums.iter().flat_map(|(path, sums)| findings(path, sums.findings));
    family(&mut out, "check_findings", "Findings listed, by severity.", findings);
    let listed = report.findings.len() as u64;
    let unlisted = [(String::new(), report.totals.findings.saturating_sub(listed) as f64)];
    family(&mut out, "check_findings_unlisted", "Findings beyond --max-findings; no path counts them.", unlisted);
    let files = sums.iter().flat_map(|(path, sums)| {
        [("checked", sums.files), ("failed", sums.failed)].map(|(state, files)| labelled(path, "state", state, files))
    });
    family(&mut out, "check_files", "Files examined, and those of them that could not be read or recognised.", files);
    let bytes = sums.iter().map(|(path, sums)| (format!("path=\"{path}\""), sums.counts.bytes as f64));
    family(&mut out, "check_bytes", "Bytes read.", bytes);
    out
}

/// The rows of one metric, after its description.
fn family(out: &mut String, name: &str, help: &str, rows: impl IntoIterator<Item = (String, f64)>) {
    out.push_str(&format!("# HELP innokit_{name} {help}\n# TYPE innokit_{name} gauge\n"));
    for (labels, value) in rows {
        let braces = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        out.push_str(&format!("innokit_{name}{braces} {value}\n"));
    }
}

fn pages(path: &str, counts: &Counts) -> [(String, f64); 7] {
    [
        ("ok", counts.ok),
        ("empty", counts.empty),
        ("corrupt", counts.corrupt),
        ("unverifiable", counts.unverifiable),
        ("freed_damage", counts.freed_damage),
        ("older", counts.older),
        ("missing", counts.missing),
    ]
    .map(|(verdict, pages)| labelled(path, "verdict", verdict, pages))
}

fn findings(path: &str, counts: [u64; 3]) -> [(String, f64); 3] {
    let [damage, undecided, notice] = counts;
    [("damage", damage), ("undecided", undecided), ("notice", notice)]
        .map(|(severity, count)| labelled(path, "severity", severity, count))
}

fn labelled(path: &str, label: &str, value: &str, count: u64) -> (String, f64) {
    (format!("path=\"{path}\",{label}=\"{value}\""), count as f64)
}

/// Sums by the paths of the command line, escaped as label values. A file belongs to the longest path that contains it.
fn by_path(paths: &[PathBuf], report: &Report) -> Vec<(String, PathSums)> {
    let mut sums: Vec<PathSums> = paths.iter().map(|_| PathSums::default()).collect();
    // The report has its paths as text, which differs from a path that is not UTF-8.
    let named: Vec<PathBuf> = paths.iter().map(|path| PathBuf::from(shown(path))).collect();
    let owner = |file: &str| {
        let below = |(_, path): &(usize, &PathBuf)| Path::new(file).starts_with(path);
        let longest = named.iter().enumerate().filter(below).max_by_key(|(_, path)| path.as_os_str().len());
        longest.map_or(0, |(index, _)| index)
    };
    for file in &report.files {
        let Some(sum) = sums.get_mut(owner(file.archive.as_deref().unwrap_or(&file.path))) else { continue };
        sum.files += 1;
        sum.failed += u64::from(file.error.is_some());
        if file.unit == Unit::Pages {
            // A member's bytes are already counted for its archive.
            let bytes = if file.archive.is_some() { 0 } else { file.counts.bytes };
            sum.counts.add(&Counts { bytes, ..file.counts });
        } else {
            sum.counts.bytes += file.counts.bytes;
        }
    }
    for finding in &report.findings {
        let count = sums.get_mut(owner(&finding.path)).and_then(|sum| sum.findings.get_mut(finding.severity as usize));
        if let Some(count) = count {
            *count += 1;
        }
    }
    named.iter().map(|path| escaped(&path.to_string_lossy())).zip(sums).collect()
}

/// A label value: only backslash, quote and newline are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_value_keeps_every_name_on_one_line() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
