//! `--nagios`: one line with performance data, and the exit status of a monitoring plugin.
//!
//! | plugin status | when |
//! |---|---|
//! | 0 OK | all well |
//! | 1 WARNING | nothing is damaged, but something could not be decided |
//! | 2 CRITICAL | damage found |
//! | 3 UNKNOWN | the check could not run: a wrong option, no such path, nothing verified |
//!
//! Facts: Monitoring Plugins Development Guidelines, "Plugin output" and "Performance data".

use std::io::{self, Write};

use datadir::{FindingCode, Severity};
use inspect::{Finding, Report};

use crate::print::{grouped, limits};
use crate::terminal::{self, shown};

/// Exit status of a plugin that could not do its work.
pub const UNKNOWN: u8 = 3;

/// Prints a plugin's line. Returns its status. If the line cannot be written, an alarm stands once its reader is gone; all else is unknown.
pub fn say(line: &str, status: u8) -> u8 {
    let mut out = terminal::out();
    match writeln!(out, "{}", shown(line)).and_then(|()| out.flush()) {
        Err(error) if status == 0 || error.kind() != io::ErrorKind::BrokenPipe => UNKNOWN,
        _ => status,
    }
}

/// The line and its exit status; `status` is the check's.
pub fn line(report: &Report, status: u8) -> (String, u8) {
    let (word, plugin_status) = match status {
        0 => ("OK", 0),
        1 => ("CRITICAL", 2),
        _ if report.files.is_empty() => ("UNKNOWN", UNKNOWN),
        _ => ("WARNING", 1),
    };
    let totals = &report.totals;
    let counts = &totals.counts;
    let said = match worst(report, status) {
        Some(first) => first,
        None => {
            let (verified, files) = (grouped(counts.pages - counts.older), grouped(totals.files));
            format!("{verified} pages in {files} files verified{}{}", limits(report), left(report))
        }
    };
    let data = format!(
        "pages={};;;0 corrupt={};;0;0 unverifiable={};0;;0 missing={};;0;0 findings={};;;0 bytes={}B;;;0 time={:.3}s;;;0",
        counts.pages,
        counts.corrupt,
        counts.unverifiable,
        counts.missing,
        totals.findings,
        counts.bytes,
        totals.seconds
    );
    (format!("INNOKIT {word} - {said} | {data}"), plugin_status)
}

/// The line for a check that did not run.
pub fn unknown(why: &str) -> String {
    format!("INNOKIT UNKNOWN - {}", one_line(why))
}

/// The first finding of the deciding severity, and the number of others.
fn worst(report: &Report, status: u8) -> Option<String> {
    let (severity, total) = match status {
        0 => return None,
        1 => (Severity::Damage, report.totals.damage),
        _ => (Severity::Undecided, report.totals.undecided),
    };
    let Some(first) = report.findings.iter().find(|finding| finding.severity == severity) else {
        let failed = report.totals.failed_files;
        return Some(if report.files.is_empty() {
            "nothing was verified".to_owned()
        } else {
            format!("{} files could not be read", grouped(failed))
        });
    };
    let is_running = |finding: &&Finding| finding.reason == FindingCode::SERVER_RUNNING;
    let running =
        report.findings.iter().find(is_running).map(|finding| format!("{}: {}; ", finding.path, finding.message));
    // What recovery may still write is no sign of a fault.
    let pending = report.pending.first().filter(|_| severity == Severity::Undecided && running.is_none());
    let before = running.or_else(|| pending.map(|pending| format!("{}: {}; ", pending.path, pending.why)));
    let page = first.page.map(|page| format!("page {page}: ")).unwrap_or_default();
    let more = if total > 1 { format!(" (and {} more)", grouped(total - 1)) } else { String::new() };
    Some(one_line(&format!("{}{}: {page}{}{more}", before.unwrap_or_default(), first.path, first.message)))
}

/// What was not verified although all is well: files that a server has yet to write, and that it runs.
fn left(report: &Report) -> String {
    let is_left = |reason| matches!(reason, FindingCode::NOT_FLUSHED_YET | FindingCode::SERVER_RUNNING);
    let left = report.findings.iter().filter(|finding| is_left(finding.reason));
    left.map(|finding| format!("; {}", one_line(&finding.message))).collect()
}

/// A plugin's answer ends at the first newline, and performance data begins at the first bar, so both are replaced.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_line_and_holds_no_bar_of_its_own() {
        assert_eq!(unknown("a|b\nc"), "INNOKIT UNKNOWN - a/b c");
    }
}
