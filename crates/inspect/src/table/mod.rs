//! `paths -> Inventory -> Space + SpaceMap -> roots + definitions -> Walk (one tree per worker at a time) -> TableReport`
//!
//! Bottleneck: the device, or about 1 GB/s of records per core. Trees are the unit of work: largest first, in parallel on all workers.
//! Workers without a tree help with the leaves of the large ones ([`crate::tree::walk::crew`]). Memory: the windows (below 100 MiB), a few
//! parents per tree, and the maps and definitions of one batch of tablespaces. What crosses batches is small: the dictionary's rows, the
//! roots of each tablespace, and the report.

mod live;
mod matching;
mod mended;
pub mod one;
mod options;
mod report;
mod settle;
mod settling;
mod walked;
mod whole_datadir;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use flow::{Counters, FileId, FileSet, Gather, GatherPlan, ReadAhead, WorkList, run_workers};
use format::keyring::KeyStore;

use crate::check::{refuse_remote, servers_of};
use crate::definitions::Dictionaries;
use crate::definitions::known::{Known, know};
pub(crate) use crate::definitions::{Definitions, Named, Opening};
use crate::report::shown;
use crate::report::watcher::watched;
use crate::table::matching::Matches;
use crate::table::options::windows;
use crate::table::walked::{Subject, Walked};
use crate::tree::walk::crew::{Crew, SweepSubject};
use crate::tree::walk::{Receivers, Tools};
use crate::tree::{Root, TreeReport, Walk, links};
use datadir::catalog::{Catalog, Held};
use datadir::content::Content;
use datadir::inventory::{Candidate, Inventory, Passed};
use datadir::keys::{NO_KEY, SpaceKey};
use datadir::name::{NameHint, table_of_path};
use datadir::remote::Missed;
use datadir::tablespace::{FoundFile, Opener, Tablespace};
use datadir::{Error, fault, files};

pub use crate::report::table_finding::TableFinding;
pub use crate::table::options::TableOptions;
pub use crate::table::report::{IndexReport, TableFile, TableReport, TableTotals, TreeKind};

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
    refuse_remote(paths, options.live)?;
    let mut inventory = Inventory::take_selected(paths, &options.selection);
    let catalogs = Catalog::all(&inventory, &keys, options.page_size);
    inventory.add(catalogs.iter().flat_map(Catalog::outside));
    let servers = if options.live { BTreeSet::new() } else { servers_of(&inventory) };
    let groups = groups(&mut inventory);
    let set = files::set(groups.iter().flatten().map(|file| (file.path.clone(), file.len)));
    let workers = options.workers.max(1);
    let counters = Counters::new(workers).expecting(groups.len());
    let progress = Expected::of(&groups);
    let tell = watch.map(|watch| {
        let progress = &progress;
        move |counters: &Counters| watch(progress.bytes(), counters)
    });
    let watch = tell.as_ref().map(|tell| tell as &(dyn Fn(&Counters) + Sync));
    let mut settling = settle::begin(&mut inventory, &catalogs, (options, &keys, servers));
    let (mut dictionaries, mut owned) = (Dictionaries::of(&groups, &keys, options.page_size), HashSet::new());
    watched(watch, &counters, || {
        let mut unreturned = 0;
        let how = (&keys, options.page_size);
        for batch in batches(&groups, BATCH) {
            let spaces = in_parallel(workers, batch, |files, opener| open_described(files, how, opener));
            let of_batch = spaces.iter().filter_map(|(_, opened)| opened.as_ref().ok());
            let definitions = Definitions::read_with(of_batch, &mut dictionaries);
            // All partitions of a table are in one batch, because one of them describes the others. Their maps and roots need not be.
            for (spaces, files) in spaces.chunks(BATCH).zip(batch.chunks(BATCH)) {
                let mut subjects = known_of(spaces, &definitions, workers);
                progress.know(files, bytes_of(&subjects));
                let walked = walked_of(&subjects, &definitions, &set, options, &counters)?;
                // If a file could not be read to its end, its findings may only reflect the missing rest: report the failure instead.
                owned.extend(miss(files::failures_of(&inventory.asked), &mut subjects));
                let again = |how| live::look_again(files, batch, how, (&subjects, &walked), &definitions);
                let how = live::How { keys: &keys, options, counters: &counters, workers };
                let again = options.live.then(|| again(how)).transpose()?.unwrap_or_default();
                settling.batch(&subjects, &walked, &definitions, again);
                counters.worker(0).done_with(files.len());
            }
            drop((spaces, definitions));
            unreturned += batch.len();
            if unreturned >= GIVE_BACK_EVERY {
                flow::give_back_memory();
                unreturned = 0;
            }
        }
        Ok::<_, Error>(())
    })?;
    // What follows compares the whole dictionary with the files, and takes the most memory of all.
    drop((dictionaries, groups, set));
    flow::give_back_memory();
    let missed = files::failures_of(&inventory.asked);
    inventory.failed.extend(unowned(missed, &owned, &settling.held, &inventory.failed));
    let parts = fault::noted_parts().into_iter();
    inventory.failed.extend(parts.map(|Missed { path, why, .. }| Passed { path, why }));
    let mut report = settling.end(&inventory, &catalogs);
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

/// Tablespaces whose state is in memory at a time: enough work for all workers, and a bound whatever the number of tables.
const BATCH: usize = 128;

/// The C library's memory is returned after this many tablespaces: it takes most of their state from what the batches before have left, and
/// returned after each batch, all of that would be mapped again, page by page: 12.0 s of CPU for 50,000 tables instead of 8.4. What lies unused
/// between is up to 12 MiB.
pub(crate) const GIVE_BACK_EVERY: usize = 2048;

/// The tablespaces in batches of about `size`. The partitions of a table stay together, because one of them describes all.
pub(crate) fn batches(groups: &[Vec<FoundFile>], size: usize) -> impl Iterator<Item = &[Vec<FoundFile>]> {
    let mut rest = groups;
    std::iter::from_fn(move || {
        let table_at = |at: usize| {
            let name = table_of_path(rest.get(at)?.first()?.home())?;
            name.split(" partition ").next().map(str::to_owned)
        };
        let mut end = size.min(rest.len());
        while end < rest.len() && table_at(end).is_some_and(|table| Some(table) == table_at(end - 1)) {
            end += 1;
        }
        let (batch, after) = rest.split_at(end);
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

/// How many bytes there are to read: what segments say, and for the tablespaces that were not opened yet, the same share of their files.
struct Expected {
    /// Bytes of all files.
    files: u64,
    /// Bytes of the files that were opened, and of the trees in them.
    opened: AtomicU64,
    trees: AtomicU64,
}

impl Expected {
    fn of(groups: &[Vec<FoundFile>]) -> Self {
        Self { files: len_of(groups), opened: AtomicU64::new(0), trees: AtomicU64::new(0) }
    }

    fn know(&self, batch: &[Vec<FoundFile>], bytes: u64) {
        self.trees.fetch_add(bytes, Ordering::SeqCst);
        self.opened.fetch_add(len_of(batch), Ordering::SeqCst);
    }

    fn bytes(&self) -> u64 {
        let (opened, trees) = (self.opened.load(Ordering::SeqCst), self.trees.load(Ordering::SeqCst));
        let all = u128::from(trees) * u128::from(self.files);
        u64::try_from(all.checked_div(u128::from(opened)).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

fn len_of(groups: &[Vec<FoundFile>]) -> u64 {
    groups.iter().flatten().map(|file| file.len).sum()
}

/// Notes the files of these tablespaces that could not be read to their end, and returns them.
fn miss(missed: Vec<Missed>, subjects: &mut [Subject]) -> Vec<PathBuf> {
    if missed.is_empty() {
        return Vec::new();
    }
    let mut owners: HashMap<PathBuf, usize> = HashMap::new();
    for (at, subject) in subjects.iter().enumerate() {
        for path in subject.paths() {
            owners.entry(path.to_path_buf()).or_insert(at);
        }
    }
    let mut owned = Vec::new();
    for Missed { path, why, .. } in missed {
        if let Some(subject) = owners.get(&path).and_then(|at| subjects.get_mut(*at)) {
            subject.opened = Err(format!("cannot be read: {why}"));
            owned.push(path);
        }
    }
    owned
}

/// The files that could not be read and that belong to no tablespace: definitions, dictionaries.
fn unowned(missed: Vec<Missed>, owned: &HashSet<PathBuf>, held: &[Held], failed: &[Passed]) -> Vec<Passed> {
    if missed.is_empty() {
        return Vec::new();
    }
    let mut known: HashSet<&Path> = owned.iter().map(PathBuf::as_path).collect();
    known.extend(held.iter().flat_map(|held| &held.space.files).map(|file| file.path.as_path()));
    known.extend(failed.iter().map(|failed| failed.path.as_path()));
    let mut rest: Vec<Passed> = Vec::new();
    for Missed { path, why, .. } in missed {
        if !known.contains(path.as_path()) && !rest.iter().any(|passed| passed.path == path) {
            rest.push(Passed { path, why });
        }
    }
    rest
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
    for Candidate { path, home, len, hint, content, .. } in std::mem::take(&mut inventory.candidates) {
        let has_lists = !matches!(hint, NameHint::Temporary | NameHint::Redo | NameHint::Doublewrite | NameHint::Link);
        if content != Content::Pages || !has_lists {
            let why = "holds no tables".to_owned();
            inventory.skipped.push(datadir::inventory::Passed { path, why });
            continue;
        }
        let file = FoundFile { path, home: home.map(PathBuf::into_boxed_path), file: FileId(number), len };
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
    (keys, page_size): (&KeyStore, Option<u32>),
    opener: &mut Opener,
) -> (PathBuf, Result<Tablespace, String>) {
    let path = files.first().map(|file| file.path.clone()).unwrap_or_default();
    let opened = Tablespace::open_with(files, keys, page_size, opener).and_then(|space| {
        let locked = space.format.encryption() != format::Encryption::None && matches!(space.key, SpaceKey::None);
        if locked { Err(format!("is {NO_KEY}")) } else { Ok(space) }
    });
    (path, opened)
}

/// The same with the tables that it describes itself, while its file is open.
pub(crate) fn open_described(
    files: &[FoundFile],
    how: (&KeyStore, Option<u32>),
    opener: &mut Opener,
) -> (PathBuf, Result<Opening, String>) {
    let (path, opened) = open(files, how, opener);
    (path, opened.map(|space| Opening::of(space, opener)))
}

/// Applies `act` to each item on several workers, each with an opener of its own; the results are in the order of the items.
pub(crate) fn in_parallel<I: Sync, T: Send + Sync>(
    workers: usize,
    items: &[I],
    act: impl Fn(&I, &mut Opener) -> T + Sync,
) -> Vec<T> {
    let results: Vec<OnceLock<T>> = items.iter().map(|_| OnceLock::new()).collect();
    let tasks: Vec<_> = items.iter().zip(&results).collect();
    let list = WorkList::new(&tasks);
    run_workers(workers.min(items.len()), |_| {
        let mut opener = Opener::new();
        while let Some((_, (item, result))) = list.take() {
            result.get_or_init(|| act(item, &mut opener));
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// What is known of tablespaces before their trees are walked.
fn known_of(spaces: &[(PathBuf, Result<Opening, String>)], definitions: &Definitions, workers: usize) -> Vec<Subject> {
    in_parallel(workers, spaces, |(path, opened), opener| {
        let opened = opened.as_ref().map(|opening| know(&opening.space, definitions, opener));
        Subject { path: path.clone(), opened: opened.map_err(String::clone) }
    })
}

/// Walks every tree, and compares entries with rows where that is wanted.
fn walked_of(
    subjects: &[Subject],
    definitions: &Definitions,
    set: &FileSet,
    options: &TableOptions,
    counters: &Counters,
) -> Result<Vec<Vec<Walked>>, Error> {
    let matches = if options.extended { Matches::plan(subjects, definitions) } else { Matches::default() };
    let mut walked = walk_all(subjects, (definitions, &matches), set, options, counters)?;
    if !options.watcher.is_stopped() {
        matches.settle(subjects, set, options, counters, &mut walked)?;
    }
    Ok(walked)
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
            if !options.live {
                settle::tell(&options.watcher, known_tree, &report);
            }
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
    if !Walk::can_descend(root, index) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_of_about_the_size_and_keep_the_partitions_of_a_table_together() {
        let names = ["a/b.ibd", "a/t#P#p0.ibd", "a/t#P#p1.ibd", "a/t#P#p2.ibd", "a/u.ibd", "ibdata1"];
        let file = |name: &str| vec![FoundFile { path: PathBuf::from(name), home: None, file: FileId(0), len: 1 }];
        let groups: Vec<Vec<FoundFile>> = names.into_iter().map(file).collect();
        let sizes = |size: usize| batches(&groups, size).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(1), [1, 3, 1, 1]);
        assert_eq!(sizes(2), [4, 2]);
        assert_eq!(sizes(5), [5, 1]);
        assert_eq!(sizes(100), [6]);
    }
}
