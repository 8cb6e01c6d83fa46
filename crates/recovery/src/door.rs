//! The door to files below a directory that came from elsewhere, or that another user can change.
//!
//! Names in manifests, logs, dictionaries, link files and archives are claims by those who made the set, and `mysql` can put a link or a pipe
//! in the place of any file of its datadir while root works there. So a name is opened beneath a handle of the directory, with no link at
//! any of its components (`openat2`), never waits for the other end of a pipe, and must turn out to be a regular file. Owner and mode are
//! set on the handle, because a path may lead elsewhere by then.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use datadir::open::not_regular;
pub(crate) use datadir::open::{open_file, read_file};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, chownat, fchmod, fchown, linkat, mkdirat, openat, openat2,
    renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

/// Files made here hold rows, so no other user may read them until they are given away.
pub(crate) const PRIVATE: u32 = 0o600;

/// Prefix of files in which innokit keeps its own state in a datadir.
const OWN_PREFIXES: [&[u8]; 2] = [b"innokit-recover.", b"innokit-unpack."];
/// Suffixes of files on their way to another name.
const OWN_SUFFIXES: [&[u8]; 3] = [b".innokit-ren", b".innokit-new", b".innokit-aside"];

/// A path beneath a directory: one or more plain names, no `..`, not absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetName(PathBuf);

impl SetName {
    /// `None` for a path that leads elsewhere, or nowhere.
    pub fn parse(path: &Path) -> Option<Self> {
        let path = path.strip_prefix("./").unwrap_or(path);
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let is_some = path.components().next().is_some() && !path.as_os_str().as_bytes().contains(&0);
        (is_plain && is_some).then(|| Self(path.to_path_buf()))
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The directory that it is in, relative; empty at the top. And its own name there.
    fn split(&self) -> (&Path, &OsStr) {
        (self.0.parent().unwrap_or(Path::new("")), self.0.file_name().unwrap_or_default())
    }
}

/// Whether innokit keeps its own state under this name. No set has it, since such a file means something only where it was made.
pub(crate) fn is_own(path: &Path) -> bool {
    is_own_note(path) || path.iter().any(|part| OWN_SUFFIXES.iter().any(|end| part.as_bytes().ends_with(end)))
}

/// Whether innokit keeps notes about a run in this directory under this name.
pub(crate) fn is_own_note(path: &Path) -> bool {
    path.iter().any(|part| OWN_PREFIXES.iter().any(|prefix| part.as_bytes().starts_with(prefix)))
}

/// A directory, and the only way to the files beneath it.
#[derive(Debug)]
pub(crate) struct SetDir {
    dir: OwnedFd,
}

impl SetDir {
    /// Opens a directory that the user named: links on the way to it are the user's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { dir: openat(CWD, path, flags, Mode::empty())? })
    }

    /// Opens a regular file to read it.
    pub fn read(&self, name: &SetName) -> io::Result<File> {
        regular(self.beneath(name.as_path(), OFlags::RDONLY, 0)?.into())
    }

    /// Opens a regular file to read it and to write to it in place. Not one with a second name: that may be anywhere.
    pub fn change(&self, name: &SetName) -> io::Result<File> {
        let file = regular(self.beneath(name.as_path(), OFlags::RDWR, 0)?.into())?;
        let names = file.metadata()?.nlink();
        if names > 1 {
            return Err(io::Error::other(format!(
                "the file has {names} names (hard links), and writing to it would change all of them: copy it first"
            )));
        }
        Ok(file)
    }

    /// Makes a file that does not exist yet.
    pub fn create(&self, name: &SetName, mode: u32) -> io::Result<File> {
        Ok(self.beneath(name.as_path(), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)?.into())
    }

    /// Makes a file in the place of one that an interrupted run may have left. A link there is removed, not followed.
    pub fn replace(&self, name: &SetName) -> io::Result<File> {
        self.remove(name)?;
        self.create(name, PRIVATE)
    }

    /// Renames what is there; a link is renamed itself.
    pub fn rename(&self, from: &SetName, to: &SetName) -> io::Result<()> {
        let ((old_dir, old), (new_dir, new)) = (from.split(), to.split());
        Ok(renameat(self.directory(old_dir)?, old, self.directory(new_dir)?, new)?)
    }

    /// Moves a file beneath another directory of the same file system, where nothing has that name.
    pub fn move_to(&self, from: &SetName, other: &Self, to: &SetName) -> io::Result<()> {
        let ((old_dir, old), (new_dir, new)) = (from.split(), to.split());
        let (old_dir, new_dir) = (self.directory(old_dir)?, other.directory(new_dir)?);
        match renameat_with(&old_dir, old, &new_dir, new, RenameFlags::NOREPLACE) {
            // File systems that do not know the flag. A second name is not made over what is there either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(&old_dir, old, &new_dir, new, AtFlags::empty())?;
                Ok(unlinkat(&old_dir, old, AtFlags::empty())?)
            }
            moved => Ok(moved?),
        }
    }

    /// Removes a file, or a link itself. It is no error if there is none.
    pub fn remove(&self, name: &SetName) -> io::Result<()> {
        let (dir, last) = name.split();
        match self.directory(dir).and_then(|dir| Ok(unlinkat(dir, last, AtFlags::empty())?)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Makes a directory. Its parent exists.
    pub fn make_dir(&self, name: &SetName, mode: u32) -> io::Result<()> {
        let (dir, last) = name.split();
        Ok(mkdirat(self.directory(dir)?, last, Mode::from_raw_mode(mode))?)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, name: &SetName) -> io::Result<()> {
        let (dir, last) = name.split();
        Ok(unlinkat(self.directory(dir)?, last, AtFlags::REMOVEDIR)?)
    }

    /// Sets the owner of the directory itself.
    pub fn give_itself(&self, uid: u32, gid: u32) -> io::Result<()> {
        Ok(fchown(&self.dir, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }

    /// Sets the owner of what is there; of a link itself.
    pub fn set_owner(&self, name: &SetName, uid: u32, gid: u32) -> io::Result<()> {
        let (dir, last) = name.split();
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        // `fchownat` of a name that is a link changes the link.
        Ok(chownat(self.directory(dir)?, last, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Opens a directory.
    pub fn open_dir(&self, name: &SetName) -> io::Result<File> {
        Ok(self.directory(name.as_path())?.into())
    }

    /// Makes the entries of the directory that a name is in durable.
    pub fn sync_directory_of(&self, name: &SetName) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.directory(name.split().0)?)?)
    }

    /// A directory beneath this one.
    fn directory(&self, dir: &Path) -> io::Result<OwnedFd> {
        if dir.as_os_str().is_empty() {
            return self.dir.try_clone();
        }
        self.beneath(dir, OFlags::RDONLY | OFlags::DIRECTORY, 0)
    }

    fn beneath(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        #[cfg(debug_assertions)]
        if std::env::var_os(OPEN_DOOR).is_some() {
            return left_open(self.dir.as_fd(), path, flags, mode);
        }
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        // `openat2` refuses a mode where nothing is made.
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(mode) } else { Mode::empty() };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.dir, path, flags, mode, resolve) {
            // Kernels before 5.6, and containers whose filter does not know the call and answers with one or the other.
            Err(Errno::NOSYS | Errno::PERM) => step_by_step(self.dir.as_fd(), path, flags, mode),
            other => other.map_err(|error| named(link_or(&self.dir, path.as_os_str(), error))),
        }
    }
}

/// For tests of the second wall: with this in the environment, a debug build follows whatever a name leads to.
#[cfg(debug_assertions)]
const OPEN_DOOR: &str = "INNOKIT_DEBUG_OPEN_DOOR";

#[cfg(debug_assertions)]
fn left_open(dir: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(mode) } else { Mode::empty() };
    Ok(openat(dir, path, flags | OFlags::CLOEXEC, mode)?)
}

/// What to call when the directory that a command writes to is there.
static MADE: OnceLock<fn()> = OnceLock::new();

/// Sets what `target_made` calls. The first call counts.
pub fn on_target_made(call: fn()) {
    MADE.set(call).ok();
}

/// Says that the directory that the command writes to is there, before anything is written in it.
pub(crate) fn target_made() {
    if let Some(call) = MADE.get() {
        call();
    }
}

/// Opens component by component: each directory on the way is held open, and none of them is a link.
fn step_by_step(dir: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mut parts: Vec<&OsStr> = path.iter().collect();
    let Some(last) = parts.pop() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut held = dir.try_clone_to_owned()?;
    for part in parts {
        let way = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        held = openat(&held, part, way, Mode::empty()).map_err(|error| named(link_or(&held, part, error)))?;
    }
    openat(&held, last, flags, mode).map_err(|error| named(link_or(&held, last, error)))
}

/// Opening a link as a directory is ENOTDIR, not ELOOP.
fn link_or(dir: &OwnedFd, name: &OsStr, error: Errno) -> Errno {
    let mut target = Vec::with_capacity(1);
    let is_link = error == Errno::NOTDIR && rustix::fs::readlinkat(dir, name, std::mem::take(&mut target)).is_ok();
    if is_link { Errno::LOOP } else { error }
}

/// The system's words for these are about anything but a set.
fn named(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => io::Error::new(LINK, Link),
        Errno::NXIO | Errno::NODEV => not_regular(),
        other => other.into(),
    }
}

/// The kind of the error for a link. `FilesystemLoop` is not stable yet.
const LINK: io::ErrorKind = io::ErrorKind::InvalidInput;

#[derive(Debug, thiserror::Error)]
#[error("a symbolic link, which is not followed here")]
struct Link;

/// Whether a file was not opened because its name, or a directory on the way to it, is a link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Link>())
}

/// Whether a file was not opened because of what it is, or of what its link leads to.
pub(crate) fn is_odd(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none()
}

/// Opens a file of innokit's own, in a directory that the user named: for reading and writing, not through a link and without waiting.
pub(crate) fn open_own(path: &Path, is_new: bool) -> io::Result<File> {
    let new = if is_new { OFlags::CREATE | OFlags::EXCL } else { OFlags::empty() };
    own(path, OFlags::RDWR | new)
}

/// Opens such a file to append to it. It is made if there is none.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    own(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
}

fn own(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    regular(openat(CWD, path, flags, Mode::from_raw_mode(PRIVATE)).map_err(named)?.into())
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Opens a regular file to lock it, as servers do, without waiting. Writing is needed only for the lock.
pub(crate) fn open_to_lock(path: &Path, for_writing: bool) -> io::Result<File> {
    let access = if for_writing { OFlags::RDWR } else { OFlags::RDONLY };
    regular(openat(CWD, path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Gives what is open the owner and mode of another. Only root can give files away; any other user keeps the file.
pub(crate) fn give(made: &File, like: &Metadata) -> io::Result<()> {
    let own = made.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        match fchown(made, Some(Uid::from_raw(like.uid())), Some(Gid::from_raw(like.gid()))) {
            Err(Errno::PERM) => {}
            other => other?,
        }
    }
    Ok(fchmod(made, Mode::from_raw_mode(like.permissions().mode() & 0o7777))?)
}

/// Opens a file or a directory by path, to give it away: not through a link, and without waiting.
pub(crate) fn open_made(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty()).map_err(named)?))
}

/// The name, or the error for one that leads elsewhere.
pub(crate) fn plain(name: &Path) -> io::Result<SetName> {
    let leads_out = || io::Error::new(io::ErrorKind::InvalidInput, "the name leads out of the directory");
    SetName::parse(name).ok_or_else(leads_out)
}

/// [`SetDir::read`] of one file.
pub(crate) fn read(dir: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    SetDir::open(dir)?.read(&plain(name.as_ref())?)
}

/// Opens a file of a set to copy it. Servers follow links in their datadir, so a link is followed, but only to what the datadir's owner may
/// read anyway: a copy is given away like the rest, and `mysql` can make a link to any file of root's.
pub(crate) fn source(dir: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    let name = name.as_ref();
    let opened = read(dir, name);
    if !opened.as_ref().is_err_and(is_link) {
        return opened;
    }
    let file = regular(open_file(dir.join(name))?)?;
    let (target, owner) = (file.metadata()?, dir.metadata()?.uid());
    let is_everyones = target.mode() & 0o004 != 0;
    if is_everyones || (target.uid() == owner && owner != 0) {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "a link to a file that the owner of the datadir cannot be expected to read: what it leads to is not copied; put the file itself in \
         its place, or remove the link",
    ))
}

/// [`SetDir::change`] of one file.
pub(crate) fn change(dir: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    SetDir::open(dir)?.change(&plain(name.as_ref())?)
}

/// [`SetDir::create`] of one file.
pub(crate) fn create(dir: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    SetDir::open(dir)?.create(&plain(name.as_ref())?, PRIVATE)
}

/// [`SetDir::replace`] of one file.
pub(crate) fn replace(dir: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    SetDir::open(dir)?.replace(&plain(name.as_ref())?)
}

/// [`SetDir::rename`] of one file.
pub(crate) fn rename(dir: &Path, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    SetDir::open(dir)?.rename(&plain(from.as_ref())?, &plain(to.as_ref())?)
}

/// [`SetDir::remove`] of one file.
pub(crate) fn remove(dir: &Path, name: impl AsRef<Path>) -> io::Result<()> {
    SetDir::open(dir)?.remove(&plain(name.as_ref())?)
}

/// [`SetDir::remove_dir`] of one directory.
pub(crate) fn remove_dir(dir: &Path, name: impl AsRef<Path>) -> io::Result<()> {
    SetDir::open(dir)?.remove_dir(&plain(name.as_ref())?)
}

/// [`SetDir::make_dir`] of one directory.
pub(crate) fn make_dir(dir: &Path, name: impl AsRef<Path>) -> io::Result<()> {
    SetDir::open(dir)?.make_dir(&plain(name.as_ref())?, PRIVATE | 0o100)
}

/// [`SetDir::open_dir`] of one directory.
pub(crate) fn open_dir(dir: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    SetDir::open(dir)?.open_dir(&plain(name.as_ref())?)
}

/// Makes the directories above a name that are missing, like their directory, durably.
pub(crate) fn make_parents(dir: &Path, name: impl AsRef<Path>) -> io::Result<()> {
    let (at, like) = (SetDir::open(dir)?, dir.metadata()?);
    let above: Vec<&Path> = name.as_ref().ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
    for above in above.into_iter().rev() {
        let above = plain(above)?;
        match at.make_dir(&above, PRIVATE | 0o100) {
            // What is there must be a directory, and no link, when a file is opened in it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        give(&File::from(at.directory(above.as_path())?), &like)?;
        at.sync_directory_of(&above)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn name(path: &str) -> SetName {
        SetName::parse(Path::new(path)).expect("a plain name")
    }

    /// A set beside a victim, with links and a pipe that lead there.
    fn hostile() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let (set, victim) = (dir.path().join("set"), dir.path().join("victim"));
        fs::create_dir_all(set.join("db")).and_then(|()| fs::create_dir(&victim)).expect("made");
        fs::write(victim.join("t"), "secret").expect("written");
        symlink(&victim, set.join("linked")).expect("linked");
        symlink(victim.join("t"), set.join("db/t")).expect("linked");
        symlink(victim.join("new"), set.join("db/dangling")).expect("linked");
        rustix::fs::mknodat(CWD, set.join("pipe"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .expect("a pipe");
        (dir, set, victim)
    }

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for path in ["", ".", "..", "../a", "a/../b", "/a", "a\0b"] {
            assert_eq!(SetName::parse(Path::new(path)), None, "{path:?}");
        }
        assert_eq!(name("./db/t.ibd"), name("db/t.ibd"));
        assert!(is_own(Path::new("innokit-recover.shadow")) && is_own(Path::new("db/t.ibd.innokit-ren")));
        assert!(!is_own(Path::new("innokit.manifest.json")) && !is_own(Path::new("db/innokit.ibd")));
    }

    #[test]
    fn no_link_is_followed_and_no_pipe_waited_for() {
        let (_dir, set, victim) = hostile();
        let at = SetDir::open(&set).expect("a directory");
        for path in ["db/t", "linked/t", "db/dangling"] {
            for opened in [at.read(&name(path)), at.change(&name(path))] {
                let error = opened.expect_err(path);
                assert!(is_link(&error), "{path}: {error}");
            }
        }
        at.create(&name("linked/new"), PRIVATE).expect_err("a linked directory");
        at.make_dir(&name("linked/new"), 0o700).expect_err("a linked directory");
        at.remove(&name("linked/t")).expect_err("a linked directory");
        at.rename(&name("db/t"), &name("linked/u")).expect_err("a linked directory");
        for opened in [at.read(&name("pipe")), at.change(&name("pipe")), open_file(set.join("pipe"))] {
            assert_eq!(opened.expect_err("a pipe").to_string(), "not a regular file");
        }
        at.replace(&name("db/t"))
            .and_then(|file| fs::write(victim.join("x"), "").and(file.sync_all()))
            .expect("replaced");
        at.replace(&name("db/dangling")).expect("replaced");
        at.replace(&name("pipe")).expect("replaced");
        assert!(!victim.join("new").exists() && fs::read(victim.join("t")).expect("there") == b"secret");
        fs::hard_link(victim.join("t"), set.join("db/hard")).expect("linked");
        assert!(at.change(&name("db/hard")).is_err_and(|error| error.to_string().contains("2 names")));
    }

    #[test]
    fn without_openat2_the_answers_are_the_same() {
        let (_dir, set, _) = hostile();
        let at = SetDir::open(&set).expect("a directory");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let step = |path: &str| step_by_step(at.dir.as_fd(), Path::new(path), flags, Mode::empty());
        for path in ["db/t", "linked/t"] {
            assert!(is_link(&step(path).expect_err(path)), "{path}");
        }
        fs::write(set.join("db/u"), "u").expect("written");
        step("db/u").expect("a file");
    }

    #[test]
    fn a_link_is_not_given_away() {
        let (_dir, set, victim) = hostile();
        let before = fs::metadata(victim.join("t")).expect("there");
        open_made(&set.join("db/t")).expect_err("a link");
        let made = SetDir::open(&set).and_then(|at| at.create(&name("db/made"), PRIVATE)).expect("made");
        give(&made, &before).expect("given");
        assert_eq!(fs::metadata(set.join("db/made")).expect("there").mode(), before.mode());
    }
}
