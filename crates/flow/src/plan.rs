//! What to read next, as data: blocks, and the cursor from which all workers take them.
//!
//! A [`Reader`](crate::Reader) takes blocks from any plan: a [`Cursor`] covers whole files, a [`GatherPlan`](crate::GatherPlan) the
//! requests of a caller.

use std::marker::PhantomData;

use crate::tickets::Tickets;
use crate::{FileId, FileSet};

/// Blocks and pieces start at multiples of this many bytes, so that no border between two blocks cuts an aligned unit of up to 64 KiB.
pub const BLOCK_ALIGN: u32 = 64 * 1024;

/// One stretch of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The file.
    pub file: FileId,
    /// Where the block starts, in bytes; a multiple of [`BLOCK_ALIGN`] if files are read whole, else of [`SPLIT_UNIT`](crate::SPLIT_UNIT).
    pub offset: u64,
    /// Its length in bytes, 1 to the block size; shorter than the block size only at the end of the file.
    pub len: u32,
}

/// The source of a reader's blocks.
///
/// Every implementation promises blocks that are not empty, not longer than [`Plan::block_size`], and inside their files.
pub trait Plan {
    /// The next block; `None` if there is none for now.
    fn next(&self) -> Option<Block>;

    /// Maximum size of the blocks, in bytes: a multiple of [`BLOCK_ALIGN`].
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

/// Bytes `from..to` of a file, which a [`Cursor`] divides into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    /// The file.
    pub file: FileId,
    /// The first byte, a multiple of [`BLOCK_ALIGN`].
    pub from: u64,
    /// The end: one past the last byte.
    pub to: u64,
}

/// Hands out the next block: the only state the workers share.
///
/// Taking a block is one atomic addition and a binary search over the stretches. Memory grows only with their number, 32 bytes each; a
/// sweep has one per file.
#[derive(Debug)]
pub struct Cursor<'f> {
    block_size: u32,
    /// Each stretch, with the number of blocks in all stretches up to and including it.
    blocks_through: Box<[(u64, FileRange)]>,
    next: Tickets,
    /// The files must not disappear or change their numbers while the cursor hands out their blocks.
    files: PhantomData<&'f FileSet>,
}

impl<'f> Cursor<'f> {
    /// All files in order, each from start to end in blocks of `block_size` bytes. Empty files have no block.
    ///
    /// `block_size` is rounded up to a multiple of [`BLOCK_ALIGN`].
    #[must_use]
    pub fn sweep(files: &'f FileSet, block_size: u32) -> Self {
        let whole = (0..).zip(files.lengths()).map(|(file, to)| FileRange { file: FileId(file), from: 0, to });
        Self::over(files, whole, block_size)
    }

    /// Stretches of files in order, each from start to end in blocks of at most `block_size` bytes. Empty ones have no block.
    ///
    /// `block_size` is rounded up to a multiple of [`BLOCK_ALIGN`].
    #[must_use]
    pub fn over(files: &'f FileSet, stretches: impl IntoIterator<Item = FileRange>, block_size: u32) -> Self {
        let block_size = block_size.clamp(1, u32::MAX - BLOCK_ALIGN).next_multiple_of(BLOCK_ALIGN);
        let mut blocks = 0;
        let counted = |stretch: FileRange| {
            let to = stretch.to.min(files.len_of(stretch.file));
            blocks += to.saturating_sub(stretch.from).div_ceil(u64::from(block_size));
            (blocks, FileRange { to, ..stretch })
        };
        let blocks_through = stretches.into_iter().map(counted).collect();
        Self { block_size, blocks_through, next: Tickets::new(), files: PhantomData }
    }

    /// Total number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks_through.last().map_or(0, |(through, _)| *through)
    }

    /// The size in bytes of all blocks but the last of each file.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Blocks not handed out yet; out of date as soon as it is known.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.blocks().saturating_sub(self.next.taken())
    }

    /// Stops handing out blocks. Blocks already handed out are not affected.
    pub fn stop(&self) {
        self.next.stop();
    }

    /// The next block. Each is handed out exactly once, to one worker; `None` when all are taken.
    pub fn next(&self) -> Option<Block> {
        let taken = self.next.take();
        let index = self.blocks_through.partition_point(|(through, _)| *through <= taken);
        let (_, FileRange { file, from, to }) = *self.blocks_through.get(index)?;
        let before = match index.checked_sub(1) {
            Some(previous) => self.blocks_through.get(previous)?.0,
            None => 0,
        };
        let offset = from + (taken - before) * u64::from(self.block_size);
        let left = to - offset;
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
        let stopped = Cursor::sweep(&files, 65536);
        assert!(stopped.next().is_some());
        stopped.stop();
        assert_eq!((stopped.next(), stopped.next()), (None, None));
    }

    #[test]
    fn stretches_are_cut_into_blocks_of_their_own() {
        let files = FileSet::new([("a".into(), 400_000), ("b".into(), 70_000)]);
        let stretch = |file, from, to| FileRange { file: FileId(file), from, to };
        let wanted = [stretch(0, 131_072, 262_144), stretch(0, 327_680, u64::MAX), stretch(1, 65536, 65536)];
        let cursor = Cursor::over(&files, wanted, 131_072);
        assert_eq!(all(&cursor), [(0, 131_072, 131_072), (0, 327_680, 72_320)]);
        assert_eq!(cursor.blocks(), 2);
    }

    #[test]
    fn block_size_is_rounded_up_to_the_alignment() {
        let files = FileSet::new([("a".into(), 100_000)]);
        assert_eq!(all(&Cursor::sweep(&files, 1)), [(0, 0, 65536), (0, 65536, 34464)]);
        assert_eq!(all(&Cursor::sweep(&files, 65537)), [(0, 0, 100_000)]);
    }
}
