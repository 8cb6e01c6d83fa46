//! The base's files: opened once, and refused when they are not what they were.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use flow::{Descriptors, FileHandle};
use format::SpaceId;

use crate::door;
use crate::recover::error::{Result, failed};
use crate::recover::place::open_files::descriptors;
use crate::recover::plan::RecoverPlan;

/// A file of a tablespace, under its name in the base.
#[derive(Debug)]
pub(super) struct BaseFile {
    /// Opened for each read; `None` if the base has none: the log makes it.
    handle: Option<FileHandle>,
    path: PathBuf,
    found: Found,
    /// Offset of its first byte in the tablespace.
    pub start: u64,
    /// Its length in the view.
    pub len: u64,
}

/// What a file was like when the view was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    len: u64,
    changed: (i64, i64),
}

impl Found {
    fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self { len: meta.len(), changed: (meta.mtime(), meta.mtime_nsec()) })
    }
}

/// The files of all tablespaces that the log changes, in page order.
#[derive(Debug)]
pub(super) struct BaseFiles {
    files: BTreeMap<SpaceId, Vec<BaseFile>>,
    _open: std::sync::Arc<Descriptors>,
}

impl BaseFiles {
    pub fn open(base: &Path, plan: &RecoverPlan) -> Result<Self> {
        let (open, mut files) = (descriptors(), BTreeMap::new());
        for (&id, space) in &plan.spaces {
            let mut parts = Vec::new();
            for part in space.parts_now() {
                let path = base.join(&part.path);
                let mut file = BaseFile { handle: None, path, found: Found::default(), start: part.start, len: 0 };
                // A file with the name of a new tablespace is another's, which is renamed or gone in the view.
                if !space.is_new {
                    let opened = door::open_file(&file.path).map_err(failed(&file.path, "opening the tablespace"))?;
                    file.found = Found::of(&opened).map_err(failed(&file.path, "looking at the file"))?;
                    let handle = FileHandle::of_file(opened, false);
                    file.handle = Some(open.keep(&file.path, &handle, false));
                }
                file.len = file.found.len;
                parts.push(file);
            }
            let end = parts.last().map_or(0, |last| last.start + last.len);
            if let Some(last) = parts.last_mut().filter(|_| space.needs_resizing(end)) {
                last.len = space.len.saturating_sub(last.start);
            }
            files.insert(id, parts);
        }
        Ok(Self { files, _open: open })
    }

    pub fn of(&self, space: SpaceId) -> &[BaseFile] {
        self.files.get(&space).map(Vec::as_slice).unwrap_or_default()
    }
}

impl BaseFile {
    pub const fn is_there(&self) -> bool {
        self.handle.is_some()
    }

    /// Reads the base's bytes at `offset`; zeros where it has none.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        bytes.fill(0);
        let Some(handle) = &self.handle else { return Ok(()) };
        let file = File::from(handle.opened()?.fd()?.try_clone_to_owned()?);
        let changed =
            || io::Error::other(format!("{}: the file was changed while the view was open", self.path.display()));
        if Found::of(&file)? != self.found {
            return Err(changed());
        }
        let there = usize::try_from(self.found.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = bytes.len().min(there);
        let Some(bytes) = bytes.get_mut(..wanted) else { return Ok(()) };
        file.read_exact_at(bytes, offset)?;
        // A change between the two looks would otherwise pass for bytes of the base.
        if Found::of(&file)? == self.found { Ok(()) } else { Err(changed()) }
    }
}
