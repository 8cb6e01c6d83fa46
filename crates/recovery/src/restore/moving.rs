//! A backup's directory that becomes the datadir by one rename: at any moment there is either the backup or the whole datadir.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::{Result, failed, refused};
use crate::recover::{RecoverError, is_free, make_directories, make_like, occupied, walk_datadir};
use datadir::fault;
use datadir::files::AskPath;

/// Suffix of an empty directory beside the backup, which is renamed to see whether the backup itself can be.
const PROBE: &str = ".innokit-move";

/// A backup, and the datadir that it is to become. Dropped before that, it leaves both names as they were.
#[derive(Debug)]
pub(super) struct Moving {
    set: PathBuf,
    to: PathBuf,
    /// Owner and mode of the datadir's empty directory. `None` if it was missing.
    like: Option<Metadata>,
}

impl Moving {
    /// Makes the datadir's directory. Fails if the backup cannot take its place, which must be known before the backup is changed.
    pub fn of(backup: &Path, to: &Path) -> Result<Self> {
        // Links to the two directories stay: what they lead to is renamed.
        let set = fs::canonicalize(backup).map_err(failed(backup, "looking for the backup"))?;
        if !set.is_folder_there() {
            return refused(format!("{}: only a directory can become the datadir (--move)", backup.display()));
        }
        if !is_free(to) {
            return Err(occupied(to).into());
        }
        refuse_unmovable(&set)?;
        let like = fs::metadata(to).ok();
        make_directories(&std::path::absolute(to).map_err(failed(to, "making the directory"))?, &set)?;
        let to = fs::canonicalize(to).map_err(failed(to, "looking for the datadir"))?;
        let moving = Self { set, to, like };
        if moving.to.starts_with(&moving.set) {
            return refused(format!("{}: the datadir cannot be inside the backup", moving.to.display()));
        }
        moving.probe()?;
        Ok(moving)
    }

    /// The backup's directory.
    pub fn set(&self) -> &Path {
        &self.set
    }

    /// Renames an empty directory as the backup will be renamed: only the system knows for sure whether it can be.
    fn probe(&self) -> Result<()> {
        let mut probe = OsString::from(&self.set);
        probe.push(PROBE);
        let probe = Path::new(&probe);
        // A killed run may have left it.
        fs::remove_dir(probe).ok();
        fs::create_dir(probe).map_err(failed(probe, "making a directory"))?;
        self.like.as_ref().map_or(Ok(()), |like| make_like(probe, like))?;
        fs::rename(probe, &self.to).or_else(|error| {
            fs::remove_dir(probe).ok();
            let (set, to) = (self.set.display(), self.to.display());
            refused(format!("{set} cannot be renamed to {to} ({error}): leave out --move to copy it"))
        })
    }

    /// Gives the backup the owner and mode of the empty directory that it replaces.
    pub fn make_like_target(&self) -> Result<()> {
        Ok(self.like.as_ref().map_or(Ok(()), |like| make_like(&self.set, like))?)
    }

    /// Gives the recovered backup the name of the datadir. Not if something was left unread: the same call then goes on.
    pub fn finish(self) -> Result<()> {
        fault::refuse_unread()?;
        fs::rename(&self.set, &self.to).or_else(|error| {
            let (set, to) = (self.set.display(), self.to.display());
            refused(format!(
                "{set} is a datadir now, but cannot be renamed to {to} ({error}): rename it yourself, or start the server where it is"
            ))
        })
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        if self.like.is_none() {
            // Fails if the datadir is there, because that is not empty.
            fs::remove_dir(&self.to).ok();
        }
    }
}

/// Fails if a rename would not move all of the backup, or not move it at all.
fn refuse_unmovable(set: &Path) -> Result<()> {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).map_err(failed(path, "looking at it"));
    let parent = set.parent().map(device).transpose()?;
    if parent != Some(device(set)?) {
        return refused(format!("{}: a mount point cannot be renamed: leave out --move to copy it", set.display()));
    }
    walk_datadir(set, &mut |name, _| {
        let path = set.join(name);
        let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
        let why =
            || format!("{}: a link may lead elsewhere once it is moved: leave out --move to copy it", path.display());
        if is_link { Err(RecoverError::Refused(why())) } else { Ok(()) }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let (set, to) = (dir.path().join("set"), dir.path().join("data"));
        fs::create_dir_all(set.join("db")).expect("made");
        fs::write(set.join("db/t.ibd"), "t").expect("written");
        (dir, set, to)
    }

    /// The names in a directory.
    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(dir).expect("read").map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_backup_gets_another_name_or_keeps_its_own() {
        let (dir, set, to) = set();
        drop(Moving::of(&set, &to).expect("possible"));
        assert_eq!(names(dir.path()), ["set"]);
        Moving::of(&set, &to).and_then(Moving::finish).expect("moved");
        assert_eq!((names(dir.path()), names(&to)), (vec!["data".into()], vec!["db".into()]));
    }

    #[test]
    fn the_mode_is_that_of_the_directory_that_was_there() {
        let (dir, set, to) = set();
        fs::create_dir(&to).expect("made");
        fs::set_permissions(&to, fs::Permissions::from_mode(0o711)).expect("a mode");
        let mode = || fs::metadata(&to).expect("is there").permissions().mode() & 0o777;
        drop(Moving::of(&set, &to).expect("possible"));
        assert_eq!((names(dir.path()), mode()), (vec!["data".into(), "set".into()], 0o711));
        let moving = Moving::of(&set, &to).expect("possible");
        moving.make_like_target().and_then(|()| moving.finish()).expect("moved");
        assert_eq!((names(&to), mode()), (vec!["db".into()], 0o711));
    }

    #[test]
    fn what_cannot_be_moved_is_refused_and_left_as_it_is() {
        let (dir, set, to) = set();
        let refused = |set: &Path, to: &Path, why: &str| {
            let error = Moving::of(set, to).map(drop).expect_err("refused").to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(&set.join("db/t.ibd"), &to, "only a directory");
        refused(&set, dir.path(), "not empty");
        refused(&set, &set.join("data"), "inside the backup");
        refused(Path::new("/proc"), &to, "a mount point");
        // Another file system: memory, or that of this program if the tests' own folders are in memory.
        let of_program = std::env::current_exe().expect("has a path");
        let device = |path: &Path| fs::metadata(path).map(|meta| std::os::unix::fs::MetadataExt::dev(&meta)).ok();
        let places = [Path::new("/dev/shm"), of_program.parent().expect("a folder")];
        let elsewhere = places.into_iter().find(|place| place.is_dir() && device(place) != device(&set));
        if let Some(place) = elsewhere {
            let other = tempfile::tempdir_in(place).expect("a directory");
            refused(&set, &other.path().join("data"), "leave out --move");
            assert!(names(other.path()).is_empty());
        }
        symlink("t.ibd", set.join("db/link")).expect("linked");
        refused(&set, &to, "db/link: a link");
        assert_eq!((names(dir.path()), names(&set)), (vec!["set".into()], vec!["db".into()]));
    }

    #[test]
    fn a_link_to_the_backup_or_to_the_datadir_stays() {
        let (dir, set, to) = set();
        fs::create_dir(&to).expect("made");
        let (link, other) = (dir.path().join("link"), dir.path().join("other"));
        symlink(&set, &link).and_then(|()| symlink(&to, &other)).expect("linked");
        Moving::of(&link, &other).and_then(Moving::finish).expect("moved");
        assert_eq!(
            (names(dir.path()), names(&to)),
            (vec!["data".into(), "link".into(), "other".into()], vec!["db".into()])
        );
    }
}
