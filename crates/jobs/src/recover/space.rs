//! A tablespace that the log changes, and its files.

use std::path::PathBuf;

use format::{PageId, SpaceFormat};

use super::crypt::SpaceCrypt;
use crate::source::page::PageAt;

/// One file of a tablespace.
#[derive(Debug, Clone)]
pub(super) struct SpacePart {
    /// Relative to the datadir, or absolute.
    pub path: PathBuf,
    /// Of its first byte, in the tablespace.
    pub start: u64,
}

/// A tablespace that the log changes.
#[derive(Debug)]
pub(super) struct PlannedSpace {
    /// Its file, relative to the datadir or absolute, once everything is done.
    pub path: PathBuf,
    /// Its file now, if it has another name.
    pub renamed_from: Option<PathBuf>,
    /// The files behind the first one, which only the system tablespace has.
    pub more: Vec<SpacePart>,
    /// Its file is not there, or holds nothing yet.
    pub is_new: bool,
    /// As its first page will say.
    pub format: SpaceFormat,
    pub crypt: SpaceCrypt,
    /// Bytes that the file must have, or all files together.
    pub len: u64,
    /// Whether the file ends there.
    pub is_trimmed: bool,
}

impl PlannedSpace {
    /// The place of a page, and what opens it.
    pub fn at(&self, id: PageId) -> PageAt<'_> {
        PageAt { id, format: &self.format, key: &self.crypt.key }
    }

    /// Its files, once everything is done.
    pub fn parts(&self) -> Vec<SpacePart> {
        let first = SpacePart { path: self.path.clone(), start: 0 };
        [first].into_iter().chain(self.more.iter().cloned()).collect()
    }

    /// Its files as they are called now.
    pub fn parts_now(&self) -> Vec<SpacePart> {
        let mut parts = self.parts();
        if let (Some(first), Some(name)) = (parts.first_mut(), &self.renamed_from) {
            first.path.clone_from(name);
        }
        parts
    }

    /// Whether files of `len` bytes are to be given another size.
    pub const fn needs_resizing(&self, len: u64) -> bool {
        len < self.len || (self.is_trimmed && len > self.len)
    }
}
