//! The tablespaces' files: renamed, created and resized as the log says, then opened.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::rewrite::RewriteTarget;
use flow::{DIRECT_ALIGN, Descriptors, FileHandle, FileId, PageCache};
use format::{PageId, SpaceFormat, SpaceId};

use super::reach::Reach;
use crate::door;
use crate::recover::error::{Result, failed, refused};
use crate::recover::place::durable::{give, sync_directory_of};
use crate::recover::place::open_files::descriptors;
use crate::recover::place::outside;
use crate::recover::plan::RecoverPlan;
use crate::recover::space::{PlannedSpace, SpacePart};
use datadir::files::AskPath;

/// Extension of a file renamed for a moment to free its name for another.
const ASIDE: &str = "innokit-aside";

/// A file of a tablespace.
#[derive(Debug)]
struct SpaceFile {
    id: FileId,
    path: PathBuf,
    /// Opened for each request; `None` if it does not exist.
    handle: Option<FileHandle>,
    /// Device, inode and length in bytes.
    identity: Option<(u64, u64, u64)>,
    /// Offset of its first byte in the tablespace.
    start: u64,
}

/// Where a page is stored.
#[derive(Debug, Clone, Copy)]
pub(in crate::recover) struct PagePlace {
    pub file: FileId,
    /// Byte offset in the file.
    pub offset: u64,
    /// Whether the file exists.
    pub is_there: bool,
}

/// Counts of file operations.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::recover) struct Done {
    pub renamed: u64,
    pub made: u64,
    pub resized: u64,
}

/// The files of all tablespaces that the log changes. In a dry run, files yet to be created have no handle.
#[derive(Debug, Default)]
pub(in crate::recover) struct Files {
    /// By tablespace, in page order. Only the system tablespace has more than one.
    files: BTreeMap<SpaceId, Vec<SpaceFile>>,
    /// Number of files.
    count: u32,
}

impl Files {
    /// Opens the files unchanged, for reading. Also counts the operations that a real run would perform.
    pub fn as_they_are(datadir: &Path, plan: &RecoverPlan) -> Result<(Self, Done)> {
        let (mut files, mut done, open) = (Self::default(), Done::default(), descriptors());
        for (&id, space) in &plan.spaces {
            done.renamed += u64::from(space.renamed_from.is_some());
            done.made += u64::from(space.is_new);
            let mut end = 0;
            for part in space.parts_now() {
                let path = datadir.join(&part.path);
                let mut handle = None;
                // A file with the name of a new tablespace is another's, and will be renamed or removed.
                if path.is_there() && !space.is_new {
                    let file = door::open_file(&path).map_err(failed(&path, "opening the tablespace"))?;
                    end = part.start + len_of(&file, &path)?;
                    handle = Some(Opened::of(&file, &path)?.keep(&open, &path, &handle_of(file, space, false), false));
                }
                files.add(id, part, handle);
            }
            done.resized += u64::from(space.needs_resizing(end));
        }
        Ok((files, done))
    }

    /// Renames, creates and resizes the files, and opens them for writing; those of a copy in the page cache, if they are still there.
    pub fn as_they_should_be(reach: Reach<'_>, plan: &RecoverPlan, is_copy: bool, done: &mut Done) -> Result<Self> {
        let datadir = reach.datadir;
        reach.check(plan)?;
        for name in &plan.dropped {
            door::remove(datadir, name).map_err(failed(&datadir.join(name), "removing the dropped tablespace"))?;
        }
        rename_all(reach, plan, done)?;
        let (mut files, open) = (Self::default(), descriptors());
        let system = datadir.join("ibdata1");
        let of_server = fs::metadata(&system).map_err(failed(&system, "looking at the file"))?;
        for (&id, space) in &plan.spaces {
            let parts = space.parts();
            let count = parts.len();
            for (part, is_last) in parts.into_iter().zip((1..).map(|number| number == count)) {
                let path = datadir.join(&part.path);
                let is_there = fs::symlink_metadata(&path).is_ok();
                if space.is_new {
                    outside::link(datadir, &part.path)?;
                    done.made += 1;
                }
                let file = if space.is_new && !is_there { reach.make(&part.path) } else { reach.change(&part.path) }?;
                if space.is_new && !is_there {
                    give(&file, &path, &of_server)?;
                    sync_directory_of(&path)?;
                }
                if is_last && space.needs_resizing(part.start + len_of(&file, &path)?) {
                    let len = space.len.saturating_sub(part.start);
                    file.set_len(len).map_err(failed(&path, "giving the file its size"))?;
                    done.resized += 1;
                }
                let is_cached = is_copy && is_in_page_cache(&file, &path)?;
                let opened = Opened::of(&file, &path)?;
                let handle = if is_cached { FileHandle::of_file(file, false) } else { handle_of(file, space, true) };
                files.add(id, part, Some(opened.keep(&open, &path, &handle, true)));
            }
        }
        Ok(files)
    }

    /// The files of an engine that brings its own, numbered like the plan's.
    pub fn of_engine(plan: &RecoverPlan) -> Self {
        let mut files = Self::default();
        for (&id, space) in &plan.spaces {
            space.parts().into_iter().for_each(|part| files.add(id, part, Some(Opened::of_engine())));
        }
        files
    }

    fn add(&mut self, id: SpaceId, part: SpacePart, opened: Option<Opened>) {
        let (handle, identity) = opened.map_or((None, None), |opened| (opened.handle, opened.identity));
        let file = SpaceFile { id: FileId(self.count), path: part.path, handle, identity, start: part.start };
        self.count += 1;
        self.files.entry(id).or_default().push(file);
    }

    /// Where a page is stored: the file of its tablespace, and the offset in that file.
    pub fn place_of(&self, id: PageId, format: &SpaceFormat) -> Option<PagePlace> {
        let offset = format.physical().offset_of(id.page_no.0);
        let file = self.files.get(&id.space)?.iter().rfind(|file| file.start <= offset)?;
        Some(PagePlace { file: file.id, offset: offset - file.start, is_there: file.handle.is_some() })
    }

    /// The files that exist, by device, inode and length in bytes.
    pub fn by_identity(&self) -> HashMap<(u64, u64, u64), FileId> {
        self.files.values().flatten().filter_map(|file| Some((file.identity?, file.id))).collect()
    }

    /// Whether the tablespace has a file.
    pub fn has(&self, id: SpaceId) -> bool {
        self.files.get(&id).and_then(|files| files.first()).is_some_and(|file| file.handle.is_some())
    }

    pub fn targets(&self) -> impl Iterator<Item = RewriteTarget> {
        self.files.values().flatten().filter_map(|file| {
            let name = file.path.as_os_str().as_encoded_bytes().to_vec();
            Some(RewriteTarget { file: file.id, handle: file.handle.clone()?, name })
        })
    }

    /// Makes contents and sizes durable.
    pub fn sync(&self) -> Result<()> {
        let sync = |handle: &FileHandle| Ok(rustix::fs::fsync(handle.opened()?.fd()?)?);
        let mut files = self.files.values().flatten().filter_map(|file| Some((&file.path, file.handle.as_ref()?)));
        files.try_for_each(|(path, handle)| sync(handle).map_err(failed(path, "making the file durable")))
    }
}

/// A file that was looked at, and how to open it again.
struct Opened {
    handle: Option<FileHandle>,
    identity: Option<(u64, u64, u64)>,
}

impl Opened {
    fn of(file: &File, path: &Path) -> Result<Self> {
        let metadata = file.metadata().map_err(failed(path, "looking at the file"))?;
        Ok(Self { handle: None, identity: Some((metadata.dev(), metadata.ino(), metadata.len())) })
    }

    fn of_engine() -> Self {
        Self { handle: Some(FileHandle::of_engine()), identity: None }
    }

    fn keep(self, open: &Arc<Descriptors>, path: &Path, handle: &FileHandle, for_writing: bool) -> Self {
        Self { handle: Some(open.keep(path, handle, for_writing)), ..self }
    }
}

/// Bypasses the page cache if the pages are large enough for direct I/O.
fn handle_of(file: File, space: &PlannedSpace, for_writing: bool) -> FileHandle {
    let is_aligned = space.format.physical().bytes() >= DIRECT_ALIGN as usize;
    if is_aligned { FileHandle::past_cache(file, for_writing) } else { FileHandle::of_file(file, false) }
}

fn is_in_page_cache(file: &File, path: &Path) -> Result<bool> {
    Ok(PageCache::new().holds_most(file.as_fd(), len_of(file, path)?))
}

fn len_of(file: &File, path: &Path) -> Result<u64> {
    Ok(file.metadata().map_err(failed(path, "looking at the file"))?.len())
}

/// Renames the files in an order that works: a file may have to wait until another gives up its name.
fn rename_all(reach: Reach<'_>, plan: &RecoverPlan, done: &mut Done) -> Result<()> {
    let datadir = reach.datadir;
    let renames = plan.spaces.values().filter_map(|space| Some((space.renamed_from.clone()?, space.path.clone())));
    let mut left: Vec<_> = renames.collect();
    while !left.is_empty() {
        let free = left.iter().position(|(_, to)| !datadir.join(to).is_there());
        let Some((from, to)) = free.map(|place| left.remove(place)) else {
            // Break the circle by moving one file aside. Only in a copy: a later run would not know this name, but an interrupted copy is
            // not continued.
            let Some((from, _)) = left.first_mut().filter(|_| plan.wanted.later.is_some()) else {
                return refused("the log renames tablespaces in a circle");
            };
            let aside = from.with_extension(ASIDE);
            reach.rename(&std::mem::replace(from, aside.clone()), &aside)?;
            continue;
        };
        let (from, to) = (&from, &to);
        outside::relink(datadir, from, to)?;
        reach.rename(from, to)?;
        done.renamed += 1;
    }
    Ok(())
}
