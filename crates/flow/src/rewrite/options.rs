//! What to rewrite, and how.

use crate::{FileHandle, FileId};

/// A file to rewrite.
#[derive(Debug, Clone)]
pub struct RewriteTarget {
    /// Which file, for engines that keep their own files.
    pub file: FileId,
    /// The file, open for reading and writing. If it is direct, all its stretches and blocks are multiples of 4096 bytes.
    pub handle: FileHandle,
    /// Its name in the shadow file, by which the next run finds it after an interruption.
    pub name: Vec<u8>,
}

/// What a crash may do to blocks that are being written.
#[derive(Debug, Clone)]
pub enum Safety {
    /// Nothing is written, whatever is changed: a dry run.
    NothingIsWritten,
    /// Blocks are whole after a crash, once the changes in this file are [replayed](super::replay()). If the file is not new, replay it
    /// first.
    Shadow(RewriteTarget),
    /// Blocks may be torn. For files that nobody uses before all of them are finished: after a crash they are made again.
    NewFiles,
}

/// How blocks are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewriteOptions {
    /// Bytes of stretches in memory at a time; room for at least four.
    pub memory: usize,
    /// Maximum bytes of a stretch.
    pub stretch_max: u32,
    /// Requests in flight at a time.
    pub depth: u32,
    /// Threads that change stretches. With 0, the caller's thread does, so that a simulated device sees the same order in every run.
    pub workers: usize,
    /// Whether to read stretches while others are written. If not, memory is filled, changed and written in turns.
    pub overlap: bool,
    /// Approximate size of the shadow file, bytes: when it is full, the files are synced.
    pub shadow_max: u64,
    /// Identifies the input of the run, for example the start of the log from which it builds its blocks. The shadow of a run with another
    /// tag is not replayed.
    pub tag: u64,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            stretch_max: 512 << 10,
            depth: 64,
            workers: 1,
            overlap: true,
            shadow_max: 256 << 20,
            tag: 0,
        }
    }
}
