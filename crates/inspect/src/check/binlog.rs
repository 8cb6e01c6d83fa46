//! Binary and relay logs, event by event.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::keyring::KeyStore;
use logs::binlog::{Corruption, Error, Event, Summary, Tail, Verdict, Verifier, Why};

use super::examined::{Log, StreamOutcome};
use super::words::about;
use crate::report::document::{Counts, Finding, Unit};
use datadir::content::Content;
use datadir::file_kind::FileKind;
use datadir::keys::NO_KEY;
use datadir::severity::Severity;

/// A log being read.
pub(super) struct BinlogCheck {
    path: PathBuf,
    verifier: Verifier,
    has_keys: bool,
    outcome: StreamOutcome,
    bytes: u64,
    /// Events that could not be verified: encrypted ones, and those of an unknown format, for which no rule is known.
    encrypted: u64,
    unknown: u64,
    error: Option<Error>,
}

impl BinlogCheck {
    pub fn new(path: &Path, findings_max: usize, keys: Arc<KeyStore>) -> Self {
        Self {
            path: path.to_path_buf(),
            has_keys: !keys.is_empty(),
            verifier: Verifier::with_keys(keys),
            outcome: StreamOutcome::new(findings_max),
            bytes: 0,
            encrypted: 0,
            unknown: 0,
            error: None,
        }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let mut input = bytes;
        while self.error.is_none() {
            match self.verifier.next_event(&mut input) {
                Ok(Some(event)) => self.event(&event),
                Ok(None) => return,
                Err(error) => self.error = Some(error),
            }
        }
    }

    fn event(&mut self, event: &Event) {
        match event.verdict {
            Verdict::Ok | Verdict::NoChecksum => {}
            Verdict::Unverifiable(Why::Encrypted) => self.encrypted += 1,
            Verdict::Unverifiable(Why::UnknownFormat) => self.unknown += 1,
            Verdict::Corrupt(corruption) => self.corrupt(event, &corruption),
        }
    }

    fn corrupt(&mut self, event: &Event, corruption: &Corruption) {
        let kind = event.kind.map_or_else(String::new, |kind| format!(" ({kind})"));
        let message = format!("event at position {}{kind}: {corruption}", event.position);
        let (reason, stored, computed) = match *corruption {
            Corruption::Checksum { stored, computed } => ("event_checksum", Some(stored), Some(computed)),
            Corruption::Length { stored, actual } => ("event_length", Some(stored), Some(actual)),
            Corruption::NextPosition { stored, actual } => ("event_next_position", Some(stored), Some(actual)),
            Corruption::NotFormatDescription { .. } => ("no_format_description", None, None),
            Corruption::NoEvent { .. } => ("no_event", None, None),
        };
        let finding = about(&self.path, reason, Severity::Damage, message);
        let (stored, computed) = (stored.map(u64::from), computed.map(u64::from));
        self.found(event.position, Finding { stored, computed, ..finding });
    }

    fn found(&mut self, position: u64, finding: Finding) {
        self.outcome.findings.offer_at(0, position, Finding { position: Some(position), ..finding });
    }

    /// The log has ended. If `is_broken`, it was cut short on the way, and its last event proves nothing.
    pub fn finish(mut self, is_broken: bool) -> StreamOutcome {
        if self.error.is_none() {
            self.error = self.verifier.end().err();
            self.take(&[]);
        }
        let verifier = std::mem::take(&mut self.verifier);
        let summary = match self.error.take() {
            Some(error) => Err(error),
            None => verifier.finish(),
        };
        let counts = match &summary {
            Ok(summary) => {
                self.whole(summary, is_broken);
                Counts {
                    pages: summary.events,
                    ok: summary.ok,
                    corrupt: summary.corrupt,
                    unverifiable: summary.no_checksum + summary.unverifiable,
                    bytes: self.bytes,
                    ..Counts::default()
                }
            }
            Err(error) => {
                let (reason, severity) = match error {
                    Error::WrongKey { .. } => ("wrong_key", Severity::Undecided),
                    _ if is_broken => ("log_header", Severity::Undecided),
                    _ => ("log_header", Severity::Damage),
                };
                self.found(0, about(&self.path, reason, severity, error.to_string()));
                Counts { bytes: self.bytes, ..Counts::default() }
            }
        };
        let summary = summary.ok();
        let server = summary.as_ref().and_then(|summary| summary.format.as_ref()).map(|format| &format.server_version);
        let log = Log {
            kind: kind_by_name(&self.path),
            unit: Unit::Events,
            family: server.map(|name| if name.contains("MariaDB") { "MariaDB" } else { "MySQL" }),
            algorithm: (counts.ok > 0).then_some("crc32"),
            end: None,
        };
        self.outcome.with_log(self.path, Content::Binlog, counts, log)
    }

    /// Why encrypted events were not opened: the reason code and the message.
    fn why_locked(&self, summary: &Summary) -> (&'static str, String) {
        match &summary.missing_key {
            Some(key) if self.has_keys => {
                ("wrong_key", format!("encrypted with the key {key}, which is not among the given keys"))
            }
            _ => ("encrypted_no_key", NO_KEY.to_owned()),
        }
    }

    /// Findings that need the whole log.
    fn whole(&mut self, summary: &Summary, is_broken: bool) {
        let path = self.path.clone();
        if summary.no_checksum > 0 {
            let message = format!("{} written without checksums", events(summary.no_checksum));
            self.found(0, about(&path, "no_checksum", Severity::Notice, message));
        }
        if self.encrypted > 0 {
            let (reason, why) = self.why_locked(summary);
            let message = format!("{} not verifiable: {why}", events(self.encrypted));
            self.found(0, about(&path, reason, Severity::Undecided, message));
        }
        if self.unknown > 0 {
            let message = format!("{} not verifiable: {}", events(self.unknown), Why::UnknownFormat);
            self.found(0, about(&path, "unknown_format", Severity::Undecided, message));
        }
        let (position, reason, severity, message) = match summary.tail {
            Tail::Whole => return,
            Tail::Cut { .. } if is_broken => return,
            Tail::Cut { position, present } if summary.in_use => {
                let message = format!(
                    "the log was not closed; only {present} bytes of the event at position {position} are there"
                );
                (position, "log_in_use", Severity::Notice, message)
            }
            Tail::Cut { position, present } => {
                let message = format!(
                    "the log ends within the event at position {position}: only {present} bytes of it are there"
                );
                (position, "log_cut", Severity::Damage, message)
            }
            Tail::Zeros { position, len } => {
                let message =
                    format!("the log was not closed; {len} bytes of zeros follow its end at position {position}");
                (position, "log_in_use", Severity::Notice, message)
            }
            Tail::Unexamined { position, len } => {
                let message = format!(
                    "{len} bytes from position {position} on could not be examined: no event begins there, and without the length of one the next cannot be found (see: mysqlbinlog --verify-binlog-checksum)"
                );
                (position, "unexamined", Severity::Undecided, message)
            }
            Tail::Encrypted { position, len } => {
                let (reason, why) = self.why_locked(summary);
                let message = format!("{len} bytes from position {position} on not verifiable: {why}");
                (position, reason, Severity::Undecided, message)
            }
        };
        self.found(position, about(&path, reason, severity, message));
    }
}

fn events(count: u64) -> String {
    if count == 1 { "1 event".to_owned() } else { format!("{count} events") }
}

/// Relay logs look just like binary logs inside; only the name tells.
fn kind_by_name(path: &Path) -> FileKind {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if name.contains("relay") { FileKind::RelayLog } else { FileKind::BinaryLog }
}
