//! Pages whose content does not matter because the log creates it.

use std::collections::HashSet;
use std::mem::size_of;

use format::PageId;
use redo::record::Effect;

/// Bytes per page: the entry, and about as much empty space until the set grows again.
const PLACE_SIZE: usize = 2 * (size_of::<PageId>() + 1);

/// Pages that the log initializes and does not free again.
#[derive(Debug, Default)]
pub(in crate::recover) struct FreshPages(HashSet<PageId>);

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

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.0.capacity() * PLACE_SIZE
    }
}
