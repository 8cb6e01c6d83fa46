//! MySQL 8.0.30 and later. Its redo does not name files in a way that recovery follows, and does not cover indexes built in bulk. So the
//! tablespaces that such statements changed are copied again while `LOCK INSTANCE FOR BACKUP` keeps new ones off, and the files get the
//! names that they have then.
//!
//! ```text
//! #innodb_redo -> blocks, each verified (live) -> one file (copied_log), read for changes without redo (events) -> cut -> #ib_redo0
//! ```

mod copied_log;
mod events;
mod live;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use format::keyring::KeyStore;
use format::{Lsn, SpaceId};

use self::copied_log::{CopiedLog, Origin};
use self::events::Events;
use self::live::LiveRedo;
use super::error::{BackupError, Result, failed, refused};
use super::follower::{Followed, Follower};
use super::settings;
use super::tablespaces::{Placed, Tablespaces, imported};
use super::vendor::{Altered, LogRange, Vendor};
use super::verify::MEMORY;
use crate::door;
use crate::recover::LogNames;
use crate::server_home::ServerHome;
use datadir::files::AskPath;
use datadir::keys::KeyFiles;
use datadir::log_name::REDO_DIR;
use datadir::name::NameHint;
use datadir::server::{BackupServer, LogServer, ServerFacts};
use datadir::stop;

/// Pause before the next look at a log with nothing new.
const POLL: Duration = Duration::from_millis(10);
/// The first version whose log can be followed.
const FIRST_VERSION: (u32, u32, u32) = (8, 0, 30);
/// The file name of the log's copy, in the directory of the followed log.
const STAGED: &str = "log";
/// The file name of a set's log.
const LOG: &str = "#ib_redo0";

/// A MySQL server.
#[derive(Debug)]
pub(super) struct MySql<'k> {
    keys: &'k KeyStore,
    /// Where the copied log begins, and the keys that open it. `None` until it is followed.
    origin: Mutex<Option<Origin>>,
    /// What the copied log says of changes without redo.
    events: Mutex<Events>,
}

impl<'k> MySql<'k> {
    pub fn new(keys: &'k KeyStore) -> Self {
        Self { keys, origin: Mutex::new(None), events: Mutex::new(Events::default()) }
    }

    fn origin(&self) -> Result<Origin> {
        held(&self.origin).clone().ok_or_else(|| BackupError::Log("it was not followed".to_owned()))
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        held(&self.events)
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Vendor for MySql<'_> {
    fn check(&self, server: &mut dyn BackupServer, facts: &ServerFacts, datadir: &Path, _: &KeyFiles) -> Result<()> {
        if facts.version_numbers() < FIRST_VERSION {
            return refused(format!(
                "the server is MySQL {}: only 8.0.30 and later is backed up, whose redo log can be followed: use xtrabackup",
                facts.version
            ));
        }
        let home = ServerHome::of(server)?;
        home.other(server, datadir)?.map_or(Ok(()), refused)?;
        settings::check(facts, &home, datadir)?;
        if !server.instance()?.is_redo_on {
            return refused(
                "redo logging is switched off (ALTER INSTANCE DISABLE INNODB REDO_LOG): without a redo log there is no backup of a running \
                 server",
            );
        }
        settings::refuse_missing_privileges(server, datadir)?;
        refuse_elsewhere(server, datadir, None)
    }

    fn has_general_tablespaces(&self) -> bool {
        true
    }

    fn follow(&self, log: &mut dyn LogServer, datadir: &Path, redo: &Path, followed: &Followed) -> Result<()> {
        ServerHome::of(log)?.other(log, datadir)?.map_or(Ok(()), refused)?;
        let mut live = LiveRedo::open(datadir, self.keys)?;
        let copied = CopiedLog::create(redo.join(STAGED), live.checkpoint())?;
        while !stop::is_told(followed.stopped()) {
            // Ask before reading: the files then hold the log up to this LSN.
            let flushed = log.flushed_lsn()?;
            let before = live.end();
            live.look(flushed, &copied)?;
            if held(&self.origin).as_ref() != Some(live.origin()) {
                *held(&self.origin) = Some(live.origin().clone());
            }
            self.events().follow(&redo.join(STAGED), live.origin(), live.end())?;
            followed.reached(live.end());
            if live.end() == before {
                thread::sleep(POLL);
            }
        }
        Ok(())
    }

    fn from(&self, _: &Path) -> Result<Lsn> {
        Ok(self.origin()?.checkpoint)
    }

    fn outdated(
        &self,
        server: &mut dyn BackupServer,
        follower: &mut Follower<'_>,
        datadir: &Path,
        redo: &Path,
    ) -> Result<BTreeSet<SpaceId>> {
        refuse_elsewhere(server, datadir, None)?;
        let now = server.moment()?.lsn;
        server.flush_logs()?;
        follower.reach(now)?;
        let mut events = self.events();
        events.read(&redo.join(STAGED), &self.origin()?, now)?;
        Ok(events.take_outdated(now))
    }

    fn is_settled(&self, server: &mut dyn BackupServer, datadir: &Path, tablespaces: &Tablespaces<'_>) -> Result<bool> {
        refuse_elsewhere(server, datadir, Some(tablespaces))?;
        // The server truncates undo tablespaces under any lock, and gives them a new space id each time.
        tablespaces.is_current()
    }

    fn blocks_commits(&self) -> bool {
        false
    }

    fn join(&self, redo: &Path, set: &Path, until: Lsn) -> Result<LogRange> {
        let origin = self.origin()?;
        let staged = redo.join(STAGED);
        let mut events = self.events();
        events.read(&staged, &origin, until)?;
        if let Some(space) = events.take_loaded(until).first() {
            return Err(BackupError::Log(format!(
                "an index of tablespace {space} was built although definitions were locked: take the backup again"
            )));
        }
        CopiedLog::finish(&staged, &origin, until)?;
        let dir = set.join(REDO_DIR);
        door::make_dir(set, REDO_DIR).map_err(failed(&dir, "making the directory"))?;
        let path = dir.join(LOG);
        fs::rename(&staged, &path).map_err(failed(&path, "giving the log its name"))?;
        Ok(LogRange { from: origin.checkpoint, to: until })
    }

    fn place(&self, tablespaces: Tablespaces<'_>, set: &Path, range: LogRange) -> Result<Placed> {
        let present: Vec<(SpaceId, PathBuf)> =
            tablespaces.present().map(|(space, name)| (space, name.to_path_buf())).collect();
        let placed = tablespaces.place(set, None)?;
        // Read after the files are placed: if the log is empty, the system tablespace says whether it was closed.
        let log = LogNames::read(set, self.keys, MEMORY)?;
        if log.end() != range.to {
            return Err(BackupError::Log(format!("it can be read only up to LSN {}, not {}", log.end(), range.to)));
        }
        if let Some((_, name)) = present.iter().find(|(space, _)| log.is_dropped(*space)) {
            return imported(name);
        }
        Ok(placed)
    }

    fn altered(&self) -> Altered {
        self.events().altered.clone()
    }

    fn needs_keys(&self, _: &KeyFiles) -> bool {
        held(&self.origin).as_ref().is_some_and(Origin::is_encrypted)
    }
}

/// The name of a file below the datadir `own`, whatever links lead to it. This is asked under the lock, for each file of the
/// server, so each folder is followed once: `folders` has where they lead.
fn inside(own: &Path, file: &Path, folders: &mut HashMap<PathBuf, PathBuf>) -> Option<PathBuf> {
    let path = own.join(file);
    // A discarded tablespace has no file. Its path says where the file would be.
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let is_link = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink());
    let found = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !is_link => {
            folders.entry(parent.to_path_buf()).or_insert_with(|| real(parent)).join(name)
        }
        _ => real(&path),
    };
    found.strip_prefix(own).ok().map(Path::to_path_buf)
}

/// Refuses servers that report tablespaces outside the datadir. With `copied`, also refuses if a reported file has no copy.
fn refuse_elsewhere(server: &mut dyn BackupServer, datadir: &Path, copied: Option<&Tablespaces<'_>>) -> Result<()> {
    let own = fs::canonicalize(datadir).map_err(failed(datadir, "looking at the datadir"))?;
    let files = server.data_files()?;
    let mut folders = HashMap::new();
    let known: Option<BTreeSet<&Path>> = copied.map(|copied| copied.names().collect());
    let is_known = |name: &Path| known.as_ref().is_some_and(|known| known.contains(name));
    for file in files.iter().filter(|file| NameHint::of(file) != NameHint::Temporary) {
        let Some(name) = inside(&own, file, &mut folders) else {
            return refused(format!(
                "{}: a tablespace outside the datadir (DATA DIRECTORY, or CREATE TABLESPACE elsewhere), which innokit does not back up yet",
                file.display()
            ));
        };
        if known.is_some() && !is_known(&name) && own.join(&name).is_there() {
            return refused(format!(
                "{}: the server has a tablespace there, where innokit looks for none: it is not backed up yet",
                name.display()
            ));
        }
    }
    Ok(())
}
