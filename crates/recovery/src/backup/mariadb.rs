//! MariaDB 10.8 and later: its redo covers everything that happens to InnoDB's files, including their names, so nothing is copied twice.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use format::keyring::KeyStore;
use format::{Lsn, SpaceId};
use redo::mariadb::{Format, LogFile, START_OFFSET};

use super::error::{BackupError, Result, failed, refused};
use super::follower::{Followed, Follower};
use super::tablespaces::{Placed, Tablespaces};
use super::vendor::{LogRange, Vendor};
use super::verify::MEMORY;
use super::{joined, settings};
use crate::archive::{ArchiveEvent, ArchiveOptions, archive_beside, segments};
use crate::door;
use crate::recover::LogNames;
use crate::server_home::ServerHome;
use datadir::keys::KeyFiles;
use datadir::log_name::{LOG, is_kept_as_archive};
use datadir::reading::read_up_to;
use datadir::server::{BackupServer, BackupStage, LogServer, ServerFacts};

/// Pause between two looks at the log.
const POLL: Duration = Duration::from_millis(20);
/// Bytes per segment. A new segment is filled with zeros first.
const SEGMENT_SIZE: u64 = 16 << 20;
/// The file that the server begins at `BACKUP STAGE START`.
const NOTES: &str = "ddl.log";
/// Attempts to have it do so.
const SIGNS: u32 = 3;
/// The first version whose log can be followed.
const FIRST_VERSION: (u32, u32, u32) = (10, 8, 0);

/// A MariaDB server.
#[derive(Debug)]
pub(super) struct MariaDb<'k> {
    pub keys: &'k KeyStore,
}

impl Vendor for MariaDb<'_> {
    fn check(&self, server: &mut dyn BackupServer, facts: &ServerFacts, datadir: &Path, keys: &KeyFiles) -> Result<()> {
        if facts.version_numbers() < FIRST_VERSION {
            return refused(format!(
                "the server is {}: only MariaDB 10.8 and later is backed up, whose redo log can be followed: use mariadb-backup",
                facts.version
            ));
        }
        let home = ServerHome::of(server)?;
        home.other(server, datadir)?.map_or(Ok(()), refused)?;
        settings::check(facts, &home, datadir)?;
        settings::refuse_missing_privileges(server, datadir)?;
        if home.is_said() {
            refuse_silent(server, datadir)?;
        }
        check_key(datadir, keys)
    }

    fn has_general_tablespaces(&self) -> bool {
        false
    }

    fn follow(&self, log: &mut dyn LogServer, datadir: &Path, redo: &Path, followed: &Followed) -> Result<()> {
        let options = ArchiveOptions {
            to: redo.to_path_buf(),
            poll: POLL,
            segment_size: SEGMENT_SIZE,
            ..ArchiveOptions::default()
        };
        let mut gap = None;
        archive_beside(Some(log), datadir, &options, followed.stopped(), &mut |event| match event {
            ArchiveEvent::Status(status) => followed.reached(Lsn(status.lsn)),
            ArchiveEvent::Gap(why) => {
                gap = Some((*why).to_owned());
                followed.stop();
            }
            // Only MySQL builds indexes without redo.
            ArchiveEvent::Unlogged(_) => {}
        })?;
        gap.map_or(Ok(()), |why| Err(BackupError::Log(why)))
    }

    fn from(&self, redo: &Path) -> Result<Lsn> {
        let first = segments(redo)?.first().map(|segment| segment.start);
        first.ok_or_else(|| BackupError::Log("there is nothing of it".to_owned()))
    }

    fn outdated(
        &self,
        _: &mut dyn BackupServer,
        _: &mut Follower<'_>,
        _: &Path,
        _: &Path,
    ) -> Result<BTreeSet<SpaceId>> {
        Ok(BTreeSet::new())
    }

    fn is_settled(&self, _: &mut dyn BackupServer, _: &Path, _: &Tablespaces<'_>) -> Result<bool> {
        Ok(true)
    }

    fn blocks_commits(&self) -> bool {
        true
    }

    fn join(&self, redo: &Path, set: &Path, until: Lsn) -> Result<LogRange> {
        joined::join(redo, set, until)
    }

    fn place(&self, tablespaces: Tablespaces<'_>, set: &Path, range: LogRange) -> Result<Placed> {
        let names = LogNames::read(set, self.keys, MEMORY)?;
        if names.end() != range.to {
            return Err(BackupError::Log(format!("it can be read only up to LSN {}", names.end())));
        }
        tablespaces.place(set, Some(&names))
    }

    fn needs_keys(&self, keys: &KeyFiles) -> bool {
        keys.key_file.is_some()
    }
}

/// Refuses a directory in which the server leaves no trace. It begins a file there with each backup, in which it notes definitions.
fn refuse_silent(server: &mut dyn BackupServer, datadir: &Path) -> Result<()> {
    let path = datadir.join(NOTES);
    let changed = || fs::metadata(&path).ok().map(|file| (file.ino(), file.ctime(), file.ctime_nsec()));
    for _ in 0..SIGNS {
        let before = changed();
        server.enter(BackupStage::Start)?;
        let after = changed();
        server.enter(BackupStage::End)?;
        if before != after {
            return Ok(());
        }
        // The clock of a file system ticks every few milliseconds.
        thread::sleep(POLL);
    }
    refused(format!(
        "{}: the server that was named began a backup, and {NOTES} is as it was: it works on another copy of this directory (--datadir-as)",
        datadir.display()
    ))
}

/// Refuses an encrypted log without keys: the copy does not need them, but the proof does.
fn check_key(datadir: &Path, keys: &KeyFiles) -> Result<()> {
    let path = datadir.join(LOG);
    if is_kept_as_archive(datadir) {
        return refused(format!(
            "{}: its redo log is kept as an archive (innodb_log_archive=ON, MariaDB 13.0), which this build does not back up",
            datadir.display()
        ));
    }
    let file = door::open_file(&path).map_err(failed(&path, "opening the redo log"))?;
    let header = read_up_to(&file, 0, START_OFFSET).map_err(failed(&path, "reading the redo log"))?;
    let size = file.metadata().map_err(failed(&path, "reading the redo log"))?.len();
    let is_encrypted =
        LogFile::parse(&header, size).is_ok_and(|log| matches!(log.format, Format::Stream { encrypted: Some(_) }));
    if is_encrypted && keys.key_file.is_none() {
        return refused(
            "the redo log is encrypted: name the server's keys (--key-file), without which the backup cannot be proved",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use std::path::PathBuf;

    use super::*;
    use datadir::server::{BackupMoment, InstanceState, ServerError, TableName};

    /// A server that begins its notes in a directory when a backup starts. It is asked for nothing else.
    struct Notes(PathBuf);

    impl LogServer for Notes {
        fn datadir(&mut self) -> std::result::Result<PathBuf, ServerError> {
            unreachable!("not asked")
        }

        fn flushed_lsn(&mut self) -> std::result::Result<Lsn, ServerError> {
            unreachable!("not asked")
        }
    }

    impl BackupServer for Notes {
        fn facts(&mut self) -> std::result::Result<ServerFacts, ServerError> {
            unreachable!("not asked")
        }

        fn instance(&mut self) -> std::result::Result<InstanceState, ServerError> {
            unreachable!("not asked")
        }

        fn data_files(&mut self) -> std::result::Result<Vec<PathBuf>, ServerError> {
            unreachable!("not asked")
        }

        fn discarded(&mut self) -> std::result::Result<Vec<SpaceId>, ServerError> {
            unreachable!("not asked")
        }

        fn enter(&mut self, stage: BackupStage) -> std::result::Result<(), ServerError> {
            if stage == BackupStage::Start {
                fs::write(self.0.join(NOTES), "").expect("written");
            }
            Ok(())
        }

        fn lock_tables(&mut self, _: &[TableName]) -> std::result::Result<(), ServerError> {
            unreachable!("not asked")
        }

        fn flush_logs(&mut self) -> std::result::Result<(), ServerError> {
            unreachable!("not asked")
        }

        fn missing_privileges(&mut self, _: &[TableName]) -> std::result::Result<Vec<String>, ServerError> {
            unreachable!("not asked")
        }

        fn moment(&mut self) -> std::result::Result<BackupMoment, ServerError> {
            unreachable!("not asked")
        }
    }

    #[test]
    fn a_server_that_notes_its_backups_elsewhere_works_on_another_copy() {
        let (own, copy) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let mut server = Notes(own.path().to_path_buf());
        assert!(refuse_silent(&mut server, own.path()).is_ok(), "the first notes");
        fs::write(copy.path().join(NOTES), "").expect("written");
        let says = refuse_silent(&mut server, copy.path()).expect_err("a copy").to_string();
        assert!(says.contains("works on another copy"), "{says}");
        assert!(refuse_silent(&mut server, own.path()).is_ok(), "the next");
    }
}
