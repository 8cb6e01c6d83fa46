//! The tablespaces of a datadir, according to their first pages.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use format::bytes::be;
use format::fil::{FIL_PAGE_LSN, FIL_PAGE_OFFSET, FIL_PAGE_SPACE_ID};
use format::keyring::KeyStore;
use format::page::fsp::FSP_SPACE_ID;
use format::{Lsn, PageNo, PageSize, SpaceId};

use redo::record::Grammar;

use super::wanted::Wanted;
use crate::door;
use crate::recover::error::{Result, failed, refused};
use crate::recover::foreign::backup_files::FileNotes;
use crate::recover::place::outside;
use crate::recover::place::outside::refuse_open;
use crate::recover::place::walk::walk;
use crate::recover::space::head::Head;
use crate::recover::space::system::SystemFiles;
use datadir::inventory::link_target;
use datadir::name::NameHint;
use datadir::reading::read_up_to;

/// The page with the highest LSN.
#[derive(Debug)]
pub(in crate::recover) struct NewestPage {
    pub path: PathBuf,
    pub page_no: PageNo,
    pub lsn: Lsn,
}

/// The files found in a datadir.
#[derive(Debug)]
pub(in crate::recover) struct Survey {
    /// Files with a sound page 0, by tablespace; relative to the datadir, or absolute if outside.
    pub files: HashMap<SpaceId, Vec<PathBuf>>,
    /// Files outside the datadir that belong to it, sound or not.
    pub outside: Vec<PathBuf>,
    pub system: SystemFiles,
    /// The newest page seen.
    pub newest: NewestPage,
    /// Files named like tablespaces, but without a sound page 0; relative to the datadir.
    unsound: Vec<PathBuf>,
    /// Link files, relative to the datadir.
    links: Vec<PathBuf>,
    /// A backup's notes about its files.
    notes: FileNotes,
}

/// Whether the name is one that backup tools give to a file that they compress or encrypt.
pub(in crate::recover) fn is_packed(name: &Path) -> bool {
    name.extension().is_some_and(|ending| ["qp", "gz", "zst", "lz4", "xbcrypt"].iter().any(|packed| ending == *packed))
}

/// Whether a damaged page 0 states this number.
fn states_space(page0: &[u8], space: SpaceId) -> bool {
    // Zeros state number 0. The first page that MySQL gives a new file has LSN 0.
    let is_written = space != SpaceId::SYSTEM || be::u64_at(page0, FIL_PAGE_LSN).is_some_and(|lsn| lsn != 0);
    let is_first = be::u32_at(page0, FIL_PAGE_OFFSET) == Some(0);
    is_written && is_first && [FIL_PAGE_SPACE_ID, FSP_SPACE_ID].iter().all(|at| be::u32_at(page0, *at) == Some(space.0))
}

impl Survey {
    /// Examines every file named like a tablespace, and outside files named by the log, a link file or MySQL's dictionary.
    pub fn take(datadir: &Path, wanted: &Wanted, keys: &KeyStore) -> Result<Self> {
        let system = SystemFiles::find(datadir)?;
        let newest = NewestPage { path: PathBuf::new(), page_no: PageNo(0), lsn: Lsn(0) };
        let files = HashMap::new();
        let notes = if wanted.kind.is_backup { FileNotes::read(datadir)? } else { FileNotes::default() };
        let mut survey =
            Self { files, outside: Vec::new(), system, newest, unsound: Vec::new(), links: Vec::new(), notes };
        walk(datadir, &mut |name, metadata| {
            if !metadata.is_file() {
                return Ok(());
            }
            if wanted.kind.is_backup && is_packed(name) {
                return refused(format!("{}: packed: unpack the backup first", datadir.join(name).display()));
            }
            survey.look_at(datadir, name)
        })?;
        // All files of a backup are inside it.
        if wanted.kind.is_backup {
            return Ok(survey);
        }
        survey.look_outside(datadir, wanted, keys)?;
        Ok(survey)
    }

    fn look_outside(&mut self, datadir: &Path, wanted: &Wanted, keys: &KeyStore) -> Result<()> {
        let links = std::mem::take(&mut self.links).into_iter();
        let linked = links.filter_map(|link| link_target(&datadir.join(link)).ok());
        let named = wanted.names_outside().cloned().chain(linked.filter(|path| path.is_absolute()));
        // MySQL has no link files, and its log has only the names of new files. If the dictionary cannot be read before recovery, any other
        // tablespace that the log changes is missing.
        let is_mysql = wanted.kind.grammar == Grammar::MySql;
        let listed = if is_mysql { outside::of_mysql(datadir, wanted.files.said.values(), keys) } else { Vec::new() };
        let mut seen = HashSet::new();
        for path in named.chain(listed) {
            // A dangling link is left over from a dropped table.
            let Ok(file) = fs::metadata(&path) else { continue };
            if !file.is_file() || !seen.insert((file.dev(), file.ino())) {
                continue;
            }
            if let Some(head) = Head::read(&path)? {
                let files = self.files.entry(head.format.space()).or_default();
                // MySQL's server takes what is in the datadir, as in a copy that it has not started on yet.
                if is_mysql && !files.is_empty() {
                    continue;
                }
                files.push(path.clone());
                self.note(&path, &head);
            } else if is_mysql {
                self.unsound.push(path.clone());
            }
            self.outside.push(path);
        }
        self.outside.sort();
        refuse_open(&self.outside)
    }

    fn look_at(&mut self, datadir: &Path, name: &Path) -> Result<()> {
        // Skip files that will be deleted; for the others the final name counts.
        let Some(last_name) = self.notes.name_of(name) else { return Ok(()) };
        let hint = NameHint::of(&last_name);
        if hint == NameHint::Link {
            self.links.push(name.to_path_buf());
        } else if hint.is_of_server(&last_name) {
            match Head::read(&datadir.join(name))? {
                Some(head) => {
                    self.note(name, &head);
                    self.files.entry(head.format.space()).or_default().push(name.to_path_buf());
                }
                None => self.unsound.push(name.to_path_buf()),
            }
        }
        Ok(())
    }

    fn note(&mut self, path: &Path, head: &Head) {
        let (page_no, lsn) = head.newest;
        if lsn > self.newest.lsn {
            self.newest = NewestPage { path: path.to_path_buf(), page_no, lsn };
        }
    }

    /// Removes the files of these tablespaces from the survey, and returns them.
    pub fn without(&mut self, spaces: BTreeSet<SpaceId>) -> Vec<PathBuf> {
        spaces.into_iter().filter_map(|space| self.files.remove(&space)).flatten().collect()
    }

    /// The file without a sound page 0 that will have this name.
    pub fn unsound_as(&self, name: &Path) -> Option<&PathBuf> {
        self.unsound.iter().find(|file| self.notes.name_of(file).as_deref() == Some(name))
    }

    /// The file of a tablespace without a sound page 0, identified by what is left of that page, or by the second one.
    pub fn unsound_of(&self, datadir: &Path, space: SpaceId) -> Result<Option<&PathBuf>> {
        for name in &self.unsound {
            let path = datadir.join(name);
            let bytes = door::open_file(&path).and_then(|file| read_up_to(&file, 0, 2 * PageSize::MAX.bytes()));
            let bytes = bytes.map_err(failed(&path, "reading the first pages"))?;
            let says_so = |size: &PageSize| {
                let page = bytes.get(size.bytes()..).unwrap_or_default();
                let number = be::u32_at(page, FIL_PAGE_OFFSET);
                number == Some(1) && be::u32_at(page, FIL_PAGE_SPACE_ID) == Some(space.0)
            };
            if states_space(&bytes, space) || PageSize::ALL.iter().any(says_so) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}
