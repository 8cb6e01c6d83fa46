//! A bounded heap of findings: keeps the first N in report order, whatever order the workers find them in. A wholly broken terabyte costs
//! no memory, and every run prints the same lines.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::usage::Runs;
use crate::report::document::Finding;
use crate::report::watcher::{Found, Watcher};
use datadir::finding_code::FindingCode;
use datadir::severity::Severity;

/// Report order: file, then page (findings about the whole file first), then reason.
type Key = (u32, u64, FindingCode);

struct Kept {
    key: Key,
    finding: Finding,
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Kept {}
impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Kept {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// Findings of one worker or of the run.
pub(super) struct Findings {
    max: usize,
    kept: BinaryHeap<Kept>,
    /// All findings, kept or not.
    pub total: u64,
    /// Findings that are damage.
    pub damage: u64,
    /// Findings that could not be decided.
    pub undecided: u64,
    /// The same counts for each file with findings.
    by_file: BTreeMap<u32, Sums>,
    /// Pages with findings, kept or not, by file: the verdicts on tables need all of them. Stored as runs, so neighbours are free.
    pages: BTreeMap<u32, Runs>,
    /// Told of each finding as it is made.
    watcher: Watcher,
}

/// Total, damage, undecided.
#[derive(Clone, Copy, Default)]
struct Sums([u64; 3]);

impl Sums {
    fn of(severity: Severity) -> Self {
        Self([1, u64::from(severity == Severity::Damage), u64::from(severity == Severity::Undecided)])
    }
}

impl Findings {
    pub fn new(max: usize) -> Self {
        Self {
            max,
            kept: BinaryHeap::new(),
            total: 0,
            damage: 0,
            undecided: 0,
            by_file: BTreeMap::new(),
            pages: BTreeMap::new(),
            watcher: Watcher::default(),
        }
    }

    /// Counts a finding and keeps it if it is among the first `max`; `make` runs only then.
    pub fn offer(
        &mut self,
        file: u32,
        page: Option<u32>,
        reason: impl Into<FindingCode>,
        severity: Severity,
        make: impl FnOnce() -> Finding,
    ) {
        self.count(file, Sums::of(severity));
        if let Some(page) = page.filter(|_| severity != Severity::Notice) {
            self.note_page(file, page);
        }
        let key = (file, page.map_or(0, |page| u64::from(page) + 1), reason.into());
        let has_room = self.has_room_for(&key);
        if has_room || self.watcher.listens() {
            let finding = make();
            self.watcher.tell(Found::Page(&finding));
            if has_room {
                self.keep(Kept { key, finding });
            }
        }
    }

    /// Reports each finding to `watcher` as it is made.
    pub fn told_to(self, watcher: &Watcher) -> Self {
        Self { watcher: watcher.clone(), ..self }
    }

    /// Like `offer`, for a finding without a page; `place` orders it among the file's findings.
    pub fn offer_at(&mut self, file: u32, place: u64, finding: Finding) {
        self.count(file, Sums::of(finding.severity));
        self.watcher.tell(Found::Page(&finding));
        let key = (file, place, finding.reason);
        if self.has_room_for(&key) {
            self.keep(Kept { key, finding });
        }
    }

    /// Marks another page as affected, without a finding of its own.
    pub fn note_page(&mut self, file: u32, page: u32) {
        let runs = self.pages.entry(file).or_default();
        if !runs.contains(page) {
            runs.add(page);
        }
    }

    /// The file's pages with findings.
    pub fn pages_of(&self, file: u32) -> impl Iterator<Item = u32> + '_ {
        let runs = self.pages.get(&file).into_iter().flat_map(Runs::iter);
        runs.flat_map(|(first, pages)| first..first.saturating_add(pages))
    }

    /// The file's kept findings.
    pub fn of_file(&self, file: u32) -> impl Iterator<Item = &Finding> {
        self.kept.iter().filter(move |kept| kept.key.0 == file).map(|kept| &kept.finding)
    }

    fn merge_pages(&mut self, pages: BTreeMap<u32, Runs>) {
        for (file, runs) in pages {
            match self.pages.entry(file) {
                Entry::Vacant(free) => {
                    free.insert(runs);
                }
                Entry::Occupied(_) => {
                    let pages = runs.iter().flat_map(|(first, pages)| first..first.saturating_add(pages));
                    pages.for_each(|page| self.note_page(file, page));
                }
            }
        }
    }

    fn count(&mut self, file: u32, Sums(more): Sums) {
        let Sums(sums) = self.by_file.entry(file).or_default();
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum += more;
        }
        for (sum, more) in [&mut self.total, &mut self.damage, &mut self.undecided].into_iter().zip(more) {
            *sum += more;
        }
    }

    fn has_room_for(&self, key: &Key) -> bool {
        self.kept.len() < self.max || self.kept.peek().is_some_and(|last| *key < last.key)
    }

    fn keep(&mut self, kept: Kept) {
        self.kept.push(kept);
        if self.kept.len() > self.max {
            self.kept.pop();
        }
    }

    /// Adds another worker's findings.
    pub fn merge(&mut self, other: Self) {
        for (file, sums) in other.by_file {
            self.count(file, sums);
        }
        self.merge_pages(other.pages);
        for kept in other.kept {
            if self.has_room_for(&kept.key) {
                self.keep(kept);
            }
        }
    }

    /// Whether the file has any finding worse than a notice.
    pub fn has_trouble(&self, file: u32) -> bool {
        self.by_file.get(&file).is_some_and(|Sums([_, damage, undecided])| damage + undecided > 0)
    }

    /// Reclassifies up to `findings` findings of damage in `file` as notices.
    pub fn damage_turned_notice(&mut self, file: u32, findings: u64) {
        if let Some(Sums([_, damage, _])) = self.by_file.get_mut(&file) {
            let turned = findings.min(*damage);
            *damage -= turned;
            self.damage -= turned;
        }
    }

    /// Takes back [`Self::damage_turned_notice`] for so many findings.
    pub fn notice_turned_damage(&mut self, file: u32, findings: u64) {
        if let Some(Sums([_, damage, _])) = self.by_file.get_mut(&file) {
            *damage += findings;
            self.damage += findings;
        }
    }

    /// Passes the kept findings of damage in `file` to `revise`, which may make them undecided. Returns how many it did.
    pub fn damage_reviewed(&mut self, file: u32, mut revise: impl FnMut(&mut Finding)) -> u64 {
        let mut turned = 0;
        let mut kept = std::mem::take(&mut self.kept).into_vec();
        let is_damage = |kept: &&mut Kept| kept.key.0 == file && kept.finding.severity == Severity::Damage;
        for kept in kept.iter_mut().filter(is_damage) {
            revise(&mut kept.finding);
            turned += u64::from(kept.finding.severity == Severity::Undecided);
        }
        self.kept = kept.into();
        if let Some(Sums([_, damage, undecided])) = self.by_file.get_mut(&file) {
            let turned = turned.min(*damage);
            (*damage, *undecided) = (*damage - turned, *undecided + turned);
            (self.damage, self.undecided) = (self.damage - turned, self.undecided + turned);
        }
        turned
    }

    /// Drops everything found in `file`.
    pub fn forget(&mut self, file: u32) {
        let Sums(gone) = self.by_file.remove(&file).unwrap_or_default();
        for (sum, gone) in [&mut self.total, &mut self.damage, &mut self.undecided].into_iter().zip(gone) {
            *sum -= gone;
        }
        self.pages.remove(&file);
        self.kept.retain(|kept| kept.key.0 != file);
    }

    /// Renumbers the files; `number` must keep their order.
    pub fn renumbered(self, number: impl Fn(u32) -> u32) -> Self {
        let renumber = |mut kept: Kept| {
            kept.key.0 = number(kept.key.0);
            kept
        };
        let by_file = self.by_file.into_iter().map(|(file, sums)| (number(file), sums)).collect();
        let pages = self.pages.into_iter().map(|(file, runs)| (number(file), runs)).collect();
        Self { kept: self.kept.into_iter().map(renumber).collect(), by_file, pages, ..self }
    }

    /// Gives files the numbers and paths in `places`.
    pub fn moved(self, places: &HashMap<u32, (u32, String)>) -> Self {
        let number = |file: u32| places.get(&file).map_or(file, |(number, _)| *number);
        let moved = |mut kept: Kept| {
            if let Some((number, path)) = places.get(&kept.key.0) {
                kept.key.0 = *number;
                kept.finding.path.clone_from(path);
            }
            kept
        };
        let by_file = self.by_file.into_iter().map(|(file, sums)| (number(file), sums)).collect();
        let pages = self.pages.into_iter().map(|(file, runs)| (number(file), runs)).collect();
        Self { kept: self.kept.into_iter().map(moved).collect(), by_file, pages, ..self }
    }

    /// Splits into one heap for each of the first `files` files, each of which becomes file 0 of its heap.
    pub fn split(self, files: usize) -> Vec<Self> {
        let mut parts: Vec<Self> = (0..files).map(|_| Self::new(self.max)).collect();
        for kept in self.kept {
            if let Some(part) = parts.get_mut(kept.key.0 as usize) {
                part.keep(Kept { key: (0, kept.key.1, kept.key.2), finding: kept.finding });
            }
        }
        for (file, sums) in self.by_file {
            if let Some(part) = parts.get_mut(file as usize) {
                part.count(0, sums);
            }
        }
        for (file, runs) in self.pages {
            if let Some(part) = parts.get_mut(file as usize) {
                part.merge_pages(BTreeMap::from([(0, runs)]));
            }
        }
        parts
    }

    /// The kept findings in report order, each with its file number.
    pub fn into_sorted(self) -> Vec<(u32, Finding)> {
        self.kept.into_sorted_vec().into_iter().map(|kept| (kept.key.0, kept.finding)).collect()
    }
}
