//! Systems that do not report what is in the page cache.

use std::os::fd::BorrowedFd;

use crate::Block;

/// Answers whether ranges are cached: always no, because it is unknown.
#[derive(Debug, Default)]
pub struct PageCache;

impl PageCache {
    /// There is nothing to find out.
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    /// `false`: unknown.
    pub fn holds(&mut self, _fd: BorrowedFd<'_>, _block: &Block) -> bool {
        false
    }

    /// `None`: unknown.
    pub fn pages_held(&mut self, _fd: BorrowedFd<'_>, _offset: u64, _len: u64) -> Option<u64> {
        None
    }

    /// `false`: unknown.
    pub fn holds_most(&mut self, _fd: BorrowedFd<'_>, _len: u64) -> bool {
        false
    }

    /// `false`: nothing was asked, so nothing was refused.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        false
    }
}
