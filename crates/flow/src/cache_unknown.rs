//! Systems that do not tell what is in the page cache.

use std::os::fd::BorrowedFd;

use crate::Block;

/// Answers whether ranges are cached: never, as far as anybody knows.
#[derive(Debug, Default)]
pub struct PageCache;

impl PageCache {
    /// Nothing to find out.
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    /// `false`: nobody can tell.
    pub fn holds(&mut self, _fd: BorrowedFd<'_>, _block: &Block) -> bool {
        false
    }

    /// `None`: nobody can tell.
    pub fn pages_held(&mut self, _fd: BorrowedFd<'_>, _offset: u64, _len: u64) -> Option<u64> {
        None
    }

    /// `false`: nobody can tell.
    pub fn holds_most(&mut self, _fd: BorrowedFd<'_>, _len: u64) -> bool {
        false
    }

    /// `false`: there was nobody to refuse.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        false
    }
}
