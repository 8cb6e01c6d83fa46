//! Files that only make sense from start to end: logs, archives, compressed files. `files -> tasks -> Reader -> Stream -> StreamOutcome`
//!
//! One worker reads each file in order, several files in parallel. This runs after the tablespace sweep because doublewrite copies are
//! judged with the formats of their tablespaces.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use flow::{Counters, Cursor, ReadOptions, Reader, ReaderError, StreamReader, WorkList, WorkerCounters, run_workers};

use super::delta::DeltaCheck;
use super::doublewrite::DoublewriteCheck;
use super::examined::{Break, Context, Examined, Role, StreamOutcome};
use super::file_state::FileState;
use super::findings::Findings;
use super::inner::{Inner, InnerName};
use super::redo::RedoCheck;
use super::stream::Stream;
use super::throttle::Throttle;
use datadir::content::Content;
use datadir::files;
use datadir::inventory::{Candidate, Inventory, plain};
use datadir::name::NameHint;
use datadir::redo_log::is_kept_file;
use datadir::severity::Severity;

/// Shared by all workers of the second phase.
pub(super) struct Phase<'p> {
    pub files: &'p [FileState],
    pub context: &'p Context,
    pub read: &'p ReadOptions,
    pub counters: &'p Counters,
    pub throttle: &'p Throttle,
}

/// Files that one worker reads together: all files of a redo log, or a single file.
type Task = Vec<u32>;

/// Outcomes by file number.
pub(super) type Outcomes = BTreeMap<u32, StreamOutcome>;

impl Phase<'_> {
    /// Reads all files that are not swept.
    ///
    /// # Errors
    /// No reader could be made.
    pub fn run(&self, workers: usize) -> Result<Outcomes, ReaderError> {
        let tasks = tasks(self.files);
        let list = WorkList::new(&tasks);
        let results = run_workers(workers.min(tasks.len()), |worker| {
            let mut outcomes = Vec::new();
            while let Some((_, task)) = list.take() {
                if self.context.options.watcher.is_stopped() {
                    break;
                }
                outcomes.extend(self.task(task, self.counters.worker(worker))?);
            }
            Ok::<_, ReaderError>(outcomes)
        });
        let mut outcomes = Outcomes::new();
        for result in results {
            outcomes.extend(result?);
        }
        Ok(outcomes)
    }

    fn task(&self, task: &Task, counters: &WorkerCounters) -> Result<Vec<(u32, StreamOutcome)>, ReaderError> {
        let candidate = |file: &u32| self.files.get(*file as usize).map(|state| &state.candidate);
        let Some((&first, files)) = task.first().zip(Some(task.iter().filter_map(candidate).collect::<Vec<_>>()))
        else {
            return Ok(Vec::new());
        };
        let Some(candidate) = files.first() else { return Ok(Vec::new()) };
        Ok(match candidate.content {
            Content::Redo => self.redo(task, files, counters),
            Content::Doublewrite => vec![(first, self.doublewrite(candidate, counters)?)],
            Content::Delta => vec![(first, self.delta(candidate, counters)?)],
            _ => vec![(first, self.stream(candidate, counters)?)],
        })
    }

    fn redo(&self, task: &Task, files: Vec<&Candidate>, counters: &WorkerCounters) -> Vec<(u32, StreamOutcome)> {
        let (findings_max, keys) = (self.context.options.findings_max, &*self.context.keys);
        let (rows, findings) = RedoCheck { files, counters, findings_max, keys }.run();
        let mut outcomes: Vec<(u32, StreamOutcome)> = task
            .iter()
            .zip(rows)
            .map(|(file, row)| (*file, StreamOutcome { rows: vec![row], ..StreamOutcome::new(0) }))
            .collect();
        let mut by_file = findings.split(outcomes.len());
        for ((_, outcome), findings) in outcomes.iter_mut().zip(by_file.drain(..)) {
            outcome.findings = findings;
        }
        outcomes
    }

    fn doublewrite(&self, candidate: &Candidate, counters: &WorkerCounters) -> Result<StreamOutcome, ReaderError> {
        let findings_max = self.context.options.findings_max;
        let Some(mut check) = DoublewriteCheck::new(candidate, self.files, findings_max) else {
            let mut outcome = StreamOutcome::new(0);
            let why = "a doublewrite file whose name does not give the page size".to_owned();
            outcome.skipped.push(datadir::inventory::Passed { path: candidate.path.clone(), why });
            return Ok(outcome);
        };
        let end = self.read(candidate, counters, |bytes| check.take(bytes))?;
        let mut outcome = check.finish();
        if let (Some(why), Some(row)) = (end, outcome.rows.first_mut()) {
            outcome.findings.offer_at(0, u64::MAX, why.finding(&candidate.path));
            row.is_cut = true;
            row.state.with_tally(|tally| tally.failure = Some(why.words));
        }
        Ok(outcome)
    }

    fn delta(&self, candidate: &Candidate, counters: &WorkerCounters) -> Result<StreamOutcome, ReaderError> {
        let findings_max = self.context.options.findings_max;
        let Some(mut check) = DeltaCheck::new(candidate, findings_max) else {
            let mut outcome = StreamOutcome::new(findings_max);
            let why = "changed pages whose .meta file does not give the page size".to_owned();
            outcome.failed.push(datadir::inventory::Passed { path: candidate.path.clone(), why });
            return Ok(outcome);
        };
        let end = self.read(candidate, counters, |bytes| check.take(bytes))?;
        let mut outcome = check.finish(end.is_none());
        if let (Some(why), Some(row)) = (end, outcome.rows.first_mut()) {
            outcome.findings.offer_at(0, u64::MAX, why.finding(&candidate.path));
            row.is_cut = true;
            row.state.with_tally(|tally| tally.failure = Some(why.words));
        }
        Ok(outcome)
    }

    pub(super) fn stream(
        &self,
        candidate: &Candidate,
        counters: &WorkerCounters,
    ) -> Result<StreamOutcome, ReaderError> {
        let name = InnerName { shown: candidate.path.clone(), own: candidate.path.clone() };
        let mut stream = Box::new(Stream::new(self.context.clone(), name, Role::Named));
        if let Some(why) = self.read(candidate, counters, |bytes| stream.take(bytes))? {
            stream.broken(why);
        }
        Ok(stream.finish())
    }

    /// Reads one file from start to end. Returns why it ended early, if it did.
    fn read(
        &self,
        candidate: &Candidate,
        counters: &WorkerCounters,
        mut take: impl FnMut(&[u8]),
    ) -> Result<Option<Break>, ReaderError> {
        let set = files::set([(candidate.path.clone(), candidate.len)]);
        let cursor = Cursor::sweep(&set, self.read.block_size);
        let mut reader = Reader::new(&set, &cursor, self.read, counters)?;
        while let Some(item) = reader.next() {
            if self.context.options.watcher.is_stopped() {
                return Ok(Some(stopped()));
            }
            let piece = match item {
                Ok(piece) => piece,
                Err(failure) => {
                    return Ok(Some(Break::undecided(format!("cannot be read: {}", plain(&failure.error)))));
                }
            };
            self.throttle.took(piece.bytes.len());
            if let Some(gap) = piece.gaps.first() {
                let sound = usize::try_from(gap.offset - piece.offset).unwrap_or(usize::MAX);
                take(piece.bytes.get(..sound).unwrap_or(piece.bytes));
                let words = format!("the device cannot read byte {} of the file: {}", gap.offset, plain(&gap.error));
                let (reason, severity) = ("unreadable_bytes".into(), Severity::Undecided);
                return Ok(Some(Break { reason, severity, words, position: Some(gap.offset) }));
            }
            take(piece.bytes);
            if piece.bytes.len() < piece.asked as usize {
                let end = piece.offset + piece.bytes.len() as u64;
                let words = format!("the file became shorter while it was read: it ends at byte {end}");
                return Ok(Some(Break::undecided(words)));
            }
        }
        Ok(None)
    }
}

fn stopped() -> Break {
    Break::undecided("the check was stopped before the end of the file".to_owned())
}

/// The tasks, in file order.
fn tasks(files: &[FileState]) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut last_redo: Option<((&Path, bool), usize)> = None;
    for (number, state) in (0..).zip(files) {
        let candidate = &state.candidate;
        if candidate.content == Content::Pages || !state.share.any {
            continue;
        }
        // Files of an archive beside a ring are left from before.
        let log = (candidate.path.parent().unwrap_or(Path::new("")), is_kept_file(&candidate.path));
        // A log copied under another name is a separate log.
        let has_name = candidate.hint == NameHint::Redo;
        match last_redo.filter(|_| has_name) {
            Some((redo_log, task)) if candidate.content == Content::Redo && redo_log == log => {
                if let Some(task) = tasks.get_mut(task) {
                    task.push(number);
                }
            }
            _ => {
                if candidate.content == Content::Redo && has_name {
                    last_redo = Some((log, tasks.len()));
                }
                tasks.push(vec![number]);
            }
        }
    }
    tasks
}

/// Reads a stream of unknown length and content.
///
/// # Errors
/// No memory for the buffers.
pub(super) fn stream(
    input: impl Read,
    context: Context,
    piece: u32,
    counters: &WorkerCounters,
) -> std::io::Result<StreamOutcome> {
    let mut reader = StreamReader::new(input, piece, counters)?;
    let watcher = context.options.watcher.clone();
    let name = InnerName { shown: PathBuf::from("-"), own: PathBuf::from("-") };
    let mut stream = Box::new(Stream::new(context, name, Role::Named));
    while let Some(item) = reader.next() {
        if watcher.is_stopped() {
            stream.broken(stopped());
            break;
        }
        match item {
            Ok(piece) => stream.take(piece.bytes),
            Err(error) => stream.broken(Break::undecided(format!("cannot be read to the end: {}", plain(&error)))),
        }
    }
    Ok(stream.finish())
}

/// A file of a stopped run: `None` if it was not begun, else what its pages alone show.
fn as_far_as_read(state: FileState) -> Option<Examined> {
    let bytes = state.with_tally(|tally| if tally.failure.is_some() { u64::MAX } else { tally.counts.bytes });
    let is_whole = state.candidate.content == Content::Pages && bytes >= state.share.bytes();
    let is_begun = bytes > 0 && state.head.get().is_some();
    (is_begun || is_whole).then(|| Examined { is_cut: !is_whole, ..Examined::pages(state) })
}

/// Puts each outcome in its file's place and renumbers the findings' files to match.
pub(super) fn merged(
    files: Vec<FileState>,
    findings: Findings,
    mut outcomes: Outcomes,
    inventory: &mut Inventory,
    is_stopped: bool,
) -> (Vec<Examined>, Findings) {
    let mut rows: Vec<Examined> = Vec::with_capacity(files.len());
    let mut places = Vec::with_capacity(files.len());
    let mut found = Vec::new();
    for (number, state) in (0..).zip(files) {
        let place = rows.len() as u32;
        places.push(place);
        let Some(outcome) = outcomes.remove(&number) else {
            rows.extend(if is_stopped { as_far_as_read(state) } else { Some(Examined::pages(state)) });
            continue;
        };
        rows.extend(outcome.rows);
        inventory.skipped.extend(outcome.skipped);
        inventory.failed.extend(outcome.failed);
        found.push(outcome.findings.renumbered(|row| place + row));
    }
    let mut findings = findings.renumbered(|file| places.get(file as usize).copied().unwrap_or(file));
    for more in found {
        findings.merge(more);
    }
    (rows, findings)
}
