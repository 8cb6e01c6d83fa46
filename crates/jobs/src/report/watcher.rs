//! Somebody who watches a job: hears of findings as they are made, and may want it to stop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flow::Counters;

use super::document::Finding;
use crate::table::TableFinding;

/// How often somebody who watches is told.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// A finding of either check.
#[derive(Clone, Copy, Debug)]
pub enum Found<'f> {
    /// Of a page, a log, an archive.
    Page(&'f Finding),
    /// Of a tree.
    Tree(&'f TableFinding),
}

type Tell = dyn Fn(Found<'_>) + Send + Sync;

/// What a job asks now and then. What it tells is not final: the end of a file may show that a damaged page is free, or that
/// recovery has yet to come. The report has the last word.
#[derive(Clone, Default)]
pub struct Watcher {
    tell: Option<Arc<Tell>>,
    stop: Option<Arc<AtomicBool>>,
}

impl Watcher {
    /// Somebody who sets `stop` to have the work end early, and is told of findings on any thread.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>, tell: Option<Arc<Tell>>) -> Self {
        Self { tell, stop: Some(stop) }
    }

    /// Whether the work shall end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Whether anybody listens.
    #[must_use]
    pub fn listens(&self) -> bool {
        self.tell.is_some()
    }

    /// Tells of a finding.
    pub fn tell(&self, found: Found<'_>) {
        if let Some(tell) = &self.tell {
            tell(found);
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Watcher").field("listens", &self.listens()).finish_non_exhaustive()
    }
}

/// Runs `work` and, when somebody watches, a thread that shows them the counters until it ends.
pub(crate) fn watched<T>(
    watch: Option<&(dyn Fn(&Counters) + Sync)>,
    counters: &Counters,
    work: impl FnOnce() -> T,
) -> T {
    let Some(watch) = watch else { return work() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                watch(counters);
                std::thread::park_timeout(WATCH_EVERY);
            }
            watch(counters);
        });
        let result = work();
        done.store(true, Ordering::Release);
        watcher.thread().unpark();
        result
    })
}
