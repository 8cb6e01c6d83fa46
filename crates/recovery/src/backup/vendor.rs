//! What differs between the servers that innokit backs up. The rest is the same for all: see `mod.rs`.

use std::collections::BTreeSet;
use std::path::Path;

use format::{Lsn, SpaceId};

use super::error::Result;
use super::follower::{Followed, Follower};
use super::tablespaces::{Placed, Tablespaces};
use datadir::keys::KeyFiles;
use datadir::server::{BackupServer, LogServer, ServerFacts};

/// Where the log of a set begins and ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogRange {
    pub from: Lsn,
    pub to: Lsn,
}

/// Tables whose indexes must be looked at before a backup counts as one.
#[derive(Debug, Clone, Default)]
pub(super) struct Altered {
    /// Tablespaces that got indexes since the log of the backup begins.
    pub spaces: BTreeSet<SpaceId>,
    /// Indexes with pages without redo: these are not empty.
    pub filled: BTreeSet<u64>,
}

/// One vendor's servers. The steps of a backup are declared in the order in which they are called.
pub(super) trait Vendor: Sync {
    /// Refuses versions and settings that cannot be backed up, before anything is copied.
    fn check(&self, server: &mut dyn BackupServer, facts: &ServerFacts, datadir: &Path, keys: &KeyFiles) -> Result<()>;

    /// Whether tablespaces also lie in the datadir itself, beside the databases' directories.
    fn has_general_tablespaces(&self) -> bool;

    /// Follows the log of `datadir` into the directory `redo`, on a thread of its own, until told to stop. It reports an LSN only once the
    /// newest checkpoint and everything from there to that LSN are in the directory.
    fn follow(&self, log: &mut dyn LogServer, datadir: &Path, redo: &Path, followed: &Followed) -> Result<()>;

    /// The checkpoint that the followed log begins with.
    fn from(&self, redo: &Path) -> Result<Lsn>;

    /// Called with definitions blocked: the tablespaces changed without redo since the last call. They are copied again.
    fn outdated(
        &self,
        server: &mut dyn BackupServer,
        follower: &mut Follower<'_>,
        datadir: &Path,
        redo: &Path,
    ) -> Result<BTreeSet<SpaceId>>;

    /// Called after the moment of the backup: whether the copies are of the files that the server has now. If not, whatever is missing is
    /// copied and another moment is taken.
    fn is_settled(&self, server: &mut dyn BackupServer, datadir: &Path, tablespaces: &Tablespaces<'_>) -> Result<bool>;

    /// Whether commits are blocked while the moment is taken.
    fn blocks_commits(&self) -> bool;

    /// Makes the set's log from the followed one. It ends with the last mini-transaction that ends at or before `until`.
    fn join(&self, redo: &Path, set: &Path, until: Lsn) -> Result<LogRange>;

    /// Gives the copies the names their tablespaces have at the moment of the backup, and removes the copies of dropped ones.
    fn place(&self, tablespaces: Tablespaces<'_>, set: &Path, range: LogRange) -> Result<Placed>;

    /// What the redo does not build by itself, and was altered while it was copied.
    fn altered(&self) -> Altered {
        Altered::default()
    }

    /// Whether recovering the set needs keys, as far as its log is concerned.
    fn needs_keys(&self, keys: &KeyFiles) -> bool;
}
