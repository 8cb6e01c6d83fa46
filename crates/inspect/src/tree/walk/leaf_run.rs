//! A stretch of the leaf level, handed out in file order to the workers that check it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Task;
use super::edges::Edges;

/// Leaves that a worker takes at a time, at most: a few large requests.
const PORTION_MAX: usize = 64;
/// Portions per worker, at least.
const PORTIONS_A_WORKER: usize = 16;

/// Known leaves without a gap.
pub(super) struct LeafRun {
    /// In key order.
    pub tasks: Vec<Task>,
    /// The leaf before the stretch.
    pub before: Option<u32>,
    /// How many to check: all but the last, if the next stretch continues after it.
    pub count: usize,
    /// Their indexes in `tasks`, in file order.
    order: Vec<u32>,
    /// Workers that may take some.
    workers: usize,
    /// Leaves per portion.
    portion: usize,
    /// How many of `order` are taken.
    taken: Taken,
    /// Borders between leaves, if node pointers may leave the order of keys undecided.
    edges: Option<Mutex<Edges>>,
    /// Something is wrong or undecidable: all workers stop.
    is_doubtful: AtomicBool,
}

/// Changed by every worker, so it shares no cache line with what they all read for each leaf.
#[derive(Default)]
#[repr(align(128))]
struct Taken(AtomicUsize);

impl LeafRun {
    /// The first `count` leaves of `tasks`, for up to `workers` workers.
    pub fn new(tasks: Vec<Task>, before: Option<u32>, count: usize, workers: usize, edges: Option<Edges>) -> Self {
        let mut order: Vec<(u32, u32)> = tasks.iter().take(count).map(|task| task.page_no).zip(0_u32..).collect();
        order.sort_unstable();
        let workers = workers.max(1);
        let portion = (count / (workers * PORTIONS_A_WORKER)).clamp(1, PORTION_MAX);
        let order = order.into_iter().map(|(_, at)| at).collect();
        let (taken, is_doubtful) = (Taken::default(), AtomicBool::new(false));
        Self { tasks, before, count, order, workers, portion, taken, edges: edges.map(Mutex::new), is_doubtful }
    }

    /// Whether a worker with `own` unfinished leaves should take more. Near the end it leaves the rest to the others, even if its
    /// look-ahead has room for all of them.
    pub fn offers(&self, own: usize) -> bool {
        self.workers == 1 || own <= self.left() / self.workers
    }

    /// Takes the next portion: a range of places in file order, empty if all are taken.
    pub fn take(&self) -> Range<usize> {
        let left = self.left();
        if left == 0 {
            return 0..0;
        }
        // Smaller portions near the end, so that all workers end together.
        let portion = (left / (2 * self.workers)).clamp(1, self.portion);
        // Relaxed: the leaves were published before any worker learned of the run, and each place is handed out once.
        let start = self.taken.0.fetch_add(portion, Ordering::Relaxed).min(self.order.len());
        start..(start + portion).min(self.order.len())
    }

    /// The index in `tasks` of the leaf at this place in file order.
    pub fn at(&self, place: usize) -> Option<u32> {
        self.order.get(place).copied()
    }

    /// Leaves not yet taken.
    pub fn left(&self) -> usize {
        // Relaxed: only to choose the size of a portion; what is taken is decided in `take`.
        self.order.len().saturating_sub(self.taken.0.load(Ordering::Relaxed))
    }

    /// The borders between leaves, if they are needed.
    pub fn edges(&self) -> Option<MutexGuard<'_, Edges>> {
        self.edges.as_ref().map(|edges| edges.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last leaf to check.
    pub fn last(&self) -> Option<&Task> {
        self.count.checked_sub(1).and_then(|last| self.tasks.get(last))
    }

    /// Tells all workers to stop.
    pub fn doubt(&self) {
        // Relaxed, here and below: what was found travels with the worker's result; the flag only saves work.
        self.is_doubtful.store(true, Ordering::Relaxed);
    }

    /// Whether a worker has found something wrong or undecidable.
    pub fn is_doubtful(&self) -> bool {
        // Relaxed: see above.
        self.is_doubtful.load(Ordering::Relaxed)
    }
}
