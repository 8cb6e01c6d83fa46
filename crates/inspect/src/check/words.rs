//! Messages, for a DBA at three in the morning: what, where, and what it means.

use std::path::{Path, PathBuf};

use format::page::view;
use format::{Corruption, Family, HeaderFault, PageType, SpaceId};

use super::file_state::{Known, Undecided};
use crate::report::document::Finding;
pub(super) use crate::report::shown;
use datadir::catalog::DroppedTree;
use datadir::finding_code::FindingCode;
use datadir::inventory::Candidate;
use datadir::keys::NO_KEY;
use datadir::name::NameHint;
use datadir::redo_log::RedoLogs;
use datadir::severity::Severity;
use datadir::space::SpacePart;

/// A finding about a whole file or a range of pages.
pub(super) fn about(path: &Path, reason: impl Into<FindingCode>, severity: Severity, message: String) -> Finding {
    Finding {
        path: shown(path),
        page: None,
        pages: 0,
        position: None,
        lsn: None,
        page_type: None,
        index_id: None,
        severity,
        reason: reason.into(),
        message,
        stored: None,
        computed: None,
    }
}

pub(super) fn corrupt_page(
    path: Option<&PathBuf>,
    number: u32,
    page: &[u8],
    known: &Known,
    corruption: &Corruption,
) -> Finding {
    let format = &known.part.format;
    Finding {
        page: Some(number),
        pages: 1,
        page_type: view::page_type(page, format).and_then(|kind| kind.name(format.family())),
        index_id: view::index_id(page, format),
        stored: corruption.stored(),
        computed: corruption.computed(),
        ..about(
            path.map_or(Path::new(""), PathBuf::as_path),
            corruption.reason(),
            Severity::Damage,
            corruption.to_string(),
        )
    }
}

pub(super) fn unreadable_page(path: Option<&PathBuf>, number: u32, offset: u64, error: &str) -> Finding {
    let path = path.map_or(Path::new(""), PathBuf::as_path);
    let message = format!("the device cannot read byte {offset} of the file: {error}");
    Finding { page: Some(number), pages: 1, ..about(path, "unreadable_page", Severity::Undecided, message) }
}

pub(super) fn odd_type(
    path: Option<&PathBuf>,
    page: u32,
    family: Family,
    stored: PageType,
    expected: PageType,
) -> Finding {
    let name = |kind: PageType| kind.name(family).map_or_else(|| kind.to_string(), |name| format!("{kind} ({name})"));
    let message = format!(
        "the page has type {}, but type {} belongs here; the server does not look at it",
        name(stored),
        name(expected)
    );
    let path = path.map_or(Path::new(""), PathBuf::as_path);
    let finding = about(path, "page_type", Severity::Notice, message);
    let (stored, computed) = (Some(u64::from(stored.0)), Some(u64::from(expected.0)));
    Finding { page: Some(page), pages: 1, stored, computed, ..finding }
}

/// A header that the server refuses despite its valid checksum.
pub(super) fn header_fault(path: &Path, fault: &HeaderFault, severity: Severity) -> Finding {
    let (stored, computed) = fault.values();
    let finding = about(path, fault.reason(), severity, fault.to_string());
    let (stored, computed) = (Some(u64::from(stored)), computed.map(u64::from));
    Finding { page: Some(0), pages: 1, stored, computed, ..finding }
}

pub(super) fn with_freed(mut finding: Finding) -> Finding {
    finding.message.push_str(" (the page is free by the extent descriptors: no query reads it)");
    finding.severity = Severity::Notice;
    finding
}

pub(super) fn with_dropped(mut finding: Finding) -> Finding {
    finding.message.push_str(&format!(" ({})", DroppedTree::WHY));
    finding.severity = Severity::Notice;
    finding
}

/// What the redo log may still repair is not damage.
pub(super) fn severity_unless(recovery: Option<&str>) -> Severity {
    if recovery.is_some() { Severity::Undecided } else { Severity::Damage }
}

pub(super) fn append(message: &mut String, recovery: Option<&str>, hope: &str) {
    if let Some(log) = recovery {
        message.push_str("; ");
        message.push_str(log);
        message.push_str(", ");
        message.push_str(hope);
    }
}

/// An empty mount point or a wrong path: nothing bad was found because nothing was there.
pub(super) fn nothing_verified(path: &Path) -> Finding {
    let message = "nothing could be verified: there is no InnoDB tablespace, log or backup archive here";
    about(path, FindingCode::NOTHING_VERIFIED, Severity::Undecided, message.to_owned())
}

/// Damage if the name promises pages that the content lacks; any other file was just a wrong argument.
pub(super) fn not_a_tablespace(candidate: &Candidate, words: &str, redo: &mut RedoLogs) -> Finding {
    let path = candidate.path.as_path();
    if !candidate.hint.promises_pages() {
        return about(path, "not_a_tablespace", Severity::Undecided, words.to_owned());
    }
    if candidate.hint == NameHint::Temporary {
        let message = format!("{words}; harmless: the server recreates this file at every start");
        return about(path, "temporary_tablespace", Severity::Notice, message);
    }
    let recovery = redo.pending_for(path);
    let mut message = words.to_owned();
    append(&mut message, recovery, "crash recovery may yet create the tablespace");
    let reason = if candidate.len == 0 { "empty_file" } else { "not_a_tablespace" };
    about(path, reason, severity_unless(recovery), message)
}

/// The finding about a file that is no tablespace, and that no table uses. Beside a server the dictionary on disk may be older than the file.
pub(super) fn of_orphan(finding: &Finding, live: bool) -> Finding {
    let words = &finding.message;
    if live {
        let message = format!(
            "{words}, and no table uses this file, as far as the dictionary is on disk: if the server knows no table of that name, a server \
             that was killed while it created the table left the file, and it can be removed"
        );
        return Finding { severity: Severity::Undecided, message, ..finding.clone() };
    }
    let message = format!(
        "{words}, and no table of the dictionary uses this file: a server that was killed while it created the table leaves such a file; \
         remove it before you create a table of that name"
    );
    Finding { reason: "orphan_file".into(), severity: Severity::Notice, message, ..finding.clone() }
}

pub(super) fn first_page_lost(path: &Path, redo: &mut RedoLogs) -> Finding {
    let recovery = redo.pending_for(path);
    let mut message =
        "the page is all zeros: the space header is lost, and with it the record of which pages are in use".to_owned();
    append(&mut message, recovery, "crash recovery may yet write it");
    let finding = about(path, FindingCode::ZERO_PAGE_IN_USE, severity_unless(recovery), message);
    Finding { page: Some(0), pages: 1, ..finding }
}

/// A file that begins with a later page. Only the system tablespace and the one for temporary tables continue in further files.
pub(super) fn first_pages_missing(candidate: &Candidate, part: &SpacePart) -> Option<Finding> {
    let (path, first, space) = (&candidate.path, part.first_page, part.format.space());
    let (may_continue, is_known) = match candidate.hint {
        NameHint::Temporary => return None,
        // Their names can be chosen (innodb_data_file_path).
        NameHint::System(number) => (number > 1, true),
        NameHint::Unknown => (space == SpaceId::SYSTEM, space != SpaceId::NONE),
        _ => (false, true),
    };
    if may_continue {
        return None;
    }
    let what = if first == 1 {
        "its first page is missing".to_owned()
    } else {
        format!("its first {first} pages are missing")
    };
    let message = format!(
        "the file begins with page {first}: {what}, and with them the space header and every page's place. The server does not open such a \
         file; restore it, or put the missing pages before it if another copy has them"
    );
    let severity = if is_known { Severity::Damage } else { Severity::Undecided };
    let finding = about(path, "first_pages_missing", severity, message);
    Some(Finding { stored: Some(u64::from(first)), computed: Some(0), ..finding })
}

pub(super) fn overlapping(path: &Path, first: u32, next: u32) -> Finding {
    let message = format!(
        "the file begins with page {first} of the system tablespace, and the files before it go up to page {}: it is another \
         server's, or one of them is",
        next.saturating_sub(1)
    );
    let finding = about(path, "overlapping_files", Severity::Damage, message);
    Finding { stored: Some(u64::from(first)), computed: Some(u64::from(next)), ..finding }
}

pub(super) fn undecided_pages(path: &Path, reason: FindingCode, undecided: &Undecided) -> Finding {
    let noun = if undecided.pages == 1 { "page" } else { "pages" };
    let why = if reason == FindingCode::ENCRYPTED_NO_KEY { NO_KEY } else { &undecided.why };
    let message = format!("{} {noun} not verifiable: {why}", undecided.pages);
    Finding { pages: undecided.pages, ..about(path, reason, undecided.severity, message) }
}
