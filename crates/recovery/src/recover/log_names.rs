//! The names of tablespaces at the end of a log.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use format::keyring::KeyStore;
use format::{Lsn, SpaceId};

use crate::recover::error::Result;
use crate::recover::log::RedoLog;
use crate::recover::plan::budget::Budget;
use crate::recover::survey::wanted::Wanted;

/// Names of tablespaces according to a datadir's log. The datadir need not have any other file yet.
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
        Ok(Self {
            names: wanted.files.names,
            owners: wanted.files.owners,
            dropped: wanted.files.deleted,
            end: wanted.log_end,
        })
    }

    /// Where the log ends. A recovery may end earlier, if only names of tablespaces follow.
    pub const fn end(&self) -> Lsn {
        self.end
    }

    /// Whether a tablespace is gone by the end.
    pub fn is_dropped(&self, space: SpaceId) -> bool {
        self.dropped.contains(&space)
    }

    /// The last name of a tablespace, if the log names it at all.
    pub fn last_name(&self, space: SpaceId) -> Option<&PathBuf> {
        self.names.get(&space)?.last()
    }

    /// Whether any tablespace ever had this name.
    pub fn knows(&self, name: &Path) -> bool {
        self.owners.contains_key(name)
    }
}
