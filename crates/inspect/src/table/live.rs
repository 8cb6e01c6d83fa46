//! Tables that a running server changes while they are read. Two pages of a tree may then be from different moments, so a contradiction
//! between them proves nothing.
//!
//! ```text
//! findings -> walk again, a few times -> those made each time
//!     the file was not written, and the log since its newest checkpoint leaves the tablespace alone -> as of a stopped server
//!     the log leaves the page alone, and the page by itself is wrong                             -> damage
//!     else                                                                                       -> undecided
//! findings made only sometimes                                                                   -> one note
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flow::{Counters, FileId};
use format::keyring::KeyStore;

use super::walked::{Subject, Walked};
use super::{Definitions, TableOptions, in_parallel, known_of, open_described, walked_of};
use crate::definitions::Dictionaries;
use crate::tree::{Rule, TreeFinding, TreeReport};
use crate::verdict::partitioned;
use datadir::catalog::changed_pages;
use datadir::finding_code::FindingCode;
use datadir::redo_log::RedoLogs;
use datadir::tablespace::{FoundFile, Opener};
use datadir::{Error, files};

/// How often to walk a doubtful tablespace again.
const ROUNDS: u32 = 5;
/// The pause before the first of these walks; it grows by as much each time.
const PAUSE: Duration = Duration::from_millis(250);
/// A write this long before a walk has a time of change that another write would move.
const SETTLED_FOR: Duration = Duration::from_millis(200);
/// Of the log, at most this many bytes are read in a round.
const LOG_MAX: u64 = 512 << 20;

/// What reading a tablespace again has shown.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The last walk saw all pages at one moment, and the server has no newer ones.
    pub is_quiet: bool,
    /// The pages that the server may have newer versions of; `None` if that is not known.
    changed: Option<BTreeSet<u32>>,
    /// Contradictions that were not there each time.
    pub passing: u64,
    /// Its file is gone: the server has dropped it.
    pub is_gone: bool,
}

impl Watched {
    /// Whether a finding that was made each time is one about what the server has, too.
    pub fn decides(&self, rule: FindingCode, page: Option<u32>) -> bool {
        let is_of_page = !Rule::ALL.iter().any(|of_trees| of_trees.code() == rule);
        let is_unchanged = || page.is_some_and(|page| self.changed.as_ref().is_some_and(|all| !all.contains(&page)));
        self.is_quiet || (is_of_page && is_unchanged())
    }
}

/// A tablespace as it was read last.
pub(super) struct Looked {
    pub subject: Subject,
    pub walked: Vec<Walked>,
    pub definitions: std::rc::Rc<Definitions>,
    pub watched: Watched,
}

/// How a run reads.
#[derive(Clone, Copy)]
pub(super) struct How<'r> {
    pub keys: &'r KeyStore,
    pub options: &'r TableOptions,
    pub counters: &'r Counters,
    pub workers: usize,
}

/// Reads the tablespaces with findings again. Returns what was seen last of each, by its place among the subjects.
pub(super) fn look_again(
    groups: &[Vec<FoundFile>],
    of_batch: &[Vec<FoundFile>],
    how: How<'_>,
    (subjects, walked): (&[Subject], &[Vec<Walked>]),
    definitions: &Definitions,
) -> Result<BTreeMap<usize, Looked>, Error> {
    let mut open: BTreeMap<usize, HashSet<Sign>> = subjects
        .iter()
        .zip(walked)
        .enumerate()
        .filter(|(_, (subject, walked))| is_doubtful(subject, walked, definitions))
        .map(|(at, (subject, walked))| (at, signs(subject, walked)))
        .collect();
    let mut looked = BTreeMap::new();
    for round in 1..=ROUNDS {
        if open.is_empty() || how.options.watcher.is_stopped() {
            break;
        }
        std::thread::sleep(PAUSE * round);
        let wanted: Vec<usize> = open.keys().copied().collect();
        let files: Vec<&Vec<FoundFile>> = wanted.iter().filter_map(|at| groups.get(*at)).collect();
        for (at, look) in wanted.iter().zip(read_again(&files, of_batch, how, round == ROUNDS)?) {
            let is_sound = !is_doubtful(&look.subject, &look.walked, &look.definitions);
            let now = signs(&look.subject, &look.walked);
            let Some(before) = open.get_mut(at) else { continue };
            before.retain(|sign| now.contains(sign));
            if is_sound || look.watched.is_quiet || look.watched.is_gone {
                open.remove(at);
            }
            looked.insert(*at, look);
        }
    }
    for (at, persisting) in open {
        if let Some(look) = looked.get_mut(&at) {
            look.forget_passing(&persisting);
        }
    }
    Ok(looked)
}

/// Opens and walks these tablespaces, and asks what the server has done in that time.
fn read_again(
    wanted: &[&Vec<FoundFile>],
    of_batch: &[Vec<FoundFile>],
    how: How<'_>,
    is_last: bool,
) -> Result<Vec<Looked>, Error> {
    // A partition may describe the others of its table.
    let tables: HashSet<(&Path, &str)> = wanted.iter().filter_map(|group| partitioned(group.first()?.home())).collect();
    let is_sibling = |group: &&Vec<FoundFile>| {
        let table = group.first().and_then(|file| partitioned(file.home()));
        table.is_some_and(|table| tables.contains(&table)) && !wanted.contains(group)
    };
    let mut number = 0;
    let mut now = |file: &FoundFile| {
        number += 1;
        let len = files::metadata(&file.path).map_or(0, |meta| meta.len());
        FoundFile { len, file: FileId(number - 1), ..file.clone() }
    };
    let groups = wanted.iter().copied().chain(of_batch.iter().filter(is_sibling));
    let groups: Vec<Vec<FoundFile>> = groups.map(|group| group.iter().map(&mut now).collect()).collect();
    let before: Vec<Option<Vec<Stamp>>> = groups.iter().map(|group| stamps(group)).collect();
    let start = SystemTime::now();
    let set = files::set(groups.iter().flatten().map(|file| (file.path.clone(), file.len)));
    let mut dictionaries = Dictionaries::of(&groups, how.keys, how.options.page_size);
    let with = (how.keys, how.options.page_size);
    let spaces = in_parallel(how.workers, &groups, |files, opener: &mut Opener| open_described(files, with, opener));
    let opened = spaces.iter().filter_map(|(_, opened)| opened.as_ref().ok());
    let definitions = std::rc::Rc::new(Definitions::read_with(opened, &mut dictionaries));
    let subjects = known_of(spaces.get(..wanted.len()).unwrap_or_default(), &definitions, how.workers);
    let walked = walked_of(&subjects, &definitions, &set, how.options, how.counters)?;
    let is_still = |at: usize| {
        let then = before.get(at).and_then(Option::as_ref);
        let is_old = then.is_some_and(|stamps| stamps.iter().all(|stamp| stamp.is_older_than(start, SETTLED_FOR)));
        is_old && groups.get(at).is_some_and(|group| stamps(group).as_ref() == then)
    };
    let asked: Vec<bool> = (0..subjects.len()).map(|at| is_last || is_still(at)).collect();
    let changed = changes(&subjects, &asked, how.keys);
    let looked = subjects.into_iter().zip(walked).zip(changed).enumerate().map(|(at, ((subject, walked), changed))| {
        let is_quiet = is_still(at) && changed.as_ref().is_some_and(BTreeSet::is_empty);
        let is_gone = subject.opened.is_err() && !files::exists(&subject.path);
        let watched = Watched { is_quiet, changed, is_gone, passing: 0 };
        Looked { subject, walked, definitions: std::rc::Rc::clone(&definitions), watched }
    });
    Ok(looked.collect())
}

/// Of each tablespace asked about, the pages that the server's log changes after its newest checkpoint.
fn changes(subjects: &[Subject], asked: &[bool], keys: &KeyStore) -> Vec<Option<BTreeSet<u32>>> {
    let mut redo = RedoLogs::new(true);
    let mut by_dir: HashMap<PathBuf, BTreeSet<u32>> = HashMap::new();
    let places: Vec<Option<(u32, Option<PathBuf>)>> = subjects
        .iter()
        .zip(asked)
        .map(|(subject, is_asked)| {
            let space = subject.opened.as_ref().ok().filter(|_| *is_asked)?.space.format.space().0;
            let dir = redo.checkpoint_for(&subject.path).map(|(dir, _)| dir);
            by_dir.entry(dir.clone().unwrap_or_default()).or_default().insert(space);
            Some((space, dir))
        })
        .collect();
    by_dir.remove(Path::new(""));
    let read = |(dir, spaces): (PathBuf, BTreeSet<u32>)| {
        let changed = changed_pages(&dir, keys, &spaces, LOG_MAX);
        (dir, changed)
    };
    let by_dir: HashMap<PathBuf, _> = by_dir.into_iter().map(read).collect();
    let of_place = |place: Option<(u32, Option<PathBuf>)>| match place? {
        (space, Some(dir)) => {
            let changed = by_dir.get(&dir)?.as_ref()?;
            Some(changed.get(&space).cloned().unwrap_or_default())
        }
        // No log is beside it: no server works on it here.
        (_, None) => Some(BTreeSet::new()),
    };
    places.into_iter().map(of_place).collect()
}

/// When a file was changed last, and which file it is.
#[derive(PartialEq, Eq)]
struct Stamp(u64, u64, u64, SystemTime);

impl Stamp {
    fn is_older_than(&self, start: SystemTime, by: Duration) -> bool {
        start.duration_since(self.3).is_ok_and(|age| age >= by)
    }
}

fn stamps(group: &[FoundFile]) -> Option<Vec<Stamp>> {
    let stamp = |file: &FoundFile| {
        let meta = fs::metadata(&file.path).ok()?;
        Some(Stamp(meta.dev(), meta.ino(), meta.len(), meta.modified().ok()?))
    };
    group.iter().map(stamp).collect()
}

/// A finding without its values, which change with every row: its rule, its page, and the root of its tree.
type Sign = (FindingCode, Option<u32>, Option<u32>);

fn signs(subject: &Subject, walked: &[Walked]) -> HashSet<Sign> {
    let Ok(known) = &subject.opened else { return HashSet::new() };
    let of_space = known.findings.iter().map(|finding| sign(finding, None));
    let trees = known.roots.iter().zip(walked);
    let of_trees =
        trees.flat_map(|(root, walked)| walked.report.findings.iter().map(|finding| sign(finding, Some(root.page_no))));
    of_space.chain(of_trees).collect()
}

fn sign(finding: &TreeFinding, root: Option<u32>) -> Sign {
    (finding.rule, finding.page_no, root)
}

/// Whether something is wrong with a tablespace, if all of it was read at one moment.
fn is_doubtful(subject: &Subject, walked: &[Walked], definitions: &Definitions) -> bool {
    let Ok(known) = &subject.opened else { return true };
    if !known.findings.is_empty() || walked.iter().any(|walked| walked.report.findings_total > 0) {
        return true;
    }
    let mut opener = Opener::new();
    let mut rows: HashMap<Option<String>, u64> = HashMap::new();
    known.roots.iter().zip(walked).any(|(root, walked)| {
        let Some(named) = definitions.named(&known.space, root, &known.map, &mut opener) else { return false };
        let is_counted = named.table.is_some() && named.index.is_some_and(|index| !index.is_multi_valued);
        let counts = &walked.report.counts;
        let now = counts.records - counts.deleted;
        is_counted && *rows.entry(named.table).or_insert(now) != now
    })
}

impl Looked {
    /// Drops the findings that were not made each time, and counts them.
    fn forget_passing(&mut self, persisting: &HashSet<Sign>) {
        let Ok(known) = &mut self.subject.opened else { return };
        let before = known.findings.len();
        known.findings.retain(|finding| persisting.contains(&sign(finding, None)));
        self.watched.passing += (before - known.findings.len()) as u64;
        for (root, walked) in known.roots.iter().zip(&mut self.walked) {
            self.watched.passing +=
                forget(&mut walked.report, |finding| persisting.contains(&sign(finding, Some(root.page_no))));
            walked.is_sound = walked.report.findings_total == 0;
        }
    }
}

/// Keeps these findings of a tree. Returns how many are dropped.
fn forget(report: &mut TreeReport, is_kept: impl Fn(&TreeFinding) -> bool) -> u64 {
    let before = report.findings.len();
    report.findings.retain(is_kept);
    let dropped = (before - report.findings.len()) as u64;
    if dropped > 0 {
        report.findings_total -= dropped;
        let hurt: HashSet<u32> = report.findings.iter().filter_map(TreeFinding::hurt_page).collect();
        report.hurt.retain(|page, _| hurt.contains(page));
        report.lacks_entries &= report.findings.iter().any(|finding| finding.rule == Rule::RowWithoutEntry.code());
    }
    dropped
}
