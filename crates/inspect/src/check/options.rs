//! How to check.

use flow::{FileSet, ReadOptions};
use format::Lsn;

use super::portion::Portion;
use crate::report::watcher::Watcher;
use datadir::keys::KeyFiles;
use datadir::selection::Selection;

/// How to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How to read the files.
    pub read: ReadOptions,
    /// Workers; each reads and verifies.
    pub workers: usize,
    /// Bytes for the buffers of all workers together: more workers get smaller windows, not more memory.
    pub buffers_max: u64,
    /// Bytes of the largest request to object storage, where `read.block_size` is the smallest: each request costs time and money.
    pub object_block_max: u32,
    /// As `buffers_max`, if the files are in object storage.
    pub object_buffers_max: u64,
    /// Findings listed in the report at most; all are counted.
    pub findings_max: usize,
    /// Logical page size in bytes; overrides what the files say.
    pub page_size: Option<u32>,
    /// Key files.
    pub keys: KeyFiles,
    /// A server may be writing the files: bad pages are read again before they are reported.
    pub live: bool,
    /// Upper limit of the read rate, bytes per second.
    pub rate: Option<u64>,
    /// Lists the verdict on every table.
    pub list_tables: bool,
    /// Of directories, only the files of these tables.
    pub selection: Selection,
    /// Only this part of the files.
    pub portion: Option<Portion>,
    /// Pages older than this are counted but not verified.
    pub since_lsn: Option<Lsn>,
    /// Receives findings and may stop the run early.
    pub watcher: Watcher,
}

impl Default for CheckOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            read: ReadOptions::default(),
            workers,
            buffers_max: 64 << 20,
            object_block_max: 8 << 20,
            object_buffers_max: 128 << 20,
            findings_max: 1000,
            page_size: None,
            keys: KeyFiles::default(),
            live: false,
            rate: None,
            list_tables: false,
            selection: Selection::default(),
            portion: None,
            since_lsn: None,
            watcher: Watcher::default(),
        }
    }
}

impl CheckOptions {
    /// How to read the files of a set, in the memory for all workers.
    pub(super) fn read_from(&self, set: &FileSet) -> ReadOptions {
        let read = self.read.clone();
        if set.is_carried() {
            read.with_larger_blocks(self.object_block_max, self.workers, self.object_buffers_max)
        } else {
            read.within(self.workers, self.buffers_max)
        }
    }
}
