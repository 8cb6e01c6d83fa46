//! What to read next, as data: blocks, and the cursor from which all workers take them.
//!
//! A [`Reader`](crate::Reader) does not care where its blocks come from: a [`Cursor`] goes through whole files, a
//! [`GatherPlan`](crate::GatherPlan) through what somebody asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::FileSet;

/// Blocks and pieces start at multiples of this many bytes: a unit of up to 64 KiB that is aligned in its file is never
/// cut by a border between two blocks.
pub const BLOCK_ALIGN: u32 = 64 * 1024;

/// A file of a [`FileSet`], by its position there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// One stretch of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The file.
    pub file: FileId,
    /// Where the block starts, in bytes; a multiple of [`BLOCK_ALIGN`] where files are read whole, else of
    /// [`SPLIT_UNIT`](crate::SPLIT_UNIT).
    pub offset: u64,
    /// Its length in bytes, 1 to the block size; shorter than the block size only at the end of the file.
    pub len: u32,
}

/// Where a reader takes its blocks from.
///
/// Every implementation promises blocks that are not empty, not longer than [`Plan::block_size`], and inside their files.
pub trait Plan {
    /// The next block; `None` when there is none for now.
    fn next(&self) -> Option<Block>;

    /// The largest block that will come, in bytes: a multiple of [`BLOCK_ALIGN`].
    fn block_size(&self) -> u32;
}

impl Plan for Cursor<'_> {
    fn next(&self) -> Option<Block> {
        Cursor::next(self)
    }

    fn block_size(&self) -> u32 {
        Cursor::block_size(self)
    }
}

/// The next block for whoever asks: the one thing that workers share.
///
/// Taking a block is one atomic addition and a binary search over the files. The memory grows with the number of files
/// only, eight bytes each.
#[derive(Debug)]
pub struct Cursor<'f> {
    files: &'f FileSet,
    block_size: u32,
    /// For each file, the number of blocks in all files up to and including it.
    blocks_through: Box<[u64]>,
    next: AtomicU64,
}

impl<'f> Cursor<'f> {
    /// All files in order, each from start to end in blocks of `block_size` bytes. Empty files have no block.
    ///
    /// `block_size` is rounded up to a multiple of [`BLOCK_ALIGN`].
    #[must_use]
    pub fn sweep(files: &'f FileSet, block_size: u32) -> Self {
        let block_size = block_size.clamp(1, u32::MAX - BLOCK_ALIGN).next_multiple_of(BLOCK_ALIGN);
        let mut blocks = 0;
        let blocks_through = files
            .lengths()
            .map(|len| {
                blocks += len.div_ceil(u64::from(block_size));
                blocks
            })
            .collect();
        Self { files, block_size, blocks_through, next: AtomicU64::new(0) }
    }

    /// How many blocks the cursor hands out in all.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks_through.last().copied().unwrap_or(0)
    }

    /// The size in bytes of all blocks but the last of each file.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// The next block, each exactly once whoever asks; `None` when all have been taken.
    pub fn next(&self) -> Option<Block> {
        let taken = self.next.fetch_add(1, Ordering::Relaxed);
        let index = self.blocks_through.partition_point(|&through| through <= taken);
        if index == self.blocks_through.len() {
            return None;
        }
        let before = match index.checked_sub(1) {
            Some(previous) => *self.blocks_through.get(previous)?,
            None => 0,
        };
        let file = FileId(u32::try_from(index).ok()?);
        let offset = (taken - before) * u64::from(self.block_size);
        let left = self.files.len_of(file) - offset;
        let len = u32::try_from(left).unwrap_or(u32::MAX).min(self.block_size);
        Some(Block { file, offset, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(cursor: &Cursor<'_>) -> Vec<(u32, u64, u32)> {
        std::iter::from_fn(|| cursor.next()).map(|b| (b.file.0, b.offset, b.len)).collect()
    }

    #[test]
    fn sweep_cuts_files_into_blocks_and_passes_over_empty_ones() {
        let files = FileSet::new([
            ("a".into(), 0),
            ("b".into(), 65536),
            ("c".into(), 0),
            ("d".into(), 131_073),
            ("e".into(), 0),
        ]);
        let cursor = Cursor::sweep(&files, 65536);
        assert_eq!(cursor.blocks(), 4);
        assert_eq!(all(&cursor), [(1, 0, 65536), (3, 0, 65536), (3, 65536, 65536), (3, 131_072, 1)]);
        assert_eq!(cursor.next(), None);
    }

    #[test]
    fn block_size_is_rounded_up_to_the_alignment() {
        let files = FileSet::new([("a".into(), 100_000)]);
        assert_eq!(all(&Cursor::sweep(&files, 1)), [(0, 0, 65536), (0, 65536, 34464)]);
        assert_eq!(all(&Cursor::sweep(&files, 65537)), [(0, 0, 100_000)]);
    }
}
