//! Divides the memory.

use flow::rewrite::RewriteOptions;

use super::RecoverPlan;
use crate::recover::options::tuning::{MEMORY_MIN, Tuning};
use crate::recover::place::open_files::in_flight_max;
use crate::recover::survey::needs::{MEMORY_FIXED, PLAN_PART};
use crate::recover::survey::prefetch;

/// Upper limit for pages in memory, bytes: more would not keep a device busier.
const PAGES_MAX: usize = 96 << 20;
/// As much of the plan's share is kept free of pages that are read early, bytes.
const PLAN_MAX: usize = 256 << 20;

/// The division of the memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub(in crate::recover) struct Budget {
    /// Pages in flight.
    pub pages: usize,
    /// Upper limit for the plan's tables of tablespaces and pages.
    pub plan: usize,
    /// The plan plus the redo for one part of the pages.
    pub plan_and_redo: usize,
    /// Pages read while the log is read.
    pub prefetched: usize,
}

impl Budget {
    pub fn of(memory: usize) -> Self {
        let all = memory.max(MEMORY_MIN) - MEMORY_FIXED;
        let (pages, plan) = ((all / 4).min(PAGES_MAX), all / PLAN_PART);
        Self { pages, plan, plan_and_redo: all - pages, prefetched: 0 }
    }

    /// Gives pages that are read early what the plan and a log of `log_len` bytes leave. They come last: to read the log once more costs more
    /// than to read early saves.
    pub fn with_prefetch(self, log_len: u64) -> Self {
        let redo = usize::try_from(log_len + log_len / 4).unwrap_or(usize::MAX);
        let left = self.plan_and_redo.saturating_sub(self.plan.min(PLAN_MAX)).saturating_sub(redo);
        let prefetched = if left < prefetch::MEMORY_MIN { 0 } else { left };
        Self { plan_and_redo: self.plan_and_redo - prefetched, prefetched, ..self }
    }

    /// Bytes that the plan may take together with all redo, if one round may apply all of it; otherwise 0, so that no redo is kept.
    pub fn at_once(&self, round: u64) -> usize {
        if round == u64::MAX { self.plan_and_redo } else { 0 }
    }

    /// The bytes left for the redo of one part of the pages.
    pub fn redo(&self, plan: &RecoverPlan) -> usize {
        self.plan_and_redo.saturating_sub(plan.wanted.memory())
    }

    /// Bytes of a stretch, pages longer than that aside: many if there is memory for enough of such stretches.
    pub fn stretch_max(&self, tuning: &Tuning) -> u32 {
        tuning.stretch_max.unwrap_or(if self.pages < 64 << 20 { 128 << 10 } else { 512 << 10 })
    }

    /// How pages are written. `tag` is the one of the shadow's batches.
    pub fn rewrite(&self, plan: &RecoverPlan, tuning: &Tuning, tag: u64) -> RewriteOptions {
        let stretch_max = self.stretch_max(tuning);
        let page = plan.spaces.values().map(|space| space.format.physical().get()).max();
        let stretch_max = stretch_max.max(page.unwrap_or(0));
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let Tuning { shadow_max, overlap, .. } = *tuning;
        let depth = in_flight_max(tuning.depth);
        // Re-encrypting a page changes all its bytes, and the shadow file's copy of them takes memory too.
        let is_saved_whole = plan.spaces.values().any(|space| space.crypt.encrypts());
        let memory = if is_saved_whole { self.pages / 2 } else { self.pages };
        RewriteOptions { memory, stretch_max, depth, workers, overlap, shadow_max, tag }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recover::survey::needs::needed_for;

    #[test]
    fn a_plan_fits_into_the_memory_that_is_said_to_be_needed_for_it() {
        for plan in [1, 1 << 20, 9 << 20, 37 << 20, 3 << 30] {
            let needed = usize::try_from(needed_for(plan)).expect("small");
            assert!(Budget::of(needed).plan as u64 >= plan, "{plan}");
            assert!(needed as u64 <= plan * 4 + (96 << 20), "{plan}: {needed}");
        }
    }
}
