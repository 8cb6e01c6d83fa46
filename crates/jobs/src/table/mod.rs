//! `paths -> Inventory -> Space + SpaceMap -> roots + definitions -> Walk (one tree per worker at a time) -> TableReport`
//!
//! Bottleneck: the device, or about 1 GB/s of records per core. Trees are the unit of work: largest first, in parallel on all workers.
//! Workers without a tree help with the leaves of the large ones ([`crate::tree::walk::crew`]). Memory: the windows (below 100 MiB), a few
//! parents per tree, and the maps of the tablespaces.

mod datadir;
pub(crate) mod definitions;
pub(crate) mod known;
pub mod lone;
mod matching;
pub mod one;
mod options;
mod report;
mod settle;
mod settling;
mod walked;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use flow::{Counters, FileId, FileSet, Gather, GatherPlan, ReadAhead, WorkList, run_workers};
use format::keyring::KeyStore;

use crate::report::shown;
use crate::report::watcher::watched;
use crate::source::catalog::Catalog;
use crate::source::content::Content;
use crate::source::datadir::{Candidate, Inventory, Passed};
use crate::source::files;
use crate::source::keys::{NO_KEY, SpaceKey};
use crate::source::name::NameHint;
use crate::source::remote::Missed;
use crate::tree::walk::crew::{Crew, SweepSubject};
use crate::tree::walk::{Receivers, Tools};
use crate::tree::{FoundFile, Root, Tablespace, TreeReport, Walk, links};
use crate::{Error, fault};
pub(crate) use definitions::{Definitions, Named};
use known::{Known, know};
use matching::Matches;
use options::windows;
use walked::{Subject, Walked};

pub use options::TableOptions;
pub use report::{IndexReport, TableFile, TableFinding, TableReport, TableTotals, TreeKind};

/// Memory of all workers for the state of unread leaves, bytes.
const SWEEP_MEMORY: u64 = 64 << 20;

/// Called at intervals with the approximate total number of bytes to read, and the counters.
pub type TableWatch<'w> = &'w (dyn Fn(u64, &Counters) + Sync);

/// Checks the tables of all tablespaces in `paths`.
///
/// # Errors
/// Options that cannot work, keys that cannot be read. Damage and unreadable files are in the report.
pub fn tables(paths: &[PathBuf], options: &TableOptions) -> Result<TableReport, Error> {
    tables_watched(paths, options, None)
}

/// Like [`tables`], with progress reports.
///
/// # Errors
/// As [`tables`].
pub fn tables_watched(
    paths: &[PathBuf],
    options: &TableOptions,
    watch: Option<TableWatch<'_>>,
) -> Result<TableReport, Error> {
    let start = Instant::now();
    options.read.validate()?;
    let keys = options.keys.read()?;
    let mut inventory = Inventory::take(paths);
    let catalogs = Catalog::all(&inventory, &keys, options.page_size);
    for path in catalogs.iter().flat_map(Catalog::outside) {
        inventory.add(path);
    }
    let groups = groups(&mut inventory);
    let set = files::set(groups.iter().flatten().map(|file| (file.path.clone(), file.len)));
    let workers = options.workers.max(1);
    let spaces = in_parallel(workers, &groups, |files| open(files, &keys, options.page_size));
    let definitions = Definitions::read(spaces.iter().filter_map(|(_, opened)| opened.as_ref().ok()), &keys);
    let subjects = in_parallel(workers, &spaces, |(path, opened)| Subject {
        path: path.clone(),
        opened: opened.as_ref().map(|space| know(space, &definitions)).map_err(String::clone),
    });
    let counters = Counters::new(workers);
    let matches = if options.extended { Matches::plan(&subjects, &definitions) } else { Matches::default() };
    let total = bytes_of(&subjects);
    let tell = watch.map(|watch| move |counters: &Counters| watch(total, counters));
    let watch = tell.as_ref().map(|tell| tell as &(dyn Fn(&Counters) + Sync));
    let walked = watched(watch, &counters, || {
        let mut walked = walk_all(&subjects, (&definitions, &matches), &set, options, &counters)?;
        if !options.watcher.is_stopped() {
            matches.settle(&subjects, &set, options, &counters, &mut walked)?;
        }
        Ok::<_, Error>(walked)
    })?;
    // If a file could not be read to its end, its findings may only reflect the missing rest: report the failure instead.
    let mut subjects = subjects;
    let missed = files::failures_of(&inventory.asked);
    miss(missed, &mut subjects, &mut inventory.failed);
    let parts = fault::noted_parts().into_iter();
    inventory.failed.extend(parts.map(|Missed { path, why, .. }| Passed { path, why }));
    let mut report = settle::settle(&subjects, &definitions, &walked, (&inventory, &catalogs), (options, &keys));
    say_unread(&mut report);
    report.incomplete = options.watcher.is_stopped();
    report.effort = report::Effort {
        elapsed: start.elapsed(),
        workers,
        requests: counters.total().requests,
        bytes: counters.total().bytes_read,
        in_flight_max: counters.total().in_flight_max,
    };
    report.totals.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Notes the files that could not be read to their end: their tablespaces, or the files themselves.
fn miss(missed: Vec<Missed>, subjects: &mut [Subject], failed: &mut Vec<Passed>) {
    if missed.is_empty() {
        return;
    }
    let mut owners: HashMap<PathBuf, usize> = HashMap::new();
    for (at, subject) in subjects.iter().enumerate() {
        for path in subject.paths() {
            owners.entry(path.to_path_buf()).or_insert(at);
        }
    }
    let mut known: HashSet<PathBuf> = failed.iter().map(|failed| failed.path.clone()).collect();
    for Missed { path, why, .. } in missed {
        match owners.get(&path).and_then(|at| subjects.get_mut(*at)) {
            Some(subject) => subject.opened = Err(format!("cannot be read: {why}")),
            None if !known.insert(path.clone()) => {}
            None => failed.push(Passed { path, why }),
        }
    }
}

/// What could not be read while the findings were settled, such as a redo log: without it they may be wrong.
fn say_unread(report: &mut TableReport) {
    for missed in fault::noted().into_iter().chain(fault::noted_parts()) {
        let path = shown(&missed.path);
        if !report.files.iter().any(|file| file.path == path && file.error.is_some()) {
            report.totals.files += 1;
            report.totals.failed_files += 1;
            report.files.push(TableFile::unread(path, missed.why));
        }
    }
}

/// Bytes of all trees' pages, according to their segments.
fn bytes_of(subjects: &[Subject]) -> u64 {
    let known = subjects.iter().filter_map(|subject| subject.opened.as_ref().ok());
    let bytes = |known: &Known| {
        let pages: u64 = known.roots.iter().map(|root| root.pages).sum();
        pages * u64::from(known.space.format.physical().get())
    };
    known.map(bytes).sum()
}

/// The files of each tablespace that holds tables or undo logs and is not temporary. All other files are skipped.
pub(crate) fn groups(inventory: &mut Inventory) -> Vec<Vec<FoundFile>> {
    let mut groups: Vec<(NameHint, Vec<FoundFile>)> = Vec::new();
    let mut number = 0;
    for Candidate { path, len, hint, content, .. } in std::mem::take(&mut inventory.candidates) {
        let has_lists = !matches!(hint, NameHint::Temporary | NameHint::Redo | NameHint::Doublewrite | NameHint::Link);
        if content != Content::Pages || !has_lists {
            let why = "holds no tables".to_owned();
            inventory.skipped.push(crate::source::datadir::Passed { path, why });
            continue;
        }
        let file = FoundFile { path, file: FileId(number), len };
        number += 1;
        let continues = |(before, files): &&mut (NameHint, Vec<FoundFile>)| match (*before, hint) {
            (NameHint::System(_), NameHint::System(2..)) => {
                files.last().is_some_and(|last| last.path.parent() == file.path.parent())
            }
            _ => false,
        };
        match groups.last_mut().filter(continues) {
            Some((_, files)) => files.push(file),
            None => groups.push((hint, vec![file])),
        }
    }
    groups.into_iter().map(|(_, files)| files).collect()
}

pub(crate) fn open(
    files: &[FoundFile],
    keys: &KeyStore,
    page_size: Option<u32>,
) -> (PathBuf, Result<Tablespace, String>) {
    let path = files.first().map(|file| file.path.clone()).unwrap_or_default();
    let opened = Tablespace::open(files, keys, page_size).and_then(|space| {
        let locked = space.format.encryption() != format::Encryption::None && matches!(space.key, SpaceKey::None);
        if locked { Err(format!("is {NO_KEY}")) } else { Ok(space) }
    });
    (path, opened)
}

/// Applies `act` to each item on several workers; the results are in the order of the items.
pub(crate) fn in_parallel<I: Sync, T: Send + Sync>(
    workers: usize,
    items: &[I],
    act: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let results: Vec<OnceLock<T>> = items.iter().map(|_| OnceLock::new()).collect();
    let tasks: Vec<_> = items.iter().zip(&results).collect();
    let list = WorkList::new(&tasks);
    run_workers(workers.min(items.len()), |_| {
        while let Some((_, (item, result))) = list.take() {
            result.get_or_init(|| act(item));
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Walks every tree; results are in the order of subjects and roots.
fn walk_all(
    subjects: &[Subject],
    (definitions, matches): (&Definitions, &Matches),
    set: &FileSet,
    options: &TableOptions,
    counters: &Counters,
) -> Result<Vec<Vec<Walked>>, Error> {
    let known = |at: usize| subjects.get(at).and_then(|subject| subject.opened.as_ref().ok());
    let trees = |at: usize| known(at).map_or(0, |known| known.roots.len());
    let mut tasks: Vec<(usize, usize)> =
        (0..subjects.len()).flat_map(|at| (0..trees(at)).map(move |tree| (at, tree))).collect();
    let size = |(at, tree): &(usize, usize)| known(*at).and_then(|known| known.roots.get(*tree)).map(|root| root.pages);
    // Largest first, so that no worker is left with a large one at the end.
    tasks.sort_by_key(|task| std::cmp::Reverse(size(task)));
    let workers = useful_workers(options, tasks.iter().filter_map(size));
    let leaders = workers.min(tasks.len()).max(1);
    let (read, ahead) = windows(options, set, workers);
    let (list, crew) = (WorkList::new(&tasks), Crew::new(workers, options.shared_leaves_min));
    let outcomes = run_workers(workers, |worker| {
        let lead = crew.lead();
        let plan = GatherPlan::new(read.block_size);
        let mut gather = Gather::new(set, &plan, &read, ahead, counters.worker(worker))?;
        let (mut tools, mut walked) = (Tools::watched(&options.watcher), Vec::new());
        while let Some((_, &(at, tree))) = list.take() {
            let Some((known, root)) = known(at).and_then(|known| Some((known, known.roots.get(tree)?))) else {
                continue;
            };
            if options.watcher.is_stopped() {
                walked.push(((at, tree), Walked::none()));
                continue;
            }
            let start = Instant::now();
            tools.opener.take_newest();
            let named = definitions.named(&known.space, root, &known.map, &mut tools.opener);
            let known_tree = KnownTree { known, root, named: named.as_ref() };
            let receivers = matches.receivers(at, tree, known.space.pages());
            let place = WalkPlace { options, crew: &crew, memory: SWEEP_MEMORY / leaders as u64 };
            let report = walk(known_tree, receivers, &place, &mut gather, &mut tools);
            settle::tell(&options.watcher, known_tree, &report);
            let is_sound = report.findings_total == 0;
            walked.push((
                (at, tree),
                Walked { report, is_sound, elapsed: start.elapsed(), newest: tools.opener.take_newest() },
            ));
        }
        lead.help(&mut gather, &mut tools);
        Ok::<_, flow::ReaderError>(walked)
    });
    let mut all = Vec::new();
    for outcome in outcomes {
        all.extend(outcome?);
    }
    all.sort_by_key(|(place, _)| *place);
    let mut rows: Vec<Vec<Walked>> = subjects.iter().map(|_| Vec::new()).collect();
    for ((at, _), walked) in all {
        if let Some(row) = rows.get_mut(at) {
            row.push(walked);
        }
    }
    Ok(rows)
}

/// A tree with what is known before it is walked.
#[derive(Clone, Copy)]
struct KnownTree<'c, 'n> {
    known: &'c Known,
    root: &'c Root,
    named: Option<&'n Named>,
}

/// The parts of a run that a walk uses.
struct WalkPlace<'r, 'c> {
    options: &'r TableOptions,
    crew: &'r Crew<'c>,
    /// Bytes for the state of unread leaves.
    memory: u64,
}

fn walk<'c>(
    KnownTree { known, root, named }: KnownTree<'c, '_>,
    receivers: Option<Receivers<'c>>,
    &WalkPlace { options, crew, memory }: &WalkPlace<'_, 'c>,
    gather: &mut Gather<'_>,
    tools: &mut Tools,
) -> TreeReport {
    let index = named.and_then(|named| named.index.as_ref());
    let place = (&known.space, &known.map);
    if !Walk::can_descend(root, index, &known.space) {
        return links::run(place, root, (options.depth, options.findings_max), gather, tools);
    }
    let walk = || Walk::new(place, root, index, options.depth, options.findings_max).received_by(receivers.as_ref());
    let swept = match gather.ahead() {
        ReadAhead::Logical { .. } => {
            let subject =
                SweepSubject { place, root, index: index.cloned().map(Arc::new), receivers: receivers.clone() };
            walk().sweep(gather, tools, memory, Some((crew, &subject)))
        }
        _ => None,
    };
    swept.unwrap_or_else(|| walk().run(gather, tools))
}

/// How many workers have something to do: one for each tree, and more for trees that can be shared.
fn useful_workers(options: &TableOptions, pages: impl Iterator<Item = u64>) -> usize {
    let share = options.shared_leaves_min.max(1) as u64;
    let shares = pages.fold(0_u64, |sum, pages| sum.saturating_add((pages / share).max(1)));
    options.workers.clamp(1, usize::try_from(shares).unwrap_or(usize::MAX).max(1))
}
