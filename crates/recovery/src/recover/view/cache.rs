//! Pages that were made: roots and the pages above leaves are asked for again and again, and have the most records.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use format::PageId;

/// The pages made last, within a bound.
#[derive(Debug)]
pub(super) struct Cache {
    pages: HashMap<PageId, Arc<[u8]>>,
    /// The oldest first.
    order: VecDeque<PageId>,
    used: usize,
    max: usize,
}

impl Cache {
    /// At most `max` bytes of pages.
    pub fn new(max: usize) -> Self {
        Self { pages: HashMap::new(), order: VecDeque::new(), used: 0, max }
    }

    pub fn get(&self, id: PageId) -> Option<Arc<[u8]>> {
        self.pages.get(&id).cloned()
    }

    pub fn put(&mut self, id: PageId, page: Arc<[u8]>) {
        self.used += page.len();
        match self.pages.insert(id, page) {
            None => self.order.push_back(id),
            // Two threads made it.
            Some(before) => self.used -= before.len(),
        }
        while self.used > self.max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.used -= self.pages.remove(&oldest).map_or(0, |page| page.len());
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        (self.used, self.pages, self.order) = (0, HashMap::new(), VecDeque::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_pages_go_when_there_are_too_many_bytes() {
        let mut cache = Cache::new(100);
        let page = |byte: u8| -> Arc<[u8]> { vec![byte; 40].into() };
        for number in 0..3_u8 {
            cache.put(PageId::new(1, u32::from(number)), page(number));
        }
        assert!(cache.get(PageId::new(1, 0)).is_none());
        assert_eq!(cache.get(PageId::new(1, 2)), Some(page(2)));
        cache.put(PageId::new(1, 2), page(9));
        assert_eq!((cache.get(PageId::new(1, 2)), cache.used), (Some(page(9)), 80));
        cache.clear();
        assert!(cache.get(PageId::new(1, 2)).is_none() && cache.used == 0);
    }
}
