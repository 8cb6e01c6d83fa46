//! A tablespace that the log changes, and its files.

pub(super) mod cipher_mode;
pub(super) mod crypt;
pub(super) mod doublewrite;
pub(super) mod head;
pub(super) mod log_end;
pub(super) mod system;

use std::path::PathBuf;

use format::{PageId, SpaceFormat};

use self::crypt::SpaceCrypt;
use datadir::page::PageAt;

/// One file of a tablespace.
#[derive(Debug, Clone)]
pub(in crate::recover) struct SpacePart {
    /// Relative to the datadir, or absolute.
    pub path: PathBuf,
    /// Offset of its first byte in the tablespace.
    pub start: u64,
}

/// A tablespace that the log changes.
#[derive(Debug)]
pub(in crate::recover) struct PlannedSpace {
    /// Its final file name, relative to the datadir or absolute.
    pub path: PathBuf,
    /// Its current file name, if different.
    pub renamed_from: Option<PathBuf>,
    /// Files after the first one; only the system tablespace has any.
    pub more: Vec<SpacePart>,
    /// Whether its file does not exist, or is still empty.
    pub is_new: bool,
    /// The format that page 0 states after redo.
    pub format: SpaceFormat,
    pub crypt: SpaceCrypt,
    /// Required length of the file, or of all files together, in bytes.
    pub len: u64,
    /// Whether a longer file is truncated to `len`.
    pub is_trimmed: bool,
}

impl PlannedSpace {
    /// A page's id with the format and key that open it.
    pub fn at(&self, id: PageId) -> PageAt<'_> {
        PageAt { id, format: &self.format, key: &self.crypt.key }
    }

    /// Whether its pages may end in holes: a page_compressed page takes fewer file system blocks than its full size.
    pub const fn is_sparse(&self) -> bool {
        self.format.is_page_compressed()
    }

    /// Its files under their final names.
    pub fn parts(&self) -> Vec<SpacePart> {
        let first = SpacePart { path: self.path.clone(), start: 0 };
        [first].into_iter().chain(self.more.iter().cloned()).collect()
    }

    /// Its files under their current names.
    pub fn parts_now(&self) -> Vec<SpacePart> {
        let mut parts = self.parts();
        if let (Some(first), Some(name)) = (parts.first_mut(), &self.renamed_from) {
            first.path.clone_from(name);
        }
        parts
    }

    /// Whether files of `len` bytes must be resized.
    pub const fn needs_resizing(&self, len: u64) -> bool {
        len < self.len || (self.is_trimmed && len > self.len)
    }
}
