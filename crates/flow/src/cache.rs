//! Asks the kernel whether a range of a file is in the page cache, without reading it and without filling the cache.
//!
//! `cachestat(2)` (Linux 6.5) answers in one call. Without it, a temporary mapping is created for `mincore(2)`, which lies about files that
//! the caller neither owns nor may write ("all is cached"). For these, as on other systems, the answer is "unknown". overlayfs takes the
//! same path, because `cachestat(2)` sees only the empty upper mapping of its files. `preadv2(RWF_NOWAIT)` is no alternative: it starts
//! read-ahead.

#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::Block;
use crate::system::last_errno;

/// The system call that works on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Cachestat,
    Mincore,
}

/// Answers whether ranges are cached; remembers which system call works here.
#[derive(Debug)]
pub struct PageCache {
    way: Way,
    page_size: u64,
    residency: Vec<u8>,
    refused: bool,
}

impl Default for PageCache {
    fn default() -> Self {
        Self::new()
    }
}

impl PageCache {
    /// Nothing is known yet; the first query finds the system call.
    #[must_use]
    pub fn new() -> Self {
        let page_size = rustix::param::page_size() as u64;
        Self { way: Way::Cachestat, page_size, residency: Vec::new(), refused: false }
    }

    #[cfg(test)]
    pub(crate) fn with_mincore() -> Self {
        Self { way: Way::Mincore, ..Self::new() }
    }

    /// Whether all of the block is in the page cache. `false` if the kernel does not say, or if the file ends before the block does.
    pub fn holds(&mut self, fd: BorrowedFd<'_>, block: &Block) -> bool {
        let first = block.offset / self.page_size;
        let end = (block.offset + u64::from(block.len)).div_ceil(self.page_size);
        let (offset, pages) = (first * self.page_size, end - first);
        if self.way == Way::Cachestat {
            match cachestat(fd, offset, pages * self.page_size) {
                Ok(0) if on_overlay(fd) => {}
                Ok(cached) => return cached >= pages,
                // Missing, or forbidden by a seccomp filter that only allows older calls.
                Err(Errno::NOSYS) => self.way = Way::Mincore,
                Err(Errno::PERM) if owned(fd) => self.way = Way::Mincore,
                Err(error) => {
                    self.refused |= error == Errno::PERM;
                    return false;
                }
            }
        }
        if !owned(fd) {
            self.refused = true;
            return false;
        }
        mincore(fd, offset, pages, self.page_size, &mut self.residency) == Some(pages)
    }

    /// How many pages of the `len` bytes from `offset` on are in the page cache, counting a partial last page; `None` if the kernel does
    /// not say.
    pub fn pages_held(&mut self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Option<u64> {
        /// Bytes per `mincore(2)` call, which needs a byte of memory for each page.
        const STEP: u64 = 1 << 30;
        let (start, end) = (offset / self.page_size * self.page_size, offset + len);
        if self.way == Way::Cachestat {
            match cachestat(fd, start, end - start) {
                Ok(0) if on_overlay(fd) => {}
                Ok(cached) => return Some(cached),
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(_) => return None,
            }
        }
        if !owned(fd) {
            return None;
        }
        let mut sum = 0;
        for at in (start..end).step_by(STEP as usize) {
            let pages = (end - at).min(STEP).div_ceil(self.page_size);
            sum += mincore(fd, at, pages, self.page_size, &mut self.residency)?;
        }
        Some(sum)
    }

    /// Whether nearly all of the first `len` bytes are in the page cache; `false` if the kernel does not say.
    pub fn holds_most(&mut self, fd: BorrowedFd<'_>, len: u64) -> bool {
        let held = self.pages_held(fd, 0, len).unwrap_or(0).saturating_mul(self.page_size);
        len > 0 && held >= len - len / 16
    }

    /// Whether the kernel refused to tell this process about a file, because it belongs to another user.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        self.refused
    }
}

/// Whether the kernel tells this process the truth about the file's pages.
fn owned(fd: BorrowedFd<'_>) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_uid == user.as_raw())
}

/// Whether the file's pages belong to another file, in a lower layer.
fn on_overlay(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|fs| fs.f_type == libc::OVERLAYFS_SUPER_MAGIC)
}

/// The number of pages of a range that are in the page cache.
fn cachestat(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    use std::os::fd::AsRawFd;

    /// The same on all architectures of Rust's Linux targets: the call is newer than the common table.
    const SYS_CACHESTAT: libc::c_long = 451;
    let range: [u64; 2] = [offset, len];
    // nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted
    let mut stat: [u64; 5] = [0; 5];
    let flags: libc::c_uint = 0;
    // SAFETY: both pointers are to live arrays of the size of the call's structures, two and five u64; the call writes only to the second,
    // and only during the call.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), flags) };
    if status == 0 { Ok(stat[0]) } else { Err(last_errno()) }
}

/// The number of pages of a range that are in the page cache, through a temporary mapping; `None` if the system refuses.
fn mincore(fd: BorrowedFd<'_>, offset: u64, pages: u64, page_size: u64, residency: &mut Vec<u8>) -> Option<u64> {
    use std::os::fd::AsRawFd;
    use std::ptr::null_mut;

    let (Ok(len), Ok(start), Ok(count)) =
        (usize::try_from(pages * page_size), libc::off_t::try_from(offset), usize::try_from(pages))
    else {
        return None;
    };
    residency.clear();
    residency.resize(count, 0);
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing; it is never read, so a file that shrinks meanwhile
    // cannot raise a signal.
    let map = unsafe { libc::mmap(null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), start) };
    if map == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping of `len` bytes is ours, and `residency` has one byte for each of its pages.
    let status = unsafe { libc::mincore(map, len, residency.as_mut_ptr()) };
    // SAFETY: the mapping is ours, no reference into it exists, and it is not used after this.
    let unmapped = unsafe { libc::munmap(map, len) };
    let held = residency.iter().filter(|&page| page & 1 == 1).count() as u64;
    (status == 0 && unmapped == 0).then_some(held)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::Advice;

    use super::*;
    use crate::FileId;

    const LEN: u32 = 300_000;

    fn block(offset: u64, len: u32) -> Block {
        Block { file: FileId(0), offset, len }
    }

    #[test]
    fn both_ways_of_asking_see_what_is_cached_and_what_is_not() {
        let file = tempfile::NamedTempFile::new_in(".").expect("temporary file");
        std::fs::write(file.path(), vec![1; LEN as usize]).expect("write");
        file.as_file().sync_all().expect("sync");
        let fd = file.as_file().as_fd();
        for mut cache in [PageCache::new(), PageCache::with_mincore()] {
            assert!(cache.holds(fd, &block(0, LEN)), "just written: {cache:?}");
            rustix::fs::fadvise(fd, 65536, None, Advice::DontNeed).expect("drops all but the first 64 KiB");
            assert!(cache.holds(fd, &block(0, 65536)), "{cache:?}");
            let (left, page) = (cache.pages_held(fd, 0, LEN.into()), cache.page_size);
            assert!(
                left.is_some_and(|pages| (65536 / page..u64::from(LEN) / page).contains(&pages)),
                "{left:?}: {cache:?}"
            );
            assert!(!cache.holds(fd, &block(0, LEN)), "{cache:?}");
            assert!(!cache.holds(fd, &block(65536, LEN - 65536)), "{cache:?}");
            assert!(!cache.holds(fd, &block(0, LEN)), "asking brings nothing into the cache: {cache:?}");
            std::fs::read(file.path()).expect("read back in for the next way");
        }
    }

    #[test]
    fn what_lies_beyond_the_end_is_not_cached() {
        let file = tempfile::NamedTempFile::new_in(".").expect("temporary file");
        std::fs::write(file.path(), vec![1; 65536]).expect("write");
        for mut cache in [PageCache::new(), PageCache::with_mincore()] {
            assert!(!cache.holds(file.as_file().as_fd(), &block(65536, 65536)), "{cache:?}");
        }
    }
}
