//! A bounded heap of findings: the first N in the order of the report, whatever order the workers met them in, so that a
//! wholly broken terabyte costs no memory and every run prints the same lines.

use std::collections::BinaryHeap;

use crate::out::report::{Finding, Severity};

/// Place of a finding in the report: file, then page (findings about the whole file first), then reason.
type Key = (u32, u64, &'static str);

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
    /// Those that are damage.
    pub damage: u64,
    /// Those that could not be decided.
    pub undecided: u64,
}

impl Findings {
    pub fn new(max: usize) -> Self {
        Self { max, kept: BinaryHeap::new(), total: 0, damage: 0, undecided: 0 }
    }

    /// Counts a finding and keeps it if it is among the first `max`; `make` runs only then.
    pub fn offer(
        &mut self,
        file: u32,
        page: Option<u32>,
        reason: &'static str,
        severity: Severity,
        make: impl FnOnce() -> Finding,
    ) {
        self.total += 1;
        match severity {
            Severity::Damage => self.damage += 1,
            Severity::Undecided => self.undecided += 1,
            Severity::Notice => {}
        }
        let key = (file, page.map_or(0, |page| u64::from(page) + 1), reason);
        if self.has_room_for(&key) {
            self.keep(Kept { key, finding: make() });
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
        self.total += other.total;
        self.damage += other.damage;
        self.undecided += other.undecided;
        for kept in other.kept {
            if self.has_room_for(&kept.key) {
                self.keep(kept);
            }
        }
    }

    /// In the order of the report, each with the number of its file.
    pub fn into_sorted(self) -> Vec<(u32, Finding)> {
        self.kept.into_sorted_vec().into_iter().map(|kept| (kept.key.0, kept.finding)).collect()
    }
}
