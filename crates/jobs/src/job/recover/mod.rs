//! `recover`: a datadir of MariaDB as a crash left it becomes one that its server starts on without crash recovery.
//!
//! ```text
//! lock -> shadow of an interrupted run, replayed -> plan: whole log read and verified, first pages, names (nothing is written before)
//!   -> files renamed, made, sized -> torn pages from their doublewrite copies
//!   -> parts of the pages: log -> RedoBatch -> stretches read, changed by all cores (Replay), sealed, written: flow::rewrite, all at once
//!   -> files synced -> the log closed: its checkpoint is its end now
//! ```
//!
//! The checkpoint is advanced once, behind everything: whoever starts before that, this program or the server, begins at the same
//! place of the log, and finds every page whole. What unfinished transactions did is undone by the server at its next start.
//!
//! A log whose redo does not fit into memory is read once for each part of the pages (`load`), so that each page is read and written
//! once. Only where there would be too many parts, one part takes several rounds, each of as many mini-transactions as fit. What
//! a round may apply depends on the rest of the log too (`voids`), which the plan has read; so the bytes at the end are always the same.
//!
//! Encrypted logs and tablespaces are recovered with the server's keys, and stay encrypted (`crypt`). Ending before the log does:
//! `until`. Files outside of the datadir: `outside`. Pages of page_compressed tablespaces are written uncompressed, which the server
//! reads, and compresses again when it writes them.

mod apply;
mod crypt;
mod doublewrite;
mod error;
mod files;
mod load;
mod log;
mod outside;
mod place;
mod plan;
mod simulated;
mod stretches;
mod survey;
mod system;
mod timed;
mod until;
mod voids;
mod wanted;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flow::lock::Sharing;
use flow::queue::{OpenQueue, Threads};
use flow::rewrite::{Replayed, RewriteOptions, Target, replay};
use flow::{Engine, FileHandle, FileId};
use format::Lsn;
use format::keyring::KeyStore;

use self::apply::{Counts, Work};
pub use self::error::RecoverError;
use self::error::{Result, failed, refused};
use self::files::{Done, Files, resolve};
use self::log::RedoLog;
use self::outside::Outside;
use self::place::Lock;
pub(crate) use self::place::{copy as copy_datadir, walk as walk_datadir};
use self::plan::Plan;
#[doc(hidden)]
pub use self::simulated::Simulated;
use self::survey::Survey;
pub(crate) use self::timed::{Clocked, on_clock};
use self::until::Ending;
use self::wanted::Wanted;
use crate::source::keys::KeyFiles;

/// Holds pages while they are written in place.
pub const SHADOW_NAME: &str = "innokit-recover.shadow";
/// What the program takes whatever there is to recover: itself, buffers of the log, chunks of it, pages while they are changed.
const MEMORY_FIXED: usize = 32 << 20;
/// The least memory that a round can do with.
const MEMORY_MIN: usize = 64 << 20;

/// The part of the memory that the log may take while it is read ahead.
const LOG_PART: usize = 32;
/// Bytes of pages in memory at a time, at most: more does not keep a device any busier.
const PAGES_MAX: usize = 96 << 20;
/// What the plan takes at most: some 50 bytes of each page that is freed or made anew.
const PLAN_MAX: usize = 256 << 20;

/// How the device is used. Each of these can be taken back, to see what it brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes of a request to the log: a multiple of 64 KiB.
    pub log_block: u32,
    /// Such requests in flight.
    pub log_ahead: u32,
    /// Requests to pages in flight.
    pub depth: u32,
    /// Bytes of such a request at most, but one page is always read at once; `None`: long ones, as long as there is memory for enough of them.
    pub stretch_max: Option<u32>,
    /// Bytes of the shadow, after which every file is synced.
    pub shadow_max: u64,
    /// Whether pages are read while others are changed and written.
    pub overlap: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        let (log_block, log_ahead) = (512 << 10, 32);
        Self { log_block, log_ahead, depth: 64, stretch_max: None, shadow_max: 256 << 20, overlap: true }
    }
}

impl Tuning {
    /// The same, but for what the log takes of the memory while it is read ahead.
    fn within(self, memory: usize) -> Self {
        let ahead = memory.max(MEMORY_MIN) / LOG_PART / self.log_block.max(1) as usize;
        Self { log_ahead: self.log_ahead.min(u32::try_from(ahead).unwrap_or(u32::MAX)).max(1), ..self }
    }
}

/// How the memory is shared out, in bytes.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// Pages on their way.
    pages: usize,
    /// What the plan knows of tablespaces and pages, at most.
    plan: usize,
    /// That, and the redo of a part of the pages.
    plan_and_redo: usize,
}

impl Budget {
    fn of(memory: usize) -> Self {
        let all = memory.max(MEMORY_MIN) - MEMORY_FIXED;
        let (pages, plan) = ((all / 4).min(PAGES_MAX), (all / 4).min(PLAN_MAX));
        Self { pages, plan, plan_and_redo: all - pages }
    }

    /// What is left for the redo of a part of the pages.
    fn redo(&self, plan: &Plan) -> usize {
        self.plan_and_redo.saturating_sub(plan.wanted.memory())
    }

    /// Long stretches, as long as there is room for enough of them.
    fn rewrite(&self, plan: &Plan, tuning: &Tuning) -> RewriteOptions {
        let stretch_max = tuning.stretch_max.unwrap_or(if self.pages < 64 << 20 { 128 << 10 } else { 512 << 10 });
        let page = plan.spaces.values().map(|space| space.format.physical().get()).max();
        let (stretch_max, tag) = (stretch_max.max(page.unwrap_or(0)), plan.wanted.tag());
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let Tuning { depth, shadow_max, overlap, .. } = *tuning;
        // Of pages that are encrypted anew every byte differs, and is in memory again on its way to the shadow.
        let is_saved_whole = plan.spaces.values().any(|space| space.crypt.encrypts());
        let memory = if is_saved_whole { self.pages / 2 } else { self.pages };
        RewriteOptions { memory, stretch_max, depth, workers, overlap, shadow_max, tag }
    }
}

/// How to recover.
#[derive(Debug, Clone)]
pub struct RecoverOptions {
    /// Recover a copy that is made here, and leave the datadir as it is.
    pub to: Option<PathBuf>,
    /// Do everything but write.
    pub dry_run: bool,
    /// End with the last mini-transaction that ends at this LSN or before, as if the server had died there. Refused where files are
    /// later than that.
    pub until: Option<Lsn>,
    /// What opens encrypted logs and tablespaces.
    pub keys: KeyFiles,
    /// Bytes of memory to work in; at least 64 MiB are taken. A log with more redo than fits is worked through in rounds.
    pub memory: usize,
    /// Bytes of the log in a round at most, however many fit. Tests want more rounds than their logs need.
    #[doc(hidden)]
    pub round: u64,
    /// How the device is used.
    pub tuning: Tuning,
}

impl Default for RecoverOptions {
    fn default() -> Self {
        let (memory, round, tuning) = (512 << 20, u64::MAX, Tuning::default());
        Self { to: None, dry_run: false, until: None, keys: KeyFiles::default(), memory, round, tuning }
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
    /// Later ones, which were left out.
    pub mtrs_dropped: u64,
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
    /// Pieces of pages that an interrupted run was writing, and that were written again.
    pub pieces_replayed: u64,
    /// Tablespaces renamed.
    pub files_renamed: u64,
    /// Tablespaces made.
    pub files_made: u64,
    /// Tablespaces given another size.
    pub files_resized: u64,
}

/// Recovers a datadir of MariaDB 10.5 or later.
///
/// # Errors
/// [`RecoverError`]. If it [is damage](RecoverError::is_damage), of the log or of a page, the server would meet it too. What was
/// written until then is whole, and the checkpoint is where it was.
pub fn recover(datadir: &Path, options: &RecoverOptions) -> Result<Recovered> {
    if !datadir.join("ibdata1").is_file() || !datadir.join("ib_logfile0").is_file() {
        return refused(format!("{}: no datadir: ibdata1 or ib_logfile0 is not there", datadir.display()));
    }
    let keys = options.keys.read()?;
    match &options.to {
        Some(to) if !options.dry_run => {
            check_and_copy(datadir, to, options, &keys)?;
            recover_in_place(to, options, &keys)
        }
        _ if options.dry_run => dry_run(datadir, options, &keys),
        _ => recover_in_place(datadir, options, &keys),
    }
}

/// The copy may be large: what cannot be recovered should be known before.
fn check_and_copy(datadir: &Path, to: &Path, options: &RecoverOptions, keys: &KeyStore) -> Result<()> {
    let _lock = Lock::take(datadir, Sharing::Shared)?;
    let memory = Budget::of(options.memory).plan;
    let log = RedoLog::open(datadir, false, keys)?.tuned(&options.tuning.within(options.memory));
    let wanted = Wanted::read(&log, memory, 0, options.until)?;
    let outside = if datadir.join(SHADOW_NAME).exists() {
        Survey::take(datadir, &wanted)?.outside
    } else {
        Plan::make(datadir, wanted, keys)?.outside
    };
    place::copy(datadir, to, &outside)
}

fn dry_run(datadir: &Path, options: &RecoverOptions, keys: &KeyStore) -> Result<Recovered> {
    let budget = Budget::of(options.memory);
    let _lock = Lock::take(datadir, Sharing::Shared)?;
    if datadir.join(SHADOW_NAME).exists() {
        return refused("an interrupted run is to be finished first: what would be done is known only after that");
    }
    let tuning = options.tuning.within(options.memory);
    let log = RedoLog::open(datadir, false, keys)?.tuned(&tuning);
    let plan = Plan::make(datadir, Wanted::read(&log, budget.plan, budget.plan_and_redo, options.until)?, keys)?;
    if plan.wanted.is_clean {
        return Ok(summary(&plan, Counts::default(), Done::default(), 0));
    }
    Ending::of(&log, &plan, keys)?;
    let (files, done) = Files::as_they_are(datadir, &plan)?;
    let mut work = Work::new(&plan, &files, engine(), None, budget.rewrite(&plan, &tuning))?;
    work.restore()?;
    work.run(&log, budget.redo(&plan), None)?;
    Ok(summary(&plan, work.finish()?, done, 0))
}

fn recover_in_place(datadir: &Path, options: &RecoverOptions, keys: &KeyStore) -> Result<Recovered> {
    let (budget, tuning) = (Budget::of(options.memory), options.tuning.within(options.memory));
    let _lock = Lock::take(datadir, Sharing::Exclusive)?;
    let log = RedoLog::open(datadir, true, keys)?.tuned(&tuning);
    let at_once = if options.round == u64::MAX { budget.plan_and_redo } else { 0 };
    let wanted = Wanted::read(&log, budget.plan, at_once, options.until)?;
    let replayed = finish_interrupted(datadir, wanted.tag())?;
    let plan = Plan::make(datadir, wanted, keys)?;
    if plan.wanted.is_clean {
        outside::unmark(datadir)?;
        return Ok(summary(&plan, Counts::default(), Done::default(), replayed));
    }
    let ending = Ending::of(&log, &plan, keys)?;
    let mut done = Done::default();
    let files = Files::as_they_should_be(datadir, &plan, &mut done)?;
    let mut work = Work::new(&plan, &files, engine(), Some(shadow(datadir, true)?), budget.rewrite(&plan, &tuning))?;
    work.forget_later_copies()?;
    work.restore()?;
    work.run(&log, budget.redo(&plan), Some(options.round))?;
    if log.is_of_blocks() {
        work.put_flush_lsn(plan.wanted.end)?;
    }
    let counts = work.finish()?;
    files.sync()?;
    remove_shadow(datadir)?;
    ending.write(&log, plan.wanted.end)?;
    outside::unmark(datadir)?;
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

/// The engine that works here.
fn engine() -> &'static dyn OpenQueue {
    let works = |engine: &&&dyn OpenQueue| engine.open(1, &[]).is_ok();
    Engine::Auto.candidates().iter().find(works).copied().unwrap_or(&Threads)
}

/// Makes whole what an interrupted run was writing; pieces of pages. A shadow of another checkpoint is of no use: the server went on
/// since.
fn finish_interrupted(datadir: &Path, tag: u64) -> Result<u64> {
    if !datadir.join(SHADOW_NAME).exists() {
        return Ok(0);
    }
    let mut number = 0;
    let replayed = replay(engine(), &shadow(datadir, false)?, tag, |name| {
        number += 1;
        resolve(datadir, Outside::of(datadir), name, number)
    })?;
    remove_shadow(datadir)?;
    Ok(if let Replayed::Pieces(pieces) = replayed { pieces } else { 0 })
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
        mtrs_dropped: plan.wanted.rest.as_ref().map_or(0, |rest| rest.mtrs),
        tablespaces: plan.spaces.len() as u64,
        rounds: counts.rounds,
        pages_read: counts.read,
        pages_changed: counts.changed,
        pages_unchanged: counts.unchanged,
        pages_freed: counts.freed,
        pages_restored: counts.restored,
        pieces_replayed: replayed,
        files_renamed: done.renamed,
        files_made: done.made,
        files_resized: done.resized,
    }
}
