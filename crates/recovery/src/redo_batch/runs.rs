//! Vectors that grow without copying.

use std::mem::size_of;

/// A vector made of runs of equal capacity.
#[derive(Debug)]
pub(super) struct Runs<T> {
    runs: Vec<Vec<T>>,
    /// The run being filled.
    pub current: usize,
    run_len: usize,
}

impl<T: Copy> Runs<T> {
    pub const fn new(run_len: usize) -> Self {
        Self { runs: Vec::new(), current: 0, run_len }
    }

    /// Whether the run being filled has room for `more` items.
    pub fn has_room(&self, more: usize) -> bool {
        self.runs.get(self.current).is_some_and(|run| run.len() + more <= self.run_len)
    }

    /// Makes room for `more` items in one run, which must be able to have as many. Returns the index of the next item.
    pub fn reserve(&mut self, more: usize) -> usize {
        let used = self.runs.get(self.current).map_or(0, Vec::len);
        if used > 0 && used + more > self.run_len {
            self.current += 1;
        }
        if self.runs.len() <= self.current {
            self.runs.push(Vec::with_capacity(self.run_len));
        }
        self.len()
    }

    pub fn extend(&mut self, items: &[T]) {
        if let Some(run) = self.runs.get_mut(self.current) {
            run.extend_from_slice(items);
        }
    }

    /// The index that the next item gets.
    pub fn len(&self) -> usize {
        self.current * self.run_len + self.runs.get(self.current).map_or(0, Vec::len)
    }

    pub fn get(&self, number: usize, len: usize) -> Option<&[T]> {
        let at = number % self.run_len;
        self.runs.get(number / self.run_len)?.get(at..at + len)
    }

    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.runs.get_mut(number / self.run_len)?.get_mut(number % self.run_len)
    }

    pub const fn memory(&self) -> usize {
        self.runs.len() * self.run_len * size_of::<T>()
    }

    /// Bytes used by items, not counting memory kept for reuse.
    pub const fn in_use(&self) -> usize {
        let runs = if self.runs.is_empty() { 0 } else { self.current + 1 };
        runs * self.run_len * size_of::<T>()
    }

    pub fn clear(&mut self) {
        self.runs.iter_mut().for_each(Vec::clear);
        self.current = 0;
    }
}
