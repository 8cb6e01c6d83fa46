//! What a log does to pages, and their redo.

use format::{Lsn, PageId};
use redo::record::{Effect, Grammar, Mtr};

use crate::recover::error::{Result, damaged};
use crate::recover::survey::fresh::FreshPages;
use crate::recover::survey::load::PageLoad;
use crate::recover::survey::voids::Voids;
use crate::redo_batch::RedoBatch;

/// The pages that the log changes.
#[derive(Debug)]
pub(in crate::recover) struct ChangedPages {
    /// Where the redo of a page begins to count.
    pub voids: Voids,
    /// All redo, if it fits in memory.
    pub redo: Option<RedoBatch>,
    /// The amount of redo by page group.
    pub load: PageLoad,
    /// The redo of first pages.
    pub heads: RedoBatch,
    /// Pages whose content at the end does not matter. Only filled if `may_end_before`.
    pub fresh: FreshPages,
    may_end_before: bool,
}

impl ChangedPages {
    pub(super) fn new(grammar: Grammar, may_end_before: bool) -> Self {
        Self {
            voids: Voids::default(),
            redo: None,
            load: PageLoad::default(),
            heads: RedoBatch::new(usize::MAX).with_grammar(grammar),
            fresh: FreshPages::default(),
            may_end_before,
        }
    }

    /// Adds a record of `len` bytes in the mini-transaction that began at `start`. `goes_on`: the record before it was about the same page.
    pub(super) fn add_change(&mut self, id: PageId, effect: Effect, len: usize, (start, goes_on): (Lsn, bool)) {
        self.load.add(id, effect, len, goes_on);
        if self.may_end_before {
            self.fresh.add(id, effect);
        }
        if effect.voids_page() {
            self.voids.add(id, start);
        }
        if effect == Effect::Trims {
            self.voids.trim(id, start);
        }
    }

    /// Adds the records of a mini-transaction that are about first pages, and those that cut files down.
    pub(super) fn add_heads(&mut self, mtr: &Mtr<'_>, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let added = self.heads.add(&Mtr { bytes, ..*mtr });
        added.or_else(|error| damaged(format!("the redo log at LSN {}: {error}", mtr.start)))
    }

    /// Bytes in use, all redo aside.
    pub(super) fn memory(&self) -> usize {
        self.heads.memory() + self.voids.memory() + self.load.memory() + self.fresh.memory()
    }
}
