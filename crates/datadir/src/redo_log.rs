//! Does a datadir's redo log still have work to do? Then pages that look lost may only be late: crash recovery will write them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use format::bytes::be;
use format::page::fsp::FSP_SPACE_ID;
use format::{Lsn, PageSize, SpaceFormat, SpaceId};
use redo::older::OlderCheckpoint;
use redo::{LogState, LogVendor, mariadb, mysql};

use super::kept_log::{KeptError, KeptLog, is_ring, kept_files};
use super::log_name::{COPIED_LOG, LOG, REDO_DIR, is_kept};
use super::name::NameHint;
use crate::backup_notes::BackupNotes;
use crate::files::{self, AskPath, File};
use crate::reading::read_up_to;

/// Pending crash recovery: what is on disk is not yet what the server will show.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Pending {
    /// The datadir, or the backup.
    pub path: String,
    /// What is pending, as a clause.
    pub why: String,
}

/// Redo logs near the files of a run, each read once and only if a finding depends on it.
#[derive(Debug, Default)]
pub struct RedoLogs {
    by_dir: HashMap<PathBuf, LogNow>,
    /// The candidate datadirs for each directory ([`datadirs_of`], which needs the current directory from the system).
    dirs: HashMap<PathBuf, Arc<[PathBuf]>>,
    /// Pending work of files that are in no directory.
    said: HashMap<PathBuf, Option<String>>,
    /// Files that a statement was changing when the server crashed, and for which the redo log has no more work.
    in_ddl: HashSet<PathBuf>,
    /// A server may be writing the logs: a log that is clean now may have work to do by the next call.
    live: bool,
}

/// Who finishes what a crash interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// Crash recovery, from the redo log or a backup tool's notes.
    Recovery,
    /// Only the server, when it starts.
    Server,
    /// Nobody: a server is running, and its log always has work to do.
    Running,
}

/// The state of one directory's log; empty if there is none.
#[derive(Clone, Debug, Default)]
struct LogNow {
    /// The pending work, as a clause.
    pending: Option<String>,
    /// Pages changed before this LSN are on disk.
    checkpoint: Option<Lsn>,
    /// Where the log ends, if it has no work to do.
    clean_end: Option<Lsn>,
    /// A server has the directory open, and nobody said so.
    is_running: bool,
    /// This build does not recover it.
    is_older: bool,
}

/// Levels between a tablespace and its datadir: `datadir/db/t.ibd`, `datadir/ibdata1`.
const LEVELS_UP: usize = 2;

/// No server has more files in its log (`innodb_log_files_in_group`).
const RING_FILES_MAX: u32 = 100;

/// How often to retry a log that cannot be read.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(25);

impl RedoLogs {
    /// With `live`, a server may be writing the logs.
    #[must_use]
    pub fn new(live: bool) -> Self {
        Self { live, ..Self::default() }
    }

    /// Notes the pending work of a file that is not on disk and so has no log beside it.
    pub fn say(&mut self, path: PathBuf, pending: Option<&str>) {
        self.said.insert(path, pending.map(str::to_owned));
    }

    /// Notes files that the server will complete at startup, whatever the redo log says about them.
    pub fn say_in_ddl(&mut self, files: impl Iterator<Item = PathBuf>) {
        self.in_ddl.extend(files);
    }

    /// The directories asked about that have pending work, with the clauses that name it.
    pub fn pending(&self) -> Vec<Pending> {
        let pending = self
            .by_dir
            .iter()
            .filter_map(|(dir, log)| Some(Pending { path: dir.display().to_string(), why: log.said()? }));
        let mut pending: Vec<Pending> = pending.collect();
        pending.sort_by(|a, b| a.path.cmp(&b.path));
        pending
    }

    /// A clause that names the pending work for the tablespace at `path`: a log with changes after its checkpoint, an unprepared backup, or
    /// work that only the server does at startup. `None` if there is none, or no log at all.
    pub fn pending_for(&mut self, path: &Path) -> Option<&str> {
        self.look_at_logs_of(path);
        self.of_log(path).or_else(|| self.of_server(path))
    }

    /// Whether recovery or the server does the pending work; `None` if there is none, or if the run reads beside the server.
    pub fn awaits(&mut self, path: &Path) -> Option<Awaits> {
        if self.live {
            return None;
        }
        self.look_at_logs_of(path);
        let dirs = self.dirs_of(path);
        let of_server = || self.of_server(path).map(|_| Awaits::Server);
        let is_any = |of: fn(&LogNow) -> bool| dirs.iter().filter_map(|dir| self.by_dir.get(dir)).any(of);
        let of_log = match (is_any(|log| log.is_running), is_any(|log| log.is_older)) {
            (true, _) => Awaits::Running,
            (_, true) => Awaits::Server,
            _ => Awaits::Recovery,
        };
        self.of_log(path).map(|_| of_log).or_else(of_server)
    }

    /// The datadir whose log crash recovery will apply to the tablespace at `path`. `None` if none is pending, or a server is running.
    pub fn recovered_in(&mut self, path: &Path) -> Option<PathBuf> {
        if self.awaits(path) != Some(Awaits::Recovery) || self.said.contains_key(path) {
            return None;
        }
        let dirs = self.dirs_of(path);
        dirs.iter().find(|dir| self.by_dir.get(*dir).is_some_and(|log| log.pending.is_some())).cloned()
    }

    fn look_at_logs_of(&mut self, path: &Path) {
        if self.said.contains_key(path) {
            return;
        }
        for dir in self.dirs_of(path).iter() {
            let known = self.by_dir.get(dir);
            if known.is_none_or(|log| self.live && log.pending.is_none()) {
                let log = log_now(dir);
                let is_running = !self.live && log.pending.is_some() && is_open(dir);
                self.by_dir.insert(dir.clone(), LogNow { is_running, ..log });
            }
        }
    }

    fn dirs_of(&mut self, path: &Path) -> Arc<[PathBuf]> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if let Some(dirs) = self.dirs.get(parent) {
            return Arc::clone(dirs);
        }
        let dirs: Arc<[PathBuf]> = datadirs_of(path).into();
        self.dirs.insert(parent.to_path_buf(), Arc::clone(&dirs));
        dirs
    }

    fn of_log(&self, path: &Path) -> Option<&str> {
        match self.said.get(path) {
            Some(said) => said.as_deref(),
            None => {
                let dirs = self.dirs.get(path.parent().unwrap_or(Path::new("")))?;
                dirs.iter().find_map(|dir| self.by_dir.get(dir)?.pending.as_deref())
            }
        }
    }

    fn of_server(&self, path: &Path) -> Option<&'static str> {
        if self.said.contains_key(path) {
            return None;
        }
        if self.in_ddl.contains(path) {
            return Some(IN_DDL);
        }
        is_being_truncated(path).then_some("the server was truncating this undo tablespace")
    }

    /// The newest checkpoint of the log for the tablespace at `path`, and that log's datadir. `None` if no log can be read: then no LSN is
    /// known to be old or new.
    pub fn checkpoint_for(&mut self, path: &Path) -> Option<(PathBuf, Lsn)> {
        let dir = self.log_dir_of(path)?;
        let checkpoint = self.by_dir.get(&dir)?.checkpoint?;
        Some((dir, checkpoint))
    }

    /// Where the log for the tablespace at `path` ends, if it has no work to do: no page is newer.
    pub fn clean_end_for(&mut self, path: &Path) -> Option<Lsn> {
        let dir = self.log_dir_of(path)?;
        self.by_dir.get(&dir)?.clean_end
    }

    /// The nearest directory with a log that can be read.
    fn log_dir_of(&mut self, path: &Path) -> Option<PathBuf> {
        if self.said.contains_key(path) {
            return None;
        }
        for dir in self.dirs_of(path).iter() {
            if self.live || !self.by_dir.contains_key(dir) {
                let log = log_now(dir);
                let is_running = !self.live && log.pending.is_some() && is_open(dir);
                self.by_dir.insert(dir.clone(), LogNow { is_running, ..log });
            }
            if self.by_dir.get(dir).is_some_and(|log| log.checkpoint.is_some()) {
                return Some(dir.clone());
            }
        }
        None
    }
}

/// Why a file that a statement was changing is left undecided.
pub(crate) const IN_DDL: &str =
    "a crash interrupted a statement that changes this file; the server finishes or undoes it when it starts";

/// The directories that may be a tablespace's datadir, nearest first.
pub fn datadirs_of(path: &Path) -> Vec<PathBuf> {
    if files::is_remote(path) {
        let above = path.ancestors().skip(1).take_while(|above| files::is_remote(above));
        return above.take(LEVELS_UP).map(Path::to_path_buf).collect();
    }
    // A relative path may contain no directory.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    path.ancestors().skip(1).take(LEVELS_UP).map(Path::to_path_buf).collect()
}

/// Whether a crash interrupted MySQL while it truncated an undo tablespace. A file beside it says so, and the server recreates the
/// tablespace at startup, whatever its pages hold. Recovery writes none of them.
fn is_being_truncated(path: &Path) -> bool {
    if NameHint::of(path) != NameHint::Undo {
        return false;
    }
    let dirs = datadirs_of(path);
    match undo_number_in(path) {
        Some(number) => {
            dirs.iter().any(|dir| Truncation::noted_in(&truncation_log(dir, number)) == Some(Truncation::Underway))
        }
        // The truncation is far along: no page says any more which tablespace this was.
        None => dirs.iter().any(|dir| has_ownerless_truncation_log(dir)),
    }
}

/// The number of the undo tablespace in this file, from page 0.
fn undo_number_in(path: &Path) -> Option<u32> {
    let head = File::open(path).and_then(|file| read_up_to(&file, 0, FSP_SPACE_ID + 4)).ok()?;
    mysql::undo_number(SpaceId(be::u32_at(&head, FSP_SPACE_ID)?))
}

fn truncation_log(datadir: &Path, number: u32) -> PathBuf {
    datadir.join(format!("undo_{number}_trunc.log"))
}

/// What MySQL's note says about the truncation of an undo tablespace. The server creates the file, fills it with a page of zeros, truncates,
/// writes a number into the page, and removes the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// The note is shorter than a page: the truncation has not begun, and the server cannot start (seen on 9.7).
    Unbegun,
    /// The server recreates the tablespace when it starts, whatever it contains.
    Underway,
    /// The tablespace is as good as any; the server removes the note (seen on 9.7).
    Finished,
}

impl Truncation {
    /// The first number in the note of a finished truncation, big-endian (`undo::s_magic` in `trx0purge.h` of MySQL 8.0).
    const FINISHED: u32 = 76_845_412;

    fn noted_in(note: &Path) -> Option<Self> {
        let len = files::metadata(note).ok()?.len();
        let page_size = note.parent().and_then(page_size_of).unwrap_or(PageSize::MIN);
        if len < page_size.bytes() as u64 {
            return Some(Self::Unbegun);
        }
        let head = File::open(note).and_then(|file| read_up_to(&file, 0, 4)).ok();
        let is_finished = head.is_some_and(|head| be::u32_at(&head, 0) == Some(Self::FINISHED));
        Some(if is_finished { Self::Finished } else { Self::Underway })
    }

    /// The truncation of this undo tablespace that the datadir has a note of.
    pub fn of(datadir: &Path, space: SpaceId) -> Option<Self> {
        Self::noted_in(&truncation_log(datadir, mysql::undo_number(space)?))
    }
}

/// The server's page size.
fn page_size_of(datadir: &Path) -> Option<PageSize> {
    let head = File::open(datadir.join("ibdata1")).and_then(|file| read_up_to(&file, 0, PageSize::MAX.bytes())).ok()?;
    Some(SpaceFormat::from_page0(&head).ok()?.logical())
}

/// MySQL's truncation notes in the datadir, with the undo tablespace numbers.
fn truncation_logs(datadir: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let number_of =
        |log: &Path| log.file_name()?.to_str()?.strip_prefix("undo_")?.strip_suffix("_trunc.log")?.parse::<u32>().ok();
    let paths = files::read_dir(datadir).into_iter().flatten().map(|entry| entry.path());
    paths.filter_map(move |path| Some((number_of(&path)?, path)))
}

/// Notes of truncations that never began: the server was killed before it had written the note.
pub fn unbegun_truncation_logs(datadir: &Path) -> Vec<PathBuf> {
    let is_unbegun = |note: &PathBuf| Truncation::noted_in(note) == Some(Truncation::Unbegun);
    truncation_logs(datadir).map(|(_, note)| note).filter(is_unbegun).collect()
}

/// Whether MySQL noted the truncation of an undo tablespace that no file in the datadir claims to be.
fn has_ownerless_truncation_log(datadir: &Path) -> bool {
    let is_underway = |note: &Path| Truncation::noted_in(note) == Some(Truncation::Underway);
    let logs: Vec<u32> =
        truncation_logs(datadir).filter(|(_, note)| is_underway(note)).map(|(number, _)| number).collect();
    let paths = files::read_dir(datadir).into_iter().flatten().map(|entry| entry.path());
    let undo = paths.filter(|path| !logs.is_empty() && NameHint::of(path) == NameHint::Undo);
    let owned: Vec<u32> = undo.filter_map(|path| undo_number_in(&path)).collect();
    logs.iter().any(|number| !owned.contains(number))
}

/// The clause for a backup whose log is still to be applied.
pub const UNPREPARED: &str = "this backup has not been prepared";

/// Backup tools copy pages as they are; `--prepare` applies the log copied with them.
fn unprepared_backup(dir: &Path) -> Option<String> {
    let is_unprepared = BackupNotes::of(dir)?.is_full();
    is_unprepared.then(|| UNPREPARED.to_owned())
}

impl LogNow {
    /// The pending work, for a list of directories.
    fn said(&self) -> Option<String> {
        let of_server = if self.is_running { ", as that of every running server: one has it open" } else { "" };
        Some(format!("{}{of_server}", self.pending.as_ref()?))
    }
}

/// Whether a server has a datadir open: it locks the system tablespace.
pub fn is_open(dir: &Path) -> bool {
    let system = dir.join("ibdata1");
    files::is_file(&system) && files::is_locked(&system)
}

/// Why a datadir is unfinished that `CLONE INSTANCE` has filled: the files of the donor lie beside those that they replace, or have their own
/// names and lack their redo, which is not that in the log here. `None` for any other.
pub fn awaits_clone(dir: &Path) -> Option<&'static str> {
    const LISTS: [&str; 2] = ["#clone/#replace_files", "#clone/#new_files"];
    let is_left = |list: &str| files::metadata(dir.join(list)).is_ok_and(|list| list.len() > 0);
    LISTS.into_iter().any(is_left).then_some(
        "CLONE INSTANCE has put the files of another server here (#clone), and the server gives them their places only when it starts",
    )
}

fn log_now(dir: &Path) -> LogNow {
    match unprepared_backup(dir).or_else(|| awaits_clone(dir).map(str::to_owned)) {
        Some(pending) => LogNow { pending: Some(pending), ..LogNow::default() },
        None => settled_log(dir).unwrap_or_default(),
    }
}

fn settled_log(dir: &Path) -> Option<LogNow> {
    // A server that is writing the log may remove a file while it is being read.
    let mut state = state_of(dir)?;
    for _ in 1..TRIES {
        if state.is_ok() {
            break;
        }
        std::thread::sleep(PAUSE);
        state = state_of(dir)?;
    }
    let Found { state, checkpoint, clean_end } = match state {
        Ok(found) => found,
        Err(_) => return older_log(dir),
    };
    let pending = match state {
        // If the end cannot be found, it is after the checkpoint.
        LogState::NeedsRecovery | LogState::Undecided => Some("the redo log still has work to do".to_owned()),
        LogState::Clean => None,
    };
    let clean_end = Some(clean_end).filter(|_| pending.is_none());
    Some(LogNow { pending, checkpoint: Some(checkpoint), clean_end, is_running: false, is_older: false })
}

/// The log of a server that is too old for this build to recover. What its server would mend is no damage, as long as it may. `None`: it is
/// another one, which will repair nothing, or has no work to do.
fn older_log(dir: &Path) -> Option<LogNow> {
    let files: Vec<File> = log_files(dir).iter().filter_map(|path| File::open(path).ok()).collect();
    let first = files.first()?;
    let checkpoint = OlderCheckpoint::of(&read_up_to(first, 0, mysql::LOG_FILE_HDR_SIZE).ok()?)?;
    // All files of a ring are of one length.
    let len = first.metadata().ok()?.len().max(1);
    let file = files.get(usize::try_from(checkpoint.block / len).ok()?);
    let block = file.and_then(|file| read_up_to(file, checkpoint.block % len, redo::block::LOG_BLOCK_SIZE).ok());
    let pending = match checkpoint.state(&block.unwrap_or_default()) {
        LogState::Clean => return None,
        LogState::NeedsRecovery => "the redo log still has work to do, which only its own server can",
        LogState::Undecided => "the redo log may still have work to do, which only its own server can",
    };
    Some(LogNow { pending: Some(pending.to_owned()), is_older: true, ..LogNow::default() })
}

/// What a log says about itself.
struct Found {
    state: LogState,
    checkpoint: Lsn,
    /// Where it ends, if it is clean.
    clean_end: Lsn,
}

/// `None` if there is no log.
fn state_of(dir: &Path) -> Option<io::Result<Found>> {
    let files = log_files(dir);
    let first = files.first()?;
    if is_kept_file(first) {
        return Some(kept_state(dir));
    }
    Some(identify(first).and_then(|kind| match kind {
        LogVendor::MySql => mysql_state(&files),
        LogVendor::MariaDb => mariadb_state(first),
    }))
}

/// xtrabackup's copy of the log, if the backup in this directory is still to be prepared.
pub fn copied_log(dir: &Path) -> Option<PathBuf> {
    let copy = Some(dir.join(COPIED_LOG)).filter(|copy| files::is_file(copy))?;
    BackupNotes::of(dir).is_some_and(|notes| !notes.is_prepared()).then_some(copy)
}

/// The log files of a datadir: `#innodb_redo/#ib_redoN` (without the unused `_tmp` ones), else `ib_logfileN`, else those of a log that is
/// kept as an archive. For a backup still to be prepared, xtrabackup's copy: any other log there is left over from an unfinished preparation.
pub fn log_files(dir: &Path) -> Vec<PathBuf> {
    if let Some(copy) = copied_log(dir) {
        return vec![copy];
    }
    let redo = files::read_dir(&dir.join(REDO_DIR)).into_iter().flatten();
    let number = |name: &str| name.strip_prefix("#ib_redo")?.parse().ok();
    let mut numbered: Vec<(u32, PathBuf)> =
        redo.filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path()))).collect();
    numbered.sort();
    let mut files: Vec<PathBuf> = numbered.into_iter().map(|(_, path)| path).collect();
    if files.is_empty() {
        // Like the server, stop at the first missing number: ib_logfile101 is a log that was still being made. Asking for the names costs
        // nothing in a folder of ten thousand tables, which a listing does for every question that is asked beside a running server.
        let named = (0..RING_FILES_MAX).map(|number| dir.join(format!("ib_logfile{number}")));
        files = named.take_while(|path| files::exists(path)).collect();
    }
    // These must be listed: a folder of tables has none.
    let is_datadir = |dir: &Path| files::exists(dir.join("ibdata1"));
    if files.is_empty() && (is_datadir(dir) || !dir.parent().is_some_and(is_datadir)) {
        let kept: Vec<PathBuf> = kept_files(dir).into_iter().map(|file| file.path).collect();
        files = kept.last().filter(|last| is_ring(last)).map_or_else(|| kept.clone(), |ring| vec![ring.clone()]);
    }
    // Opening a pipe would block.
    files.retain(|path| files::is_file(path));
    files
}

/// Whether there is a redo log of any form.
pub fn has_log(datadir: &Path) -> bool {
    let is_mysql = datadir.join(REDO_DIR).is_folder_there() || copied_log(datadir).is_some();
    is_mysql || datadir.join(LOG).is_file_there() || !kept_files(datadir).is_empty()
}

/// Whether the datadir has a log of MySQL before 8.0.30: a ring of files.
pub fn has_mysql_ring(dir: &Path) -> bool {
    let first = dir.join(LOG);
    !dir.join(REDO_DIR).is_folder_there() && identify(&first).is_ok_and(|vendor| vendor == LogVendor::MySql)
}

/// Whether the file is one of a log that MariaDB keeps as an archive, and not a ring under such a name.
pub fn is_kept_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_kept(Path::new(name))) && !is_ring(path)
}

/// The vendor of the log that begins in the file.
pub fn identify(path: &Path) -> io::Result<LogVendor> {
    if is_kept_file(path) {
        return Ok(LogVendor::MariaDb);
    }
    redo::identify(&read_up_to(&File::open(path)?, 0, mysql::LOG_FILE_HDR_SIZE)?).map_err(io::Error::other)
}

fn mysql_state(paths: &[PathBuf]) -> io::Result<Found> {
    let mut files = Vec::new();
    let mut logs = Vec::new();
    for path in paths {
        let file = File::open(path)?;
        let header = read_up_to(&file, 0, mysql::LOG_FILE_HDR_SIZE)?;
        // A spare file that was never used has no header and no changes.
        if let Ok(log) = mysql::LogFile::parse(&header, file.metadata()?.len()) {
            logs.push(log);
            files.push(file);
        }
    }
    let place = mysql::newest_checkpoint(&logs).map_err(io::Error::other)?;
    let file = files.get(place.file).ok_or_else(|| io::Error::other("no file contains the checkpoint"))?;
    let blocks = read_up_to(file, place.offset, mysql::CHECKPOINT_READ_SIZE)?;
    let state = mysql::state(&place, &blocks).map_err(io::Error::other)?;
    Ok(Found { state, checkpoint: place.lsn, clean_end: place.lsn })
}

fn kept_state(dir: &Path) -> io::Result<Found> {
    let log = KeptLog::open(kept_files(dir)).map_err(|error| match error {
        KeptError::Io(_, error) => error,
        other => io::Error::other(other.to_string()),
    })?;
    let checkpoint = log.parsed.checkpoint.lsn;
    for len in [mariadb::READ_SIZE, mariadb::READ_SIZE_MAX] {
        let bytes = log.read(checkpoint, len)?;
        match log.parsed.state(&bytes).map_err(io::Error::other)? {
            LogState::Undecided => {}
            state => return Ok(Found { state, checkpoint, clean_end: log.parsed.clean_end(&bytes) }),
        }
    }
    Ok(Found { state: LogState::Undecided, checkpoint, clean_end: checkpoint })
}

fn mariadb_state(path: &Path) -> io::Result<Found> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let log = mariadb::LogFile::parse(&read_up_to(&file, 0, mariadb::START_OFFSET)?, size).map_err(io::Error::other)?;
    let place = log.checkpoint_place().ok_or_else(|| io::Error::other("the checkpoint is outside the file"))?;
    let checkpoint = log.checkpoint.lsn;
    for len in [mariadb::READ_SIZE, mariadb::READ_SIZE_MAX] {
        let mut bytes = read_up_to(&file, place, len)?;
        // The log is a ring: what does not fit at the end of the file continues at the start.
        let rest = len - bytes.len();
        bytes.extend(read_up_to(&file, log.payload_start(), rest.min((place - log.payload_start()) as usize))?);
        match log.state(&bytes).map_err(io::Error::other)? {
            LogState::Undecided => {}
            state => return Ok(Found { state, checkpoint, clean_end: log.clean_end(&bytes) }),
        }
    }
    Ok(Found { state: LogState::Undecided, checkpoint, clean_end: checkpoint })
}
