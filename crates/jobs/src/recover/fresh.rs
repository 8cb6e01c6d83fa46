//! Pages whose content does not matter, because the log makes it.

use std::collections::HashSet;
use std::mem::size_of;

use format::PageId;
use redo::record::Effect;

/// Bytes that a page takes: what the set holds and, until that grows again, about as much that is empty.
const PLACE_SIZE: usize = 2 * (size_of::<PageId>() + 1);

/// Pages that the log initializes and does not free again.
#[derive(Debug, Default)]
pub(super) struct FreshPages(HashSet<PageId>);

impl FreshPages {
    pub fn add(&mut self, id: PageId, effect: Effect) {
        match effect {
            Effect::Inits => drop(self.0.insert(id)),
            Effect::Frees => drop(self.0.remove(&id)),
            Effect::Trims => self.0.retain(|page| page.space != id.space),
            Effect::Changes => {}
        }
    }

    pub fn contains(&self, id: &PageId) -> bool {
        self.0.contains(id)
    }

    /// Bytes that are in use.
    pub fn memory(&self) -> usize {
        self.0.capacity() * PLACE_SIZE
    }
}
