//! Findings in words, for a DBA at three in the morning: what, where, and what it means.

use std::path::{Path, PathBuf};

use format::Corruption;
use format::page::fil;

use super::desk::Known;
use crate::out::report::{Finding, Severity};

/// A path as it is shown in reports.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A finding about a whole file or a stretch of pages.
pub(super) fn about(path: &Path, reason: &'static str, severity: Severity, message: String) -> Finding {
    Finding {
        path: shown(path),
        page: None,
        pages: 0,
        position: None,
        lsn: None,
        page_type: None,
        index_id: None,
        severity,
        reason,
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
        page_type: fil::page_type(page, format).and_then(|kind| kind.name(format.family())),
        index_id: fil::index_id(page, format),
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
    let message = format!("the device does not give byte {offset} of the file: {error}");
    Finding { page: Some(number), pages: 1, ..about(path, "unreadable_page", Severity::Damage, message) }
}
