//! Whether a server works on the directory that the caller named.
//!
//! The server tells a path. Seen from where its process is, that path must be the same directory, by device and inode. Where the process is
//! not to be seen, as from another container, the caller says what the server calls the directory (`datadir_as`). A caller can be wrong, so
//! the files and the server must then agree on what only one server has:
//!
//! ```text
//! its lock on ibdata1 -> its UUID (MySQL) -> the checkpoint of its log -> what it writes when asked to (not a MariaDB that is only archived)
//! ```
//!
//! The first three are the same on a copy of the datadir, on which another server works, until one of the two writes. The last is not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use format::Lsn;

use crate::door;
use datadir::reading::{identity_of, read_up_to};
use datadir::redo_log::{RedoLogs, is_open};
use datadir::server::{LogServer, ServerError};

/// Pause before the server and its files are compared again.
const PAUSE: Duration = Duration::from_millis(50);
/// Comparisons: a checkpoint is in the file shortly before the server tells of it.
const TRIES: u32 = 20;
/// The file of MySQL with the server's UUID.
const IDENTITY: &str = "auto.cnf";
/// It takes some 60 bytes.
const IDENTITY_MAX: usize = 4 << 10;

/// Where a server works, by its own names.
#[derive(Debug, Clone)]
pub(crate) struct ServerHome {
    datadir: PathBuf,
    /// What its names begin from.
    root: Option<PathBuf>,
    /// What the caller says that the server calls the directory.
    said: Option<PathBuf>,
}

impl ServerHome {
    pub fn of(server: &mut dyn LogServer) -> Result<Self, ServerError> {
        let datadir = server.datadir()?;
        Ok(Self { datadir, root: server.root(), said: server.datadir_as() })
    }

    /// Whether the caller's word is all that the names rest on.
    pub const fn is_said(&self) -> bool {
        self.said.is_some()
    }

    /// Where a path, by the server's names, is here. `None` if nobody can tell.
    fn here(&self, place: &Path, dir: &Path) -> Option<PathBuf> {
        let place = self.datadir.join(place);
        if let Some(said) = &self.said {
            return Some(dir.join(plain(&place).strip_prefix(plain(said)).ok()?));
        }
        // Where the server's own view is known, the same name here may be another directory.
        Some(match &self.root {
            Some(root) => root.join(place.strip_prefix("/").unwrap_or(&place)),
            None => place,
        })
    }

    /// Whether a path, by the server's names, is this directory, which should be its datadir.
    pub fn is(&self, place: &Path, dir: &Path) -> bool {
        let here = self.here(place, dir);
        identity_of(dir).is_some_and(|dir| here.and_then(|here| identity_of(&here)) == Some(dir))
    }

    /// The message to refuse with if the server works on another directory than `datadir`.
    pub fn other(&self, server: &mut dyn LogServer, datadir: &Path) -> Result<Option<String>, ServerError> {
        if let Some(said) = &self.said {
            return Ok(if self.is(Path::new(""), datadir) {
                self.unlike(server, datadir)?
            } else {
                let (own, said) = (self.datadir.display(), said.display());
                Some(format!(
                    "{}: the server that was named works on {own}, not on {said} (--datadir-as)",
                    datadir.display()
                ))
            });
        }
        let way_on = match self.root {
            Some(_) if identity_of(&self.datadir).is_some_and(|named| identity_of(datadir) == Some(named)) => {
                " in its chroot or container, which is another directory here"
            }
            Some(_) => "",
            None => {
                " (if it is the same directory under another name, because the server runs in a chroot or a container, run as root and name \
                 its socket (--socket), so that innokit can look from where the server does; from another container, say what the server \
                 calls it (--datadir-as))"
            }
        };
        Ok((!self.is(Path::new(""), datadir)).then(|| {
            let (datadir, own) = (datadir.display(), self.datadir.display());
            format!("{datadir}: the server that was named works on {own}{way_on}: name this one's")
        }))
    }

    /// Why the files cannot be those of the server, although the caller says so.
    fn unlike(&self, server: &mut dyn LogServer, datadir: &Path) -> Result<Option<String>, ServerError> {
        let why = if is_open(datadir) {
            self.unlike_open(server, datadir)?
        } else {
            Some("no server has its files open".to_owned())
        };
        let own = self.datadir.display();
        Ok(why.map(|why| {
            format!(
                "{}: this is not the directory that the server that was named calls {own} (--datadir-as): {why}",
                datadir.display()
            )
        }))
    }

    /// Why the files, which some server has open, cannot be those of this one.
    fn unlike_open(&self, server: &mut dyn LogServer, datadir: &Path) -> Result<Option<String>, ServerError> {
        if let Some(uuid) = server.uuid()?
            && let Some(found) = uuid_in(datadir).filter(|found| *found != uuid)
        {
            return Ok(Some(format!("{IDENTITY} has the UUID {found}, the server {uuid}")));
        }
        if let Some((found, told)) = self.other_checkpoint(server, datadir)? {
            return Ok(Some(match found {
                Some(found) => {
                    format!("the newest checkpoint of its redo log is at LSN {found}, that of the server at {told}")
                }
                None => "its redo log has no checkpoint that can be read".to_owned(),
            }));
        }
        let Some(place) = server.temporary()? else { return Ok(None) };
        // A directory outside of the datadir is not to be seen from here.
        let Some(dir) = self.here(&place, datadir) else { return Ok(None) };
        let before = lengths_in(&dir);
        server.write_temporary()?;
        // Another server may write to its files at any time, but it makes none larger while it has nothing to do.
        let has_grown = |(name, len): (&OsString, &u64)| before.get(name).is_none_or(|before| before < len);
        if !lengths_in(&dir).iter().any(has_grown) {
            return Ok(Some(format!(
                "the server wrote a temporary table, and no file in {} has grown: it works on another copy",
                dir.display()
            )));
        }
        Ok(None)
    }

    /// The newest checkpoints in the directory and of the server, if they differ.
    fn other_checkpoint(
        &self,
        server: &mut dyn LogServer,
        datadir: &Path,
    ) -> Result<Option<(Option<Lsn>, Lsn)>, ServerError> {
        let system = datadir.join("ibdata1");
        let mut differ = None;
        for _ in 0..TRIES {
            let Some(before) = server.checkpoint()? else { return Ok(None) };
            let found = RedoLogs::new(true).checkpoint_for(&system).map(|(_, checkpoint)| checkpoint);
            let after = server.checkpoint()?.unwrap_or(before);
            if found.is_some_and(|found| before <= found && found <= after) {
                return Ok(None);
            }
            differ = Some((found, after));
            thread::sleep(PAUSE);
        }
        Ok(differ)
    }
}

/// A path without `.` and without what ends in a slash.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

fn uuid_in(datadir: &Path) -> Option<String> {
    let bytes = read_up_to(&door::read(datadir, IDENTITY).ok()?, 0, IDENTITY_MAX).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find_map(|line| line.trim().strip_prefix("server-uuid"))?;
    Some(line.trim_start().strip_prefix('=')?.trim().to_owned())
}

/// The files of a directory, and their lengths.
fn lengths_in(dir: &Path) -> BTreeMap<OsString, u64> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.len()))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use super::*;
    use datadir::server::BinlogPosition;

    const NAMED: &str = "/var/lib/mysql/";

    /// A server on [`NAMED`].
    #[derive(Default)]
    struct Word {
        root: Option<PathBuf>,
        said: Option<PathBuf>,
        uuid: Option<String>,
        checkpoint: Option<Lsn>,
        /// Where it writes temporary tables, and where that is in truth.
        temporary: Option<(PathBuf, PathBuf)>,
    }

    impl LogServer for Word {
        fn datadir(&mut self) -> Result<PathBuf, ServerError> {
            Ok(PathBuf::from(NAMED))
        }

        fn root(&mut self) -> Option<PathBuf> {
            self.root.clone()
        }

        fn datadir_as(&self) -> Option<PathBuf> {
            self.said.clone()
        }

        fn uuid(&mut self) -> Result<Option<String>, ServerError> {
            Ok(self.uuid.clone())
        }

        fn checkpoint(&mut self) -> Result<Option<Lsn>, ServerError> {
            Ok(self.checkpoint)
        }

        fn temporary(&mut self) -> Result<Option<PathBuf>, ServerError> {
            Ok(self.temporary.as_ref().map(|(named, _)| named.clone()))
        }

        fn write_temporary(&mut self) -> Result<(), ServerError> {
            let (_, place) = self.temporary.as_ref().expect("a place");
            fs::write(place.join("temp_1.ibt"), "more").expect("written");
            Ok(())
        }

        fn flushed_lsn(&mut self) -> Result<Lsn, ServerError> {
            Ok(Lsn(0))
        }

        fn binlog(&mut self) -> Result<Option<BinlogPosition>, ServerError> {
            Ok(None)
        }
    }

    fn other(mut server: Word, datadir: &Path) -> Option<String> {
        ServerHome::of(&mut server).and_then(|home| home.other(&mut server, datadir)).expect("answered")
    }

    #[test]
    fn a_datadir_is_the_same_under_the_name_that_a_container_gives_it() {
        let (root, other_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let here = root.path().join("var/lib/mysql");
        fs::create_dir_all(here.join("undo")).expect("made");
        let seen = || Word { root: Some(root.path().to_path_buf()), ..Word::default() };
        let home = ServerHome::of(&mut seen()).expect("answered");
        assert_eq!(other(seen(), &here), None);
        assert!(home.is(Path::new("./"), &here) && home.is(Path::new(NAMED), &here));
        assert!(!home.is(Path::new("undo"), &here));
        let says = other(seen(), other_dir.path()).expect("another");
        assert!(says.contains("works on /var/lib/mysql"), "{says}");
        let unseen = other(Word::default(), &here).expect("not to be seen");
        assert!(unseen.contains("container") && unseen.contains("--datadir-as"), "{unseen}");
    }

    #[test]
    fn what_the_caller_says_is_taken_only_if_server_and_files_agree() {
        let dir = tempfile::tempdir().expect("a directory");
        let said = |path: &str| Word { said: Some(path.into()), ..Word::default() };
        let says = other(said("/srv/mysql"), dir.path()).expect("another name");
        assert!(says.contains("works on /var/lib/mysql/, not on /srv/mysql"), "{says}");
        let home = ServerHome::of(&mut said("/var/lib/mysql")).expect("answered");
        fs::create_dir(dir.path().join("undo")).expect("made");
        assert!(home.is(Path::new("./"), dir.path()) && home.is(Path::new("/var/lib/./mysql"), dir.path()));
        assert!(!home.is(Path::new("undo"), dir.path()) && !home.is(Path::new("/var/lib/mysql/undo"), dir.path()));
        assert!(!home.is(Path::new("/var/lib"), dir.path()) && !home.is(Path::new("/var/lib/mysql2"), dir.path()));

        fs::write(dir.path().join("ibdata1"), "").expect("written");
        let says = other(said("/var/lib/mysql"), dir.path()).expect("a copy at rest");
        assert!(says.contains("no server has its files open"), "{says}");
    }

    #[test]
    fn a_copy_that_another_server_has_open_is_told_by_uuid_checkpoint_and_what_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let elsewhere = tempfile::tempdir().expect("a directory");
        let says = |server: &mut Word| {
            let home = ServerHome::of(server).expect("answered");
            home.unlike_open(server, dir.path()).expect("answered")
        };
        fs::write(dir.path().join(IDENTITY), "[auto]\nserver-uuid=11-22\n").expect("written");
        let named = || Word { said: Some(NAMED.into()), uuid: Some("11-22".to_owned()), ..Word::default() };
        assert_eq!(says(&mut named()), None);
        let other_uuid = says(&mut Word { uuid: Some("33".to_owned()), ..named() }).expect("another server");
        assert!(other_uuid.contains("has the UUID 11-22, the server 33"), "{other_uuid}");
        let no_log = says(&mut Word { checkpoint: Some(Lsn(9)), ..named() }).expect("no log");
        assert!(no_log.contains("no checkpoint"), "{no_log}");

        let temporary = dir.path().join("temporary");
        fs::create_dir(&temporary).expect("made");
        let writes_to = |place: &Path| Word { temporary: Some(("./temporary".into(), place.to_path_buf())), ..named() };
        let copy = says(&mut writes_to(elsewhere.path())).expect("a copy");
        assert!(copy.contains("works on another copy"), "{copy}");
        assert_eq!(says(&mut writes_to(&temporary)), None);
    }
}
