//! The view as storage: paths below the base, answered as its recovery would leave them.

use std::any::Any;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datadir::remote::{Missed, Remote, RemoteMeta, RemoteObject, RemoteVersion, SetFile, StorageOptions};
use flow::queue::{KeptFiles, Made};
use flow::{FileId, SharedEngine};
use format::SpaceId;

use super::maker::Maker;
use super::names::{Names, Patched, ShownFile};
use crate::door;
use crate::recover::options::reached::ReachedMoment;
use crate::recover::place::Lock;

/// Failures that are kept: one makes a report undecided.
const FAILED_MAX: usize = 1000;

/// Numbers of the objects of all views.
static NUMBERS: AtomicU64 = AtomicU64::new(1 << 62);

/// What a view shows.
#[derive(Debug)]
pub(super) struct Storage {
    base: PathBuf,
    names: Names,
    /// The number of the first object.
    first: u64,
    maker: Option<Arc<Maker>>,
    failed: Arc<Mutex<Vec<Missed>>>,
    pub moment: Option<ReachedMoment>,
    _lock: Lock,
}

impl Storage {
    pub fn new(base: PathBuf, names: Names, maker: Option<Maker>, moment: Option<ReachedMoment>, lock: Lock) -> Self {
        // Relaxed: each view takes numbers of its own, and nothing else depends on them.
        let first = NUMBERS.fetch_add(1 << 32, Ordering::Relaxed);
        Self { base, names, first, maker: maker.map(Arc::new), failed: Arc::default(), moment, _lock: lock }
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    pub fn maker(&self) -> Option<&Maker> {
        self.maker.as_deref()
    }

    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// The path relative to the base. `None` if it is not below it.
    fn relative(&self, path: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(path).ok()?;
        path.strip_prefix(&self.base).ok().map(Path::to_path_buf)
    }

    pub fn object(&self, path: &Path) -> io::Result<Arc<ViewObject>> {
        let inside = self.relative(path).ok_or(io::ErrorKind::NotFound)?;
        let (bytes, len) = match (self.names.get(&inside), &self.maker) {
            (Some(ShownFile::Space(id, part)), Some(maker)) => {
                (Bytes::Space(Arc::clone(maker), *id, *part), maker.len_of(*id, *part))
            }
            (Some(ShownFile::Patched(patched)), _) => (Bytes::Patched(self.base.clone(), patched.clone()), patched.len),
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        let (path, failed) = (path.to_path_buf(), Arc::clone(&self.failed));
        let number = self.number(&inside);
        Ok(Arc::new(ViewObject { path, inside, bytes, meta: RemoteMeta { is_dir: false, len, number }, failed }))
    }

    /// A number for each path.
    fn number(&self, inside: &Path) -> u64 {
        self.first + self.names.number(inside)
    }
}

/// A file of a view.
#[derive(Debug)]
pub(super) struct ViewObject {
    path: PathBuf,
    inside: PathBuf,
    bytes: Bytes,
    meta: RemoteMeta,
    failed: Arc<Mutex<Vec<Missed>>>,
}

#[derive(Debug)]
enum Bytes {
    Space(Arc<Maker>, SpaceId, usize),
    Patched(PathBuf, Patched),
}

impl ViewObject {
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = match &self.bytes {
            Bytes::Space(maker, id, part) => maker.read(*id, *part, bytes, offset),
            Bytes::Patched(base, patched) => patched.read((base, &self.inside), bytes, offset),
        };
        read.inspect_err(|error| self.note(error))
    }

    /// A failure that a job passes over in silence must still count at its end.
    fn note(&self, error: &io::Error) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() < FAILED_MAX && !failed.iter().any(|missed| missed.path == self.path) {
            failed.push(Missed { path: self.path.clone(), why: error.to_string(), kind: error.kind() });
        }
    }
}

impl RemoteObject for ViewObject {
    fn meta(&self) -> RemoteMeta {
        self.meta
    }

    fn version(&self) -> RemoteVersion {
        RemoteVersion { len: self.meta.len, e_tag: None, modified: (0, 0) }
    }

    fn failure(&self) -> Option<Missed> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.iter().find(|missed| missed.path == self.path).cloned()
    }
}

impl Patched {
    fn read(&self, (base, inside): (&Path, &Path), bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let there = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = bytes.len().min(there);
        let Some(bytes) = bytes.get_mut(..count).filter(|bytes| !bytes.is_empty()) else { return Ok(0) };
        bytes.fill(0);
        if self.has_base {
            door::read(base, inside)?.read_exact_at(bytes, offset)?;
        }
        for (at, patch) in &self.patches {
            let (from, to) = ((*at).max(offset), (at + patch.len() as u64).min(offset + count as u64));
            if from < to {
                let index = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
                let source = patch.get(index(from - at)..index(to - at));
                let target = bytes.get_mut(index(from - offset)..index(to - offset));
                target.zip(source).into_iter().for_each(|(target, source)| target.copy_from_slice(source));
            }
        }
        Ok(count)
    }
}

impl Remote for Storage {
    fn has(&self, path: &Path) -> bool {
        self.relative(path).is_some_and(|inside| self.names.get(&inside).is_some() || self.names.has_dir(&inside))
    }

    fn enter(&self, path: PathBuf) -> PathBuf {
        path
    }

    fn named(&self, path: &Path) -> io::Result<RemoteMeta> {
        self.metadata(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<RemoteMeta> {
        match self.object(path) {
            Ok(object) => Ok(object.meta),
            Err(error) => {
                let inside = self.relative(path).ok_or(error)?;
                let is_dir = self.names.has_dir(&inside) && self.names.get(&inside).is_none();
                // A directory of files that are gone is there if the base has it.
                let is_there = is_dir && (fs::symlink_metadata(path).is_ok() || self.names.fills(&inside));
                let meta = RemoteMeta { is_dir: true, len: 0, number: self.number(&inside) };
                if is_there { Ok(meta) } else { Err(io::ErrorKind::NotFound.into()) }
            }
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, RemoteMeta)>> {
        let inside = self.relative(path).ok_or(io::ErrorKind::NotFound)?;
        let mut here = BTreeSet::new();
        match fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries {
                    here.insert(entry?.file_name());
                }
            }
            // The log makes it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.names.fills(&inside) => {}
            Err(error) => return Err(error),
        }
        // An entry's metadata is asked for by its path (`datadir::files::DirEntry`).
        let unasked = RemoteMeta { is_dir: false, len: 0, number: 0 };
        Ok(self.names.in_dir(&inside, here).into_iter().map(|name| (name, unasked)).collect())
    }

    fn hold(&self, path: &Path) -> io::Result<Arc<dyn RemoteObject>> {
        Ok(self.object(path)?)
    }

    fn expect(&self, _: &Path, _: &RemoteVersion) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a part of a view is read by the process that opened the view"))
    }

    fn read_at(&self, object: &Arc<dyn RemoteObject>, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        own(object)?.read(bytes, offset)
    }

    fn engine(&self, files: Vec<SetFile>) -> Box<dyn SharedEngine> {
        let files = files.into_iter().map(|file| match file {
            SetFile::Here => Source::Here,
            SetFile::There(object) => own(&object).map_or(Source::Gone, Source::Made),
            SetFile::Gone(_) => Source::Gone,
        });
        Box::new(Made(Arc::new(Sources(files.collect()))))
    }

    fn takes(&self, _: &Path, _: &StorageOptions) -> Result<(), String> {
        Err("storage options are for URLs only".to_owned())
    }

    fn visit(&self, _: &[PathBuf], _: &StorageOptions) {}

    fn leave(&self, _: &[PathBuf]) {}

    fn failures(&self) -> Vec<Missed> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Downcasts to this file's object, the only one that a view hands out.
fn own(object: &Arc<dyn RemoteObject>) -> io::Result<Arc<ViewObject>> {
    let object: Arc<dyn Any + Send + Sync> = Arc::<dyn RemoteObject>::clone(object);
    object.downcast().map_err(|_| io::ErrorKind::Unsupported.into())
}

/// The files of a set, in its order.
#[derive(Debug)]
struct Sources(Vec<Source>);

#[derive(Debug)]
enum Source {
    /// Read as it lies, by the handle of each request.
    Here,
    Made(Arc<ViewObject>),
    /// It was not there when the set was made.
    Gone,
}

impl KeptFiles for Sources {
    fn keeps(&self, file: FileId) -> bool {
        !matches!(self.0.get(file.0 as usize), Some(Source::Here))
    }

    fn read_at(&self, file: FileId, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.0.get(file.0 as usize) {
            Some(Source::Made(object)) => object.read(bytes, offset),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
