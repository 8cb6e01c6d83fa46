//! The files of the tablespaces: renamed, made and sized as the log says, and open.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

use flow::write_back::Target;
use flow::{FileHandle, FileId};
use format::{PageId, SpaceFormat, SpaceId};

use super::apply::offset_of;
use super::error::{Result, failed, refused};
use super::pages::Wanted as WantedPage;
use super::place::sync_directory_of;
use super::plan::{Plan, Space};

/// An open tablespace.
#[derive(Debug)]
pub(super) struct OpenSpace {
    pub id: FileId,
    pub path: PathBuf,
    pub handle: FileHandle,
}

impl OpenSpace {
    /// A page of it, to be read.
    pub fn wanted(&self, id: PageId, format: &SpaceFormat) -> WantedPage {
        let (offset, len) = (offset_of(id, format), format.physical().bytes());
        WantedPage { file: self.id, handle: self.handle.clone(), offset, len }
    }
}

/// What was done to files.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub renamed: u64,
    pub made: u64,
    pub resized: u64,
}

/// All tablespaces that the log changes; those that are not there yet are missing in a dry run.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: BTreeMap<SpaceId, OpenSpace>,
    to_sync: Vec<(PathBuf, File)>,
}

impl Files {
    /// Opens them as they are, for reading; and what would be done to them.
    pub fn as_they_are(datadir: &Path, plan: &Plan) -> Result<(Self, Done)> {
        let (mut files, mut done) = (Self::default(), Done::default());
        for (number, (&id, space)) in (0..).zip(&plan.spaces) {
            done.renamed += u64::from(space.renamed_from.is_some());
            done.made += u64::from(space.is_new);
            let path = datadir.join(space.renamed_from.as_ref().unwrap_or(&space.path));
            let mut len = 0;
            if path.exists() {
                let file = File::open(&path).map_err(failed(&path, "opening the tablespace"))?;
                len = len_of(&file, &path)?;
                files.add(id, FileId(number), space, FileHandle::of_file(file, false));
            }
            done.resized += u64::from(space.needs_resizing(len));
        }
        Ok((files, done))
    }

    /// Renames, makes and resizes them, and opens them for writing.
    pub fn as_they_should_be(datadir: &Path, plan: &Plan, done: &mut Done) -> Result<Self> {
        rename_all(datadir, plan, done)?;
        let mut files = Self::default();
        for (number, (&id, space)) in (0..).zip(&plan.spaces) {
            let path = datadir.join(&space.path);
            let file = File::options().read(true).write(true).create(space.is_new).truncate(false).open(&path);
            let file = file.map_err(failed(&path, "opening the tablespace"))?;
            let len = len_of(&file, &path)?;
            if space.is_new {
                done.made += 1;
                sync_directory_of(&path)?;
            }
            if space.needs_resizing(len) {
                file.set_len(space.len).map_err(failed(&path, "giving the file its size"))?;
                done.resized += 1;
            }
            let for_handle = file.try_clone().map_err(failed(&path, "opening the tablespace"))?;
            files.add(id, FileId(number), space, FileHandle::of_file(for_handle, false));
            files.to_sync.push((space.path.clone(), file));
        }
        Ok(files)
    }

    /// Files of an engine that keeps its own, numbered as the plan's tablespaces are.
    pub fn of_engine(plan: &Plan) -> Self {
        let mut files = Self::default();
        for (number, (&id, space)) in (0..).zip(&plan.spaces) {
            files.add(id, FileId(number), space, FileHandle::of_engine());
        }
        files
    }

    fn add(&mut self, id: SpaceId, number: FileId, space: &Space, handle: FileHandle) {
        self.open.insert(id, OpenSpace { id: number, path: space.path.clone(), handle });
    }

    pub fn get(&self, id: SpaceId) -> Option<&OpenSpace> {
        self.open.get(&id)
    }

    pub fn targets(&self) -> impl Iterator<Item = Target> {
        self.open.values().map(|space| {
            let name = space.path.as_os_str().as_encoded_bytes().to_vec();
            Target { file: space.id, handle: space.handle.clone(), name }
        })
    }

    /// Makes contents and sizes durable.
    pub fn sync(&self) -> Result<()> {
        let sync = |(path, file): &(PathBuf, File)| file.sync_all().map_err(failed(path, "making the file durable"));
        self.to_sync.iter().try_for_each(sync)
    }
}

fn len_of(file: &File, path: &Path) -> Result<u64> {
    Ok(file.metadata().map_err(failed(path, "looking at the file"))?.len())
}

/// A file that was named by an interrupted run: below the datadir, and there.
pub(super) fn resolve(datadir: &Path, name: &[u8], number: u32) -> Option<Target> {
    let text = std::str::from_utf8(name).ok()?;
    if !Path::new(text).components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let file = File::options().read(true).write(true).open(datadir.join(text)).ok()?;
    Some(Target { file: FileId(number), handle: FileHandle::of_file(file, false), name: name.to_vec() })
}

/// A name may be free only once another file has left it.
fn rename_all(datadir: &Path, plan: &Plan, done: &mut Done) -> Result<()> {
    let renames = plan.spaces.values().filter_map(|space| Some((space.renamed_from.as_ref()?, &space.path)));
    let mut left: Vec<(PathBuf, PathBuf)> = renames.map(|(from, to)| (datadir.join(from), datadir.join(to))).collect();
    while !left.is_empty() {
        let free = left.iter().position(|(_, to)| !to.exists());
        let Some((from, to)) = free.map(|place| left.remove(place)) else {
            return refused("the log renames tablespaces in a circle");
        };
        fs::rename(&from, &to).map_err(failed(&from, "renaming the tablespace"))?;
        sync_directory_of(&from)?;
        sync_directory_of(&to)?;
        done.renamed += 1;
    }
    Ok(())
}
