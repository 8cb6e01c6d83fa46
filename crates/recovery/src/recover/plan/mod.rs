//! The plan for a datadir: where its log ends, which tablespaces it changes, and what happens to their files.

pub(super) mod budget;
pub(super) mod dictionary_pages;
pub(super) mod draft;
pub(super) mod until;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::{Encryption, Lsn, PageId, SpaceFormat, SpaceId};

use crate::recover::space::PlannedSpace;
use crate::recover::survey::wanted::Wanted;
use datadir::doublewrite::Copies;
use datadir::page::PageOpener;

#[derive(Debug)]
pub(in crate::recover) struct RecoverPlan {
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
        let tables = self.spaces.iter().filter(|(id, _)| self.wanted.files.names.contains_key(id));
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

    /// The pages of tablespaces that `has_file` for which the server has a doublewrite copy.
    pub fn restorable(&self, has_file: impl Fn(SpaceId) -> bool) -> Vec<PageId> {
        let is_hidden = |format: &SpaceFormat| format.is_page_compressed() || format.encryption() != Encryption::None;
        let hidden = self.spaces.iter().filter(|(_, space)| is_hidden(&space.format)).map(|(&id, _)| id).collect();
        let mut opener = PageOpener::new();
        let mut is_known = |id: &PageId| {
            let space = self.spaces.get(&id.space).filter(|_| has_file(id.space));
            // The page is gone if the tablespace was truncated after the copy was made.
            let space = space.filter(|space| space.format.physical().offset_of(id.page_no.0) < space.len);
            space.is_some_and(|space| self.copy_of(*id, space, &mut opener).is_some())
        };
        let mut pages = self.copies.ids(&hidden);
        pages.retain(|id| is_known(id));
        pages
    }

    /// The pages of the doublewrite area with copies later than the end of the recovery, if it ends before the log does.
    pub fn later_copies(&self) -> Vec<PageId> {
        if self.wanted.rest.is_none() {
            return Vec::new();
        }
        let later = self.copies.later_than(self.wanted.end);
        let mut pages: Vec<PageId> = later.iter().map(|page_no| PageId::new(SpaceId::SYSTEM.0, page_no.0)).collect();
        pages.sort_unstable();
        // Both halves of the area may be given as the same place.
        pages.dedup();
        pages
    }
}
