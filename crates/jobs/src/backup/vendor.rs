//! What differs between the servers that are backed up. Everything else is the same for all: see `mod.rs`.

use std::collections::BTreeSet;
use std::path::Path;

use format::{Lsn, SpaceId};

use super::error::Result;
use super::follower::{Followed, Follower};
use super::tablespaces::Tablespaces;
use crate::manifest::BackupTablespace;
use crate::server::{BackupServer, LogServer, ServerFacts};
use crate::source::keys::KeyFiles;

/// Where the log of a set begins and ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogRange {
    pub from: Lsn,
    pub to: Lsn,
}

/// A kind of server. The order of the calls is that of the methods.
pub(super) trait Vendor: Sync {
    /// Refuses versions and settings that cannot be backed up, before anything is copied.
    fn check(&self, server: &mut dyn BackupServer, facts: &ServerFacts, datadir: &Path, keys: &KeyFiles) -> Result<()>;

    /// Whether tablespaces lie beside the databases too.
    fn has_general_tablespaces(&self) -> bool;

    /// Follows the log of `datadir` into the directory `redo`, on a thread of its own, until it is told to stop. It reports an LSN only when
    /// the newest checkpoint and everything from there to that LSN are in the directory.
    fn follow(&self, log: &mut dyn LogServer, datadir: &Path, redo: &Path, followed: &Followed) -> Result<()>;

    /// The checkpoint with which the followed log begins.
    fn from(&self, redo: &Path) -> Result<Lsn>;

    /// With definitions blocked: tablespaces that were changed without redo since the last such question. They are copied again.
    fn outdated(
        &self,
        server: &mut dyn BackupServer,
        follower: &mut Follower<'_>,
        datadir: &Path,
        redo: &Path,
    ) -> Result<BTreeSet<SpaceId>>;

    /// Whether the copies are of the files that the server has, now that the moment of the backup has been. If not, all is copied that is
    /// missing, and another moment is taken.
    fn is_settled(&self, server: &mut dyn BackupServer, datadir: &Path, tablespaces: &Tablespaces<'_>) -> Result<bool>;

    /// Whether commits have to wait for the moment.
    fn blocks_commits(&self) -> bool;

    /// Makes the log of the set from what was followed. It ends with the last mini-transaction that ends at or before `until`.
    fn join(&self, redo: &Path, set: &Path, until: Lsn) -> Result<LogRange>;

    /// Gives the copies the names that the tablespaces have at the moment of the backup, and removes those of dropped ones. Returns what is
    /// in the set.
    fn place(&self, tablespaces: Tablespaces<'_>, set: &Path, range: LogRange) -> Result<Vec<BackupTablespace>>;

    /// Whether keys are needed to recover the set, as far as the followed log tells.
    fn needs_keys(&self, keys: &KeyFiles) -> bool;
}
