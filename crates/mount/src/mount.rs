//! A mount from its beginning to its end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use recovery::{RecoverOptions, View, ViewOptions};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::base::ViewBase;
use crate::error::{MountError, Result, failed, refused};
use crate::files::Files;
use crate::place::{Place, boot};
use crate::upper::{Base, Disk, Folder, Head, Share, Upper, head_of, is_there};

/// Threads that answer the kernel: as many requests of a server wait for pages at a time.
const THREADS: usize = 8;

/// Where what the server writes goes.
#[derive(Debug, Clone)]
pub enum UpperAt {
    /// Into a directory that goes with the mount.
    Throwaway,
    /// Into this directory, where the next mount finds it.
    Kept(PathBuf),
}

/// How to mount a set.
pub struct MountOptions {
    /// What is viewed, as for [`View::open`].
    pub view: ViewOptions,
    /// Where what the server writes goes.
    pub upper: UpperAt,
    /// Told of what fails while files are read and written: the server only hears "I/O error".
    pub report: Arc<dyn Fn(&str) + Send + Sync>,
}

impl std::fmt::Debug for MountOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountOptions").field("view", &self.view).field("upper", &self.upper).finish_non_exhaustive()
    }
}

/// A set that is mounted.
#[derive(Debug)]
pub struct Mount {
    session: BackgroundSession,
    upper: Arc<Upper>,
    place: Place,
    point: PathBuf,
    lsn: Option<u64>,
    is_continued: bool,
}

impl Mount {
    /// Mounts the set on an empty directory.
    ///
    /// # Errors
    /// There is no view of it, it leads elsewhere, the upper is another set's or in use, or the system refuses.
    pub fn begin(set: &Path, point: &Path, options: MountOptions) -> Result<Self> {
        let set = fs::canonicalize(set).map_err(failed(set, "finding the directory"))?;
        let place = match &options.upper {
            UpperAt::Throwaway => Place::throwaway()?,
            UpperAt::Kept(dir) => {
                refuse_within(&set, dir, "the directory for --upper")?;
                Place::at(dir)?
            }
        };
        place.refuse_finishing()?;
        let point = free_point(&set, point)?;
        let disk: Arc<dyn Disk> = Arc::new(Folder::new(place.path().to_path_buf(), place.is_kept()));
        let found = head_of(&*disk).map_err(failed(place.path(), "reading the directory for --upper"))?;
        let keys = options.view.recover.keys.read().map_err(|error| MountError::Refused(error.to_string()))?;
        let view = View::open(&set, at_moment_of(options.view, found.as_ref()))?;
        let lsn = view.lsn().map(|lsn| lsn.0);
        let base = ViewBase::of(view, &keys)?;
        let is_continued = found.is_some();
        let upper = Arc::new(open_upper(disk, base, found, &place)?);
        let files = Files::new(Arc::clone(&upper), place.path().to_path_buf(), options.report);
        let session = Session::new(files, &point, &config(&set)).and_then(Session::spawn);
        let session = session.map_err(|error| cannot_mount(&point, error))?;
        Ok(Self { session, upper, place, point, lsn, is_continued })
    }

    /// The LSN that is mounted. `None` if the set is mounted as it lies.
    #[must_use]
    pub const fn lsn(&self) -> Option<u64> {
        self.lsn
    }

    /// Whether an earlier mount's files are shown.
    #[must_use]
    pub const fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Copies what nobody has read yet, at most `rate` bytes a second, and makes it durable. Returns whether everything is in the upper then;
    /// `goes_on` ends it sooner.
    ///
    /// # Errors
    /// The system's error, or that a page cannot be made.
    pub fn hydrate(&self, rate: Option<u64>, goes_on: &dyn Fn() -> bool) -> Result<bool> {
        let at = || failed(self.place.path(), "copying the set");
        let done = self.upper.hydrate(&mut |bytes| {
            if let Some(rate) = rate {
                sleep(Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64));
            }
            goes_on()
        });
        let is_whole = done.map_err(at())?;
        self.upper.sync_all().map_err(at())?;
        Ok(is_whole && self.share().base == 0)
    }

    /// How much of the files is where.
    #[must_use]
    pub fn share(&self) -> Share {
        self.upper.share()
    }

    /// Whether somebody has unmounted it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Unmounts it, unless somebody has files open. Returns whether it is unmounted.
    ///
    /// # Errors
    /// The system's error.
    pub fn unmount(&self) -> Result<bool> {
        if self.has_ended() {
            return Ok(true);
        }
        match unmount(&self.point, UnmountFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            // Only root may do it itself.
            Err(Errno::PERM) => Ok(helper(&["-u"], &self.point)),
            // Somebody else has.
            Err(Errno::INVAL | Errno::NOENT) => Ok(true),
            Err(error) => Err(failed(&self.point, "unmounting")(error.into())),
        }
    }

    /// Ends it, at once: who still has files open gets errors. What was written is durable when this returns.
    ///
    /// # Errors
    /// The system's error: something that was written may not be durable.
    pub fn end(self) -> Result<()> {
        if !self.unmount()? {
            detach(&self.point);
            let synced = self.upper.sync_all();
            // Whoever has files open holds the session: it ends with the process.
            return synced.map_err(failed(self.place.path(), "syncing"));
        }
        let ended = self.session.join();
        self.upper.sync_all().map_err(failed(self.place.path(), "syncing"))?;
        ended.map_err(failed(&self.point, "serving the mount"))?;
        let path = self.place.path().to_path_buf();
        self.place.end().map_err(failed(&path, "removing what was thrown away"))
    }
}

/// A mount goes on at the moment at which it began, although the archive has grown.
fn at_moment_of(view: ViewOptions, found: Option<&Head>) -> ViewOptions {
    let RecoverOptions { redo, until, until_time, .. } = &view.recover;
    let goes_on = redo.is_some() && until.is_none() && until_time.is_none();
    match found.filter(|head| goes_on && head.lsn > 0) {
        None => view,
        Some(head) => {
            let recover = RecoverOptions { until: Some(format::Lsn(head.lsn)), ..view.recover };
            ViewOptions { recover, ..view }
        }
    }
}

fn open_upper(disk: Arc<dyn Disk>, base: ViewBase, found: Option<Head>, place: &Place) -> Result<Upper> {
    let boot = boot();
    let head = base.head(&boot);
    let (entries, root) = (base.entries(), base.root()?);
    let base: Arc<dyn Base> = Arc::new(base);
    let at = |what| failed(place.path(), what);
    match found {
        Some(found) if found.identity != head.identity => {
            let moment = if found.lsn == head.lsn { String::new() } else { format!(", and at LSN {}", found.lsn) };
            refused(format!(
                "{}: this directory belongs to another set, or to this one as it was at another time{moment}: name another directory for --upper",
                place.path().display()
            ))
        }
        Some(_) => Upper::open(disk, base, &boot).map_err(at("opening what was written before")),
        // Only a mount that did not come to its first record leaves a directory without a journal.
        None if is_there(&*disk).map_err(at("listing"))? => refused(format!("{}: damaged", place.path().display())),
        None => Upper::fresh(disk, base, head, root, &entries).map_err(at("beginning")),
    }
}

/// The directory to mount on, empty. A mount whose process was killed is taken away first.
fn free_point(set: &Path, point: &Path) -> Result<PathBuf> {
    let point = std::path::absolute(point).map_err(failed(point, "finding the directory"))?;
    if fs::read_dir(&point).is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NOTCONN)) {
        detach(&point);
    }
    let found = fs::canonicalize(&point).map_err(failed(&point, "finding the directory to mount on"))?;
    refuse_within(set, &found, "the directory to mount on")?;
    let mut entries = fs::read_dir(&found).map_err(failed(&found, "reading the directory to mount on"))?;
    if entries.next().is_some() {
        return refused(format!("{}: not empty: mount on an empty directory", found.display()));
    }
    Ok(found)
}

fn refuse_within(set: &Path, dir: &Path, what: &str) -> Result<()> {
    // What is not there yet is where its nearest directory is.
    let dir = std::path::absolute(dir).map_err(failed(dir, "finding the directory"))?;
    let near = dir.ancestors().find_map(|dir| fs::canonicalize(dir).ok()).unwrap_or_default();
    if near.starts_with(set) {
        return refused(format!("{}: {what} is in the set, which is only read", dir.display()));
    }
    Ok(())
}

fn config(set: &Path) -> Config {
    let mut config = Config::default();
    let name = format!("innokit:{}", set.display());
    config.mount_options = vec![
        MountOption::FSName(name.replace(',', "_")),
        MountOption::Subtype("innokit".to_owned()),
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::DefaultPermissions,
    ];
    // A server has a user of its own. Only root may let others in without asking.
    let is_root = rustix::process::geteuid().is_root();
    config.acl = if is_root { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

fn cannot_mount(point: &Path, error: io::Error) -> MountError {
    if !Path::new("/dev/fuse").exists() {
        return MountError::Refused(
            "there is no /dev/fuse: load the kernel's module (modprobe fuse), or give the container the device (--device /dev/fuse --cap-add \
             SYS_ADMIN)"
                .to_owned(),
        );
    }
    failed(point, "mounting (an ordinary user needs fusermount3, of the package fuse3)")(error)
}

fn detach(point: &Path) {
    if unmount(point, UnmountFlags::DETACH).is_err() {
        helper(&["-u", "-z"], point);
    }
}

/// The program that unmounts for ordinary users.
fn helper(options: &[&str], point: &Path) -> bool {
    let mut command = Command::new("fusermount3");
    command.args(options).arg("--").arg(point).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
