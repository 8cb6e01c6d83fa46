//! An upper as a FUSE file system: the kernel's requests and their answers.
//!
//! The kernel caches pages and attributes, because nobody else changes them; writes come here at once. Locks of servers stay in the kernel.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foldhash::{HashMap, HashMapExt};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::upper::{Attrs, BLOCK, Kind, Stat, Upper};

/// How long the kernel need not ask again: names and attributes change through it alone.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// What a read asks for at most, whatever the kernel says.
const READ_MAX: usize = 16 << 20;

/// What fails, for a person to see: the server is only told "I/O error".
pub(crate) type Report = dyn Fn(&str) + Send + Sync;

/// The file system.
pub(crate) struct Files {
    pub upper: Arc<Upper>,
    /// A directory on the file system that has the upper: its free space is the mount's.
    pub place: PathBuf,
    pub report: Arc<Report>,
    listings: Mutex<HashMap<u64, Vec<Listed>>>,
    handles: AtomicU64,
}

/// An entry of a directory as it was opened.
type Listed = (u64, FileType, OsString);

impl Files {
    pub fn new(upper: Arc<Upper>, place: PathBuf, report: Arc<Report>) -> Self {
        Self { upper, place, report, listings: Mutex::new(HashMap::new()), handles: AtomicU64::new(1) }
    }

    fn errno(&self, id: u64, what: &str, error: &io::Error) -> Errno {
        let code = error.raw_os_error();
        // Servers ask for what is not there all the time.
        let is_expected = matches!(
            code,
            Some(
                libc_codes::ENOENT
                    | libc_codes::EEXIST
                    | libc_codes::ENOTEMPTY
                    | libc_codes::ENOTDIR
                    | libc_codes::EISDIR
            )
        );
        if !is_expected {
            (self.report)(&format!("{}: {what}: {error}", self.upper.path(id).display()));
        }
        code.map_or(Errno::EIO, Errno::from_i32)
    }

    fn attr(&self, id: u64) -> io::Result<FileAttr> {
        Ok(attr_of(&self.upper.stat(id)?))
    }

    fn set(&self, id: u64, change: &Change) -> io::Result<FileAttr> {
        if let Some(size) = change.size {
            self.upper.resize(id, size)?;
        }
        let mut attrs = self.upper.stat(id)?.attrs;
        let before = attrs;
        attrs.mode = change.mode.map_or(attrs.mode, |mode| mode & 0o7777);
        attrs.uid = change.uid.unwrap_or(attrs.uid);
        attrs.gid = change.gid.unwrap_or(attrs.gid);
        attrs.modified = change.modified.unwrap_or(attrs.modified);
        if attrs != before {
            self.upper.set_attrs(id, attrs)?;
        }
        self.attr(id)
    }

    fn make(&self, req: &Request, parent: INodeNo, name: &OsStr, (kind, mode): (Kind, u32)) -> io::Result<FileAttr> {
        let attrs = Attrs { mode: mode & 0o7777, uid: req.uid(), gid: req.gid(), modified: (0, 0) };
        let id = self.upper.create(parent.0, name, kind, attrs)?;
        self.attr(id)
    }

    fn allocate(&self, id: u64, offset: u64, len: u64, mode: i32) -> io::Result<()> {
        const KEEP_SIZE: i32 = 1;
        const PUNCH_HOLE: i32 = 2;
        const ZERO_RANGE: i32 = 0x10;
        if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
            return Err(rustix::io::Errno::OPNOTSUPP.into());
        }
        let end = offset.checked_add(len).ok_or(rustix::io::Errno::FBIG)?;
        if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 {
            self.upper.zero(id, offset, len)?;
        }
        if mode & KEEP_SIZE == 0 && end > self.upper.stat(id)?.size {
            self.upper.resize(id, end)?;
        }
        Ok(())
    }

    fn list(&self, id: u64) -> io::Result<Vec<Listed>> {
        let above = self.upper.parent(id);
        let mut listed = vec![(id, FileType::Directory, ".".into()), (above, FileType::Directory, "..".into())];
        let named = self.upper.list(id)?.into_iter();
        listed.extend(named.map(|(name, id, kind)| (id, type_of(kind), name)));
        Ok(listed)
    }
}

/// Numbers of errors that are everyday answers.
mod libc_codes {
    pub const ENOENT: i32 = 2;
    pub const EEXIST: i32 = 17;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const ENOTEMPTY: i32 = 39;
}

/// What a setattr asks for.
struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    modified: Option<(i64, u32)>,
}

const fn type_of(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Socket => FileType::Socket,
    }
}

fn attr_of(stat: &Stat) -> FileAttr {
    let time = time_of(stat.attrs.modified);
    FileAttr {
        ino: INodeNo(stat.id),
        size: stat.size,
        blocks: stat.held.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: type_of(stat.kind),
        perm: u16::try_from(stat.attrs.mode & 0o7777).unwrap_or(0),
        nlink: stat.links,
        uid: stat.attrs.uid,
        gid: stat.attrs.gid,
        rdev: 0,
        blksize: u32::try_from(BLOCK).unwrap_or(4096),
        flags: 0,
    }
}

fn time_of((seconds, nanos): (i64, u32)) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    time.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(u64::from(nanos))
}

fn stamp(time: TimeOrNow) -> (i64, u32) {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    };
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(0), since.subsec_nanos())
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without these it is slower, and no less right.
        let wanted = [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ASYNC_DIO];
        for flag in wanted {
            config.add_capabilities(flag).ok();
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.upper.lookup(parent.0, name).map(|id| self.attr(id));
        match found {
            Some(Ok(attr)) => reply.entry(&FOREVER, &attr, Generation(0)),
            Some(Err(error)) => reply.error(self.errno(parent.0, "looking up a name", &error)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino.0) {
            Ok(attr) => reply.attr(&FOREVER, &attr),
            Err(error) => reply.error(self.errno(ino.0, "looking at the file", &error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size, modified: mtime.map(stamp) };
        match self.set(ino.0, &change) {
            Ok(attr) => reply.attr(&FOREVER, &attr),
            Err(error) => reply.error(self.errno(ino.0, "changing length, owner or permissions", &error)),
        }
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: u32, reply: ReplyEntry) {
        const TYPE: u32 = 0o170_000;
        let kind = match mode & TYPE {
            0 | 0o100_000 => Kind::File,
            0o140_000 => Kind::Socket,
            _ => return reply.error(Errno::EPERM),
        };
        match self.make(req, parent, name, (kind, mode)) {
            Ok(attr) => reply.entry(&FOREVER, &attr, Generation(0)),
            Err(error) => reply.error(self.errno(parent.0, "making a file", &error)),
        }
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        match self.make(req, parent, name, (Kind::Directory, mode)) {
            Ok(attr) => reply.entry(&FOREVER, &attr, Generation(0)),
            Err(error) => reply.error(self.errno(parent.0, "making a directory", &error)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.upper.remove(parent.0, name, false) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(parent.0, "removing a file", &error)),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.upper.remove(parent.0, name, true) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(parent.0, "removing a directory", &error)),
        }
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let must_be_new = flags.contains(RenameFlags::RENAME_NOREPLACE);
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        match self.upper.rename((parent.0, name), (newparent.0, newname), must_be_new) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(parent.0, "renaming", &error)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.upper.hold(ino.0) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(self.errno(ino.0, "opening the file", &error)),
        }
    }

    fn create(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        let made = self.make(req, parent, name, (Kind::File, mode));
        match made.and_then(|attr| self.upper.hold(attr.ino.0).map(|()| attr)) {
            Ok(attr) => {
                reply.created(&FOREVER, &attr, Generation(0), FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(self.errno(parent.0, "making a file", &error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; (size as usize).min(READ_MAX)];
        match self.upper.read(ino.0, &mut bytes, offset) {
            Ok(count) => reply.data(bytes.get(..count).unwrap_or_default()),
            Err(error) => reply.error(self.errno(ino.0, "reading", &error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel asks for a sync itself where a file was opened with O_DSYNC: it caches.
        match self.upper.write(ino.0, data, offset) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(self.errno(ino.0, "writing", &error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.upper.release(ino.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.upper.sync(ino.0) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(ino.0, "syncing", &error)),
        }
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(ino.0) {
            Ok(listed) => {
                // Relaxed: only that no two are the same.
                let handle = self.handles.fetch_add(1, Ordering::Relaxed);
                self.listings.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, listed);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(self.errno(ino.0, "listing", &error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        // As it was when it was opened: by places in the list of now, entries would be left out while others are removed.
        let listed = listings.get(&fh.0).map(Vec::as_slice).unwrap_or_default();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (id, kind, name)) in listed.iter().enumerate().skip(from) {
            if reply.add(INodeNo(*id), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).remove(&fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.upper.sync_names() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(ino.0, "syncing names", &error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::statvfs(&self.place) {
            Ok(at) => {
                let size = u32::try_from(at.f_bsize).unwrap_or(4096);
                let unit = u32::try_from(at.f_frsize).unwrap_or(size);
                reply.statfs(at.f_blocks, at.f_bfree, at.f_bavail, at.f_files, at.f_ffree, size, 255, unit);
            }
            Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.allocate(ino.0, offset, length, mode) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(ino.0, "allocating", &error)),
        }
    }
}
