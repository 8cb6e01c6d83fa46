//! How to read: mode, engine, sizes.

use crate::BLOCK_ALIGN;

/// How bytes come from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoMode {
    /// For each block, whichever is faster: the page cache if all of it is there, else the device itself, without filling the cache.
    #[default]
    Auto,
    /// Always the device (`O_DIRECT`), even if the page cache has the bytes.
    Direct,
    /// Always through the page cache.
    Buffered,
}

/// The I/O engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// `io_uring` if the system permits it, else threads; [`Reader::notes`](crate::Reader::notes) gives the reason.
    #[default]
    Auto,
    /// `io_uring`, or an error.
    Uring,
    /// A pool of `pread` threads.
    Threads,
}

/// The sizes of a read, one set for all workers. Memory is [`ReadOptions::memory_max`] bytes for each worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// Direct, buffered, or whichever is faster.
    pub io: IoMode,
    /// The I/O engine.
    pub engine: Engine,
    /// Bytes in a block, the unit of work and of a request; a multiple of [`BLOCK_ALIGN`].
    pub block_size: u32,
    /// Requests in flight for each worker, 1 to 1024.
    pub depth: u32,
    /// Bytes per read from the page cache, a multiple of [`BLOCK_ALIGN`]; small enough to stay in the core's own cache until they were
    /// processed.
    pub cached_piece: u32,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { io: IoMode::Auto, engine: Engine::Auto, block_size: 1 << 20, depth: 8, cached_piece: 128 << 10 }
    }
}

impl ReadOptions {
    /// Maximum memory for the buffers of one worker, in bytes.
    #[must_use]
    pub fn memory_max(&self) -> u64 {
        u64::from(self.block_size) * u64::from(self.depth) + u64::from(self.cached_piece)
    }

    /// These options, with fewer or smaller buffers for each of `workers` workers if all together would take more than `memory_max` bytes:
    /// first the depth shrinks, down to 2, then the block. The device sees the sum, so it stays busy.
    #[must_use]
    pub fn within(mut self, workers: usize, memory_max: u64) -> Self {
        let share = memory_max / (workers.max(1) as u64);
        while self.memory_max() > share && self.depth > 2 {
            self.depth -= 1;
        }
        while self.memory_max() > share && self.block_size > BLOCK_ALIGN {
            self.block_size = (self.block_size / 2).next_multiple_of(BLOCK_ALIGN);
        }
        self
    }

    /// These options for storage in which a request costs far more than the start of a read here: the largest block, from `block_size` to
    /// `block_max`, with which all `workers` workers keep `depth` requests in flight within `memory_max` bytes. If even `block_size` is too
    /// large for that, the depth shrinks, down to 2.
    #[must_use]
    pub fn with_larger_blocks(mut self, block_max: u32, workers: usize, memory_max: u64) -> Self {
        let share = memory_max / (workers.max(1) as u64);
        while self.block_size < block_max && u64::from(self.block_size) * 2 * u64::from(self.depth) <= share {
            self.block_size = self.block_size.saturating_mul(2).min(block_max);
        }
        while self.depth > 2 && u64::from(self.block_size) * u64::from(self.depth) > share {
            self.depth -= 1;
        }
        self
    }

    /// Refuses impossible sizes.
    ///
    /// # Errors
    /// [`OptionsError`] names the size, and what it must be.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let aligned = |size: u32| size != 0 && size.is_multiple_of(BLOCK_ALIGN);
        if !aligned(self.block_size) || self.block_size > BLOCK_SIZE_MAX {
            return Err(OptionsError::BlockSize(self.block_size));
        }
        if !aligned(self.cached_piece) || self.cached_piece > BLOCK_SIZE_MAX {
            return Err(OptionsError::CachedPiece(self.cached_piece));
        }
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            return Err(OptionsError::Depth(self.depth));
        }
        Ok(())
    }
}

/// Maximum of a single request: `io_uring` refuses larger registered buffers.
const BLOCK_SIZE_MAX: u32 = 1 << 30;
const DEPTH_MAX: u32 = 1024;

/// An impossible size in [`ReadOptions`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The block size.
    #[error("the block size is {0} bytes, but must be a multiple of 64 KiB, at most 1 GiB")]
    BlockSize(u32),
    /// The piece read at once from the page cache.
    #[error("the piece read at once from the page cache is {0} bytes, but must be a multiple of 64 KiB, at most 1 GiB")]
    CachedPiece(u32),
    /// The depth.
    #[error("the depth is {0} requests, but must be 1 to 1024")]
    Depth(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_workers_share_the_memory() {
        let sizes = |workers| {
            let options = ReadOptions::default().within(workers, 64 << 20);
            assert_eq!(options.validate(), Ok(()));
            assert!(options.memory_max() * workers as u64 <= 64 << 20);
            (options.depth, options.block_size >> 10)
        };
        assert_eq!([sizes(1), sizes(2), sizes(16), sizes(64)], [(8, 1024), (8, 1024), (3, 1024), (2, 256)]);
        let least = ReadOptions::default().within(1000, 0);
        assert_eq!((least.depth, least.block_size), (2, BLOCK_ALIGN), "less does not work");
    }

    #[test]
    fn blocks_grow_only_as_far_as_every_worker_keeps_its_requests_in_flight() {
        let sizes = |workers| {
            let options = ReadOptions::default().with_larger_blocks(8 << 20, workers, 128 << 20);
            assert_eq!(options.validate(), Ok(()));
            let buffers = u64::from(options.block_size) * u64::from(options.depth) * workers as u64;
            assert!(buffers <= 128 << 20, "{buffers} bytes");
            (options.depth, options.block_size >> 20)
        };
        let expected = [(8, 8), (8, 8), (8, 4), (8, 2), (8, 1), (4, 1)];
        assert_eq!([1, 2, 4, 8, 16, 32].map(sizes), expected);
        let asked = ReadOptions { block_size: 32 << 20, ..ReadOptions::default() };
        let asked = asked.with_larger_blocks(32 << 20, 2, 128 << 20);
        assert_eq!((asked.depth, asked.block_size >> 20), (2, 32), "a block that was asked for stays");
    }

    #[test]
    fn sizes_that_cannot_work_are_refused_by_name() {
        let good = ReadOptions::default();
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut ReadOptions)| {
            let mut options = good.clone();
            change(&mut options);
            options.validate().expect_err("must be refused").to_string()
        };
        assert!(refused(|o| o.block_size = 4096).contains("block size is 4096"));
        assert!(refused(|o| o.block_size = 0).contains("block size is 0"));
        assert!(refused(|o| o.block_size = (1 << 30) + 65536).contains("at most 1 GiB"));
        assert!(refused(|o| o.cached_piece = 65537).contains("65537"));
        assert!(refused(|o| o.depth = 0).contains("depth is 0"));
        assert!(refused(|o| o.depth = 1025).contains("depth is 1025"));
    }
}
