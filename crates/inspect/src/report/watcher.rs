//! Watches a running job: receives findings as they are made, and can stop the job.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flow::Counters;

use super::document::Finding;
use crate::report::table_finding::TableFinding;
use datadir::stop;

/// Interval between progress reports.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// A finding of one of the two checks.
#[derive(Clone, Copy, Debug)]
pub enum Found<'f> {
    /// About a page, a log or an archive.
    Page(&'f Finding),
    /// About a tree.
    Tree(&'f TableFinding),
}

type Tell = dyn Fn(Found<'_>) + Send + Sync;

/// The link between a job and its watcher. Findings reported early are not final: the end of a file may show that a damaged page is
/// free, or that recovery is pending. The report has the last word.
#[derive(Clone, Default)]
pub struct Watcher {
    tell: Option<Arc<Tell>>,
    stop: Option<Arc<AtomicBool>>,
}

impl Watcher {
    /// Setting `stop` ends the work early; `tell` receives findings, on any thread.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>, tell: Option<Arc<Tell>>) -> Self {
        Self { tell, stop: Some(stop) }
    }

    /// Whether the work should end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop::is_told(stop))
    }

    /// Whether anyone receives findings while the job runs.
    #[must_use]
    pub fn listens(&self) -> bool {
        self.tell.is_some()
    }

    /// Reports a finding.
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

/// Runs `work`. With `watch`, a thread shows it the counters until `work` ends.
pub(crate) fn watched<T>(
    watch: Option<&(dyn Fn(&Counters) + Sync)>,
    counters: &Counters,
    work: impl FnOnce() -> T,
) -> T {
    let Some(watch) = watch else { return work() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = || {
            // Acquire and Release: the last look, after `done`, sees everything that the work has counted.
            while !done.load(Ordering::Acquire) {
                watch(counters);
                std::thread::park_timeout(WATCH_EVERY);
            }
            watch(counters);
        };
        // Without a thread nothing is shown.
        let watcher = std::thread::Builder::new().spawn_scoped(scope, look).ok();
        let result = work();
        // Release: see above.
        done.store(true, Ordering::Release);
        if let Some(watcher) = watcher {
            watcher.thread().unpark();
        }
        result
    })
}
