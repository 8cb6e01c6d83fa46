//! What is to be done to a datadir, found out before anything is written: where its log ends, which tablespaces it changes, what
//! becomes of their files, and whether all of it can be done.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::codec::Scratch;
use format::keyring::KeyStore;
use format::redo::apply::{Outcome, Replay};
use format::{Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceHeader, SpaceId};

use super::crypt::{self, SpaceCrypt};
use super::doublewrite::Copies;
use super::error::{Result, damaged, refused};
use super::survey::{Head, Survey};
use super::until::{Rest, check_outside};
use super::wanted::Wanted;
use crate::source::keys::SpaceKey;

/// Pages of the server's size that a table's file has at least, however small its own pages are: the server refuses a shorter one.
const TABLE_SIZE_MIN: u64 = 4;

/// One file of a tablespace.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Relative to the datadir, or absolute.
    pub path: PathBuf,
    /// Of its first byte, in the tablespace.
    pub start: u64,
}

/// A tablespace that the log changes.
#[derive(Debug)]
pub(super) struct Space {
    /// Its file, relative to the datadir or absolute, once everything is done.
    pub path: PathBuf,
    /// Its file now, if it has another name.
    pub renamed_from: Option<PathBuf>,
    /// The files behind the first one, which only the system tablespace has.
    pub more: Vec<Part>,
    /// Its file is not there, or holds nothing yet.
    pub is_new: bool,
    /// As its first page will say.
    pub format: SpaceFormat,
    pub crypt: SpaceCrypt,
    /// Bytes that the file must have, or all files together.
    pub len: u64,
    /// Whether the file ends there.
    pub is_trimmed: bool,
}

impl Plan {
    /// What the server is to be told of the files of tables.
    pub fn named(&self) -> Vec<(SpaceId, Vec<u8>)> {
        let tables = self.spaces.iter().filter(|(id, _)| self.wanted.names.contains_key(id));
        let name = |path: &Path| {
            let here: &[u8] = if path.is_absolute() { b"" } else { b"./" };
            [here, path.as_os_str().as_bytes()].concat()
        };
        tables.map(|(id, space)| (*id, name(&space.path))).collect()
    }

    /// The copy that the server made of a page before it wrote it for the last time, if it has one.
    pub fn copy_of(&self, id: PageId, space: &Space, scratch: &mut Scratch) -> Option<&[u8]> {
        let lsns = (self.checkpoint, self.wanted.end);
        self.copies.find(id, &space.format, &space.crypt.key, lsns, scratch)
    }
}

impl Space {
    /// Its files, once everything is done.
    pub fn parts(&self) -> Vec<Part> {
        let first = Part { path: self.path.clone(), start: 0 };
        [first].into_iter().chain(self.more.iter().cloned()).collect()
    }

    /// Its files as they are called now.
    pub fn parts_now(&self) -> Vec<Part> {
        let mut parts = self.parts();
        if let (Some(first), Some(name)) = (parts.first_mut(), &self.renamed_from) {
            first.path.clone_from(name);
        }
        parts
    }

    /// Whether files of `len` bytes are to be given another size.
    pub const fn needs_resizing(&self, len: u64) -> bool {
        len < self.len || (self.is_trimmed && len > self.len)
    }
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    pub wanted: Wanted,
    pub spaces: BTreeMap<SpaceId, Space>,
    pub copies: Copies,
    pub checkpoint: Lsn,
    /// Files outside of the datadir that belong to it.
    pub outside: Vec<PathBuf>,
}

impl Plan {
    /// Reads the first page of every tablespace.
    pub fn make(datadir: &Path, mut wanted: Wanted, keys: &KeyStore) -> Result<Self> {
        if let Some((space, name)) = &wanted.strange {
            return refused(format!("tablespace {space} is called `{name}`, which is not a name that a server gives"));
        }
        let survey = Survey::take(datadir, &wanted)?;
        let checkpoint = wanted.checkpoint;
        let Some(system) = Head::read(&datadir.join("ibdata1"))? else {
            return damaged("the first page of ibdata1 is damaged");
        };
        let copies = Copies::read(datadir, &survey.system, &system.format)?;
        if wanted.rest.is_some() && !copies.later_than(wanted.end).is_empty() {
            wanted.changed.insert(SpaceId::SYSTEM);
        }
        let rest = wanted.rest.as_ref();
        rest.map_or(Ok(()), |rest| rest.check_files(datadir, &wanted, &survey))?;
        let find = Find { datadir, wanted: &wanted, survey: &survey, copies: &copies, checkpoint, keys };
        let mut spaces = BTreeMap::new();
        // Also those that change later only: are they as they should be?
        let later = rest.map(Rest::spaces).unwrap_or_default();
        for &space in wanted.changed.iter().chain(&later).filter(|space| !wanted.deleted.contains(space)) {
            spaces.insert(space, find.space(space, system.format.logical())?);
        }
        crypt::prove(datadir, spaces.values_mut(), survey.files.values().flatten(), wanted.cipher, keys)?;
        let mut plan = Self { wanted, spaces, copies, checkpoint, outside: survey.outside };
        plan.wanted.rest.as_ref().map_or(Ok(()), |rest| rest.check_pages(datadir, &plan))?;
        let changed = &plan.wanted.changed;
        plan.spaces.retain(|space, _| changed.contains(space));
        check_outside(datadir, &plan)?;
        Ok(plan)
    }
}

/// Where a tablespace is found, and what it is.
struct Find<'p> {
    datadir: &'p Path,
    wanted: &'p Wanted,
    survey: &'p Survey,
    copies: &'p Copies,
    checkpoint: Lsn,
    keys: &'p KeyStore,
}

impl Find<'_> {
    fn space(&self, space: SpaceId, logical: PageSize) -> Result<Space> {
        let names = self.wanted.names_of(space);
        let found = self.survey.files.get(&space).map(Vec::as_slice).unwrap_or_default();
        if let (true, [one, other, ..]) = (names.is_empty(), found) {
            let (one, other) = (one.display(), other.display());
            return refused(format!(
                "tablespace {space} is both {one} and {other}: take away the one that is not in use"
            ));
        }
        let Some(path) = names.last().or(found.first()) else {
            return refused(format!(
                "tablespace {space} is missing: the log changes it, and no file of the datadir has its number (undo tablespaces that \
                 innodb_undo_directory puts elsewhere can be linked into the datadir)"
            ));
        };
        let by_number = found.iter().find(|file| *file == path).or(found.iter().find(|file| names.contains(file)));
        if by_number.is_none() && !found.is_empty() {
            let list: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
            let (name, list) = (path.display(), list.join(", "));
            return refused(format!("tablespace {space} should be {name}, but lies in {list}"));
        }
        let here = by_number.or(names.iter().rev().find(|name| self.is_unwritten(space, name)));
        let head = match by_number {
            Some(file) => Head::read(&self.datadir.join(file))?,
            None => self.head_elsewhere(space, here.unwrap_or(path), logical)?,
        };
        let renamed_from = here.filter(|file| *file != path).cloned();
        if renamed_from.is_some() && self.is_taken(path)? {
            return refused(format!("tablespace {space} should be {}, which is another's file", path.display()));
        }
        let is_new = here.is_none() && head.is_none();
        let size_now = head.as_ref().and_then(|head| SpaceHeader::parse(&head.page0).ok()).map_or(0, |now| now.size);
        let page0_now = head.as_ref().map(|head| head.page0.clone());
        let (format, header, page0) = self.after_redo(space, path, head, logical)?;
        let (crypt, format) = SpaceCrypt::find(path, page0_now.as_deref(), &page0, format, self.keys)?;
        let mut len = u64::from(header.size) * format.physical().bytes() as u64;
        if !names.is_empty() {
            len = len.max(TABLE_SIZE_MIN * logical.bytes() as u64);
        }
        let mut more = Vec::new();
        if space == SpaceId::SYSTEM {
            self.survey.system.check(&format, size_now, header.size)?;
            more = self.survey.system.more();
        }
        let is_trimmed = self.wanted.voids.is_trimmed(space);
        Ok(Space { path: path.clone(), renamed_from, more, is_new, format, crypt, len, is_trimmed })
    }

    /// Whether the file of this name is that of the tablespace though its first page does not say so: it was not written yet.
    fn is_unwritten(&self, space: SpaceId, name: &Path) -> bool {
        let path = self.datadir.join(name);
        self.wanted.owners.get(name) == Some(&space) && path.is_file() && matches!(Head::read(&path), Ok(None))
    }

    /// Whether a file of this name holds a tablespace that stays there.
    fn is_taken(&self, path: &Path) -> Result<bool> {
        let path_now = self.datadir.join(path);
        if !path_now.exists() {
            return Ok(false);
        }
        let Some(head) = Head::read(&path_now)? else { return Ok(true) };
        Ok(self.wanted.names_of(head.format.space()).last().is_none_or(|last| last == path))
    }

    /// The head of a file whose first page is torn, from its copy; `None` if the log makes it anew.
    fn head_elsewhere(&self, space: SpaceId, path: &Path, logical: PageSize) -> Result<Option<Head>> {
        let file = self.datadir.join(path);
        let id = PageId::new(space.0, 0);
        let other = if file.exists() { Head::read(&file)? } else { None };
        if let Some(other) = other {
            let other = other.format.space();
            return refused(format!("{} should be tablespace {space}, but is {other}", path.display()));
        }
        if self.wanted.heads.redo(id).is_void {
            return Ok(None);
        }
        if !file.exists() {
            return refused(format!("{} is missing: the log changes it as tablespace {space}", path.display()));
        }
        let mut scratch = Scratch::new();
        for physical in PageSize::ALL.into_iter().filter(|size| *size <= logical) {
            let schemes = [Scheme::FullCrc32, Scheme::Classic, Scheme::Zip];
            for format in
                schemes.iter().filter_map(|scheme| SpaceFormat::new(Family::MariaDb, *scheme, logical, physical, space))
            {
                // First pages are never encrypted.
                let (key, lsns) = (SpaceKey::None, (self.checkpoint, self.wanted.end));
                let copy = self.copies.find(id, &format, &key, lsns, &mut scratch);
                if let Some(head) = copy.and_then(Head::parse) {
                    return Ok(Some(head));
                }
            }
        }
        damaged(format!("the first page of {} is damaged, and there is no copy of it", path.display()))
    }

    /// What the first page will say.
    fn after_redo(
        &self,
        space: SpaceId,
        path: &Path,
        head: Option<Head>,
        logical: PageSize,
    ) -> Result<(SpaceFormat, SpaceHeader, Vec<u8>)> {
        let id = PageId::new(space.0, 0);
        let redo = self.wanted.heads.redo(id);
        // The pages of a compressed table are smaller; its first one does not reach further than they do.
        let unknown = SpaceFormat::new(Family::MariaDb, Scheme::FullCrc32, logical, logical, space);
        let is_void = redo.is_void;
        let (format, mut page0) = match (head, unknown) {
            (Some(head), _) if !is_void => (head.format, head.page0),
            (_, Some(unknown)) => (unknown, vec![0; logical.bytes()]),
            (_, None) => return refused(format!("{}: pages of {logical:?} are not known", path.display())),
        };
        let applied = Replay::onto(&mut page0, id, &format).and_then(|mut replay| {
            redo.into_iter().try_for_each(|mtr| replay.apply(&mtr))?;
            Ok(replay.finish())
        });
        let (name, page0) = (path.display(), page0);
        match applied {
            Err(error) => damaged(format!("{name}: the first page: {error}")),
            Ok(Outcome::Freed) => damaged(format!("{name}: the log frees the first page")),
            Ok(_) => match (SpaceFormat::from_page0(&page0), SpaceHeader::parse(&page0)) {
                (Ok(format), Ok(header)) if format.space() == space => Ok((format, header, page0)),
                _ => damaged(format!("{name}: with its redo, the first page is not that of tablespace {space}")),
            },
        }
    }
}
