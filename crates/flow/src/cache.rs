//! Asks the kernel whether a range of a file is in the page cache, without reading it and without filling the cache.
//!
//! `cachestat(2)` (Linux 6.5) answers in one call. Where it is missing, a mapping is made for the moment and `mincore(2)`
//! asked; its answer is a lie for files that the caller neither owns nor may write ("all is cached"), so for these, as on
//! other systems, the answer is "unknown". The same way is taken on overlayfs, of whose files `cachestat(2)` sees the empty
//! upper mapping only. `preadv2(RWF_NOWAIT)` was weighed and left: it starts read-ahead.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "system calls without a safe wrapper"))]

use std::os::fd::BorrowedFd;

use crate::Block;

/// The way to ask that works on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Cachestat,
    Mincore,
    None,
}

/// Answers whether ranges are cached; remembers which way of asking works here.
#[derive(Debug)]
pub struct PageCache {
    way: Way,
    page_size: u64,
    residency: Vec<u8>,
}

impl Default for PageCache {
    fn default() -> Self {
        Self::new()
    }
}

impl PageCache {
    /// Nothing is known yet; the first question finds the way.
    #[must_use]
    pub fn new() -> Self {
        let way = if cfg!(target_os = "linux") { Way::Cachestat } else { Way::None };
        Self { way, page_size: rustix::param::page_size() as u64, residency: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) fn with_mincore() -> Self {
        Self { way: Way::Mincore, ..Self::new() }
    }

    /// Whether all of the block is in the page cache. `false` when nobody can tell, and when the file ends before it.
    pub fn holds(&mut self, fd: BorrowedFd<'_>, block: &Block) -> bool {
        let first = block.offset / self.page_size;
        let end = (block.offset + u64::from(block.len)).div_ceil(self.page_size);
        let (offset, pages) = (first * self.page_size, end - first);
        loop {
            match self.ask(fd, offset, pages) {
                Ok(cached) => return cached,
                Err(next) if next == self.way => return false,
                Err(next) => self.way = next,
            }
        }
    }

    /// The answer, or the way to ask from now on.
    #[cfg(target_os = "linux")]
    fn ask(&mut self, fd: BorrowedFd<'_>, offset: u64, pages: u64) -> Result<bool, Way> {
        match self.way {
            Way::Cachestat => match cachestat(fd, offset, pages * self.page_size) {
                Ok(0) if on_overlay(fd) => Ok(self.mincore(fd, offset, pages)),
                Ok(cached) => Ok(cached >= pages),
                // Missing, or forbidden by a filter that knows only older calls. Not our file: EPERM, this file only.
                Err(rustix::io::Errno::NOSYS) => Err(Way::Mincore),
                Err(rustix::io::Errno::PERM) if owned(fd) => Err(Way::Mincore),
                Err(_) => Ok(false),
            },
            Way::Mincore => Ok(owned(fd) && mincore(fd, offset, pages, self.page_size, &mut self.residency)),
            Way::None => Ok(false),
        }
    }

    #[cfg(target_os = "linux")]
    fn mincore(&mut self, fd: BorrowedFd<'_>, offset: u64, pages: u64) -> bool {
        owned(fd) && mincore(fd, offset, pages, self.page_size, &mut self.residency)
    }

    #[cfg(not(target_os = "linux"))]
    fn ask(&mut self, _fd: BorrowedFd<'_>, _offset: u64, _pages: u64) -> Result<bool, Way> {
        self.residency.clear();
        Ok(false)
    }
}

/// Whether the kernel tells this process the truth about the file's pages.
#[cfg(target_os = "linux")]
fn owned(fd: BorrowedFd<'_>) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_uid == user.as_raw())
}

/// Whether the pages of the file belong to another file, below.
#[cfg(target_os = "linux")]
fn on_overlay(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|fs| fs.f_type == libc::OVERLAYFS_SUPER_MAGIC)
}

/// The number of pages of a range that are in the page cache.
#[cfg(target_os = "linux")]
fn cachestat(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, rustix::io::Errno> {
    use std::os::fd::AsRawFd;

    /// The same on every architecture that Rust's Linux targets use: it is newer than the common table.
    const SYS_CACHESTAT: libc::c_long = 451;
    let range: [u64; 2] = [offset, len];
    // nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted
    let mut stat: [u64; 5] = [0; 5];
    let flags: libc::c_uint = 0;
    // SAFETY: both pointers are to live arrays of the size that the call's structures have, two and five u64; the call
    // writes to the second only, and only during the call.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), flags) };
    if status == 0 { Ok(stat[0]) } else { Err(last_errno()) }
}

/// Whether all pages of a range are in the page cache, by a mapping that lives for the moment.
#[cfg(target_os = "linux")]
fn mincore(fd: BorrowedFd<'_>, offset: u64, pages: u64, page_size: u64, residency: &mut Vec<u8>) -> bool {
    use std::os::fd::AsRawFd;
    use std::ptr::null_mut;

    let (Ok(len), Ok(start), Ok(count)) =
        (usize::try_from(pages * page_size), libc::off_t::try_from(offset), usize::try_from(pages))
    else {
        return false;
    };
    residency.clear();
    residency.resize(count, 0);
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing; it is never read, so that a file that
    // shrinks meanwhile cannot raise a signal.
    let map = unsafe { libc::mmap(null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), start) };
    if map == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping of `len` bytes is ours, and `residency` has one byte for each of its pages.
    let status = unsafe { libc::mincore(map, len, residency.as_mut_ptr()) };
    // SAFETY: the mapping is ours, no reference into it exists, and it is not used after this.
    let unmapped = unsafe { libc::munmap(map, len) };
    status == 0 && unmapped == 0 && residency.iter().all(|page| page & 1 == 1)
}

#[cfg(target_os = "linux")]
fn last_errno() -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(rustix::io::Errno::IO)
}

#[cfg(all(test, target_os = "linux"))]
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
