//! A datadir, what is known about it, and what was found.

use std::collections::BTreeSet;
use std::path::PathBuf;

use format::Lsn;
use format::keyring::KeyStore;

use super::entry::Dictionary;
use crate::finding_code::FindingCode;
use crate::selection::Selection;
use crate::severity::Severity;
use crate::tablespace::Tablespace;

/// A finding about a datadir as a whole, or about a file's place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogFinding {
    /// The file, its expected place, or the datadir.
    pub path: PathBuf,
    /// `database.table`, if it is about one.
    pub table: Option<String>,
    /// Stable code.
    pub reason: FindingCode,
    /// How bad it is.
    pub severity: Severity,
    /// A sentence for people.
    pub message: String,
}

/// A tablespace that was read.
#[derive(Debug, Clone)]
pub struct Held {
    /// The tablespace.
    pub space: Tablespace,
    /// The sound pages among [`Catalog::roots`], each with its index id (`None` if it is not an index page). Roots missing here are read
    /// again.
    pub roots: Vec<(u32, Option<u64>)>,
    /// The highest LSN of the pages read.
    pub newest: Lsn,
}

/// One datadir of a run.
#[derive(Debug)]
pub struct Catalog {
    /// Its path, as given or below a given directory.
    pub(super) root: PathBuf,
    /// Every file found below it.
    pub(super) names: BTreeSet<PathBuf>,
    pub(super) says: Says,
    /// Keys, in case the dictionary must be read again.
    pub(super) keys: KeyStore,
    pub(super) page_size: Option<u32>,
    /// Where its system tablespace and its log are, if that is a folder of its own (`innodb_data_home_dir`) that was given too.
    pub(super) home: Option<PathBuf>,
    /// Of all tables, these.
    pub(super) selection: Selection,
}

/// What is known about the files that should exist.
#[derive(Debug)]
pub(super) enum Says {
    /// The whole dictionary.
    All(Dictionary),
    /// There is a dictionary, but it cannot be read: its file, and why.
    Unread(PathBuf, String),
    /// The file that should hold the dictionary is missing.
    Lost(PathBuf, &'static str),
    /// Not a datadir: tables, but no dictionary to list them.
    Folder,
}
