//! What was written over a base: copy on write, block by block, crash-safe.
//!
//! ```text
//! names: Tree -> a record in the journal -> durable at the next sync of anything          (`tree`, `journal`, `record`)
//! bytes: Content -> the file's data file, and records of which blocks are in it           (`content`, `blocks`)
//! ```
//!
//! Files have numbers for good, and their data are kept under these, so a rename moves nothing. A process that is killed loses nothing that
//! was written; a power cut loses what was not synced, as on any file system with a journal. What is here knows no FUSE: the device is a
//! [`Disk`], which tests simulate, and the base is a [`Base`].

mod blocks;
mod content;
mod disk;
mod journal;
mod record;
mod tree;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::io::Errno;

pub use self::blocks::BLOCK;
pub use self::content::{Base, BaseFile};
use self::content::{Content, Shared, data_name, now};
pub use self::disk::{Disk, DiskFile, Folder};
use self::journal::{JOURNAL, Journal};
use self::record::Record;
pub use self::record::{Attrs, Head, Kind};
pub use self::tree::ROOT;
use self::tree::Tree;

/// A file or a directory that a new upper begins with.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its path. Its directory comes before it.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Its length.
    pub len: u64,
    /// Its owner, permissions and time.
    pub attrs: Attrs,
}

/// A file or a directory that needs no base any more.
#[derive(Debug, Clone)]
pub struct Whole {
    /// Its path.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Its length.
    pub size: u64,
    /// Its owner, permissions and time.
    pub attrs: Attrs,
    /// The name of its data, if it has any.
    pub data: Option<String>,
    /// Bytes that are zeros, whatever its data say.
    pub zeros: Vec<std::ops::Range<u64>>,
}

/// What is known of a file or a directory.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// Its number.
    pub id: u64,
    /// What it is.
    pub kind: Kind,
    /// Its length.
    pub size: u64,
    /// Bytes in the upper.
    pub held: u64,
    /// Its owner, permissions and time.
    pub attrs: Attrs,
    /// Names that it has.
    pub links: u32,
}

/// How much of the files is where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Bytes of the base that are visible and not in the upper.
    pub base: u64,
    /// Bytes in the upper.
    pub upper: u64,
    /// Bytes read from the base so far.
    pub read_base: u64,
    /// Bytes read from the upper so far.
    pub read_upper: u64,
}

/// Files of this size or more may be removed for their space, which is free once the removal is durable.
const SPACE_AT_ONCE: u64 = 1 << 20;

/// Files over a base.
#[derive(Debug)]
pub struct Upper {
    shared: Shared,
    tree: RwLock<Tree>,
    /// Files without names, and where the journal says so: their data go once that is durable.
    gone: Mutex<Vec<(u64, u64)>>,
}

/// The head of the upper that is there, if there is one.
///
/// # Errors
/// The system's error, or that the journal is not one.
pub fn head_of(disk: &dyn Disk) -> io::Result<Option<Head>> {
    match journal::records(disk) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        records => match records?.into_iter().next() {
            Some(Record::Head(head)) => Ok(Some(head)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "its journal is damaged, or a newer innokit wrote it")),
        },
    }
}

impl Upper {
    /// Begins an upper that shows the base as it is.
    ///
    /// # Errors
    /// The system's error.
    pub fn fresh(
        disk: Arc<dyn Disk>,
        base: Arc<dyn Base>,
        head: Head,
        root: Attrs,
        entries: &[Entry],
    ) -> io::Result<Self> {
        let mut tree = Tree::new(root);
        for entry in entries {
            let parent = entry.path.parent().map_or(Some(ROOT), |dir| find(&tree, dir));
            let (Some(parent), Some(name)) = (parent, entry.path.file_name()) else {
                return Err(io::Error::other(format!("{}: its directory is not there", entry.path.display())));
            };
            let is_file = entry.kind == Kind::File;
            let base = is_file.then(|| (entry.path.clone(), entry.len));
            let (id, name, size) = (tree.next, name.to_owned(), if is_file { entry.len } else { 0 });
            tree.replay(Record::Node { id, parent, name, kind: entry.kind, attrs: entry.attrs, base, size }, true);
        }
        Self::begin(disk, base, Head { next: tree.next, ..head }, tree)
    }

    /// Opens the upper that is there: with everything that was written if the machine has not stopped since (`boot`), else with what was synced.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(disk: Arc<dyn Disk>, base: Arc<dyn Base>, boot: &str) -> io::Result<Self> {
        let mut records = journal::records(&*disk)?.into_iter();
        let Some(Record::Head(head)) = records.next() else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the upper's journal is damaged"));
        };
        // A system that does not say which boot it is may have stopped.
        let keeps = !boot.is_empty() && head.boot == boot;
        let mut tree = Tree::new(Attrs::default());
        tree.next = tree.next.max(head.next);
        records.for_each(|record| tree.replay(record, keeps));
        tree.gone().into_iter().for_each(|(id, _)| tree.forget(id));
        // The new journal promises all blocks, so their bytes come first. And a sync from now on must cover what was written before.
        for content in contents(&tree).filter(|content| keeps && content.state().blocks.count() > 0) {
            disk.open(&data_name(content.id()))?.sync()?;
            content.state().settle();
        }
        disk.sync_names()?;
        let head = Head { boot: boot.to_owned(), next: tree.next, ..head };
        let upper = Self::begin(disk, base, head, tree)?;
        upper.sweep()?;
        Ok(upper)
    }

    fn begin(disk: Arc<dyn Disk>, base: Arc<dyn Base>, head: Head, tree: Tree) -> io::Result<Self> {
        let journal = Journal::begin(&*disk, head, tree.records().into_iter())?;
        let shared = Shared { disk, base, journal, read: [AtomicU64::new(0), AtomicU64::new(0)] };
        Ok(Self { shared, tree: RwLock::new(tree), gone: Mutex::default() })
    }

    /// Removes data of files that are not there: a crash came before they were.
    fn sweep(&self) -> io::Result<()> {
        let tree = self.tree();
        let wanted: HashSet<String> = tree.walk().into_iter().map(data_name).collect();
        for name in self.shared.disk.names()? {
            if name.ends_with(".data") && !wanted.contains(&name) {
                self.shared.disk.remove(&name)?;
            }
        }
        Ok(())
    }

    fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree_mut(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn content(&self, id: u64) -> io::Result<Arc<Content>> {
        let tree = self.tree();
        let node = tree.get(id).ok_or(Errno::STALE)?;
        Ok(node.content.clone().ok_or(if node.kind == Kind::Directory { Errno::ISDIR } else { Errno::INVAL })?)
    }

    /// The number behind a name.
    #[must_use]
    pub fn lookup(&self, parent: u64, name: &OsStr) -> Option<u64> {
        self.tree().child(parent, name)
    }

    /// The number behind a path from the top.
    #[must_use]
    pub fn find(&self, path: &std::path::Path) -> Option<u64> {
        find(&self.tree(), path)
    }

    /// What is known of a file or a directory.
    ///
    /// # Errors
    /// It is not there.
    pub fn stat(&self, id: u64) -> io::Result<Stat> {
        let tree = self.tree();
        let node = tree.get(id).ok_or(Errno::STALE)?;
        let mut attrs = node.attrs;
        let (mut size, mut held) = (BLOCK, 0);
        if let Some(content) = &node.content {
            let state = content.state();
            (size, held, attrs.modified) = (state.size, state.blocks.count() * BLOCK, state.modified);
            held += state.base_len.div_ceil(BLOCK) * BLOCK * u64::from(held == 0);
        }
        let links = if node.is_gone { 0 } else { 1 + u32::from(node.kind == Kind::Directory) };
        Ok(Stat { id, kind: node.kind, size, held, attrs, links })
    }

    /// What is in a directory: names, numbers and kinds.
    ///
    /// # Errors
    /// It is not there, or none.
    pub fn list(&self, id: u64) -> io::Result<Vec<(OsString, u64, Kind)>> {
        let tree = self.tree();
        let children = tree.children(id).ok_or(Errno::NOTDIR)?;
        let named = |(name, id): (&OsString, &u64)| Some((name.clone(), *id, tree.get(*id)?.kind));
        Ok(children.iter().filter_map(named).collect())
    }

    /// The path of a file or a directory, for messages.
    #[must_use]
    pub fn path(&self, id: u64) -> PathBuf {
        let tree = self.tree();
        let (mut names, mut at) = (Vec::new(), id);
        while let Some(node) = tree.get(at).filter(|_| at != ROOT) {
            names.push(node.name.clone());
            at = node.parent;
        }
        names.into_iter().rev().collect()
    }

    /// The directory that a file or a directory is in.
    #[must_use]
    pub fn parent(&self, id: u64) -> u64 {
        self.tree().get(id).map_or(ROOT, |node| node.parent)
    }

    /// Makes an empty file, a directory or a socket.
    ///
    /// # Errors
    /// Something has the name, or the system's error.
    pub fn create(&self, parent: u64, name: &OsStr, kind: Kind, attrs: Attrs) -> io::Result<u64> {
        let mut tree = self.tree_mut();
        if tree.children(parent).ok_or(Errno::NOENT)?.contains_key(name) {
            return Err(Errno::EXIST.into());
        }
        let (id, attrs) = (tree.next, Attrs { modified: now(), ..attrs });
        let record = Record::Node { id, parent, name: name.to_owned(), kind, attrs, base: None, size: 0 };
        self.shared.journal.append(&record)?;
        tree.replay(record, true);
        touch(&mut tree, parent);
        Ok(id)
    }

    /// Sets owner, permissions and time.
    ///
    /// # Errors
    /// It is not there, or the system's error.
    pub fn set_attrs(&self, id: u64, attrs: Attrs) -> io::Result<()> {
        let mut tree = self.tree_mut();
        let node = tree.get(id).ok_or(Errno::STALE)?;
        let record = Record::Attrs { id, attrs };
        if !node.is_gone {
            self.shared.journal.append(&record)?;
        }
        tree.replay(record, true);
        Ok(())
    }

    /// Removes a name.
    ///
    /// # Errors
    /// There is none, it is of another kind, or a directory that is not empty; the system's error.
    pub fn remove(&self, parent: u64, name: &OsStr, is_directory: bool) -> io::Result<()> {
        let mut tree = self.tree_mut();
        let id = tree.child(parent, name).ok_or(Errno::NOENT)?;
        may_go(&tree, id, is_directory)?;
        self.shared.journal.append(&Record::Remove { id })?;
        tree.remove(id);
        touch(&mut tree, parent);
        let held = tree.get(id).and_then(|node| Some(node.content.as_ref()?.state().blocks.count())).unwrap_or(0);
        drop(tree);
        self.note_gone(id);
        if held * BLOCK >= SPACE_AT_ONCE {
            self.shared.journal.sync()?;
        }
        self.reap();
        Ok(())
    }

    /// Gives what has a name another one. What had that name is gone, unless `must_be_new`.
    ///
    /// # Errors
    /// As for [`remove`](Self::remove); a directory into itself.
    pub fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), must_be_new: bool) -> io::Result<()> {
        let mut tree = self.tree_mut();
        let id = tree.child(from.0, from.1).ok_or(Errno::NOENT)?;
        tree.children(to.0).ok_or(Errno::NOENT)?;
        let replaced = tree.child(to.0, to.1).filter(|replaced| *replaced != id);
        let is_directory = tree.get(id).is_some_and(|node| node.kind == Kind::Directory);
        if let Some(replaced) = replaced {
            if must_be_new {
                return Err(Errno::EXIST.into());
            }
            may_go(&tree, replaced, is_directory)?;
        }
        let mut above = to.0;
        while is_directory && above != ROOT {
            if above == id {
                return Err(Errno::INVAL.into());
            }
            above = tree.get(above).map_or(ROOT, |node| node.parent);
        }
        self.shared.journal.append(&Record::Rename { id, parent: to.0, name: to.1.to_owned() })?;
        tree.rename(id, to.0, to.1);
        touch(&mut tree, from.0);
        touch(&mut tree, to.0);
        drop(tree);
        if let Some(replaced) = replaced {
            self.note_gone(replaced);
        }
        self.reap();
        Ok(())
    }

    fn note_gone(&self, id: u64) {
        let (end, _) = self.shared.journal.ends();
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).push((id, end));
    }

    /// Removes the data of files that have no name for good, and that nobody has open.
    fn reap(&self) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if gone.is_empty() {
            return;
        }
        let (_, synced) = self.shared.journal.ends();
        let mut tree = self.tree_mut();
        gone.retain(|&(id, at)| {
            let is_open = tree.get(id).is_some_and(|node| node.users > 0);
            if at > synced || is_open {
                return true;
            }
            tree.forget(id);
            // What stays is removed when the upper is opened next.
            self.shared.disk.remove(&data_name(id)).ok();
            false
        });
    }

    /// Counts one more who has a file open.
    ///
    /// # Errors
    /// It is not there.
    pub fn hold(&self, id: u64) -> io::Result<()> {
        let mut tree = self.tree_mut();
        tree.get_mut(id).ok_or(Errno::STALE)?.users += 1;
        Ok(())
    }

    /// Counts one fewer.
    pub fn release(&self, id: u64) {
        let mut tree = self.tree_mut();
        let Some(node) = tree.get_mut(id) else { return };
        node.users = node.users.saturating_sub(1);
        let content = node.content.clone().filter(|_| node.users == 0);
        drop(tree);
        if let Some(content) = content {
            content.close();
            self.reap();
        }
    }

    /// Reads bytes: all, or fewer at the file's end.
    ///
    /// # Errors
    /// The system's error, or that a page cannot be made.
    pub fn read(&self, id: u64, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.content(id)?.read(&self.shared, bytes, offset)
    }

    /// Writes all the bytes.
    ///
    /// # Errors
    /// The system's error.
    pub fn write(&self, id: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.content(id)?.write(&self.shared, bytes, offset)
    }

    /// Has a range read as zeros; the file keeps its length.
    ///
    /// # Errors
    /// The system's error.
    pub fn zero(&self, id: u64, offset: u64, len: u64) -> io::Result<()> {
        self.content(id)?.zero(&self.shared, offset, len)
    }

    /// Gives a file another length.
    ///
    /// # Errors
    /// The system's error.
    pub fn resize(&self, id: u64, size: u64) -> io::Result<()> {
        self.content(id)?.resize(&self.shared, size)
    }

    /// Makes a file durable: its bytes, its length, its name.
    ///
    /// # Errors
    /// The system's error; from then on for good.
    pub fn sync(&self, id: u64) -> io::Result<()> {
        self.content(id)?.sync(&self.shared)
    }

    /// Makes all names durable.
    ///
    /// # Errors
    /// The system's error.
    pub fn sync_names(&self) -> io::Result<()> {
        self.shared.journal.sync()?;
        self.reap();
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// The system's error: of the first file, while the others are made durable all the same.
    pub fn sync_all(&self) -> io::Result<()> {
        let all: Vec<Arc<Content>> = contents(&self.tree()).collect();
        let files = all.iter().map(|content| content.sync(&self.shared)).fold(Ok(()), io::Result::and);
        self.sync_names().and(files)
    }

    /// Copies what is still visible of the base, in pieces, and tells after each how many bytes it had; `false` ends it. Returns whether
    /// nothing is left.
    ///
    /// # Errors
    /// The system's error, or that a page cannot be made.
    pub fn hydrate(&self, told: &mut dyn FnMut(u64) -> bool) -> io::Result<bool> {
        const PIECE: u64 = 64;
        let all: Vec<Arc<Content>> = contents(&self.tree()).collect();
        for content in all {
            let mut at = 0;
            // Its base may be cut meanwhile.
            while at * BLOCK < content.state().base_len {
                let copied = content.hydrate(&self.shared, at..at + PIECE)?;
                at += PIECE;
                if copied > 0 && !told(copied) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// All files and directories, each directory before what is in it, if nothing of the base is visible any more.
    #[must_use]
    pub fn whole(&self) -> Option<Vec<Whole>> {
        if self.share().base > 0 {
            return None;
        }
        let all = self.tree().walk();
        let whole = |id: u64| {
            let (path, stat) = (self.path(id), self.stat(id).ok()?);
            let (mut data, mut zeros) = (None, Vec::new());
            if let Ok(content) = self.content(id) {
                let state = content.state();
                data = (state.blocks.count() > 0).then(|| data_name(id));
                let missing = state.blocks.runs(0..state.size.div_ceil(BLOCK)).filter(|(_, is_upper)| !is_upper);
                zeros = missing.map(|(run, _)| run.start * BLOCK..run.end * BLOCK).collect();
            }
            Some(Whole { path, kind: stat.kind, size: stat.size, attrs: stat.attrs, data, zeros })
        };
        Some(all.into_iter().filter_map(whole).collect())
    }

    /// How much is where.
    #[must_use]
    pub fn share(&self) -> Share {
        let mut share = Share::default();
        for content in contents(&self.tree()) {
            let state = content.state();
            let upper = state.blocks.count() * BLOCK;
            share.upper += upper;
            let below = state.blocks.runs(0..state.base_len.div_ceil(BLOCK)).filter(|(_, is_upper)| !is_upper);
            share.base += below.map(|(run, _)| run.end - run.start).sum::<u64>() * BLOCK;
        }
        // Relaxed: counts for a report.
        let [upper, base] = &self.shared.read;
        (share.read_upper, share.read_base) = (upper.load(Ordering::Relaxed), base.load(Ordering::Relaxed));
        share
    }
}

fn contents(tree: &Tree) -> impl Iterator<Item = Arc<Content>> + '_ {
    tree.walk().into_iter().filter_map(|id| tree.get(id)?.content.clone())
}

fn find(tree: &Tree, path: &std::path::Path) -> Option<u64> {
    path.iter().try_fold(ROOT, |dir, name| tree.child(dir, name))
}

/// A directory's time changes with its names. It is not kept over a crash: no server reads it.
fn touch(tree: &mut Tree, id: u64) {
    if let Some(node) = tree.get_mut(id) {
        node.attrs.modified = now();
    }
}

fn may_go(tree: &Tree, id: u64, as_directory: bool) -> io::Result<()> {
    let is_directory = tree.get(id).is_some_and(|node| node.kind == Kind::Directory);
    match (is_directory, as_directory) {
        (true, false) => Err(Errno::ISDIR.into()),
        (false, true) => Err(Errno::NOTDIR.into()),
        (true, true) if tree.children(id).is_some_and(|names| !names.is_empty()) => Err(Errno::NOTEMPTY.into()),
        _ => Ok(()),
    }
}

/// Whether an upper is kept here.
///
/// # Errors
/// The system's error.
pub fn is_there(disk: &dyn Disk) -> io::Result<bool> {
    Ok(disk.names()?.iter().any(|name| name == JOURNAL))
}
