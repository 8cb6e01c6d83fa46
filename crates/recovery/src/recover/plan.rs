//! The plan for a datadir: where its log ends, which tablespaces it changes, and what happens to their files.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::{Lsn, PageId, SpaceId};

use super::space::PlannedSpace;
use super::wanted::Wanted;
use datadir::doublewrite::Copies;
use datadir::page::PageOpener;

#[derive(Debug)]
pub(super) struct RecoverPlan {
    pub wanted: Wanted,
    pub spaces: BTreeMap<SpaceId, PlannedSpace>,
    pub copies: Copies,
    pub checkpoint: Lsn,
    /// Files outside the datadir that belong to it.
    pub outside: Vec<PathBuf>,
    /// Tablespaces changed by a backup's log but missing in the backup.
    pub not_in_backup: Vec<String>,
    /// Files of tablespaces that were dropped after a base copy of MySQL.
    pub dropped: Vec<PathBuf>,
}

impl RecoverPlan {
    /// The names of table files to announce to the server.
    pub fn named(&self) -> Vec<(SpaceId, Vec<u8>)> {
        let tables = self.spaces.iter().filter(|(id, _)| self.wanted.names.contains_key(id));
        let name = |path: &Path| {
            let here: &[u8] = if path.is_absolute() { b"" } else { b"./" };
            [here, path.as_os_str().as_bytes()].concat()
        };
        tables.map(|(id, space)| (*id, name(&space.path))).collect()
    }

    /// The doublewrite copy that the server made before it last wrote the page; `None` if it has none.
    pub fn copy_of(&self, id: PageId, space: &PlannedSpace, opener: &mut PageOpener) -> Option<&[u8]> {
        self.copies.find(space.at(id), self.wanted.lsns_of_copies(), opener)
    }
}
