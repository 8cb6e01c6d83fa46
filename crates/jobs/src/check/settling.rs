//! What is known after the last page, while the report is made of it.

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
    /// What it is, if it is no tablespace.
    pub log: Option<Log>,
    /// Its bytes ended early, which a finding says already.
    pub is_cut: bool,
    /// Which part of it was read.
    pub share: Share,
    pub member: Option<Member>,
    /// It is not a tablespace yet: its server is making it.
    pub is_new: bool,
    /// Removed, replaced or cut while its server had it open, as servers do: nothing that depends on the rest of it is known.
    pub gone: bool,
}

/// A tablespace: its files in order, by their numbers in the run.
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
    /// Files that the server has made and not yet written.
    pub unflushed: Vec<PathBuf>,
    pub ends: LogEnds<'i>,
}
