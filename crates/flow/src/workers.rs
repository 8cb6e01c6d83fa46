//! Runs work on several cores.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::job::{Job, for_this_job};
use crate::nodes::Nodes;

/// Items shared by several workers. Each takes the next one when it is free.
#[derive(Debug)]
pub struct WorkList<'i, T> {
    items: &'i [T],
    next: AtomicUsize,
}

impl<'i, T> WorkList<'i, T> {
    /// Items to be taken in this order.
    #[must_use]
    pub const fn new(items: &'i [T]) -> Self {
        Self { items, next: AtomicUsize::new(0) }
    }

    /// The next item, with its index. Each is taken once.
    pub fn take(&self) -> Option<(usize, &'i T)> {
        // Relaxed: the items were there before the workers started, and nothing else is shared through the counter.
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        Some((at, self.items.get(at)?))
    }

    /// From now on there is nothing to take: after one worker's failure the others need not go on.
    pub fn abandon(&self) {
        // Relaxed: a worker that still takes one item does no harm.
        self.next.store(self.items.len(), Ordering::Relaxed);
    }
}

/// Runs `f(0)` to `f(n - 1)`, each on its own thread (the first on the caller's), and returns their results in that order. A worker's panic
/// continues in the caller once all workers have ended. Without workers, there are no results.
///
/// Where the system starts no more threads, as in a container with a limit on processes, those that started do the work: there are fewer
/// results, but at least that of `f(0)`. So workers share their work through a list, and no part of it belongs to a worker's number.
///
/// All of them work for the caller's [`Job`].
///
/// On a machine with several memory nodes (NUMA), the workers are spread over those whose processors the caller may use. Each stays on the
/// processors of one node while it runs, so what it allocates and touches stays near.
pub fn run_workers<T: Send>(n: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (nodes, job) = (Nodes::here(), Job::here());
    let f = |worker| {
        let _in_job = job.enter();
        let _stay = nodes.as_ref().map(|nodes| nodes.stay(worker));
        f(worker)
    };
    let f = &f;
    thread::scope(|scope| {
        let start = |worker| thread::Builder::new().spawn_scoped(scope, move || f(worker)).ok();
        let others: Vec<_> = (1..n).map_while(start).collect();
        let first = (n > 0).then(|| f(0));
        let others = others.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        first.into_iter().chain(others).collect()
    })
}

/// Runs `aside` on a thread, and `here` on the caller's, at the same time; one after the other if no thread starts. A panic of `aside`
/// continues in the caller.
pub fn run_both<A: Send, B>(aside: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    // A thread that does not start drops its closure, and `aside` would be lost with it.
    let aside = Mutex::new(Some(aside));
    let take = || aside.lock().unwrap_or_else(PoisonError::into_inner).take().map(|aside| aside());
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, for_this_job(take));
        let here = here();
        let done = started.map_or_else(|_| take(), |aside| aside.join().unwrap_or_else(|panic| resume_unwind(panic)));
        match done {
            Some(done) => (done, here),
            None => unreachable!("it is taken once: by the thread, or if there is none by the caller"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_worker_order() {
        assert_eq!(run_workers(5, |worker| worker * 10), [0, 10, 20, 30, 40]);
        assert_eq!(run_workers(0, |worker| worker), [0; 0]);
    }

    #[test]
    fn each_item_is_taken_once_until_the_rest_is_abandoned() {
        let items: Vec<usize> = (100..1100).collect();
        let list = WorkList::new(&items);
        let taken = run_workers(4, |_| std::iter::from_fn(|| list.take()).collect::<Vec<_>>());
        let mut taken = taken.concat();
        taken.sort_unstable();
        assert!(taken.into_iter().map(|(at, item)| (at, *item)).eq((0..1000).map(|at| (at, at + 100))));
        let list = WorkList::new(&items);
        assert_eq!(list.take(), Some((0, &100)));
        list.abandon();
        assert_eq!(list.take(), None);
    }

    #[test]
    fn each_worker_has_a_thread() {
        let ids = run_workers(3, |_| thread::current().id());
        assert_ne!(ids[0], ids[1]);
        assert_ne!(ids[1], ids[2]);
    }

    #[test]
    #[should_panic(expected = "worker 1 fell")]
    fn a_panic_reaches_the_caller() {
        run_workers(2, |worker| assert_ne!(worker, 1, "worker 1 fell"));
    }
}
