//! `recover`: a datadir of MariaDB as a crash left it becomes one that its server starts on without crash recovery.
//!
//! ```text
//! lock -> shadow of an interrupted run, replayed -> plan: whole log read and verified, first pages, names (nothing is written before)
//!   -> files renamed, made, sized -> torn pages from their doublewrite copies
//!   -> rounds: log -> RedoBatch -> pages read, sorted and coalesced -> Replay on all cores -> sealed -> WriteBack
//!   -> files synced -> the log closed: its checkpoint is its end now
//! ```
//!
//! The checkpoint is advanced once, behind everything: whoever starts before that, this program or the server, begins at the same
//! place of the log, and finds every page whole. What unfinished transactions did is undone by the server at its next start.
//!
//! A round takes as much of the log as fits into memory, whole mini-transactions. What it may apply depends on the rest of the log too
//! (`voids`), which the plan has read; so the bytes at the end are the same for every size of the rounds.
//!
//! Not recovered, and refused before anything is written: logs of MariaDB 10.5 to 10.7, encrypted logs, encrypted tablespaces
//! that the log changes, tablespaces outside of the datadir, system tablespaces of several files. Pages of page_compressed
//! tablespaces are written uncompressed, which the server reads, and compresses again when it writes them.

mod apply;
mod doublewrite;
mod error;
mod files;
mod log;
mod pages;
mod place;
mod plan;
mod simulated;
mod survey;
mod voids;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flow::write_back::{Replayed, Target, WriteBack, WriteBackOptions};
use flow::{FileHandle, FileId};

use self::apply::{Counts, Work};
pub use self::error::RecoverError;
use self::error::{Result, failed, refused};
use self::files::{Done, Files, resolve};
use self::log::RedoLog;
use self::pages::PageReader;
use self::place::Lock;
use self::plan::{Plan, Wanted};
#[doc(hidden)]
pub use self::simulated::Simulated;

/// Holds pages while they are written in place.
pub const SHADOW_NAME: &str = "innokit-recover.shadow";
/// What the program takes whatever there is to recover: buffers of both queues, a piece of the log, pages while they are changed.
const MEMORY_FIXED: usize = 32 << 20;
/// The least memory that a round can do with.
const MEMORY_MIN: usize = 64 << 20;

/// A few large writes keep any device busy.
const WRITING: WriteBackOptions = WriteBackOptions { memory: 0, depth: 8, write_max: 512 << 10, tag: 0 };

/// How the memory is shared out, in bytes.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// The redo of a round.
    redo: usize,
    /// Pages until they are written.
    pages: usize,
    /// What the plan knows of tablespaces and pages.
    plan: usize,
}

impl Budget {
    fn of(memory: usize) -> Self {
        let free = memory.max(MEMORY_MIN) - MEMORY_FIXED;
        Self { redo: free / 2, pages: free / 4, plan: free / 4 }
    }
}

/// How to recover.
#[derive(Debug, Clone)]
pub struct RecoverOptions {
    /// Recover a copy that is made here, and leave the datadir as it is.
    pub to: Option<PathBuf>,
    /// Do everything but write.
    pub dry_run: bool,
    /// Bytes of memory to work in; at least 64 MiB are taken. A log with more redo than fits is worked through in rounds.
    pub memory: usize,
    /// Bytes of the log in a round at most, however many fit. Tests want more rounds than their logs need.
    #[doc(hidden)]
    pub round: u64,
}

impl Default for RecoverOptions {
    fn default() -> Self {
        Self { to: None, dry_run: false, memory: 512 << 20, round: u64::MAX }
    }
}

/// What was done, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Recovered {
    /// The log's newest checkpoint before.
    pub checkpoint_lsn: u64,
    /// Its end, where the server goes on.
    pub end_lsn: u64,
    /// There was nothing to do.
    pub was_clean: bool,
    /// Mini-transactions since the checkpoint.
    pub mtrs: u64,
    /// Tablespaces that they change.
    pub tablespaces: u64,
    /// Parts in which the log was worked through.
    pub rounds: u64,
    /// Pages read, once for each round that changes them.
    pub pages_read: u64,
    /// Pages changed, once for each round.
    pub pages_changed: u64,
    /// Pages that had all of their redo already.
    pub pages_unchanged: u64,
    /// Pages that are not in use any more.
    pub pages_freed: u64,
    /// Pages that were torn, and of which the server had kept a copy.
    pub pages_restored: u64,
    /// Pages that an interrupted run had not finished writing.
    pub pages_replayed: u64,
    /// Tablespaces renamed.
    pub files_renamed: u64,
    /// Tablespaces made.
    pub files_made: u64,
    /// Tablespaces given another size.
    pub files_resized: u64,
}

/// Recovers a datadir of MariaDB 10.8 or later.
///
/// # Errors
/// [`RecoverError`]. If it [is damage](RecoverError::is_damage), of the log or of a page, the server would meet it too. What was
/// written until then is whole, and the checkpoint is where it was.
pub fn recover(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    if !datadir.join("ibdata1").is_file() || !datadir.join("ib_logfile0").is_file() {
        return refused(format!("{}: no datadir: ibdata1 or ib_logfile0 is not there", datadir.display()));
    }
    let budget = Budget::of(options.memory);
    match &options.to {
        Some(to) if !options.dry_run => {
            check_and_copy(datadir, to, budget)?;
            recover_in_place(to, budget, options.round)
        }
        _ if options.dry_run => dry_run(datadir, budget),
        _ => recover_in_place(datadir, budget, options.round),
    }
}

/// The copy may be large: what cannot be recovered should be known before.
fn check_and_copy(datadir: &Path, to: &Path, budget: Budget) -> Result<()> {
    let lock = Lock::take(datadir, false)?;
    let wanted = Wanted::read(&RedoLog::open(datadir, false)?, budget.plan)?;
    if !datadir.join(SHADOW_NAME).exists() {
        Plan::make(datadir, wanted)?;
    }
    place::copy(datadir, to)?;
    drop(lock);
    // Copying closes files, which gives up their locks: a server that was started meanwhile has them now.
    Lock::take(datadir, false).map(drop)
}

fn dry_run(datadir: &Path, budget: Budget) -> Result<Recovered> {
    let _lock = Lock::take(datadir, false)?;
    if datadir.join(SHADOW_NAME).exists() {
        return refused("an interrupted run is to be finished first: what would be done is known only after that");
    }
    let log = RedoLog::open(datadir, false)?;
    let plan = Plan::make(datadir, Wanted::read(&log, budget.plan)?)?;
    if plan.wanted.is_clean {
        return Ok(summary(&plan, Counts::default(), Done::default(), 0));
    }
    log.closing(plan.wanted.end, &plan.named())?;
    let (files, done) = Files::as_they_are(datadir, &plan)?;
    let mut work = Work::new(&plan, &files, PageReader::engine(), None)?;
    work.restore()?;
    work.run_dry(&log, budget.redo, budget.pages)?;
    Ok(summary(&plan, work.counts, done, 0))
}

fn recover_in_place(datadir: &Path, budget: Budget, round: u64) -> Result<Recovered> {
    let _lock = Lock::take(datadir, true)?;
    let log = RedoLog::open(datadir, true)?;
    let wanted = Wanted::read(&log, budget.plan)?;
    let options = WriteBackOptions { memory: budget.pages, tag: wanted.tag(), ..WRITING };
    let replayed = finish_interrupted(datadir, options)?;
    let plan = Plan::make(datadir, wanted)?;
    if plan.wanted.is_clean {
        return Ok(summary(&plan, Counts::default(), Done::default(), replayed));
    }
    let closing = log.closing(plan.wanted.end, &plan.named())?;
    let mut done = Done::default();
    let files = Files::as_they_should_be(datadir, &plan, &mut done)?;
    let mut writer = WriteBack::open(PageReader::engine(), shadow(datadir, true)?, options)?;
    files.targets().for_each(|target| writer.add_file(target));
    let mut work = Work::new(&plan, &files, PageReader::engine(), Some(writer))?;
    work.restore()?;
    work.run(&log, budget.redo, round)?;
    let counts = work.finish()?;
    files.sync()?;
    remove_shadow(datadir)?;
    log.close(plan.wanted.end, &closing)?;
    Ok(summary(&plan, counts, done, replayed))
}

fn shadow(datadir: &Path, make: bool) -> Result<Target> {
    let path = datadir.join(SHADOW_NAME);
    // It holds rows, which are nobody else's to read.
    let file = File::options().read(true).write(true).create(make).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(failed(&path, "opening the shadow file"))?;
    place::sync_directory_of(&path)?;
    let name = SHADOW_NAME.as_bytes().to_vec();
    Ok(Target { file: FileId(u32::MAX), handle: FileHandle::of_file(file, false), name })
}

/// Writes what an interrupted run was writing; pages written. A shadow of another checkpoint is of no use: the server went on since.
fn finish_interrupted(datadir: &Path, options: WriteBackOptions) -> Result<u64> {
    if !datadir.join(SHADOW_NAME).exists() {
        return Ok(0);
    }
    let mut writer = WriteBack::open(PageReader::engine(), shadow(datadir, false)?, options)?;
    let mut number = 0;
    let replayed = writer.replay(|name| {
        number += 1;
        resolve(datadir, name, number)
    })?;
    remove_shadow(datadir)?;
    Ok(if let Replayed::Blocks(blocks) = replayed { blocks } else { 0 })
}

fn remove_shadow(datadir: &Path) -> Result<()> {
    let path = datadir.join(SHADOW_NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, "removing the shadow file")(error)),
        _ => place::sync_directory_of(&path),
    }
}

fn summary(plan: &Plan, counts: Counts, done: Done, replayed: u64) -> Recovered {
    Recovered {
        checkpoint_lsn: plan.checkpoint.0,
        end_lsn: plan.wanted.end.0,
        was_clean: plan.wanted.is_clean,
        mtrs: plan.wanted.mtrs,
        tablespaces: plan.spaces.len() as u64,
        rounds: counts.rounds,
        pages_read: counts.read,
        pages_changed: counts.changed,
        pages_unchanged: counts.unchanged,
        pages_freed: counts.freed,
        pages_restored: counts.restored,
        pages_replayed: replayed,
        files_renamed: done.renamed,
        files_made: done.made,
        files_resized: done.resized,
    }
}
