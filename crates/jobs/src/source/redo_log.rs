//! Does a datadir's redo log still have work to do? Then pages that look lost may only be late: crash recovery will write them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use format::redo::{self, Kind, LogState, mariadb, mysql};

use super::read_up_to;

/// Redo logs near the files of a run, each looked at once and only when a finding depends on it.
#[derive(Debug, Default)]
pub struct RedoLogs {
    by_dir: HashMap<PathBuf, Option<String>>,
    /// What was said of files that lie in no directory.
    said: HashMap<PathBuf, Option<String>>,
    /// A server may be writing them: what is clean now need not be so at the next question.
    live: bool,
}

/// Levels between a tablespace and its datadir: `datadir/db/t.ibd`, `datadir/ibdata1`.
const LEVELS_UP: usize = 2;

/// A log that cannot be read is looked at so often.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(25);

impl RedoLogs {
    /// Logs that a server may be writing, if `live`.
    #[must_use]
    pub fn new(live: bool) -> Self {
        Self { live, ..Self::default() }
    }

    /// Notes the work still to do for a file that is not on a disk, so that no log can be looked for beside it.
    pub fn say(&mut self, path: PathBuf, pending: Option<&str>) {
        self.said.insert(path, pending.map(str::to_owned));
    }

    /// A clause that names the work still to do for the tablespace at `path`: a log with changes after its checkpoint, or a backup
    /// that was not prepared. `None` if there is none, or no log at all.
    pub fn pending_for(&mut self, path: &Path) -> Option<&str> {
        if self.said.contains_key(path) {
            return self.said.get(path)?.as_deref();
        }
        let dirs: Vec<PathBuf> = path.ancestors().skip(1).take(LEVELS_UP).map(Path::to_path_buf).collect();
        for dir in &dirs {
            let known = self.by_dir.get(dir);
            if known.is_none_or(|pending| self.live && pending.is_none()) {
                let pending = unprepared_backup(dir).or_else(|| pending_log(dir));
                self.by_dir.insert(dir.clone(), pending);
            }
        }
        dirs.iter().find_map(|dir| self.by_dir.get(dir)?.as_deref())
    }
}

/// Backup tools leave their pages as they were copied; `--prepare` applies the log that was copied with them.
fn unprepared_backup(dir: &Path) -> Option<String> {
    let names = ["xtrabackup_checkpoints", "mariadb_backup_checkpoints"];
    let text = names.iter().find_map(|name| fs::read_to_string(dir.join(name)).ok())?;
    let kind = text.lines().find_map(|line| line.strip_prefix("backup_type"))?;
    kind.contains("backuped").then(|| "this backup has not been prepared".to_owned())
}

fn pending_log(dir: &Path) -> Option<String> {
    // A server that writes the log may take a file away while it is looked at.
    let mut state = state_of(dir)?;
    for _ in 1..TRIES {
        if state.is_ok() {
            break;
        }
        std::thread::sleep(PAUSE);
        state = state_of(dir)?;
    }
    match state {
        // An end that cannot be found lies beyond the checkpoint.
        Ok(LogState::NeedsRecovery | LogState::Undecided) => Some("the redo log still has work to do".to_owned()),
        // A log that cannot be read will not mend anything.
        Ok(LogState::Clean) | Err(_) => None,
    }
}

/// `None` where there is no log.
fn state_of(dir: &Path) -> Option<io::Result<LogState>> {
    let files = log_files(dir);
    let first = files.first()?;
    Some(identify(first).and_then(|kind| match kind {
        Kind::MySql => mysql_state(&files),
        Kind::MariaDb => mariadb_state(first),
    }))
}

/// The log files of a datadir: `#innodb_redo/#ib_redoN` (without the unused `_tmp` ones), else `ib_logfileN`.
pub(crate) fn log_files(dir: &Path) -> Vec<PathBuf> {
    let in_dir = |dir: &Path, prefix: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.path());
        let mut files: Vec<(u32, PathBuf)> = names
            .filter_map(|path| {
                let number = path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()?;
                Some((number, path))
            })
            .collect();
        files.sort();
        files.into_iter().map(|(_, path)| path).collect()
    };
    let files = in_dir(&dir.join("#innodb_redo"), "#ib_redo");
    if files.is_empty() { in_dir(dir, "ib_logfile") } else { files }
}

fn identify(path: &Path) -> io::Result<Kind> {
    redo::identify(&read_up_to(&File::open(path)?, 0, mysql::LOG_FILE_HDR_SIZE)?).map_err(io::Error::other)
}

fn mysql_state(paths: &[PathBuf]) -> io::Result<LogState> {
    let mut files = Vec::new();
    let mut logs = Vec::new();
    for path in paths {
        let file = File::open(path)?;
        let header = read_up_to(&file, 0, mysql::LOG_FILE_HDR_SIZE)?;
        // A spare file that was never used has no header; it holds no changes either.
        if let Ok(log) = mysql::LogFile::parse(&header, file.metadata()?.len()) {
            logs.push(log);
            files.push(file);
        }
    }
    let place = mysql::newest_checkpoint(&logs).map_err(io::Error::other)?;
    let file = files.get(place.file).ok_or_else(|| io::Error::other("the checkpoint lies in no file"))?;
    let blocks = read_up_to(file, place.offset, mysql::CHECKPOINT_READ_SIZE)?;
    mysql::state(&place, &blocks).map_err(io::Error::other)
}

fn mariadb_state(path: &Path) -> io::Result<LogState> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let log = mariadb::LogFile::parse(&read_up_to(&file, 0, mariadb::START_OFFSET)?, size).map_err(io::Error::other)?;
    let place = log.checkpoint_place().ok_or_else(|| io::Error::other("the checkpoint lies outside the file"))?;
    for len in [mariadb::READ_SIZE, mariadb::READ_SIZE_MAX] {
        let mut bytes = read_up_to(&file, place, len)?;
        // The log is a ring: what does not fit behind the place goes on at the start.
        let rest = len - bytes.len();
        bytes.extend(read_up_to(&file, log.payload_start(), rest.min((place - log.payload_start()) as usize))?);
        match log.state(&bytes).map_err(io::Error::other)? {
            LogState::Undecided => {}
            decided => return Ok(decided),
        }
    }
    Ok(LogState::Undecided)
}
