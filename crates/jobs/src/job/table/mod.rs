//! `paths -> Inventory -> Space + SpaceMap -> roots + definitions -> Walk (one tree a worker at a time) -> TableReport`
//!
//! Limit: the device's rate, or about 1 GB/s of records looked at by a core. Trees are the unit of work: the largest first, side by
//! side on all workers. Memory is that of the windows (below 100 MiB), a few parents of each tree, and the maps of the tablespaces.

mod definitions;
mod matching;
pub(crate) mod one;
mod report;
mod settle;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flow::{Counters, FileId, FileSet, Gather, GatherPlan, ReadAhead, ReadOptions, run_workers};
use format::keyring::KeyStore;

use crate::Error;
use crate::job::check::watched;
use crate::source::content::Content;
use crate::source::datadir::{Candidate, Inventory};
use crate::source::keys::{KeyFiles, SpaceKey};
use crate::source::name::NameHint;
use crate::tree::matching as pairing;
use crate::tree::walk::{Depth, Tools};
use crate::tree::{Leaves, Opener, Root, Space, SpaceMap, TreeFinding, TreeReport, Walk, links, roots};
use definitions::Definitions;
pub(crate) use definitions::Named;
use matching::Matches;

pub use report::{IndexReport, TableFile, TableFinding, TableReport, TableTotals};

/// How to look at tables.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// How the bytes come.
    pub read: ReadOptions,
    /// How far ahead of need pages are read.
    pub ahead: ReadAhead,
    /// Workers; each walks one tree at a time.
    pub workers: usize,
    /// The most findings that the report lists (all are counted).
    pub findings_max: usize,
    /// Logical page size in bytes, in place of what the files say.
    pub page_size: Option<u32>,
    /// Files with keys.
    pub keys: KeyFiles,
    /// Whether to hold everything against everything, or just to count.
    pub depth: Depth,
    /// Whether every entry of a secondary index is held against its row, and every row against its entries.
    pub extended: bool,
    /// How many entries and rows that differ are kept at a time to be named; there may be more, which are counted.
    pub images_max: usize,
}

impl Default for TableOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            // Small requests, for pages lie scattered, and many.
            read: ReadOptions { block_size: 256 << 10, depth: 32, ..ReadOptions::default() },
            ahead: ReadAhead::LOGICAL,
            workers,
            findings_max: 1000,
            page_size: None,
            keys: KeyFiles::default(),
            depth: Depth::Check,
            extended: false,
            images_max: pairing::IMAGES_MAX,
        }
    }
}

/// Memory of all workers' windows together, bytes.
const MEMORY_MAX: u64 = 96 << 20;

/// Memory of all workers for what is known of leaves before they are read, bytes.
const SWEEP_MEMORY: u64 = 64 << 20;

/// A tablespace with all that is known of it before its trees are walked.
struct Subject {
    path: PathBuf,
    opened: Result<Known, String>,
}

struct Known {
    space: Space,
    map: SpaceMap,
    roots: Vec<Root>,
    /// What is wrong with the tablespace as such.
    findings: Vec<TreeFinding>,
}

/// A tree that was walked.
struct Walked {
    report: TreeReport,
    elapsed: Duration,
}

/// What somebody who watches is told now and then: about how many bytes there are to read in all, and the counters.
pub type TableWatch<'w> = &'w (dyn Fn(u64, &Counters) + Sync);

/// Looks at the tables of all tablespaces in `paths`.
///
/// # Errors
/// Options that cannot work, keys that cannot be read. Damage and unreadable files are in the report.
pub fn tables(paths: &[PathBuf], options: &TableOptions) -> Result<TableReport, Error> {
    tables_watched(paths, options, None)
}

/// The same, with somebody who watches.
///
/// # Errors
/// As [`tables`].
pub fn tables_watched(
    paths: &[PathBuf],
    options: &TableOptions,
    watch: Option<TableWatch<'_>>,
) -> Result<TableReport, Error> {
    let start = Instant::now();
    options.read.validate().map_err(|error| Error::Usage(error.to_string()))?;
    let keys = options.keys.read()?;
    let mut inventory = Inventory::take(paths);
    let groups = groups(&mut inventory);
    let set = FileSet::new(groups.iter().flatten().map(|(path, _, len)| (path.clone(), *len)));
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
        matches.settle(&subjects, &set, options, &counters, &mut walked)?;
        Ok::<_, Error>(walked)
    })?;
    let mut report = settle::settle(&subjects, &definitions, &walked, &inventory, options);
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

/// Bytes of the pages of all trees, as their segments count them.
fn bytes_of(subjects: &[Subject]) -> u64 {
    let known = subjects.iter().filter_map(|subject| subject.opened.as_ref().ok());
    let bytes = |known: &Known| {
        let pages: u64 = known.roots.iter().map(|root| root.pages).sum();
        pages * u64::from(known.space.format.physical().get())
    };
    known.map(bytes).sum()
}

type Files = Vec<(PathBuf, FileId, u64)>;

/// The files of each tablespace that can hold tables. All others are passed over.
fn groups(inventory: &mut Inventory) -> Vec<Files> {
    let mut groups: Vec<(NameHint, Files)> = Vec::new();
    let mut number = 0;
    for Candidate { path, len, hint, content, .. } in std::mem::take(&mut inventory.candidates) {
        let holds_tables =
            matches!(hint, NameHint::System(_) | NameHint::Table | NameHint::Dictionary | NameHint::Unknown);
        if content != Content::Pages || !holds_tables {
            let why = "holds no tables".to_owned();
            inventory.skipped.push(crate::source::datadir::Passed { path, why });
            continue;
        }
        let file = (path, FileId(number), len);
        number += 1;
        let continues = |(before, files): &&mut (NameHint, Files)| match (*before, hint) {
            (NameHint::System(_), NameHint::System(2..)) => {
                files.last().is_some_and(|(last, ..)| last.parent() == file.0.parent())
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

fn open(files: &Files, keys: &KeyStore, page_size: Option<u32>) -> (PathBuf, Result<Space, String>) {
    let path = files.first().map(|(path, ..)| path.clone()).unwrap_or_default();
    let opened = Space::open(files, keys, page_size).and_then(|space| {
        let locked = space.format.encryption() != format::Encryption::None && matches!(space.key, SpaceKey::None);
        if locked { Err("is encrypted, and there is no key".to_owned()) } else { Ok(space) }
    });
    (path, opened)
}

fn know(space: &Space, definitions: &Definitions) -> Known {
    let mut opener = Opener::new();
    let map = SpaceMap::read(space, &mut opener);
    let mut findings = map.findings.clone();
    let named = definitions.roots_of(space);
    let roots = roots::find(space, &map, &named, &mut opener, &mut findings);
    Known { space: space.clone(), map, roots, findings }
}

/// What `act` makes of each item, in the order of the items, on several workers.
fn in_parallel<I: Sync, T: Send + Sync>(workers: usize, items: &[I], act: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let results: Vec<OnceLock<T>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    run_workers(workers.min(items.len()), |_| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(result)) = (items.get(at), results.get(at)) else { return };
            result.get_or_init(|| act(item));
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Walks every tree; the results are in the order of the subjects and their roots.
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
    // The largest first, so that no worker is left with it in the end.
    tasks.sort_by_key(|task| std::cmp::Reverse(size(task)));
    let workers = options.workers.clamp(1, tasks.len().max(1));
    let (read, ahead) = windows(options, workers);
    let next = AtomicUsize::new(0);
    let outcomes = run_workers(workers, |worker| {
        let plan = GatherPlan::new(read.block_size);
        let mut gather = Gather::new(set, &plan, &read, ahead, counters.worker(worker))?;
        let (mut tools, mut walked) = (Tools::default(), Vec::new());
        while let Some(&(at, tree)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some((known, root)) = known(at).and_then(|known| Some((known, known.roots.get(tree)?))) else {
                continue;
            };
            let start = Instant::now();
            let named = definitions.named(&known.space, root, &known.map, &mut tools.opener);
            let place = (known, root, named.as_ref());
            let report = walk(place, matches.eyes(at, tree), options, &mut gather, &mut tools);
            walked.push(((at, tree), Walked { report, elapsed: start.elapsed() }));
        }
        Ok::<_, flow::ReaderError>(walked)
    });
    let mut all = Vec::new();
    for outcome in outcomes {
        all.extend(outcome.map_err(|error| Error::Usage(error.to_string()))?);
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

fn walk<'w>(
    (known, root, named): (&'w Known, &'w Root, Option<&'w Named>),
    eyes: Option<Box<dyn Leaves + 'w>>,
    options: &TableOptions,
    gather: &mut Gather<'_>,
    tools: &mut Tools,
) -> TreeReport {
    let index = named.and_then(|named| named.index.as_ref());
    let place = (&known.space, &known.map);
    if Walk::can_descend(root, index, &known.space) {
        let walk = || Walk::new(place, root, index, options.depth, options.findings_max);
        // Who looks at leaves wants each of them once, in the order of their keys.
        let swept = match gather.ahead() {
            ReadAhead::Logical { .. } if eyes.is_none() => {
                walk().sweep(gather, tools, SWEEP_MEMORY / options.workers.max(1) as u64)
            }
            _ => None,
        };
        swept.unwrap_or_else(|| walk().seen_by(eyes).run(gather, tools))
    } else {
        links::run(place, root, (options.depth, options.findings_max), gather, tools)
    }
}

/// Windows of a size that all workers together keep within [`MEMORY_MAX`].
fn windows(options: &TableOptions, workers: usize) -> (ReadOptions, ReadAhead) {
    let share = MEMORY_MAX / workers as u64;
    let ahead = match options.ahead {
        ReadAhead::None => ReadAhead::None,
        ReadAhead::Linear { bytes } => ReadAhead::Linear { bytes: bytes.min(share / 3).max(64 << 10) },
        ReadAhead::Logical { bytes } => ReadAhead::Logical { bytes: bytes.min(share / 3).max(64 << 10) },
    };
    (options.read.clone().within(workers, MEMORY_MAX / 3), ahead)
}
