//! The taxonomy of errors, for every job: the bytes are wrong, the environment failed, or the options do not fit.
//!
//! | fault | examples | exit status |
//! |---|---|---|
//! | [`Fault::Bytes`] | a checksum, a rule of trees, a missing page, a manifest that says otherwise | 1 |
//! | [`Fault::Environment`] | a file that cannot be opened, read or listed; no descriptors, memory, threads; the network | 2 |
//! | [`Fault::Usage`] | options that contradict each other, a directory that is not empty, a key that is missing | 2 |
//!
//! Jobs pass over much that they can do without: a file beside a table, a folder above it. If such a file is absent, the answer is the same
//! as if it had never been there. If it cannot be read, the answer is unknown. So everything that reads files tells this module what the
//! system refused (`note`), and each job asks at its end (`noted`): no verdict is sound, and none is damage, about a file with a fault
//! of the environment. What may succeed a moment later is tried again first (`again`).
//!
//! The notes belong to the [`Job`] that the thread works for, so jobs that overlap in one process do not make each other undecided.

use std::any::Any;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use flow::Job;
use rustix::io::Errno;

use crate::Outcome;

/// What kind of error stopped the work, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Bytes are not what the server wrote.
    Bytes,
    /// The system or the network did not give the bytes, memory or threads: nothing is known about the bytes.
    Environment,
    /// The files or options do not allow what was asked.
    Usage,
}

impl Fault {
    /// The exit status of a command that ends with it.
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Bytes => Outcome::Damage.exit_status(),
            Self::Environment | Self::Usage => Outcome::Undecided.exit_status(),
        }
    }
}

/// A path whose bytes, listing or existence could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The path.
    pub path: PathBuf,
    /// Why, as a clause.
    pub why: String,
    /// The same as a kind: `NotFound`, `PermissionDenied`, `TimedOut` if there was no useful answer, `StaleNetworkFileHandle` if another
    /// object has taken the name.
    pub kind: io::ErrorKind,
}

/// The system's message without its error number: "Permission denied".
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().map(str::to_owned).unwrap_or(text)
}

/// Tries after the first, and the pause before each: together less than a tenth of a second.
const TRIES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(2), Duration::from_millis(10), Duration::from_millis(50)];
/// Entries kept. One makes the run undecided, so a device that fails everywhere needs no more.
const NOTED_MAX: usize = 1000;

/// Does something that the system may refuse only for now: an interrupted call, a handle of a network file system that became stale, no
/// descriptor until another thread closes one.
pub fn again<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut done = act();
    for pause in TRIES {
        match &done {
            Err(error) if is_for_now(error) => std::thread::sleep(pause),
            _ => break,
        }
        done = act();
    }
    done
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::INTR | Errno::AGAIN | Errno::STALE | Errno::MFILE | Errno::NFILE))
}

/// The system's error, also if others wrap it.
fn errno(error: &io::Error) -> Option<Errno> {
    if let Some(errno) = Errno::from_io_error(error) {
        return Some(errno);
    }
    let mut inner: Option<&(dyn Error + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(error) = inner {
        let shared = error.downcast_ref::<Arc<io::Error>>().map(AsRef::as_ref);
        if let Some(found) = error.downcast_ref::<io::Error>().or(shared).and_then(errno) {
            return Some(found);
        }
        inner = error.source();
    }
    None
}

/// Whether the system refused to read, so that nothing is known of the bytes. Not for a file that is absent or of another kind than
/// expected, and not for what a parser made an [`io::Error`].
pub fn is_environment(error: &io::Error) -> bool {
    const ABOUT_THE_FILE: [Errno; 8] = [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::NXIO,
        Errno::INVAL,
        Errno::EXIST,
        Errno::NAMETOOLONG,
        Errno::PIPE,
    ];
    match errno(error) {
        Some(errno) => !ABOUT_THE_FILE.contains(&errno),
        None => error.kind() == io::ErrorKind::OutOfMemory,
    }
}

/// Whether a device cannot read the bytes, while the rest of the file may be readable.
pub(crate) fn is_of_medium(error: &io::Error) -> bool {
    errno(error) == Some(Errno::IO)
}

#[derive(Debug)]
struct Noted {
    missed: Missed,
    /// Other bytes of the file are readable.
    is_part: bool,
}

/// What a job keeps.
#[derive(Default)]
struct Kept {
    noted: Mutex<Vec<Noted>>,
    /// What stands between the job and its files (`remote::look_through`). Its type is erased: this file must not know it.
    between: OnceLock<Box<dyn Any + Send + Sync>>,
}

fn with_kept<T>(act: impl FnOnce(&Kept) -> T) -> T {
    let job = Job::here();
    match job.kept::<Kept>() {
        Some(kept) => act(kept),
        None => unreachable!("jobs keep nothing else"),
    }
}

/// Does something with what this thread's job has noted.
fn with_list<T>(act: impl FnOnce(&mut Vec<Noted>) -> T) -> T {
    with_kept(|kept| act(&mut kept.noted.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Has this thread's job keep what stands between it and its files, unless it keeps one already. Whether it does now.
pub(crate) fn put_between<T: Any + Send + Sync>(value: T) -> bool {
    with_kept(|kept| kept.between.set(Box::new(value)).is_ok())
}

/// What stands between this thread's job and its files.
pub(crate) fn between<T: Any + Clone>() -> Option<T> {
    with_kept(|kept| kept.between.get()?.downcast_ref::<T>().cloned())
}

fn keep(path: &Path, error: &io::Error, why: String, is_part: bool) {
    with_list(|list| {
        if list.len() < NOTED_MAX && !list.iter().any(|noted| noted.missed.path == path && noted.is_part == is_part) {
            let missed = Missed { path: path.to_path_buf(), why, kind: error.kind() };
            list.push(Noted { missed, is_part });
        }
    });
}

/// Notes that the system refused something about a file or directory, if it did.
pub fn note(path: &Path, error: &io::Error) {
    if is_environment(error) {
        keep(path, error, plain(error), false);
    }
}

/// Passes a result on, and notes an error.
pub fn noting<T>(path: &Path, done: io::Result<T>) -> io::Result<T> {
    done.inspect_err(|error| note(path, error))
}

/// Passes the result of a read on, and notes an error. If the device failed, other bytes may be readable.
pub(crate) fn noting_read<T>(path: &Path, done: io::Result<T>) -> io::Result<T> {
    done.inspect_err(|error| {
        if is_environment(error) {
            keep(path, error, plain(error), is_of_medium(error));
        }
    })
}

/// Notes that a page cannot be read. Returns the words for it.
pub fn note_page(path: &Path, page_no: u32, error: &io::Error) -> String {
    let why = format!("page {page_no} cannot be read: {}", plain(error));
    if is_environment(error) {
        keep(path, error, why.clone(), is_of_medium(error));
    }
    why
}

/// What could not be read as a whole.
pub fn noted() -> Vec<Missed> {
    of_kind(|noted| !noted.is_part)
}

/// Files of which a device could not read some bytes.
pub fn noted_parts() -> Vec<Missed> {
    of_kind(|noted| noted.is_part)
}

fn of_kind(is_wanted: impl Fn(&Noted) -> bool) -> Vec<Missed> {
    with_list(|list| list.iter().filter(|noted| is_wanted(noted)).map(|noted| noted.missed.clone()).collect())
}

/// Whether some bytes of the file could not be read: what was found in it may only be a consequence.
pub fn is_unread(path: &Path) -> bool {
    with_list(|list| list.iter().any(|noted| noted.missed.path == path))
}

/// What could not be read of the file as a whole.
pub fn of_file(path: &Path) -> Option<Missed> {
    let is_it = |noted: &&Noted| !noted.is_part && noted.missed.path == path;
    with_list(|list| list.iter().find(is_it).map(|noted| noted.missed.clone()))
}

/// Whether anything of the datadir that holds this path, in one of its folders, could not be read: that may explain what is missing.
pub(crate) fn is_any_near(path: &Path) -> bool {
    let datadir = path.ancestors().take(3).last().unwrap_or(path);
    with_list(|list| list.iter().any(|noted| noted.missed.path.starts_with(datadir)))
}

/// Everything that could not be read, one sentence each.
#[must_use]
pub fn unread() -> Vec<String> {
    let sentence = |noted: &Noted| format!("{} cannot be read: {}", noted.missed.path.display(), noted.missed.why);
    with_list(|list| list.iter().map(sentence).collect())
}

/// Fails if the system refused anything that the job asked: what it took for absent may be there.
pub fn refuse_unread() -> Result<(), crate::Error> {
    let first = with_list(|list| list.first().map(|noted| noted.missed.clone()));
    first.map_or(Ok(()), |Missed { path, why, .. }| {
        Err(crate::Error::Unusable { path, why: format!("cannot be read: {why}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(errno: Errno) -> io::Error {
        errno.into()
    }

    #[test]
    fn an_absent_file_and_a_parsers_error_say_something_about_the_bytes() {
        for errno in [
            Errno::IO,
            Errno::ACCESS,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::AGAIN,
            Errno::STALE,
            Errno::LOOP,
        ] {
            assert!(is_environment(&system(errno)), "{errno:?}");
            assert!(is_environment(&io::Error::other(Arc::new(system(errno)))), "{errno:?}, wrapped");
        }
        for error in [
            system(Errno::NOENT),
            system(Errno::ISDIR),
            io::ErrorKind::UnexpectedEof.into(),
            io::Error::other("no page"),
        ] {
            assert!(!is_environment(&error), "{error}");
        }
    }

    #[test]
    fn what_may_succeed_later_is_tried_again_and_nothing_else() {
        let mut tries = 0;
        let mut fails = |errno: Errno, times: u32| {
            tries = 0;
            let done = again(|| {
                tries += 1;
                if tries <= times { Err(system(errno)) } else { Ok(()) }
            });
            (done.is_ok(), tries)
        };
        for errno in [Errno::INTR, Errno::AGAIN, Errno::STALE, Errno::MFILE] {
            assert_eq!(fails(errno, 2), (true, 3), "{errno:?}");
        }
        assert_eq!(fails(Errno::MFILE, 99), (false, 5));
        assert_eq!(fails(Errno::IO, 1), (false, 1));
    }

    #[test]
    fn a_page_that_a_device_cannot_read_leaves_the_rest_of_the_file() {
        let (bad, closed) = (Path::new("fault/bad.ibd"), Path::new("fault/closed.ibd"));
        assert_eq!(note_page(bad, 7, &system(Errno::IO)), "page 7 cannot be read: Input/output error");
        note(closed, &system(Errno::ACCESS));
        note(Path::new("fault/absent.ibd"), &system(Errno::NOENT));
        assert!(is_unread(bad) && of_file(bad).is_none(), "its other pages are judged");
        assert_eq!(of_file(closed).expect("noted").why, "Permission denied");
        assert!(!is_unread(Path::new("fault/absent.ibd")));
    }

    #[test]
    fn what_one_job_could_not_read_is_nothing_to_another() {
        let path = Path::new("fault/shared.ibd");
        note(path, &system(Errno::ACCESS));
        flow::run_workers(2, |_| assert!(is_unread(path), "the job's own threads know"));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!is_unread(path) && unread().is_empty()));
        });
        let next = Job::default().enter();
        assert!(!is_unread(path), "nor to the next job of the same thread");
        drop(next);
        assert!(is_unread(path));
    }
}
