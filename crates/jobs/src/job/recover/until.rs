//! Recovery that ends before the log does.
//!
//! Redo leads forward only: a page that was written to its file later than the end, a file that was made, renamed, removed or cut down
//! later, cannot be taken back. So the rest of the log is read as well, and held against the files: they must be as if the server had
//! died at the end. Pages that the log makes anew before the end may be later, since what they hold is not read.
//!
//! The rest of the log must not be found again, by a server or by a second run, which would take it for what follows the end. It lies
//! anywhere in the ring, under the same LSNs that the server will use again. So the log is not closed in place: a new one with nothing
//! but its closing record takes its name. Until it does, the old one is whole, and a run with another end, or none, is possible. For the
//! same reason copies in the doublewrite area that are later than the end are wiped out.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flow::rewrite::RewriteOptions;
use format::codec::Scratch;
use format::keyring::KeyStore;
use format::redo::record::{Effect, FileRecord, Mtr, Subject};
use format::{Lsn, PageId, SpaceId, Verdict};
use rustix::fs::{FallocateFlags, fallocate};

use super::apply::Work;
use super::engine;
use super::error::{Result, failed, refused};
use super::files::Files;
use super::log::{RedoLog, Scanned, file_record};
use super::outside::Outside;
use super::place::{make_like, sync_directory_of};
use super::plan::{Plan, Space};
use super::survey::{Head, Survey};
use super::wanted::Wanted;

/// Bytes of pages that are looked at at a time.
const LOOK_MEMORY: usize = 8 << 20;
/// Bytes that a page takes: what the map holds and, until that grows again, about as much that is empty.
const PLACE_SIZE: usize = 2 * (size_of::<(PageId, First)>() + 1);
/// A new log until it takes its place: servers remove a file of this name, which is what they call their own unfinished ones.
const NEW_LOG: &str = "ib_logfile101";

/// What the log says behind the end of the recovery.
#[derive(Debug)]
pub(super) struct Rest {
    /// Where the recovery is to end at the latest.
    until: Lsn,
    pub mtrs: u64,
    pages: HashMap<PageId, First>,
    files: HashMap<SpaceId, Vec<Operation>>,
    /// Tablespaces that were cut down, and when.
    trimmed: Vec<(SpaceId, Lsn)>,
    /// Where the record of the log's checkpoint ends, if it is here.
    checkpoint_end: Option<Lsn>,
}

/// What befalls a page first.
#[derive(Debug, Clone, Copy)]
struct First {
    /// By a mini-transaction that begins here.
    lsn: Lsn,
    /// It is made anew: nobody used what it held before.
    is_init: bool,
}

/// Something that happens to a file, by a mini-transaction that begins at `lsn`.
#[derive(Debug)]
struct Operation {
    lsn: Lsn,
    kind: Kind,
    /// Its names before and after, as far as they are told.
    names: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Made,
    Renamed,
    Deleted,
}

impl Rest {
    pub fn new(until: Lsn) -> Self {
        let (pages, files) = (HashMap::new(), HashMap::new());
        Self { until, mtrs: 0, pages, files, trimmed: Vec::new(), checkpoint_end: None }
    }

    /// Takes in a mini-transaction that ends behind the end. `checkpoint` is that of the log.
    pub fn add(&mut self, scanned: &Scanned<'_>, checkpoint: Lsn, outside: Outside) {
        self.mtrs += 1;
        let mtr = &scanned.mtr;
        for (subject, bytes) in scanned.records() {
            match subject {
                Subject::File => {
                    let record = file_record(bytes);
                    record.into_iter().for_each(|record| self.add_file(&record, mtr, checkpoint, outside));
                }
                Subject::Page(id, Effect::Trims) => self.trimmed.push((id.space, mtr.start)),
                Subject::Page(id, effect) => {
                    let is_init = effect == Effect::Inits;
                    self.pages.entry(id).or_insert(First { lsn: mtr.start, is_init });
                }
            }
        }
    }

    fn add_file(&mut self, record: &FileRecord<'_>, mtr: &Mtr<'_>, checkpoint: Lsn, outside: Outside) {
        let path = |name: &[u8]| outside.path_of(Path::new(OsStr::from_bytes(name)));
        let (space, kind, names) = match *record {
            FileRecord::Create { space, name } => (space, Kind::Made, [path(name), None]),
            FileRecord::Rename { space, from, to } => (space, Kind::Renamed, [path(from), path(to)]),
            FileRecord::Delete { space, name } => (space, Kind::Deleted, [path(name), None]),
            FileRecord::Checkpoint(lsn) if lsn == checkpoint => {
                self.checkpoint_end = Some(mtr.end);
                return;
            }
            _ => return,
        };
        let names = names.into_iter().flatten().collect();
        self.files.entry(space).or_default().push(Operation { lsn: mtr.start, kind, names });
    }

    /// Bytes that are in use.
    pub fn memory(&self) -> usize {
        self.pages.capacity() * PLACE_SIZE
    }

    /// Whether this is nothing but the record of the log's checkpoint, where the recovery may end.
    pub fn only_closes(&self, checkpoint: Lsn) -> bool {
        let is_nothing = self.pages.is_empty() && self.files.is_empty() && self.trimmed.is_empty();
        is_nothing && self.checkpoint_end.is_some() && checkpoint <= self.until
    }

    /// Why the recovery cannot end before the record of the log's checkpoint.
    pub fn refuse_before_checkpoint<T>(&self) -> Result<T> {
        let end = self.checkpoint_end.unwrap_or_default();
        refused(format!(
            "LSN {} lies before the log's newest checkpoint, which ends at LSN {end}: what was before that is in the files already",
            self.until
        ))
    }

    /// Tablespaces whose pages are to be looked at.
    pub fn spaces(&self) -> BTreeSet<SpaceId> {
        self.pages.keys().map(|id| id.space).filter(|space| !self.is_made(*space)).collect()
    }

    fn is_made(&self, space: SpaceId) -> bool {
        self.files.get(&space).and_then(|operations| operations.first()).is_some_and(|first| first.kind == Kind::Made)
    }

    /// Fails if something was done to a file already that the rest of the log tells of.
    pub fn check_files(&self, datadir: &Path, wanted: &Wanted, survey: &Survey) -> Result<()> {
        if let Some((space, lsn)) = self.trimmed.first() {
            return self.refuse(&format!("tablespace {space} was cut down"), *lsn);
        }
        let firsts = self.files.iter().filter_map(|(space, operations)| Some((operations.first()?, space, operations)));
        let mut firsts: Vec<_> = firsts.collect();
        firsts.sort_by_key(|(first, ..)| first.lsn);
        for (first, space, operations) in firsts {
            let found = survey.files.get(space).map(Vec::as_slice).unwrap_or_default();
            let name = first.names.first().map(|name| name.display().to_string()).unwrap_or_default();
            // Its first page may not have been written yet.
            let unwritten = |name: &&PathBuf| matches!(Head::read(&datadir.join(name)), Ok(None));
            if first.kind == Kind::Made {
                let names = operations.iter().flat_map(|operation| &operation.names);
                if !found.is_empty() || names.into_iter().any(|name| unwritten(&name)) {
                    return self.refuse(&format!("{name} was made"), first.lsn);
                }
                continue;
            }
            let before: Vec<&PathBuf> = wanted.names_of(*space).iter().chain(first.names.first()).collect();
            let is_there = |name: &&PathBuf| found.contains(name) || (found.is_empty() && unwritten(name));
            if !before.iter().any(is_there) {
                let what = if first.kind == Kind::Renamed { "renamed" } else { "deleted" };
                return self.refuse(&format!("{name} was {what}"), first.lsn);
            }
        }
        Ok(())
    }

    fn refuse<T>(&self, what: &str, lsn: Lsn) -> Result<T> {
        refused(format!(
            "{what} at LSN {lsn}, which is later than LSN {}, and cannot be taken back: recover all of the log",
            self.until
        ))
    }

    /// Fails if a page that the rest of the log changes is later than the end.
    pub fn check_pages(&self, datadir: &Path, plan: &Plan) -> Result<()> {
        let is_wanted = |id: &PageId| plan.spaces.contains_key(&id.space) && !plan.wanted.anew.contains(id);
        let ids = self.pages.keys().copied().filter(is_wanted).collect();
        let end = plan.wanted.end;
        look_at(datadir, plan, ids, |id, space, verdict, lsn| {
            let (name, page) = (space.path.display(), id.page_no);
            let first = self.pages.get(&id);
            match verdict {
                Verdict::Corrupt(_) if plan.copy_of(id, space, &mut Scratch::new()).is_none() => refused(format!(
                    "{name}: page {page} is damaged or half written, and has no copy from before LSN {}",
                    self.until
                )),
                Verdict::Corrupt(_) => Ok(()),
                // Pages that are freed may be emptied at once.
                Verdict::Empty if first.is_some_and(|first| first.is_init) => Ok(()),
                Verdict::Empty => self.refuse(
                    &format!("{name}: page {page} was freed and emptied"),
                    first.map_or(end, |first| first.lsn),
                ),
                _ if lsn > end => self.refuse(&format!("{name}: page {page} was written"), lsn),
                _ => Ok(()),
            }
        })
    }
}

/// Fails if files outside of the datadir have gone on behind the end of its log: then they are another's, of which it is a copy.
pub(super) fn check_outside(datadir: &Path, plan: &Plan) -> Result<()> {
    let end = plan.wanted.log_end;
    let is_outside = |id: &PageId| plan.spaces.get(&id.space).is_some_and(|space| space.path.is_absolute());
    let ids = plan.wanted.voided().filter(is_outside).collect();
    look_at(datadir, plan, ids, |id, space, verdict, lsn| match verdict {
        Verdict::Ok(_) | Verdict::Unverifiable(_) if lsn > end => refused(format!(
            "{}: page {} was written at LSN {lsn}, but the log ends at LSN {end}: this file outside of the datadir is another's",
            space.path.display(),
            id.page_no
        )),
        _ => Ok(()),
    })
}

/// Reads pages as they lie in their files, and hands over what each is, and its LSN.
fn look_at<J>(datadir: &Path, plan: &Plan, mut ids: Vec<PageId>, judge: J) -> Result<()>
where
    J: Fn(PageId, &Space, &Verdict, Lsn) -> Result<()> + Sync,
{
    if ids.is_empty() {
        return Ok(());
    }
    ids.sort_unstable();
    let (files, _) = Files::as_they_are(datadir, plan)?;
    let options = RewriteOptions { memory: LOOK_MEMORY, workers: 0, ..RewriteOptions::default() };
    Work::new(plan, &files, engine(), None, options)?.look_at(&ids, judge)
}

/// How the log will say that everything is in the data files; made before anything is written.
pub(super) enum Ending {
    /// By its next checkpoint.
    InPlace(Vec<u8>),
    /// By a log that begins where the recovery ends: its first bytes.
    NewLog(Vec<u8>),
}

impl Ending {
    pub fn of(log: &RedoLog, plan: &Plan, keys: &KeyStore) -> Result<Self> {
        let (end, named) = (plan.wanted.end, plan.named());
        if plan.wanted.rest.is_none() {
            return Ok(Self::InPlace(log.closing(end, &named)?));
        }
        Ok(Self::NewLog(log.restarted(end, &named, keys)?))
    }

    pub fn write(&self, log: &RedoLog, end: Lsn) -> Result<()> {
        match self {
            Self::InPlace(closing) => log.close(end, closing),
            Self::NewLog(bytes) => replace(log, bytes),
        }
    }
}

/// Puts a log that begins with `bytes` and holds nothing else in the place of the log, in one step.
fn replace(log: &RedoLog, bytes: &[u8]) -> Result<()> {
    // Where the name is a link, the file is replaced, not the link.
    let old = fs::canonicalize(&log.path).map_err(failed(&log.path, "looking for the redo log"))?;
    let like = fs::metadata(&old).map_err(failed(&old, "looking at the redo log"))?;
    let new = old.with_file_name(NEW_LOG);
    let file = File::create(&new).map_err(failed(&new, "making the new redo log"))?;
    make_like(&new, &like)?;
    let write = || {
        // Where space cannot be reserved the file has its length all the same.
        if fallocate(&file, FallocateFlags::empty(), 0, log.parsed.size) == Err(rustix::io::Errno::NOSPC) {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        file.set_len(log.parsed.size)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()
    };
    write().map_err(failed(&new, "writing the new redo log"))?;
    fs::rename(&new, &old).map_err(failed(&old, "replacing the redo log"))?;
    sync_directory_of(&old)
}

/// Pages that the log makes anew, and does not free again.
#[derive(Debug, Default)]
pub(super) struct Anew(HashSet<PageId>);

impl Anew {
    pub fn add(&mut self, id: PageId, effect: Effect) {
        match effect {
            Effect::Inits => drop(self.0.insert(id)),
            Effect::Frees => drop(self.0.remove(&id)),
            Effect::Trims => self.0.retain(|page| page.space != id.space),
            Effect::Changes => {}
        }
    }

    pub fn contains(&self, id: &PageId) -> bool {
        self.0.contains(id)
    }

    /// Bytes that are in use.
    pub fn memory(&self) -> usize {
        self.0.capacity() * PLACE_SIZE
    }
}
