//! The JSON document around every report: how to read it, and how the run went.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use datadir::Outcome;
use serde::Serialize;

use crate::terminal::{self, Shown};

/// Incremented when a name changes its meaning or is removed, not when one is added.
const SCHEMA_VERSION: u32 = 1;

/// The first fields of every document.
#[derive(Serialize)]
pub struct Head {
    schema_version: u32,
    version: &'static str,
    started_at: String,
    result: &'static str,
    exit_status: u8,
}

/// A report with its head.
#[derive(Serialize)]
struct Document<'r, R> {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    report: &'r R,
}

/// An error in place of a report.
#[derive(Serialize)]
struct Failure {
    error: Message,
}

#[derive(Serialize)]
struct Message {
    message: String,
}

impl Head {
    /// The head for a report with this exit status, which decides `result`.
    pub fn new(started: SystemTime, exit_status: u8) -> Self {
        let result = match Outcome::of_status(exit_status) {
            Outcome::AllWell => "all_well",
            Outcome::Damage => "damage",
            Outcome::Interrupted => "incomplete",
            Outcome::Undecided => "undecided",
        };
        Self {
            schema_version: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION"),
            started_at: utc(started),
            result,
            exit_status,
        }
    }
}

/// The last document in a stream of lines, marked as such.
#[derive(Serialize)]
struct Last<'r, R> {
    event: &'static str,
    #[serde(flatten)]
    document: Document<'r, R>,
}

/// Writes one document; on one line, if lines came before it.
pub fn write(
    (started, status): (SystemTime, u8),
    is_line: bool,
    report: &impl Serialize,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut out = Shown::json(BufWriter::new(out));
    let document = Document { head: Head::new(started, status), report };
    if is_line {
        serde_json::to_writer(&mut out, &Last { event: "report", document })?;
    } else {
        serde_json::to_writer_pretty(&mut out, &document)?;
    }
    writeln!(out)?;
    out.flush()
}

/// Writes the error in place of a report.
pub fn write_error(started: SystemTime, status: u8, message: &str, out: &mut impl Write) -> io::Result<()> {
    let head = Head { result: "error", ..Head::new(started, status) };
    let report = &Failure { error: Message { message: message.to_owned() } };
    serde_json::to_writer_pretty(Shown::json(&mut *out), &Document { head, report })?;
    writeln!(out)
}

/// Says why a command could not do its work: on standard error, and as a document if requested.
pub fn fail(started: SystemTime, status: u8, error: &dyn Error, is_json: bool) {
    terminal::say(&error.to_string());
    if is_json {
        drop(write_error(started, status, &error.to_string(), &mut terminal::data()));
    }
}

/// The same for arguments that clap rejected: its text has lines.
pub fn refused(started: SystemTime, status: u8, error: &clap::Error) {
    // See `terminal::say`.
    drop(write!(terminal::err(), "innokit: {error}"));
    drop(write_error(started, status, &error.to_string(), &mut terminal::data()));
}

/// `2026-11-22T16:05:09Z`, in the form of RFC 3339.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The date `days` days after 1970-01-01. Years start in March here, so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / ERA, days % ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_795_363_509), "2026-11-22T16:05:09Z");
    }
}
