//! What is rewritten, and how.

use crate::{FileHandle, FileId};

/// A file that is rewritten.
#[derive(Debug, Clone)]
pub struct RewriteTarget {
    /// Which file, for engines that keep files of their own.
    pub file: FileId,
    /// The file, open for reading and writing. If it is direct, all its stretches and blocks are multiples of 4096 bytes.
    pub handle: FileHandle,
    /// By which an interrupted run finds it again: it stands in the shadow file.
    pub name: Vec<u8>,
}

/// How blocks are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewriteOptions {
    /// Bytes of stretches that are in memory at a time; room for four at least.
    pub memory: usize,
    /// Bytes of a stretch at most.
    pub stretch_max: u32,
    /// Requests in flight at a time.
    pub depth: u32,
    /// Threads that change stretches. With 0 the caller's does, so that a simulated device sees the same order in every run.
    pub workers: usize,
    /// Whether stretches are read while others are written. If not, memory is filled, changed and written by turns.
    pub overlap: bool,
    /// Bytes of the shadow file, about: when it is full, the files are synced.
    pub shadow_max: u64,
    /// What the run is about, e.g. where the log began from which it makes its blocks. The shadow of a run with another tag is
    /// not replayed.
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
