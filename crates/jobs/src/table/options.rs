//! How to look at tables.

use flow::{ReadAhead, ReadOptions};

use crate::report::watcher::Watcher;
use crate::source::keys::KeyFiles;
use crate::tree::matching as pairing;
use crate::tree::walk::Depth;

/// How to look at tables.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// How the bytes come.
    pub read: ReadOptions,
    /// How far ahead of need pages are read.
    pub ahead: ReadAhead,
    /// Workers; each walks one tree at a time.
    pub workers: usize,
    /// The most findings that the report lists (all are counted).
    pub findings_max: usize,
    /// Logical page size in bytes, in place of what the files say.
    pub page_size: Option<u32>,
    /// Files with keys.
    pub keys: KeyFiles,
    /// Whether to hold everything against everything, or just to count.
    pub depth: Depth,
    /// Whether every entry of a secondary index is held against its row, and every row against its entries.
    pub extended: bool,
    /// How many entries and rows that differ are kept at a time to be named; there may be more, which are counted.
    pub images_max: usize,
    /// The report also has the verdict of every table.
    pub list_tables: bool,
    /// Who hears of findings, and may end the work early.
    pub watcher: Watcher,
}

impl Default for TableOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            // Small requests, for pages lie scattered, and many.
            read: ReadOptions { block_size: 256 << 10, depth: 32, ..ReadOptions::default() },
            ahead: ReadAhead::LOGICAL,
            workers,
            findings_max: 1000,
            page_size: None,
            keys: KeyFiles::default(),
            depth: Depth::Check,
            extended: false,
            images_max: pairing::IMAGES_MAX,
            list_tables: false,
            watcher: Watcher::default(),
        }
    }
}

/// Memory of all workers' windows together, bytes.
const MEMORY_MAX: u64 = 96 << 20;

/// Windows of a size that all workers together keep within [`MEMORY_MAX`].
pub(super) fn windows(options: &TableOptions, workers: usize) -> (ReadOptions, ReadAhead) {
    let share = MEMORY_MAX / workers as u64;
    let ahead = match options.ahead {
        ReadAhead::None => ReadAhead::None,
        ReadAhead::Linear { bytes } => ReadAhead::Linear { bytes: bytes.min(share / 3).max(64 << 10) },
        ReadAhead::Logical { bytes } => ReadAhead::Logical { bytes: bytes.min(share / 3).max(64 << 10) },
    };
    (options.read.clone().within(workers, MEMORY_MAX / 3), ahead)
}
