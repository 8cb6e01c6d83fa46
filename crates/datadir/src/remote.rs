//! What jobs ask of storage outside this system's file systems, such as buckets. The clients are in another crate: jobs depend on none.
//!
//! A place there is a path too, spelled as a URL: `s3://bucket/backups/db/t.ibd`. Like a mount, a URL means the same to every job of the
//! process. So there is one [`Remote`] per process, and only `files` asks it. Paths without a scheme never reach it.
//!
//! An object may be replaced at any time, and a process may live for weeks. What has been seen of a bucket is therefore kept for as long as
//! somebody [visits](visit) it, and no longer: the next visit lists it again. What is read after the visit, such as the rows of an open
//! table, is read by the [object](RemoteObject) that was found then, and not by its name.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use flow::{InJob, Job, SharedEngine};
use serde::{Deserialize, Serialize};

use super::files;
pub use crate::fault::Missed;
use crate::{Error, fault};

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

/// Which bytes an object has. No field but the length is certain: servers differ in what they tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteVersion {
    /// Length in bytes.
    pub len: u64,
    /// The server's name for these bytes, if it has given one.
    pub e_tag: Option<String>,
    /// When it was stored: seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
}

/// An object as it was when it was found. Another object may have its name by now: reading this one then fails.
pub trait RemoteObject: Any + Send + Sync + Debug {
    /// What it is.
    fn meta(&self) -> RemoteMeta;

    /// Which bytes it has.
    fn version(&self) -> RemoteVersion;

    /// Why it cannot be read any more, if that has turned out.
    fn failure(&self) -> Option<Missed>;
}

/// How to reach a bucket, by the names that its clients have: `access_key_id`, `endpoint_url`. What is not among them comes from the environment.
pub type StorageOptions = BTreeMap<String, String>;

/// A file of a set.
#[derive(Debug)]
pub enum SetFile {
    /// On this system: it comes with an open handle.
    Here,
    /// An object.
    There(Arc<dyn RemoteObject>),
    /// An object that could not be found when the set was made.
    Gone(io::Error),
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

    /// The object that has the path now.
    ///
    /// # Errors
    /// Nothing has that name, or that could not be found out.
    fn hold(&self, path: &Path) -> io::Result<Arc<dyn RemoteObject>>;

    /// Takes the path for the object that `version` says, without asking. Whether it still is that one shows when it is read.
    ///
    /// # Errors
    /// The path is known to be another object.
    fn expect(&self, path: &Path, version: &RemoteVersion) -> io::Result<()>;

    /// Reads bytes of an object at `offset`. Returns how many: fewer than asked for only where the object ends.
    ///
    /// # Errors
    /// They cannot be read, after all tries.
    fn read_at(&self, object: &Arc<dyn RemoteObject>, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// An engine for the files of a set, by their places in it.
    fn engine(&self, files: Vec<SetFile>) -> Box<dyn SharedEngine>;

    /// Whether the storage of this path takes these options.
    ///
    /// # Errors
    /// It has no such option, as a sentence without the values: they may be secrets.
    fn takes(&self, path: &Path, options: &StorageOptions) -> Result<(), String>;

    /// Keeps what is seen of the buckets of these paths until [`Remote::leave`]. What was seen of a bucket that nobody is visiting is
    /// forgotten first, its failures included. Waits for the end of visits to them with other options: what one may see, another may not.
    fn visit(&self, paths: &[PathBuf], options: &StorageOptions);

    /// Ends a visit.
    fn leave(&self, paths: &[PathBuf]);

    /// What could not be read of the buckets that are being visited: objects that are known to exist, named paths, and anything that failed
    /// on the way.
    fn failures(&self) -> Vec<Missed>;

    /// Notes for a user who asks for details: requests, retries and their reasons.
    fn notes(&self) -> Vec<String>;
}

static REMOTE: OnceLock<Arc<dyn Remote>> = OnceLock::new();

/// Makes the process understand the URLs of `remote`. Called once, before any job; a second call changes nothing.
pub fn install(remote: Box<dyn Remote>) {
    REMOTE.get_or_init(|| remote.into());
}

/// Shows the files that `view` has as it has them, to all reads of this thread's job from now on. Its paths are those of this system: a file
/// that it does not have is read as it lies. A job looks through one view only: `false` if it does so already, and nothing has changed.
#[must_use]
pub fn look_through(view: Arc<dyn Remote>) -> bool {
    fault::put_between(view)
}

/// The view that this thread's job looks through.
#[must_use]
pub fn view() -> Option<Arc<dyn Remote>> {
    fault::between()
}

/// The view that has the path.
pub(crate) fn view_of(path: &Path) -> Option<Arc<dyn Remote>> {
    view().filter(|view| view.has(path))
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

/// The storage that has the path, or the view; `None` for a file of this system that is read as it lies.
///
/// # Errors
/// It is a URL, and nothing here reads such URLs.
pub fn of(path: &Path) -> io::Result<Option<Arc<dyn Remote>>> {
    if !is_url(path) {
        return Ok(view_of(path));
    }
    let unread = match REMOTE.get() {
        Some(remote) if remote.has(path) => return Ok(Some(Arc::clone(remote))),
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

/// Makes sure that something has the path, and lists a prefix.
///
/// # Errors
/// It is a URL, and nothing has that name or it could not be found out.
pub fn find(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Io { path: path.to_path_buf(), action: "looking for it", source };
    let remote = of(path).map_err(failed)?;
    remote.map_or(Ok(()), |remote| remote.named(path).map(drop).map_err(failed))
}

/// Takes a URL for the object that `version` says.
///
/// # Errors
/// It is known to be another object, or nothing here reads such URLs.
pub fn expect(path: &Path, version: &RemoteVersion) -> Result<(), Error> {
    let failed = |source| Error::Io { path: path.to_path_buf(), action: "opening it", source };
    let remote = of(path).map_err(failed)?;
    remote.map_or(Ok(()), |remote| remote.expect(path, version).map_err(failed))
}

/// Whether the storages of these paths take these options.
///
/// # Errors
/// One does not, or there are options for local paths.
pub fn take(paths: &[PathBuf], options: &StorageOptions) -> Result<(), Error> {
    if options.is_empty() {
        return Ok(());
    }
    for path in paths {
        let refused = |why: String| Error::Usage(format!("{}: {why}", path.display()));
        match of(path).map_err(|error| refused(error.to_string()))? {
            Some(remote) => remote.takes(path, options).map_err(refused)?,
            None => return Err(refused("storage options are for URLs only".to_owned())),
        }
    }
    Ok(())
}

/// What could not be read of these paths themselves, whatever is beside or below them. Asked while they are visited.
#[must_use]
pub fn missed(paths: &[PathBuf]) -> Option<Missed> {
    let all = [installed(), view()].into_iter().flatten().flat_map(|remote| remote.failures());
    all.into_iter().find(|missed| paths.contains(&missed.path))
}

/// The same, or else anything that could not be read of their buckets: why something that is beside them was not found.
#[must_use]
pub fn missed_near(paths: &[PathBuf]) -> Option<Missed> {
    missed(paths).or_else(|| files::failures_of(paths).into_iter().next())
}

/// A visit to the buckets of some paths, until it is dropped. A process that runs one command and ends needs none.
#[derive(Debug)]
pub struct Visit {
    paths: Vec<PathBuf>,
    /// The visit is a job of its thread.
    _in_job: InJob,
}

/// Begins a visit, on the thread that does the work: buckets are listed again, and what failed in them is tried again. Visits to one bucket
/// that overlap see the same of it, so those with other options wait. What the system refuses of local files concerns this visit alone.
#[must_use]
pub fn visit(paths: &[PathBuf], options: &StorageOptions) -> Visit {
    let paths: Vec<PathBuf> = paths.iter().filter(|path| is_url(path)).cloned().collect();
    if let Some(remote) = installed().filter(|_| !paths.is_empty()) {
        remote.visit(&paths, options);
    }
    Visit { paths, _in_job: Job::default().enter() }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(remote) = installed().filter(|_| !self.paths.is_empty()) {
            remote.leave(&self.paths);
        }
    }
}

/// The storage of this process, if there is one.
pub fn installed() -> Option<Arc<dyn Remote>> {
    REMOTE.get().cloned()
}
