//! `paths -> Inventory -> sweep -> Reader -> verify_page -> Findings -> settle -> Report`
//!
//! Bottleneck: the device, or the copy out of the page cache. Workers share the cursor and, once per piece, a lock to hand in sums; each
//! judges the pages it read itself. Memory is workers × depth × block size, plus a few bits for each page not yet settled, plus at most
//! `findings_max` findings, whatever the size of the data.

mod archive;
mod binlog;
mod delta;
mod doublewrite;
mod dropped;
mod empty;
pub(crate) mod examined;
mod fate;
mod file_state;
mod findings;
mod inner;
mod innodb_binlog;
mod judge;
mod kept_redo;
mod late;
mod live_log;
pub(crate) mod log_ends;
mod member;
mod mended;
mod newer;
mod options;
mod packed;
mod portion;
mod redo;
mod sequential;
mod settle;
mod settling;
mod stream;
mod stretches;
mod throttle;
mod usage;
mod whole_space;
mod words;
mod worker;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flow::{Counters, Devices, FileId, FileRange, Piece, ReadOptions, Reader, run_workers};

use format::keyring::KeyStore;

use crate::check::examined::{Context, Examined};
use crate::check::file_state::FileState;
use crate::check::findings::Findings;
pub use crate::check::options::CheckOptions;
pub use crate::check::portion::Portion;
use crate::check::portion::Share;
use crate::check::sequential::Phase;
use crate::check::settle::Wish;
use crate::check::throttle::Throttle;
use crate::check::worker::CheckWorker;
use crate::report::document::{Effort, Finding, PartOf, Report};
use crate::report::watcher::watched;
use datadir::catalog::Catalog;
use datadir::content::Content;
use datadir::finding_code::FindingCode;
use datadir::inventory::{Candidate, Inventory, Passed};
use datadir::name::NameHint;
use datadir::severity::Severity;
use datadir::{Error, fault, files, redo_log};

/// A check that has listed the paths but not yet read any file.
pub struct Check {
    inventory: Inventory,
    catalogs: Vec<Catalog>,
    /// The part of each candidate to read.
    shares: Vec<Share>,
    options: CheckOptions,
    keys: KeyStore,
}

impl Check {
    /// Walks the paths.
    ///
    /// # Errors
    /// Options that cannot work.
    pub fn plan(paths: &[PathBuf], options: CheckOptions) -> Result<Self, Error> {
        options.read.validate()?;
        refuse_remote(paths, options.live)?;
        let keys = options.keys.read()?;
        let mut inventory = Inventory::take_selected(paths, &options.selection);
        let catalogs = Catalog::all(&inventory, &keys, options.page_size);
        inventory.add(catalogs.iter().flat_map(Catalog::outside));
        let (walked, page_size) = (&inventory.walked, options.page_size);
        let share = |file: &Candidate| Share::of(options.portion, file, walked, page_size);
        let shares = inventory.candidates.iter().map(share).collect();
        Ok(Self { inventory, catalogs, shares, options, keys })
    }

    /// Bytes to read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shares.iter().map(Share::bytes).sum()
    }

    /// Reads and judges everything. `watch` is called at intervals with the counters, from a thread of its own.
    ///
    /// # Errors
    /// No worker could start; damage and unreadable files are in the report.
    pub fn run(mut self, watch: Option<&(dyn Fn(&Counters) + Sync)>) -> Result<Report, Error> {
        let start = Instant::now();
        let options = &self.options;
        let shares = std::mem::take(&mut self.shares);
        let files = file_states(&self.inventory.candidates, &self.catalogs, shares, options.live);
        let is_dictionary_here = options.portion.is_none_or(|portion| portion.number() == 1);
        CheckWorker::new(&files, &self.keys, options).foresee(is_dictionary_here);
        // Only tablespaces are swept. Other files get no blocks here; each is read afterwards from start to end.
        let swept = |file: &Candidate| if file.content == Content::Pages { file.len } else { 0 };
        let set = files::set(self.inventory.candidates.iter().map(|file| (file.path.clone(), swept(file))));
        let read = options.read_from(&set);
        let homes = homes(&files);
        let home = |file: FileId| homes.get(file.0 as usize).copied().unwrap_or_default();
        let blocks = Devices::over(&set, stretches(&files), read.block_size, home);
        let tasks = usize::try_from(blocks.blocks()).unwrap_or(usize::MAX).max(self.inventory.candidates.len());
        let workers = options.workers.clamp(1, tasks.max(1));
        let counters = Counters::new(workers).expecting(swept_files(&files));
        let throttle = Throttle::new(options.rate, options.watcher.clone());
        let outcomes = watched(watch, &counters, || {
            run_workers(workers, |worker| {
                let share = blocks.of_worker(worker);
                let mut reader = Reader::new(&set, &share, &read, counters.worker(worker))?;
                let mut desk = CheckWorker::new(&files, &self.keys, options);
                while let Some(item) = reader.next() {
                    if options.watcher.is_stopped() {
                        // Blocks in flight are still judged: other workers may be waiting for a file's head.
                        blocks.stop();
                    }
                    match item {
                        Ok(piece) => {
                            desk.piece(&piece);
                            counters.worker(worker).done_with(usize::from(ends_file(&files, &piece)));
                            throttle.took(piece.bytes.len());
                        }
                        Err(failure) => desk.failure(&failure),
                    }
                }
                Ok::<_, flow::ReaderError>((desk.findings, reader.engine_name(), reader.notes().to_vec()))
            })
        });
        let (mut findings, mut effort) = (Findings::new(options.findings_max), Effort { workers, ..Effort::default() });
        for outcome in outcomes {
            let (found, engine, notes) = outcome?;
            findings.merge(found);
            effort.engine = engine;
            effort.notes = notes;
        }
        let context = Context::new(options.clone(), self.keys.clone());
        let phase = Phase { files: &files, context: &context, read: &read, counters: &counters, throttle: &throttle };
        let mut outcomes = watched(watch, &counters, || phase.run(workers))?;
        let is_stopped = options.watcher.is_stopped();
        if options.live && !is_stopped {
            live_log::read_again(&phase, &mut outcomes, counters.worker(0))?;
        }
        let wanted = files.iter().filter(|file| file.share.any).count() as u64;
        let (rows, mut findings) = sequential::merged(files, findings, outcomes, &mut self.inventory, is_stopped);
        let wish = wish(options, &self.keys, options.live);
        if !options.live {
            note_server(&self.inventory, &mut findings);
        }
        let unread = wanted.saturating_sub(rows.len() as u64);
        self.inventory.failed.extend(unread_elsewhere(&self.inventory, &rows));
        effort.notes.extend(files::notes());
        // A stopped run cannot tell which files it would have found, so do not compare them with the dictionary.
        let catalogs = if is_stopped || !is_dictionary_here { &[][..] } else { &self.catalogs };
        let mut report = settle::settle(&self.inventory, catalogs, rows, findings, &wish);
        say_unread(&mut report);
        // What a running server explains is read in its light.
        report.findings.sort_by_key(|finding| finding.reason != FindingCode::SERVER_RUNNING);
        if is_stopped {
            (report.incomplete, report.totals.unread_files) = (true, unread);
        }
        report.part = options.portion.map(|portion| PartOf { number: portion.number(), of: portion.of() });
        report.since_lsn = options.since_lsn.map(|lsn| lsn.0);
        Ok(timed(report, effort, start, &counters, &read))
    }

    /// Checks a stream of unknown length: a tablespace, log or archive, compressed or not.
    ///
    /// # Errors
    /// Options that cannot work.
    pub fn stream(
        input: impl Read,
        options: &CheckOptions,
        watch: Option<&(dyn Fn(&Counters) + Sync)>,
    ) -> Result<Report, Error> {
        let start = Instant::now();
        options.read.validate()?;
        let keys = options.keys.read()?;
        let context = Context::new(options.clone(), keys.clone());
        let counters = Counters::new(1);
        let outcome = watched(watch, &counters, || {
            sequential::stream(input, context, options.read.block_size, counters.worker(0))
        });
        let outcome = outcome.map_err(|source| Error::Io { path: "-".into(), action: "starting to read", source })?;
        let mut inventory = Inventory::default();
        inventory.skipped = outcome.skipped;
        inventory.failed = outcome.failed;
        let effort = Effort { workers: 1, engine: "stream", ..Effort::default() };
        // A failed stream brings a heap that keeps nothing; make one with room.
        let mut findings = Findings::new(options.findings_max);
        findings.merge(outcome.findings);
        let mut report = settle::settle(&inventory, &[], outcome.rows, findings, &wish(options, &keys, false));
        report.incomplete = options.watcher.is_stopped();
        report.since_lsn = options.since_lsn.map(|lsn| lsn.0);
        Ok(timed(report, effort, start, &counters, &options.read))
    }
}

/// # Errors
/// `--live` and a bucket.
pub(crate) fn refuse_remote(paths: &[PathBuf], live: bool) -> Result<(), Error> {
    let words = "--live is for files that a server has open: objects in a bucket are replaced, not written to";
    let is_remote = live && paths.iter().any(|path| files::is_remote(path));
    if is_remote { Err(Error::Usage(words.to_owned())) } else { Ok(()) }
}

fn wish<'o>(options: &CheckOptions, keys: &'o KeyStore, live: bool) -> Wish<'o> {
    Wish { live, keys, page_size: options.page_size, list_tables: options.list_tables }
}

/// What could not be read from storage elsewhere and is not reported yet, such as a file beside the tablespaces that its reader then did
/// without.
fn unread_elsewhere(inventory: &Inventory, rows: &[Examined]) -> Vec<Passed> {
    let is_reported = |path: &Path| {
        let of_row = |row: &&Examined| row.state.candidate.path == path;
        rows.iter().filter(of_row).any(|row| row.is_cut || row.state.with_tally(|tally| tally.failure.is_some()))
            || inventory.failed.iter().any(|failed| failed.path == path)
    };
    let missed = files::failures_of(&inventory.asked).into_iter().chain(fault::noted_parts());
    let missed = missed.filter(|missed| !is_reported(&missed.path));
    missed.map(|missed| Passed { path: missed.path, why: missed.why }).collect()
}

/// What could not be read while the findings were settled, such as a redo log: without it they may be wrong.
fn say_unread(report: &mut Report) {
    for missed in fault::noted().into_iter().chain(fault::noted_parts()) {
        let finding = words::about(
            &missed.path,
            FindingCode::UNREADABLE_FILE,
            Severity::Undecided,
            format!("cannot be read: {}", missed.why),
        );
        let is_said = |said: &Finding| said.path == finding.path && said.severity == Severity::Undecided;
        if !report.findings.iter().any(is_said) {
            (report.totals.findings, report.totals.undecided) =
                (report.totals.findings + 1, report.totals.undecided + 1);
            report.findings.push(finding);
        }
    }
}

/// What is said of files that a server has open.
pub(crate) const OPEN: &str =
    "a server has this datadir open: check with --live, or what it is writing may look damaged";

/// Notes that a server holds locks on the files: pages it is writing look damaged unless they are read again.
fn note_server(inventory: &Inventory, findings: &mut Findings) {
    for path in servers_of(inventory) {
        let finding = words::about(&path, FindingCode::SERVER_RUNNING, Severity::Notice, OPEN.to_owned());
        findings.offer_at(u32::MAX, 0, finding);
    }
}

/// The system tablespaces that servers have open: those among the files, and those of the datadirs that files named alone are in.
pub(crate) fn servers_of(inventory: &Inventory) -> BTreeSet<PathBuf> {
    let is_system = |file: &&Candidate| matches!(file.hint, NameHint::System(1));
    let walked = inventory.candidates.iter().filter(is_system).map(|file| file.path.clone());
    let here = inventory.candidates.iter().filter(|file| !files::is_remote(&file.path));
    let folders: BTreeSet<&Path> = here.filter_map(|file| file.path.parent()).collect();
    let around = folders.into_iter().flat_map(|folder| redo_log::datadirs_of(&folder.join("t.ibd")));
    let around: BTreeSet<PathBuf> = around.map(|dir| dir.join("ibdata1")).filter(|path| files::is_file(path)).collect();
    let mut known: HashSet<PathBuf> = HashSet::new();
    let all = walked.chain(around).filter(|path| files::is_locked(path));
    all.filter(|path| known.insert(std::path::absolute(path).unwrap_or_else(|_| path.clone()))).collect()
}

/// The files with their places in the system tablespace: in each directory `ibdata2` and later files continue the first.
fn file_states(candidates: &[Candidate], catalogs: &[Catalog], shares: Vec<Share>, live: bool) -> Vec<FileState> {
    let mut roots: HashMap<&Path, Vec<u32>> = catalogs.iter().flat_map(Catalog::roots).collect();
    let mut files: Vec<FileState> = Vec::with_capacity(candidates.len());
    for (candidate, share) in candidates.iter().zip(shares) {
        let leader = match (files.last(), candidate.hint) {
            (Some(before), NameHint::System(number)) => match before.candidate.hint {
                NameHint::System(earlier) if earlier < number && same_dir(&before.candidate, candidate) => {
                    before.leader.or(u32::try_from(files.len() - 1).ok())
                }
                _ => None,
            },
            _ => None,
        };
        let roots = roots.remove(candidate.path.as_path()).unwrap_or_default();
        let state = FileState { roots, share, ..FileState::new(candidate.clone(), leader) };
        files.push(if live { state.identified() } else { state });
    }
    // An empty file has no block, so no worker would ever set its head.
    for file in files.iter().filter(|file| file.candidate.len == 0 && file.candidate.content == Content::Pages) {
        file.head.get_or_init(|| Err("the file is empty".to_owned()));
    }
    files
}

/// How many files have pages to read.
fn swept_files(files: &[FileState]) -> usize {
    files.iter().filter(|file| file.share.any && file.candidate.content == Content::Pages).count()
}

/// Whether the last bytes to read of a file are in this piece.
fn ends_file(files: &[FileState], piece: &Piece<'_>) -> bool {
    let read_to = piece.offset + piece.bytes.len() as u64;
    files.get(piece.file.0 as usize).is_some_and(|file| file.share.ends_at(read_to))
}

/// The ranges to sweep.
fn stretches(files: &[FileState]) -> impl Iterator<Item = FileRange> {
    (0..).zip(files).filter(|(_, file)| file.candidate.content == Content::Pages).flat_map(|(number, file)| {
        let stretch = move |(from, to): &(u64, u64)| FileRange { file: FileId(number), from: *from, to: *to };
        file.share.stretches.iter().map(stretch)
    })
}

/// The device of each file. A file that continues another counts as on the first one's device: its pages wait for the first one's head, so
/// that head's block must have been taken earlier, from the same cursor.
fn homes(files: &[FileState]) -> Vec<u64> {
    let device = |file: &FileState| fs::metadata(&file.candidate.path).map_or(0, |metadata| metadata.dev());
    let leader = |file: &FileState| file.leader.and_then(|leader| files.get(leader as usize));
    files.iter().map(|file| device(leader(file).unwrap_or(file))).collect()
}

fn same_dir(a: &Candidate, b: &Candidate) -> bool {
    a.path.parent() == b.path.parent()
}

fn timed(mut report: Report, effort: Effort, start: Instant, counters: &Counters, read: &ReadOptions) -> Report {
    let counts = counters.total();
    let elapsed = start.elapsed();
    let worker_time = elapsed.as_secs_f64() * effort.workers as f64;
    report.totals.seconds = elapsed.as_secs_f64();
    report.effort = Effort {
        elapsed,
        wait_share: (counts.wait().as_secs_f64() / worker_time.max(1e-9)).min(1.0),
        buffer_bytes: read.memory_max() * effort.workers as u64,
        bytes_cached: counts.bytes_cached,
        bytes_direct: counts.bytes_direct,
        requests: counts.requests,
        in_flight_max: counts.in_flight_max,
        ..effort
    };
    report
}
