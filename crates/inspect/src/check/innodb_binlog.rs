//! Binary logs that MariaDB keeps within InnoDB, page by page.

use std::path::{Path, PathBuf};

use logs::ibb::{Corruption, Error, Page, Summary, Verdict, Verifier, file_number};

use super::examined::{Log, StreamOutcome};
use super::words::about;
use crate::report::document::{Counts, Finding, Unit};
use datadir::content::Content;
use datadir::file_kind::FileKind;
use datadir::severity::Severity;

/// A file being read.
pub(super) struct InnodbBinlogCheck {
    path: PathBuf,
    verifier: Verifier,
    outcome: StreamOutcome,
    bytes: u64,
    error: Option<Error>,
}

impl InnodbBinlogCheck {
    pub fn new(path: &Path, findings_max: usize) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let verifier = Verifier::new(file_number(&name));
        Self { path: path.to_path_buf(), verifier, outcome: StreamOutcome::new(findings_max), bytes: 0, error: None }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let mut input = bytes;
        while self.error.is_none() {
            match self.verifier.next_page(&mut input) {
                Ok(Some(page)) => self.page(&page),
                Ok(None) => return,
                Err(error) => self.error = Some(error),
            }
        }
    }

    fn page(&mut self, page: &Page) {
        let (reason, severity, what) = match &page.verdict {
            Verdict::Ok | Verdict::Empty => return,
            Verdict::Unknown { number } => {
                let what = format!("a record of the type {number}, which this build does not know");
                ("unknown_format", Severity::Undecided, what)
            }
            Verdict::Corrupt(corruption) => (reason(corruption), Severity::Damage, corruption.to_string()),
        };
        let finding = about(&self.path, reason, severity, format!("page {}: {what}", page.number));
        let (stored, computed) = match page.verdict {
            Verdict::Corrupt(Corruption::Checksum { stored, computed }) => (Some(stored.into()), Some(computed.into())),
            _ => (None, None),
        };
        self.outcome.findings.offer_at(
            0,
            page.number.into(),
            Finding { page: Some(page.number), stored, computed, ..finding },
        );
    }

    fn found(&mut self, reason: &'static str, severity: Severity, message: String) {
        let finding = about(&self.path, reason, severity, message);
        self.outcome.findings.offer_at(0, u64::MAX, finding);
    }

    /// The file has ended. If `is_broken`, it was cut short on the way, and its end proves nothing.
    pub fn finish(mut self, is_broken: bool) -> StreamOutcome {
        let summary = std::mem::replace(&mut self.verifier, Verifier::new(None)).finish();
        match self.error.take() {
            Some(error) => self.found("unknown_format", Severity::Undecided, error.to_string()),
            None if !is_broken => self.whole(&summary),
            None => {}
        }
        let counts = Counts {
            pages: summary.pages,
            ok: summary.ok,
            empty: summary.empty,
            corrupt: summary.corrupt,
            unverifiable: summary.unknown,
            bytes: self.bytes,
            ..Counts::default()
        };
        let log = Log {
            kind: FileKind::BinaryLog,
            unit: Unit::Pages,
            family: Some("MariaDB"),
            algorithm: (counts.ok > 0).then_some("crc32c"),
            end: None,
        };
        self.outcome.with_log(self.path, Content::InnodbBinlog, counts, log)
    }

    /// Findings that need the whole file.
    fn whole(&mut self, summary: &Summary) {
        if summary.rest > 0 || summary.pages < 2 {
            let message = format!(
                "the file has {} bytes: that is not a whole number of pages, or only the first (the server takes no such file)",
                self.bytes
            );
            return self.found("log_cut", Severity::Damage, message);
        }
        let Some(header) = summary.header else { return };
        if summary.pages > header.pages {
            let message = format!("the file has {} pages, and was made with {}", summary.pages, header.pages);
            self.found("log_cut", Severity::Damage, message);
        } else if summary.is_cut() {
            let message = format!(
                "the file has {} of the {} pages that it was made with, and its last record goes on: its end is missing",
                summary.pages, header.pages
            );
            self.found("log_cut", Severity::Damage, message);
        }
    }
}

fn reason(corruption: &Corruption) -> &'static str {
    match corruption {
        Corruption::Checksum { .. } => "checksum_mismatch",
        Corruption::Header(_) => "log_header",
        Corruption::AfterEnd { .. } | Corruption::Misplaced { .. } => "binlog_pages_missing",
        Corruption::Type { .. }
        | Corruption::Length { .. }
        | Corruption::NotBegun { .. }
        | Corruption::NotEnded { .. }
        | Corruption::Record { .. } => "binlog_record",
    }
}
