//! How to check.

use flow::ReadOptions;
use format::Lsn;

use super::portion::Portion;
use crate::report::watcher::Watcher;
use crate::source::keys::KeyFiles;

/// How to check.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How the bytes come.
    pub read: ReadOptions,
    /// Workers; each reads and verifies.
    pub workers: usize,
    /// The most findings that the report lists (all are counted).
    pub findings_max: usize,
    /// Logical page size in bytes, in place of what the files say.
    pub page_size: Option<u32>,
    /// Files with keys.
    pub keys: KeyFiles,
    /// A server may be writing the files: what looks wrong is read again before it is called so.
    pub live: bool,
    /// The most bytes read in a second.
    pub rate: Option<u64>,
    /// The report also has the verdict of every table.
    pub list_tables: bool,
    /// Only this part of the files.
    pub portion: Option<Portion>,
    /// Pages older than this are counted and not verified.
    pub since_lsn: Option<Lsn>,
    /// Who hears of findings, and may end the work early.
    pub watcher: Watcher,
}

impl Default for CheckOptions {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            read: ReadOptions::default(),
            workers,
            findings_max: 1000,
            page_size: None,
            keys: KeyFiles::default(),
            live: false,
            rate: None,
            list_tables: false,
            portion: None,
            since_lsn: None,
            watcher: Watcher::default(),
        }
    }
}
