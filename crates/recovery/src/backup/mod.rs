//! `backup`: takes a consistent copy of a running server, and proves that it can be recovered.
//!
//! ```text
//! follow the redo log -> stage START -> passes over InnoDB's files, every page verified -> FLUSH, BLOCK_DDL: what changed without redo,
//! last pass, definitions, other engines -> BLOCK_COMMIT: the moment T -> END -> cut the log at T -> names at T -> trial recovery, then
//! every page again -> manifest
//! ```
//!
//! InnoDB's files are copied at different moments; some are missing then, or have old names. `recover` brings them all to T with the redo
//! log, which begins before the first copy and ends at T. Only what the redo does not cover is copied under a lock; what that is depends on
//! the server (`vendor.rs`). The manifest is written last: until then the set is void.

mod blame;
mod chain;
mod changes;
mod delta_file;
mod error;
mod follower;
mod holes;
mod joined;
mod layers;
mod listing;
mod mariadb;
mod mysql;
mod others;
mod pace;
mod pages;
mod proof;
mod room;
mod send;
mod settings;
mod signature;
mod stamp;
mod table_look;
mod tablespaces;
mod vendor;
mod verify;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{iter, thread};

use flow::durable::sync_file_system_of;
use flow::run_both;
use format::keyring::KeyStore;
use format::{Lsn, SpaceId};

use self::blame::blamed;
pub(crate) use self::chain::Chain;
use self::changes::Since;
pub use self::error::BackupError;
use self::error::{Result, failed, refused};
use self::follower::{Followed, Follower};
use self::mariadb::MariaDb;
use self::mysql::MySql;
use self::others::Early;
pub use self::pace::BackupWatcher;
use self::pace::Pace;
use self::proof::prove_indexes;
pub use self::send::send_backup;
pub(crate) use self::signature::signed_by;
pub use self::signature::{SigningKey, sign_backup};
pub use self::table_look::{SeenDamage, SeenFile, SeenIndex, SeenTables, SeenTree, TableLook};
use self::tablespaces::Tablespaces;
use self::vendor::Vendor;
pub(crate) use self::verify::unchanged;
pub use self::verify::{BackupReport, BackupSignature, BackupVerifyOptions, verify_backup};
use self::verify::{examine, trial};
use crate::door;
use crate::manifest::{BackupDamage, BackupLocks, BackupState, BackupTablespace, Manifest};
use crate::recover::{RecoverOptions, is_free, recover_one};
use datadir::crc32c::FileSums;
use datadir::files::AskPath;
use datadir::keys::KeyFiles;
use datadir::known_servers::Maker;
use datadir::server::{BackupServer, BackupStage, InstanceState, LogServer, ServerKind};
use datadir::{Error, fault, stop};

/// Where the copies and the followed log are until they get their names in the set.
const STAGING: &str = "innokit.copying";
/// Maximum number of passes without a lock. Each finds what was created or renamed during the one before; a locked pass copies the rest.
const PASSES: u32 = 5;
/// Attempts at a moment while definitions are blocked. The server may replace undo tablespaces even then, but not this often.
const MOMENTS: u32 = 10;
/// Only the owner may enter: the set holds all the data.
const MODE: u32 = 0o700;

/// How to take a backup.
#[derive(Debug, Clone)]
pub struct BackupOptions {
    /// The set's directory. It must be missing or empty.
    pub to: PathBuf,
    /// Recover the set as part of the backup.
    pub prepare: bool,
    /// Take an increment on the backup in this directory. Only its manifest is read.
    pub since: Option<PathBuf>,
    /// Copy damaged pages as they are, and list them in the manifest. Not with an increment.
    pub allow_damage: bool,
    /// The server's keys: needed if it encrypts its log or, on MySQL, tablespaces.
    pub keys: KeyFiles,
    /// Upper limit for copying while no lock is held, in bytes per second.
    pub rate: Option<u64>,
    /// Copy in the idle I/O class while no lock is held.
    pub is_idle: bool,
    /// Told the progress.
    pub watcher: BackupWatcher,
    /// Looks into tables that changed while they were copied.
    pub tables: TableLook,
}

/// Backs up the server on `datadir`. `log` is a second connection to the same server, for the follower of its log.
///
/// # Errors
/// [`BackupError`]. A set that was begun is then void, and the server's locks are released.
pub fn backup(
    server: &mut dyn BackupServer,
    log: &mut dyn LogServer,
    datadir: &Path,
    options: &BackupOptions,
    stop: &AtomicBool,
) -> Result<Manifest> {
    let keys = options.keys.read()?;
    let facts = server.facts()?;
    if let Some(why) = Maker::of(&facts.version).and_then(|maker| maker.newer_than_tested()) {
        return refused(format!("the datadir is {why}, and backs up no newer ones"));
    }
    let vendor: Box<dyn Vendor> = match facts.kind() {
        ServerKind::MariaDb => Box::new(MariaDb { keys: &keys }),
        ServerKind::MySql => Box::new(MySql::new(&keys)),
    };
    vendor.check(server, &facts, datadir, &options.keys)?;
    let since = options.since.as_deref().map(Since::read).transpose()?;
    if since.is_some() && options.prepare {
        return refused("an increment has only changed pages: it cannot be recovered by itself");
    }
    if since.is_some() && options.allow_damage {
        return refused("a damaged page does not say whether it changed: take a full backup (--allow-damage)");
    }
    if let Some(since) = &since {
        since.check(&facts, datadir, server.moment()?.lsn)?;
    }
    let instance = server.instance()?;
    let mut manifest = Manifest::begun(now());
    manifest.id = new_id()?;
    (manifest.server_version, manifest.cipher) = (facts.version, facts.cipher);
    manifest.base = since.as_ref().map(Since::named);
    let set = make_set(datadir, vendor.has_general_tablespaces(), options)?;
    manifest.write(&set)?;
    let vendor = &*vendor;
    let mut run = Run { server, vendor, instance, datadir, set: &set, options, keys: &keys, since, stop, manifest };
    match run.take(log) {
        Ok(()) => Ok(run.manifest),
        Err(error) => {
            let error = with_way_out(error, &set);
            let mut void = Manifest::begun(run.manifest.started_at);
            void.why = Some(error.to_string());
            // A full disk may not even take this. The manifest written at the start says void as well.
            void.write(&set).ok();
            Err(error)
        }
    }
}

/// Says what to remove if the disk is full.
fn with_way_out(error: BackupError, set: &Path) -> BackupError {
    let is_full = |source: &io::Error| matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    // The copy, the log and the proof each have errors of their own around it.
    let mut causes = iter::successors(Some(&error as &dyn std::error::Error), |cause| cause.source());
    if !causes.any(|cause| cause.downcast_ref().is_some_and(is_full)) {
        return error;
    }
    BackupError::Refused(format!(
        "{error}: remove {}, which is void, and take the backup again where there is room for all files of the server",
        set.display()
    ))
}

/// A random identity, so that no two backups share one.
fn new_id() -> Result<String> {
    let (path, mut bytes) = (Path::new("/dev/urandom"), [0; 16]);
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(failed(path, "reading random bytes"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Makes the set's directory: empty, and outside both the datadir and the base.
fn make_set(datadir: &Path, has_general: bool, options: &BackupOptions) -> Result<PathBuf> {
    let to = &options.to;
    if !is_free(to) {
        return Err(BackupError::Occupied(to.clone()));
    }
    // `to` may not exist yet: its nearest existing parent says where it will be.
    let parent =
        to.ancestors().find(|parent| parent.is_there() && !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let inside = fs::canonicalize(parent).map_err(failed(parent, "looking at the directory"))?;
    let is_in = |dir: &Path| -> Result<bool> {
        let own = fs::canonicalize(dir).map_err(failed(dir, "looking at the directory"))?;
        Ok(inside.starts_with(own))
    };
    if is_in(datadir)? {
        return refused(format!("{}: a backup cannot be inside the datadir itself", to.display()));
    }
    if options.since.as_deref().is_some_and(|base| is_in(base).unwrap_or(false)) {
        return refused(format!(
            "{}: an increment cannot be inside its base, which would no longer be as it was taken",
            to.display()
        ));
    }
    // An increment takes as much as has changed, which is not known yet.
    if options.since.is_none() {
        room::check(datadir, has_general, (&inside, to))?;
    }
    DirBuilder::new().recursive(true).mode(MODE).create(to).map_err(failed(to, "making the directory"))?;
    door::target_made();
    Ok(to.clone())
}

/// A backup in progress.
struct Run<'r> {
    server: &'r mut dyn BackupServer,
    vendor: &'r dyn Vendor,
    /// The server's state at the start. If it changes, the backup fails.
    instance: InstanceState,
    datadir: &'r Path,
    set: &'r Path,
    options: &'r BackupOptions,
    keys: &'r KeyStore,
    /// The base of an increment.
    since: Option<Since>,
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
            let (vendor, datadir, redo, followed) = (self.vendor, self.datadir, &redo, &followed);
            let follower = Follower::start(scope, followed, move || vendor.follow(log, datadir, redo, followed))?;
            self.copy(follower, &staging, redo)
        });
        if copied.is_err() {
            // The connection itself may have failed: the server then ends the stages.
            self.server.enter(BackupStage::End).ok();
        }
        let (tablespaces, moment) = copied?;
        let range = self.vendor.join(&redo, self.set, moment)?;
        (self.manifest.from_lsn, self.manifest.to_lsn) = (range.from.0, range.to.0);
        fs::remove_dir_all(&redo).map_err(failed(&redo, "removing what was followed"))?;
        (self.manifest.pages, self.manifest.pages_read_again) = (tablespaces.pages, tablespaces.pages_read_again);
        self.manifest.needs_keys = tablespaces.is_encrypted || self.vendor.needs_keys(&self.options.keys);
        let placed = self.vendor.place(tablespaces, self.set, range)?;
        self.manifest.needs_keys |= placed.is_encrypted;
        (self.manifest.tablespaces, self.manifest.damaged) = (placed.entries, placed.damaged);
        fs::remove_dir(&staging).map_err(failed(&staging, "removing the directory"))?;
        self.prove(placed.sums).map_err(|error| blamed(error, (self.datadir, self.stop), &self.manifest, self.keys))
    }

    /// Copies everything, holding each of the server's locks as briefly as possible. Returns the LSN whose state the backup restores.
    fn copy(&mut self, mut follower: Follower<'_>, staging: &Path, redo: &Path) -> Result<(Tablespaces<'r>, Lsn)> {
        let (stop, has_general) = (self.stop, self.vendor.has_general_tablespaces());
        let check = || if stop::is_told(stop) { Err(BackupError::Interrupted) } else { Ok(()) };
        let (rate, is_idle, watcher) = (self.options.rate, self.options.is_idle, self.options.watcher.clone());
        let pace = Pace::new(rate, is_idle, watcher, stop);
        let tablespaces = Tablespaces::new((self.datadir, has_general), staging.to_path_buf(), self.keys, pace);
        let mut tablespaces = tablespaces.within(self.vendor.from(redo)?, self.since.take());
        self.server.enter(BackupStage::Start)?;
        // Asked while the log is followed: what is discarded later is in the log.
        tablespaces.discarded = self.server.discarded()?;
        tablespaces.allows_damage = self.options.allow_damage;
        tablespaces.pace.start(self.datadir)?;
        for _ in 0..PASSES {
            let new = tablespaces.pass(&mut follower, &check)?;
            // The stages end with the connection, so check that it is still alive.
            self.server.flushed_lsn()?;
            if new == 0 {
                break;
            }
        }
        let mut early = Early::copy(self.datadir, self.set, &check)?;
        tablespaces.pace.hurry(self.datadir)?;
        let without_ddl = Instant::now();
        self.server.enter(BackupStage::Flush)?;
        self.server.enter(BackupStage::BlockDdl)?;
        let moment = self.moment((&mut tablespaces, &mut early), &mut follower, redo, &check)?;
        if self.server.instance()? != self.instance {
            return refused(
                "an ALTER INSTANCE statement ran while the files were copied: it may have switched the redo log off, or changed keys: take the \
                 backup again",
            );
        }
        self.server.enter(BackupStage::End)?;
        self.manifest.locks.ddl_ms = since(without_ddl);
        // The locks are released by now: only the follower waits for this.
        self.server.flush_logs()?;
        follower.finish(moment)?;
        Ok((tablespaces, moment))
    }

    /// With definitions blocked: copies the rest and takes the moment of the backup. Starts over if by then the copies are no longer of the
    /// server's files.
    fn moment(
        &mut self,
        (tablespaces, early): (&mut Tablespaces<'r>, &mut Early),
        follower: &mut Follower<'_>,
        redo: &Path,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Lsn> {
        tablespaces.lock()?;
        for number in 0..MOMENTS {
            for space in self.vendor.outdated(self.server, follower, self.datadir, redo)? {
                tablespaces.forget(space)?;
            }
            tablespaces.pass(follower, check)?;
            tablespaces.mend()?;
            if number == 0 {
                self.server.lock_tables(&others::tables_without_redo(self.datadir)?)?;
                self.manifest.left_out = early.copy_rest(self.datadir, self.set)?;
            }
            let without_commits = Instant::now();
            self.server.enter(BackupStage::BlockCommit)?;
            self.server.flush_logs()?;
            others::copy_last(self.datadir, self.set)?;
            let moment = self.server.moment()?;
            (self.manifest.binlog, self.manifest.taken_at) = (moment.binlog, now());
            if self.vendor.is_settled(self.server, self.datadir, tablespaces)? {
                let commit_ms = if self.vendor.blocks_commits() { since(without_commits) } else { 0 };
                self.manifest.locks = BackupLocks { ddl_ms: 0, commit_ms };
                return Ok(moment.lsn);
            }
        }
        refused("tablespaces keep changing although definitions are blocked: take the backup again")
    }

    /// Only what can be recovered, page for page, is a backup. An increment cannot be recovered without its base, so only its log is proved
    /// here: `place` has read it to its end.
    fn prove(&mut self, mut known: FileSums) -> Result<()> {
        let keys = &self.options.keys;
        if self.manifest.base.is_none() {
            recover_one(self.set, &trial(keys))?;
        }
        // A recovery may drop and rename tables.
        if self.options.prepare {
            recover_one(self.set, &RecoverOptions { keys: keys.clone(), ..RecoverOptions::default() })?;
            known.clear();
        }
        if self.manifest.base.is_none() {
            let mut altered = self.vendor.altered();
            // What is in a damaged page is missing in any case, and the manifest says so.
            let is_damaged =
                |entry: &&BackupTablespace| self.manifest.damaged.iter().any(|damaged| damaged.path == entry.path);
            for entry in self.manifest.tablespaces.iter().filter(is_damaged) {
                altered.spaces.remove(&SpaceId(entry.space));
            }
            let look = (self.options.tables, self.options.prepare);
            prove_indexes(self.set, &self.manifest.tablespaces, &altered, keys, look)?;
        }
        let written: Vec<String> = known.keys().map(|name| name.display().to_string()).collect();
        // Nothing is written between here and the manifest, so one sync, while the rest of the set is read, makes all of it durable.
        let (set, keys) = (self.set, self.keys);
        let (synced, examined) = run_both(|| sync_file_system_of(set), || examine(set, &known, keys));
        let mut examined = examined?;
        if let Some(lost) = written.iter().find(|name| !examined.files.contains_key(*name)) {
            let why = format!("the set's listing lacks {lost}, which was written: take the backup again");
            return Err(BackupError::Job(Error::Unusable { path: set.to_path_buf(), why }));
        }
        let listed: BTreeSet<String> = self.manifest.damaged.iter().flat_map(BackupDamage::sentences).collect();
        examined.damage.retain(|damage| !listed.contains(damage));
        if let Some(page) = examined.damage.pop() {
            return Err(BackupError::Unproved(format!(
                "{page} in the finished backup, and was sound when it was copied: examine the disk of the backup, and take it again"
            )));
        }
        synced.map_err(failed(self.set, "making the backup durable"))?;
        self.manifest.needs_keys |= examined.is_encrypted;
        self.manifest.files = examined.files.into_values().collect();
        self.manifest.state = if self.options.prepare { BackupState::Prepared } else { BackupState::Complete };
        if stop::is_told(self.stop) {
            return Err(BackupError::Interrupted);
        }
        fault::refuse_unread()?;
        Ok(self.manifest.write(self.set)?)
    }
}

fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
