//! Runs work on several cores.

use std::panic::resume_unwind;
use std::thread;

/// Runs `f(0)` to `f(n - 1)`, each on its own thread (the first on the caller's), and returns their results in that order. A worker's panic
/// continues in the caller once all workers have ended. Without workers, there are no results.
pub fn run_workers<T: Send>(n: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let f = &f;
    thread::scope(|scope| {
        let others: Vec<_> = (1..n).map(|worker| scope.spawn(move || f(worker))).collect();
        let first = (n > 0).then(|| f(0));
        let others = others.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        first.into_iter().chain(others).collect()
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
