//! `backup`: a consistent copy of a running MariaDB server, and the proof that it can be recovered.
//!
//! ```text
//! follower of the redo log -> BACKUP STAGE START -> passes over InnoDB's files, every page verified -> FLUSH, BLOCK_DDL: definitions, other
//! engines, last pass -> BLOCK_COMMIT: the moment T -> END -> log cut at T -> names by the log -> pages and trial recovery -> manifest
//! ```
//!
//! InnoDB's files are copied at different times; some are missing then, or have old names. `recover` brings them all to T, with the redo log
//! from before the first copy until T. Only what the redo does not cover is copied under a lock. The manifest is written last: until then
//! the set is void.

mod error;
mod follower;
mod joined;
mod others;
mod pace;
mod pages;
mod send;
mod tablespaces;
mod verify;

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use flow::durable::sync_file_system_of;
use format::Lsn;
use format::keyring::KeyStore;
use redo::mariadb::{Format, LogFile, START_OFFSET};

pub use self::error::BackupError;
use self::error::{Result, failed, refused};
use self::follower::{Followed, Follower};
use self::joined::LOG;
pub use self::pace::BackupWatcher;
use self::pace::Pace;
pub use self::send::send_backup;
use self::tablespaces::Tablespaces;
pub(crate) use self::verify::unchanged;
pub use self::verify::{BackupReport, verify_backup};
use self::verify::{examine, trial};
use crate::manifest::{BackupLocks, BackupState, Manifest};
use crate::recover::{LogNames, RecoverOptions, is_free, recover_one};
use crate::server::{BackupServer, BackupStage, LogServer, ServerFacts, other_datadir};
use crate::source::keys::KeyFiles;
use crate::source::read_up_to;

/// Where files are until the set is complete.
const STAGING: &str = "innokit.copying";
/// Passes without a lock. Each finds what was created or renamed during the one before; the rest is copied under the lock.
const PASSES: u32 = 5;
/// Memory of the trial recovery.
const MEMORY: usize = 512 << 20;
/// The first version whose log can be followed.
const FIRST_VERSION: (u32, u32) = (10, 8);
/// Readable by the owner alone: the set holds all the data.
const MODE: u32 = 0o700;

/// How to take a backup.
#[derive(Debug, Clone, Default)]
pub struct BackupOptions {
    /// The set; made if it is missing, and empty otherwise.
    pub to: PathBuf,
    /// Recover the set at once.
    pub prepare: bool,
    /// The server's keys: needed if it encrypts its log.
    pub keys: KeyFiles,
    /// Upper limit for copying without a lock, bytes per second.
    pub rate: Option<u64>,
    /// Copy without a lock in the idle I/O class.
    pub is_idle: bool,
    /// Told how far that is.
    pub watcher: BackupWatcher,
}

/// Backs up the server on `datadir`. `log` is a second connection to the same server, for the follower of its log.
///
/// # Errors
/// [`BackupError`]. The set, if it was begun, is void, and the server's locks are gone.
pub fn backup(
    server: &mut dyn BackupServer,
    log: &mut dyn LogServer,
    datadir: &Path,
    options: &BackupOptions,
    stop: &AtomicBool,
) -> Result<Manifest> {
    let keys = options.keys.read()?;
    let facts = server.facts()?;
    check_server(&facts, &server.datadir()?, datadir)?;
    check_key(datadir, options)?;
    // Without the privilege for it, nothing should be copied first.
    server.binlog_position()?;
    let mut manifest = Manifest::begun(now());
    manifest.server_version = facts.version;
    let set = make_set(datadir, &options.to)?;
    manifest.write(&set)?;
    let mut run = Run { server, datadir, set: &set, options, keys: &keys, stop, manifest };
    match run.take(log) {
        Ok(()) => Ok(run.manifest),
        Err(error) => {
            let mut void = Manifest::begun(run.manifest.started_at);
            void.why = Some(error.to_string());
            // A full disk may not even take that: the first manifest says the same.
            void.write(&set).ok();
            Err(error)
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Refuses servers and settings that we cannot back up.
fn check_server(facts: &ServerFacts, works_on: &Path, datadir: &Path) -> Result<()> {
    let version = &facts.version;
    if !version.contains("MariaDB") {
        return refused(format!("the server is MySQL {version}: only MariaDB is backed up yet"));
    }
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < FIRST_VERSION {
        return refused(format!(
            "the server is {version}: only MariaDB 10.8 and later is backed up, whose redo log can be followed: use mariadb-backup"
        ));
    }
    other_datadir(works_on, datadir).map_or(Ok(()), refused)?;
    let names = facts.system_files.split(';').map(|file| file.split(':').next().unwrap_or_default());
    if names.collect::<Vec<_>>() != ["ibdata1"] {
        return refused(format!(
            "innodb_data_file_path is {}: a system tablespace of other files than ibdata1 is not backed up yet",
            facts.system_files
        ));
    }
    for (setting, place) in &facts.directories {
        if !place.as_os_str().is_empty() && other_datadir(&works_on.join(place), datadir).is_some() {
            return refused(format!(
                "{setting} is {}: a server with files outside its datadir is not backed up yet",
                place.display()
            ));
        }
    }
    Ok(())
}

/// An encrypted log is copied without keys, but the proof takes them.
fn check_key(datadir: &Path, options: &BackupOptions) -> Result<()> {
    let path = datadir.join(LOG);
    let file = File::open(&path).map_err(failed(&path, "opening the redo log"))?;
    let header = read_up_to(&file, 0, START_OFFSET).map_err(failed(&path, "reading the redo log"))?;
    let size = file.metadata().map_err(failed(&path, "reading the redo log"))?.len();
    let is_encrypted =
        LogFile::parse(&header, size).is_ok_and(|log| matches!(log.format, Format::Stream { encrypted: Some(_) }));
    if is_encrypted && options.keys.key_file.is_none() {
        return refused(
            "the redo log is encrypted: name the server's keys (--key-file), without which the backup cannot be proved",
        );
    }
    Ok(())
}

/// Makes the directory of the set, empty and outside of the datadir.
fn make_set(datadir: &Path, to: &Path) -> Result<PathBuf> {
    if !is_free(to) {
        return Err(BackupError::Occupied(to.to_path_buf()));
    }
    let parent =
        to.ancestors().find(|parent| parent.exists() && !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let inside = fs::canonicalize(parent).map_err(failed(parent, "looking at the directory"))?;
    let own = fs::canonicalize(datadir).map_err(failed(datadir, "looking at the datadir"))?;
    if inside.starts_with(own) {
        return refused(format!("{}: a backup cannot be inside the datadir itself", to.display()));
    }
    DirBuilder::new().recursive(true).mode(MODE).create(to).map_err(failed(to, "making the directory"))?;
    Ok(to.to_path_buf())
}

/// A backup in the making.
struct Run<'r> {
    server: &'r mut dyn BackupServer,
    datadir: &'r Path,
    set: &'r Path,
    options: &'r BackupOptions,
    keys: &'r KeyStore,
    stop: &'r AtomicBool,
    manifest: Manifest,
}

impl<'r> Run<'r> {
    fn take(&mut self, log: &mut dyn LogServer) -> Result<()> {
        let staging = self.set.join(STAGING);
        let redo = staging.join("redo");
        fs::create_dir_all(&redo).map_err(failed(&redo, "making the directory"))?;
        let followed = Followed::default();
        let copied = thread::scope(|scope| {
            let follower = Follower::start(scope, &followed, log, self.datadir, redo.clone())?;
            self.copy(follower, &staging)
        });
        if copied.is_err() {
            // The connection may be what failed; its end ends the stages too.
            self.server.enter(BackupStage::End).ok();
        }
        let (tablespaces, moment) = copied?;
        let range = joined::join(&redo, self.set, moment)?;
        (self.manifest.from_lsn, self.manifest.to_lsn) = (range.from.0, range.to.0);
        fs::remove_dir_all(&redo).map_err(failed(&redo, "removing the segments"))?;
        (self.manifest.pages, self.manifest.pages_read_again) = (tablespaces.pages, tablespaces.pages_read_again);
        let names = LogNames::read(self.set, self.keys, MEMORY)?;
        if names.end() != range.to {
            return Err(BackupError::Log(format!("it can be read only up to LSN {}", names.end())));
        }
        tablespaces.place(self.set, &names)?;
        fs::remove_dir(&staging).map_err(failed(&staging, "removing the directory"))?;
        self.prove()
    }

    /// Copies everything, holding each of the server's locks as briefly as possible. Returns the LSN of the backup: its state is restored.
    fn copy(&mut self, mut follower: Follower<'_>, staging: &Path) -> Result<(Tablespaces<'r>, Lsn)> {
        let stop = self.stop;
        let check = || if stop.load(Ordering::Relaxed) { Err(BackupError::Interrupted) } else { Ok(()) };
        let (rate, is_idle, watcher) = (self.options.rate, self.options.is_idle, self.options.watcher.clone());
        let pace = Pace::new(rate, is_idle, watcher, stop);
        let mut tablespaces = Tablespaces::new(self.datadir, staging.to_path_buf(), self.keys, pace);
        self.server.enter(BackupStage::Start)?;
        tablespaces.pace.start(self.datadir)?;
        for _ in 0..PASSES {
            let new = tablespaces.pass(&mut follower, &check)?;
            // The stages end with the connection: it must still be there.
            self.server.flushed_lsn()?;
            if new == 0 {
                break;
            }
        }
        tablespaces.pace.hurry(self.datadir)?;
        let without_ddl = Instant::now();
        self.server.enter(BackupStage::Flush)?;
        self.server.enter(BackupStage::BlockDdl)?;
        self.manifest.left_out = others::copy_databases(self.datadir, self.set)?;
        tablespaces.pass(&mut follower, &check)?;
        tablespaces.mend()?;
        let without_commits = Instant::now();
        self.server.enter(BackupStage::BlockCommit)?;
        self.server.flush_logs()?;
        others::copy_last(self.datadir, self.set)?;
        let moment = self.server.current_lsn()?;
        self.manifest.binlog = self.server.binlog_position()?;
        self.manifest.taken_at = now();
        self.server.enter(BackupStage::End)?;
        self.manifest.locks = BackupLocks { ddl_ms: since(without_ddl), commit_ms: since(without_commits) };
        // The follower waits for this; nobody else does.
        self.server.flush_logs()?;
        follower.finish(moment)?;
        Ok((tablespaces, moment))
    }

    /// Only what can be recovered, page for page, is a backup.
    fn prove(&mut self) -> Result<()> {
        let keys = &self.options.keys;
        recover_one(self.set, &trial(keys))?;
        if self.options.prepare {
            recover_one(self.set, &RecoverOptions { keys: keys.clone(), ..RecoverOptions::default() })?;
        }
        let mut examined = examine(self.set, self.keys)?;
        if let Some(page) = examined.damage.pop() {
            return Err(BackupError::Damaged(format!("{page} in the finished backup")));
        }
        sync_file_system_of(self.set).map_err(failed(self.set, "making the backup durable"))?;
        self.manifest.needs_keys = examined.is_encrypted || keys.key_file.is_some();
        self.manifest.files = examined.files.into_values().collect();
        self.manifest.state = if self.options.prepare { BackupState::Prepared } else { BackupState::Complete };
        if self.stop.load(Ordering::Relaxed) {
            return Err(BackupError::Interrupted);
        }
        Ok(self.manifest.write(self.set)?)
    }
}

fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
