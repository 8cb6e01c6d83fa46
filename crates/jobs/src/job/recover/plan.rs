//! What is to be done to a datadir, found out before anything is written: where its log ends, which tablespaces it changes, what
//! becomes of their files, and whether all of it can be done.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use format::redo::apply::{Outcome, Replay};
use format::redo::record::{Change, FileRecord, Mtr, RedoRecord};
use format::{Encryption, Family, Lsn, PageId, PageSize, Scheme, SpaceFormat, SpaceHeader, SpaceId};

use super::doublewrite::Copies;
use super::error::{Result, damaged, refused};
use super::log::RedoLog;
use super::survey::{Head, Survey};
use super::voids::Voids;
use crate::redo_batch::RedoBatch;

/// Pages of the server's size that a table's file has at least, however small its own pages are: the server refuses a shorter one.
const TABLE_SIZE_MIN: u64 = 4;

/// What the log says of the tablespaces.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Where it begins to count.
    pub checkpoint: Lsn,
    /// Where the log ends.
    pub end: Lsn,
    pub mtrs: u64,
    /// Names of a tablespace, in the order of the log; none twice in a row.
    names: HashMap<SpaceId, Vec<PathBuf>>,
    /// Which tablespace had a name last.
    owners: HashMap<PathBuf, SpaceId>,
    /// Where the log ends with nothing but names: where those begin.
    named_from: Option<Lsn>,
    /// Tablespaces with redo.
    changed: BTreeMap<SpaceId, ()>,
    /// From these mini-transactions on, what came before is worthless.
    trimmed: HashMap<SpaceId, Lsn>,
    deleted: HashMap<SpaceId, ()>,
    /// The same for pages.
    voids: Voids,
    /// The redo of first pages.
    heads: RedoBatch,
    names_checkpoint: bool,
    /// Nothing follows the checkpoint but its own record.
    pub is_clean: bool,
    /// A name that leads out of the datadir.
    outside: Option<(SpaceId, String)>,
}

/// A tablespace that the log changes.
#[derive(Debug)]
pub(super) struct Space {
    /// Its file, relative to the datadir, once everything is done.
    pub path: PathBuf,
    /// Its file now, if it has another name.
    pub renamed_from: Option<PathBuf>,
    /// Its file is not there, or holds nothing yet.
    pub is_new: bool,
    /// As its first page will say.
    pub format: SpaceFormat,
    /// Bytes that the file must have.
    pub len: u64,
    /// Whether the file ends there.
    pub is_trimmed: bool,
}

impl Plan {
    /// What the server is to be told of the files of tables.
    pub fn named(&self) -> Vec<(SpaceId, Vec<u8>)> {
        let tables = self.spaces.iter().filter(|(id, _)| self.wanted.names.contains_key(id));
        tables.map(|(id, space)| (*id, [b"./", space.path.as_os_str().as_bytes()].concat())).collect()
    }
}

impl Space {
    /// Whether a file of `len` bytes is to be given another size.
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
}

impl Plan {
    /// Reads the first page of every tablespace.
    pub fn make(datadir: &Path, wanted: Wanted) -> Result<Self> {
        if let Some((space, name)) = &wanted.outside {
            return refused(format!("tablespace {space} lies outside of the datadir, as `{name}`: not recovered yet"));
        }
        let survey = Survey::take(datadir)?;
        let checkpoint = wanted.checkpoint;
        let Some(system) = Head::read(&datadir.join("ibdata1"))? else {
            return damaged("the first page of ibdata1 is damaged");
        };
        let copies = Copies::read(&datadir.join("ibdata1"), &system.format)?;
        let find = Find { datadir, wanted: &wanted, survey: &survey, copies: &copies, checkpoint };
        let mut spaces = BTreeMap::new();
        for &space in wanted.changed.keys().filter(|space| !wanted.deleted.contains_key(space)) {
            spaces.insert(space, find.space(space, system.format.logical())?);
        }
        Ok(Self { wanted, spaces, copies, checkpoint })
    }
}

impl Wanted {
    /// Reads the whole log; what is kept of it may take `memory` bytes.
    pub fn read(log: &RedoLog, memory: usize) -> Result<Self> {
        log.check()?;
        let checkpoint = log.parsed.checkpoint;
        let mut wanted = Self {
            checkpoint: checkpoint.lsn,
            end: checkpoint.lsn,
            mtrs: 0,
            names: HashMap::new(),
            owners: HashMap::new(),
            named_from: None,
            changed: BTreeMap::new(),
            trimmed: HashMap::new(),
            deleted: HashMap::new(),
            voids: Voids::default(),
            heads: RedoBatch::new(usize::MAX),
            names_checkpoint: false,
            is_clean: checkpoint.lsn == checkpoint.end_lsn,
            outside: None,
        };
        let mut closed_at = None;
        let mut scan = log.scan();
        scan.run(&mut |mtr| {
            wanted.mtrs += 1;
            closed_at = wanted.add(mtr, checkpoint.lsn)?;
            if wanted.memory() > memory {
                return refused(format!(
                    "what the redo log says of pages and tablespaces takes more than {} MiB: give it more memory",
                    memory >> 20
                ));
            }
            Ok(true)
        })?;
        // A run that was interrupted while it closed the log closes it in the same place.
        let closed_at = wanted.named_from.or(closed_at).filter(|&at| at > checkpoint.end_lsn);
        wanted.end = closed_at.unwrap_or(scan.at());
        if wanted.end < checkpoint.end_lsn {
            return damaged(format!(
                "the redo log ends at LSN {}, before the end that its checkpoint names",
                wanted.end
            ));
        }
        if !wanted.names_checkpoint {
            return damaged("the redo log does not name its checkpoint");
        }
        Ok(wanted)
    }

    /// What a shadow file is named after: it is of use only while the log is as it was.
    pub const fn tag(&self) -> u64 {
        self.checkpoint.0.rotate_left(32) ^ self.end.0
    }

    fn memory(&self) -> usize {
        self.heads.memory() + self.voids.memory()
    }

    /// If the mini-transaction closes a log: where that ended.
    fn add(&mut self, mtr: &Mtr<'_>, checkpoint: Lsn) -> Result<Option<Lsn>> {
        let mut of_heads = Vec::new();
        let mut closes = None;
        // A run of mini-transactions that do nothing but say what files are called.
        let named_from = self.named_from.take().unwrap_or(mtr.start);
        let mut only_names = true;
        for record in mtr.records() {
            match record {
                Err(error) => return damaged(format!("the redo log at LSN {}: {error}", mtr.start)),
                Ok(RedoRecord::File(FileRecord::Checkpoint(lsn))) => {
                    self.names_checkpoint |= lsn == checkpoint;
                    closes = (only_names && lsn == named_from).then_some(lsn);
                    only_names = false;
                }
                Ok(RedoRecord::File(record)) => {
                    only_names &= matches!(record, FileRecord::Modify { .. });
                    self.add_file(&record);
                }
                Ok(RedoRecord::Page(record)) => {
                    (self.is_clean, only_names) = (false, false);
                    self.changed.insert(record.id.space, ());
                    if record.change.voids_page() {
                        self.voids.add(record.id, mtr.start);
                    }
                    let is_trim = matches!(record.change, Change::Trim);
                    if is_trim && record.id.space == SpaceId::SYSTEM {
                        return refused("the system tablespace was shrunk, which cannot be recovered yet");
                    }
                    if is_trim {
                        self.trimmed.insert(record.id.space, mtr.start);
                    }
                    if is_trim || record.id.page_no.0 == 0 {
                        of_heads.extend_from_slice(record.bytes);
                    }
                }
            }
        }
        if !of_heads.is_empty() {
            let added = self.heads.add(&Mtr { start: mtr.start, end: mtr.end, bytes: &of_heads });
            added.or_else(|error| damaged(format!("the redo log at LSN {}: {error}", mtr.start)))?;
        }
        self.named_from = only_names.then_some(named_from);
        Ok(closes)
    }

    fn add_file(&mut self, record: &FileRecord<'_>) {
        self.is_clean &= matches!(record, FileRecord::Modify { .. } | FileRecord::Padding);
        match *record {
            FileRecord::Create { space, name } | FileRecord::Modify { space, name } => self.add_name(space, name),
            FileRecord::Rename { space, from, to } => {
                self.changed.insert(space, ());
                self.add_name(space, from);
                self.add_name(space, to);
            }
            FileRecord::Delete { space, .. } => {
                self.deleted.insert(space, ());
            }
            FileRecord::Checkpoint(_) | FileRecord::Padding => {}
        }
    }

    fn add_name(&mut self, space: SpaceId, name: &[u8]) {
        let path = Path::new(OsStr::from_bytes(name));
        let path = path.strip_prefix("./").unwrap_or(path);
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            self.outside = Some((space, path.display().to_string()));
        }
        self.owners.insert(path.to_path_buf(), space);
        let names = self.names.entry(space).or_default();
        if names.last().map(PathBuf::as_path) != Some(path) {
            names.push(path.to_path_buf());
        }
    }

    /// Whether the redo of the mini-transaction that began at `start` is of use for a page.
    pub fn is_of_use(&self, id: PageId, start: Lsn) -> bool {
        !self.deleted.contains_key(&id.space)
            && self.trimmed.get(&id.space).is_none_or(|&from| start >= from)
            && self.voids.spare(id, start)
    }
}

/// Where a tablespace is found, and what it is.
struct Find<'p> {
    datadir: &'p Path,
    wanted: &'p Wanted,
    survey: &'p Survey,
    copies: &'p Copies,
    checkpoint: Lsn,
}

impl Find<'_> {
    fn space(&self, space: SpaceId, logical: PageSize) -> Result<Space> {
        let names = self.wanted.names.get(&space).map(Vec::as_slice).unwrap_or_default();
        let found = self.survey.files.get(&space).map(Vec::as_slice).unwrap_or_default();
        if let (true, [one, other, ..]) = (names.is_empty(), found) {
            let (one, other) = (one.display(), other.display());
            return refused(format!(
                "tablespace {space} is both {one} and {other}: take away the one that is not in use"
            ));
        }
        let Some(path) = names.last().or(found.first()) else {
            return refused(format!("tablespace {space} is missing: the log changes it, and no file has its number"));
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
        let (format, header) = self.after_redo(space, path, head, logical)?;
        if format.encryption() != Encryption::None {
            return refused(format!("{}: the log changes an encrypted tablespace: not recovered yet", path.display()));
        }
        let mut len = u64::from(header.size) * format.physical().bytes() as u64;
        if !names.is_empty() {
            len = len.max(TABLE_SIZE_MIN * logical.bytes() as u64);
        }
        let is_trimmed = self.wanted.trimmed.contains_key(&space);
        Ok(Space { path: path.clone(), renamed_from, is_new, format, len, is_trimmed })
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
        let names = self.wanted.names.get(&head.format.space());
        Ok(names.and_then(|names| names.last()).is_none_or(|last| last == path))
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
        for physical in PageSize::ALL.into_iter().filter(|size| *size <= logical) {
            let schemes = [Scheme::FullCrc32, Scheme::Classic, Scheme::Zip];
            for format in
                schemes.iter().filter_map(|scheme| SpaceFormat::new(Family::MariaDb, *scheme, logical, physical, space))
            {
                let copy = self.copies.find(id, &format, self.checkpoint, self.wanted.end);
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
    ) -> Result<(SpaceFormat, SpaceHeader)> {
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
                (Ok(format), Ok(header)) if format.space() == space => Ok((format, header)),
                _ => damaged(format!("{name}: with its redo, the first page is not that of tablespace {space}")),
            },
        }
    }
}
