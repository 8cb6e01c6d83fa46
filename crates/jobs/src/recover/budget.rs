//! How the memory is shared out.

use flow::rewrite::RewriteOptions;

use super::plan::RecoverPlan;
use super::tuning::{MEMORY_MIN, Tuning};

/// What the program takes whatever there is to recover: itself, buffers of the log, chunks of it, pages while they are changed.
const MEMORY_FIXED: usize = 32 << 20;
/// Bytes of pages in memory at a time, at most: more does not keep a device any busier.
const PAGES_MAX: usize = 96 << 20;
/// The plan's share of memory: about 50 bytes for each page that is freed or initialized.
const PLAN_MAX: usize = 256 << 20;

/// How the memory is shared out, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Pages on their way.
    pub pages: usize,
    /// What the plan knows of tablespaces and pages, at most.
    pub plan: usize,
    /// That, and the redo of a part of the pages.
    pub plan_and_redo: usize,
}

impl Budget {
    pub fn of(memory: usize) -> Self {
        let all = memory.max(MEMORY_MIN) - MEMORY_FIXED;
        let (pages, plan) = ((all / 4).min(PAGES_MAX), (all / 4).min(PLAN_MAX));
        Self { pages, plan, plan_and_redo: all - pages }
    }

    /// What is left for the redo of a part of the pages.
    pub fn redo(&self, plan: &RecoverPlan) -> usize {
        self.plan_and_redo.saturating_sub(plan.wanted.memory())
    }

    /// Long stretches, as long as there is room for enough of them.
    pub fn rewrite(&self, plan: &RecoverPlan, tuning: &Tuning) -> RewriteOptions {
        let stretch_max = tuning.stretch_max.unwrap_or(if self.pages < 64 << 20 { 128 << 10 } else { 512 << 10 });
        let page = plan.spaces.values().map(|space| space.format.physical().get()).max();
        let (stretch_max, tag) = (stretch_max.max(page.unwrap_or(0)), plan.wanted.tag());
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let Tuning { depth, shadow_max, overlap, .. } = *tuning;
        // Encrypting a page again changes every byte of it, and the shadow holds a second copy in memory.
        let is_saved_whole = plan.spaces.values().any(|space| space.crypt.encrypts());
        let memory = if is_saved_whole { self.pages / 2 } else { self.pages };
        RewriteOptions { memory, stretch_max, depth, workers, overlap, shadow_max, tag }
    }
}
