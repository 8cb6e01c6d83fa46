//! Ends of redo logs that are not part of the run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use flow::Counters;
use format::keyring::KeyStore;

use super::examined::LogEnd;
use super::redo::RedoCheck;
use datadir::content::Content;
use datadir::inventory::Candidate;
use datadir::name::NameHint;
use datadir::{files, redo_log};

/// Finds where a log outside the run ends. Reads each log once, and only when a page is newer than the log's checkpoint.
pub(crate) struct LogEnds<'k> {
    keys: &'k KeyStore,
    by_dir: HashMap<PathBuf, Option<LogEnd>>,
}

impl<'k> LogEnds<'k> {
    pub fn new(keys: &'k KeyStore) -> Self {
        Self { keys, by_dir: HashMap::new() }
    }

    /// The keys for encrypted logs.
    pub const fn keys(&self) -> &'k KeyStore {
        self.keys
    }

    /// The end of the log in `dir`; `None` if it cannot be read.
    pub fn of(&mut self, dir: &Path) -> Option<LogEnd> {
        if let Some(end) = self.by_dir.get(dir) {
            return *end;
        }
        let end = self.read(dir);
        self.by_dir.insert(dir.to_path_buf(), end);
        end
    }

    fn read(&self, dir: &Path) -> Option<LogEnd> {
        let file = |path: PathBuf| {
            let len = files::metadata(&path).ok()?.len();
            Some(Candidate { path, home: None, len, hint: NameHint::Redo, named: false, content: Content::Redo })
        };
        let files: Vec<Candidate> = redo_log::log_files(dir).into_iter().filter_map(file).collect();
        let counters = Counters::new(1);
        let check =
            RedoCheck { files: files.iter().collect(), counters: counters.worker(0), findings_max: 1, keys: self.keys };
        let (rows, _) = check.run();
        rows.iter().find_map(|row| row.log.as_ref()?.end)
    }
}
