//! Options of `table check`.

use flow::{FileSet, ReadAhead, ReadOptions};

use crate::report::watcher::Watcher;
use crate::tree::matching as pairing;
use crate::tree::walk::Depth;
use datadir::keys::KeyFiles;
use datadir::selection::Selection;

/// Options of `table check`.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// How to read the files.
    pub read: ReadOptions,
    /// How far to read ahead.
    pub ahead: ReadAhead,
    /// Workers; each walks one tree at a time, and then helps with the leaves of larger ones.
    pub workers: usize,
    /// Several workers share the leaves of a tree, or of as much of it as fits in memory at a time, if there are at least this many.
    pub shared_leaves_min: usize,
    /// Findings listed in the report at most; all are counted.
    pub findings_max: usize,
    /// Logical page size in bytes; overrides what the files say.
    pub page_size: Option<u32>,
    /// Of directories, only these tables.
    pub selection: Selection,
    /// Key files.
    pub keys: KeyFiles,
    /// Whether to check everything, or just to count.
    pub depth: Depth,
    /// A server has the files open: what looks wrong is read again.
    pub live: bool,
    /// Whether to compare every secondary index entry with its row, and every row with its entries.
    pub extended: bool,
    /// Mismatched entries and rows kept at a time to be named; further ones are only counted.
    pub images_max: usize,
    /// Lists the verdict on every table.
    pub list_tables: bool,
    /// Receives findings and may stop the run early.
    pub watcher: Watcher,
}

impl Default for TableOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            // Small requests, because pages are scattered, and many in flight.
            read: ReadOptions { block_size: 256 << 10, depth: 32, ..ReadOptions::default() },
            ahead: ReadAhead::LOGICAL,
            workers,
            // About 4 ms of work: waking the other workers costs little in comparison.
            shared_leaves_min: 256,
            findings_max: 1000,
            page_size: None,
            selection: Selection::default(),
            keys: KeyFiles::default(),
            depth: Depth::Check,
            live: false,
            extended: false,
            images_max: pairing::IMAGES_MAX,
            list_tables: false,
            watcher: Watcher::default(),
        }
    }
}

/// Memory of all workers' windows together, bytes.
const MEMORY_MAX: u64 = 96 << 20;

/// Windows sized so that all workers together stay within [`MEMORY_MAX`].
pub(super) fn windows(options: &TableOptions, set: &FileSet, workers: usize) -> (ReadOptions, ReadAhead) {
    let share = MEMORY_MAX / workers as u64;
    let ahead = match options.ahead {
        ReadAhead::None => ReadAhead::None,
        ReadAhead::Linear { bytes } => ReadAhead::Linear { bytes: bytes.min(share / 3).max(64 << 10) },
        ReadAhead::Logical { bytes } => ReadAhead::Logical { bytes: bytes.min(share / 3).max(64 << 10) },
    };
    let mut read = options.read.clone();
    if set.is_carried() {
        // A request to object storage costs as much as some MiB: fewer and larger ones.
        (read.block_size, read.depth) = (read.block_size.max(OBJECT_BLOCK), read.depth.min(OBJECT_DEPTH));
    }
    (read.within(workers, MEMORY_MAX / 3), ahead)
}

/// Bytes of a request to object storage.
const OBJECT_BLOCK: u32 = 1 << 20;
/// Such requests in flight for each worker.
const OBJECT_DEPTH: u32 = 16;
