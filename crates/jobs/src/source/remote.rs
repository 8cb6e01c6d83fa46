//! What jobs ask of storage outside this system's file systems, such as buckets. The clients are in another crate: jobs depend on none.
//!
//! A place there is a path too, spelled as a URL: `s3://bucket/backups/db/t.ibd`. Like a mount, a URL means the same to every job of the
//! process. So there is one [`Remote`] per process, and only `files` asks it. Paths without a scheme never reach it.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flow::SharedEngine;

/// What is known of an object, or of the prefix that several share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMeta {
    /// A prefix, which is walked like a directory.
    pub is_dir: bool,
    /// Length in bytes; 0 for a prefix.
    pub len: u64,
    /// Different for any two objects and prefixes of the process.
    pub number: u64,
}

/// A path whose bytes, listing or existence could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The path.
    pub path: PathBuf,
    /// Why, as a clause.
    pub why: String,
}

/// Storage outside of this system's file systems.
///
/// Every implementation promises:
/// * an object is the same from its listing to the last read: one that was replaced meanwhile fails, and never gives other bytes;
/// * a listing is complete, or it fails;
/// * what failed for good fails again at once, without a request, and is among [`Remote::failures`];
/// * an absent object is `NotFound`, which counts as a failure only if the object was listed;
/// * errors are clauses that say what was tried and, where known, what to do.
pub trait Remote: Send + Sync + Debug {
    /// Whether the path is one of its URLs.
    fn has(&self, path: &Path) -> bool;

    /// Takes a path as the user wrote it and returns its name from now on: the URL without its signature, which the implementation
    /// remembers.
    fn enter(&self, path: PathBuf) -> PathBuf;

    /// The object or prefix that the user named. A prefix is listed with everything below it.
    ///
    /// # Errors
    /// Nothing has that name, or that could not be found out.
    fn named(&self, path: &Path) -> io::Result<RemoteMeta>;

    /// An object or prefix.
    ///
    /// # Errors
    /// Nothing has that name, or that could not be found out.
    fn metadata(&self, path: &Path) -> io::Result<RemoteMeta>;

    /// The objects and prefixes right below a prefix: the last parts of their names. An object and a prefix may share one.
    ///
    /// # Errors
    /// The listing cannot be read, or not to its end.
    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, RemoteMeta)>>;

    /// Reads bytes of an object at `offset`. Returns how many: fewer than asked for only where the object ends.
    ///
    /// # Errors
    /// They cannot be read, after all tries.
    fn read_at(&self, path: &Path, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// An engine for `files`, some of which are objects: those for which [`Remote::has`] holds. The others have an open handle.
    fn engine(&self, files: &[PathBuf]) -> Box<dyn SharedEngine>;

    /// What could not be read so far: objects that are known to exist, named paths, and anything that failed on the way.
    fn failures(&self) -> Vec<Missed>;

    /// Notes for a user who asks for details: requests, retries and their reasons.
    fn notes(&self) -> Vec<String>;
}

static REMOTE: OnceLock<Box<dyn Remote>> = OnceLock::new();

/// Makes the process understand the URLs of `remote`. Called once, before any job; a second call changes nothing.
pub fn install(remote: Box<dyn Remote>) {
    REMOTE.get_or_init(|| remote);
}

/// The schemes of URLs that users may expect to work.
const SCHEMES: [&str; 10] =
    ["s3://", "s3a://", "gs://", "az://", "azure://", "abfs://", "abfss://", "https://", "http://", "hdfs://"];

/// Whether the path is spelled as a URL of object storage.
#[must_use]
pub fn is_url(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    SCHEMES.iter().any(|scheme| text.starts_with(scheme.as_bytes()))
}

/// The storage that has the path; `None` for a path of this system.
///
/// # Errors
/// It is a URL, and nothing here reads such URLs.
pub(super) fn of(path: &Path) -> io::Result<Option<&'static dyn Remote>> {
    if !is_url(path) {
        return Ok(None);
    }
    let unread = match REMOTE.get() {
        Some(remote) if remote.has(path) => return Ok(Some(&**remote)),
        Some(_) => {
            "innokit reads no such URL, but s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY and https://HOST/PATH"
        }
        None => "this is a URL, and this innokit was built without the feature `cloud`, which reads them",
    };
    Err(io::Error::new(io::ErrorKind::Unsupported, unread))
}

/// The name from now on of a path as the user wrote it: without the signature of a URL, which is a secret.
#[must_use]
pub fn entered(path: PathBuf) -> PathBuf {
    match REMOTE.get() {
        Some(remote) if is_url(&path) => remote.enter(path),
        _ => path,
    }
}

/// The storage of this process, if there is one.
pub(super) fn installed() -> Option<&'static dyn Remote> {
    REMOTE.get().map(|remote| &**remote)
}
