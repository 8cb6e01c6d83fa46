//! Workers without a tree of their own help with the sweeps of those that have one.
//!
//! ```text
//! leader: parents (key order) -> LeafRun -> share ──┐ portions in file order, one atomic addition each
//! others: no tree left -> sleep -> help ────────────┴-> each leaf by itself, off-page values too -> sums of counts, or a doubt
//! ```
//!
//! A leaf is checked against the node pointers around it (`sweep`), so it does not matter who checks it, nor when: the sums are the
//! same for any number of workers. A doubt ends the sweep for all, and the leader alone walks the tree in key order.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use flow::Gather;
use format::Lsn;
use format::schema::IndexDef;

use super::leaf_run::LeafRun;
use super::{Depth, Receivers, Tools, TreeCounts, Walk};
use crate::tree::ranges::Reached;
use crate::tree::{Root, SpaceMap};
use datadir::tablespace::Tablespace;

/// All workers of a run.
pub struct Crew<'c> {
    state: Mutex<CrewState<'c>>,
    /// Notified when a sweep is shared, when a helper leaves one, and when a worker gives up its lead.
    changed: Condvar,
    workers: usize,
    /// Sweeps of fewer leaves are not shared.
    leaves_min: usize,
}

struct CrewState<'c> {
    sweeps: Vec<SweepInWork<'c>>,
    /// Workers that may still have a tree to share.
    leaders: usize,
}

struct SweepInWork<'c> {
    sweep: Arc<SharedSweep<'c>>,
    helpers: usize,
}

/// Everything a worker needs to check leaves of one stretch of a tree.
pub(super) struct SharedSweep<'c> {
    pub subject: SweepSubject<'c>,
    pub depth: Depth,
    pub reached: Arc<Reached>,
    pub run: LeafRun,
    /// The helpers' counts, and the highest LSN of the sound pages they opened.
    pub tally: Mutex<(TreeCounts, Lsn)>,
}

/// A tree that several workers may sweep.
#[derive(Clone)]
pub struct SweepSubject<'c> {
    /// The tablespace and the allocation of its pages.
    pub place: (&'c Tablespace, &'c SpaceMap),
    /// The root.
    pub root: &'c Root,
    /// The definition.
    pub index: Option<Arc<IndexDef>>,
    /// Where the leaves go besides being checked, if anywhere.
    pub receivers: Option<Receivers<'c>>,
}

/// A worker's right to lead: while any worker has one, idle workers wait for a sweep to help with.
pub struct Lead<'r, 'c> {
    crew: &'r Crew<'c>,
}

impl<'c> Crew<'c> {
    /// A crew of up to `workers`, each of which leads first. Sweeps of fewer than `leaves_min` leaves are not shared.
    #[must_use]
    pub fn new(workers: usize, leaves_min: usize) -> Self {
        let state = CrewState { sweeps: Vec::new(), leaders: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new(), workers, leaves_min: leaves_min.max(1) }
    }

    /// The lead of one worker, which it takes before its first tree. Workers that never start never lead, so no one waits for them.
    pub fn lead(&self) -> Lead<'_, 'c> {
        self.lock().leaders += 1;
        Lead { crew: self }
    }

    /// How many workers may share a sweep of this many leaves.
    pub(super) fn workers_for(&self, leaves: usize) -> usize {
        if leaves < self.leaves_min { 1 } else { self.workers }
    }

    /// Ignores poisoning: the state is consistent whenever the lock is free, as a worker that panics elsewhere does not change it.
    fn lock(&self) -> MutexGuard<'_, CrewState<'c>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, CrewState<'c>>) -> MutexGuard<'g, CrewState<'c>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets idle workers help while the leader does its own share, and waits until they are done. Returns the result of `own`.
    pub(super) fn share(&self, sweep: &Arc<SharedSweep<'c>>, own: impl FnOnce() -> bool) -> bool {
        self.lock().sweeps.push(SweepInWork { sweep: Arc::clone(sweep), helpers: 0 });
        self.changed.notify_all();
        let _in_work = InWork { crew: self, sweep };
        own()
    }

    /// Helps with sweeps until no worker leads any more.
    fn help(&self, gather: &mut Gather<'_>, tools: &mut Tools) {
        let mut state = self.lock();
        loop {
            let open = state.sweeps.iter_mut().filter(|one| !one.sweep.run.is_doubtful() && one.sweep.run.left() > 0);
            let Some(most) = open.max_by_key(|one| one.sweep.run.left()) else {
                if state.leaders == 0 {
                    return;
                }
                state = self.wait(state);
                continue;
            };
            most.helpers += 1;
            let helping = Helping { crew: self, sweep: Arc::clone(&most.sweep) };
            drop(state);
            helping.sweep.help(gather, tools);
            drop(helping);
            state = self.lock();
        }
    }
}

impl Lead<'_, '_> {
    /// Gives up the lead, and helps the others until all trees are done.
    pub fn help(self, gather: &mut Gather<'_>, tools: &mut Tools) {
        let crew = self.crew;
        drop(self);
        crew.help(gather, tools);
    }
}

impl Drop for Lead<'_, '_> {
    /// In `drop`, so that it also happens when a worker fails or panics: otherwise the others would wait forever.
    fn drop(&mut self) {
        self.crew.lock().leaders -= 1;
        self.crew.changed.notify_all();
    }
}

/// Keeps a sweep shared while its leader works on it.
struct InWork<'r, 'c> {
    crew: &'r Crew<'c>,
    sweep: &'r Arc<SharedSweep<'c>>,
}

impl Drop for InWork<'_, '_> {
    /// Waits for the helpers. What they borrow outlives them anyway, but their counts belong to this tree.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.sweep.run.doubt();
        }
        let mut state = self.crew.lock();
        // No helper joins from here on: every leaf is taken, or the run is in doubt.
        while let Some(at) = state.sweeps.iter().position(|one| Arc::ptr_eq(&one.sweep, self.sweep)) {
            if state.sweeps.get(at).is_some_and(|one| one.helpers > 0) {
                state = self.crew.wait(state);
            } else {
                state.sweeps.swap_remove(at);
            }
        }
    }
}

/// A worker that helps with a sweep.
struct Helping<'r, 'c> {
    crew: &'r Crew<'c>,
    sweep: Arc<SharedSweep<'c>>,
}

impl Drop for Helping<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.sweep.run.doubt();
        }
        let mut state = self.crew.lock();
        if let Some(one) = state.sweeps.iter_mut().find(|one| Arc::ptr_eq(&one.sweep, &self.sweep)) {
            one.helpers -= 1;
        }
        drop(state);
        self.crew.changed.notify_all();
    }
}

impl SharedSweep<'_> {
    /// Checks leaves until none is left, and adds up what it saw.
    fn help(&self, gather: &mut Gather<'_>, tools: &mut Tools) {
        tools.opener.take_newest();
        let SweepSubject { place, root, index, receivers } = &self.subject;
        let reached = Arc::clone(&self.reached);
        let walk = Walk::below(*place, root, index.as_deref(), (self.depth, 0), reached);
        let mut walk = walk.received_by(receivers.as_ref());
        walk.leaves(&self.run, gather, tools);
        // The next sweep must start with nothing in flight.
        while gather.next().is_some() {}
        let newest = tools.opener.take_newest();
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.0 += walk.counts();
        tally.1 = tally.1.max(newest);
    }
}
