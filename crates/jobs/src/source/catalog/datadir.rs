//! A datadir, what is known of it, and what is said about it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use format::Lsn;
use format::keyring::KeyStore;

use super::entry::Dictionary;
use crate::finding_code::FindingCode;
use crate::report::document::Severity;
use crate::tree::Tablespace;

/// Something about a datadir as a whole, or about a file's place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogFinding {
    /// The file, or where it should be, or the datadir.
    pub path: PathBuf,
    /// `database.table`, where it is about one.
    pub table: Option<String>,
    /// Stable code.
    pub reason: FindingCode,
    /// What it weighs.
    pub severity: Severity,
    /// A sentence for people.
    pub message: String,
}

/// A tablespace that was read.
#[derive(Debug, Clone)]
pub struct Held {
    /// The tablespace.
    pub space: Tablespace,
    /// Pages of [`Catalog::roots`] that were sound, with the numbers of their indexes; none of a page that is no index's. What is not
    /// here is read again.
    pub roots: Vec<(u32, Option<u64>)>,
    /// The highest LSN of its pages that were read.
    pub newest: Lsn,
}

/// One datadir of a run.
#[derive(Debug)]
pub struct Catalog {
    /// Its path, as given or below a directory as given.
    pub(super) root: PathBuf,
    /// Every file that was met below it.
    pub(super) names: BTreeSet<PathBuf>,
    pub(super) says: Says,
    /// What opens its dictionary, should that have to be read again.
    pub(super) keys: KeyStore,
    pub(super) page_size: Option<u32>,
}

/// What is known of what should be there.
#[derive(Debug)]
pub(super) enum Says {
    /// All of it.
    All(Dictionary),
    /// Nothing: there is a dictionary, and why it cannot be read.
    Unread(PathBuf, String),
    /// The file that should hold the dictionary is not there.
    Lost(PathBuf, &'static str),
    /// It is no datadir: files with tables, without what would say which there should be.
    Folder,
}
