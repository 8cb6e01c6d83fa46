//! The state kept after the last page, while the report is made.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::examined::{Log, Member};
use super::fate;
use super::file_state::{FileTally, Known};
use super::findings::Findings;
use super::log_ends::LogEnds;
use super::portion::Share;
use super::usage::{Usage, UsageMap};
use crate::source::datadir::{Candidate, Inventory};
use crate::source::redo_log::RedoLogs;

/// One file with all its sums.
pub(super) struct SettledFile {
    pub candidate: Candidate,
    pub key: Option<fate::FileKey>,
    pub head: Result<Known, String>,
    pub tally: FileTally,
    /// What it is, if not a tablespace.
    pub log: Option<Log>,
    /// It ended early, and a finding already says so.
    pub is_cut: bool,
    /// The part that was read.
    pub share: Share,
    pub member: Option<Member>,
    /// Not a tablespace yet: its server is creating it.
    pub is_new: bool,
    /// Removed, replaced or truncated while its server had it open, as servers do: skip everything that depends on the rest of it.
    pub gone: bool,
}

/// A tablespace: its files in order, by file number.
pub(super) struct SettledSpace {
    pub files: Vec<u32>,
    pub usage: Arc<UsageMap>,
}

pub(super) struct Settling<'i> {
    pub inventory: &'i Inventory,
    pub done: Vec<SettledFile>,
    pub findings: Findings,
    pub redo: RedoLogs,
    pub freed_damage: BTreeMap<u32, Arc<Usage>>,
    /// A server may be writing the files.
    pub live: bool,
    /// Files that the server has created but not yet written.
    pub unflushed: Vec<PathBuf>,
    pub ends: LogEnds<'i>,
}
