//! What a log says about the names of tablespaces by its end.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use format::keyring::KeyStore;
use format::{Lsn, SpaceId};

use super::budget::Budget;
use super::error::Result;
use super::log::RedoLog;
use super::wanted::Wanted;

/// Names of tablespaces, by the log of a datadir that need not have any other file yet.
#[derive(Debug)]
pub(crate) struct LogNames {
    names: HashMap<SpaceId, Vec<PathBuf>>,
    owners: HashMap<PathBuf, SpaceId>,
    dropped: HashSet<SpaceId>,
    end: Lsn,
}

impl LogNames {
    /// Reads the log of `datadir`.
    pub fn read(datadir: &Path, keys: &KeyStore, memory: usize) -> Result<Self> {
        let log = RedoLog::open(datadir, false, keys)?;
        let wanted = Wanted::read(&log, Budget::of(memory).plan, 0, None)?;
        Ok(Self { names: wanted.names, owners: wanted.owners, dropped: wanted.deleted, end: wanted.log_end })
    }

    /// Where the log ends. Recovery may end before that: names of tablespaces at the end change nothing.
    pub const fn end(&self) -> Lsn {
        self.end
    }

    /// Whether a tablespace is gone by the end.
    pub fn is_dropped(&self, space: SpaceId) -> bool {
        self.dropped.contains(&space)
    }

    /// The name that a tablespace had last, if the log names it at all.
    pub fn last_name(&self, space: SpaceId) -> Option<&PathBuf> {
        self.names.get(&space)?.last()
    }

    /// Whether any tablespace had this name.
    pub fn knows(&self, name: &Path) -> bool {
        self.owners.contains_key(name)
    }
}
