//! A tablespace whose pages are read by number: where its files are, how its pages are laid out, what opens them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::{FileId, Want};
use format::keyring::KeyStore;
use format::{PageId, PageNo, SpaceFormat, SpaceHeader, Verdict};

use super::page::{Opened, Opener};
use crate::source::datadir::plain;
use crate::source::keys::SpaceKey;
use crate::source::space::{self, HEAD, LONG_HEAD};

/// One file of a tablespace.
#[derive(Clone, Debug)]
pub struct SpaceFile {
    /// Its path.
    pub path: PathBuf,
    /// Its number in the run's set of files.
    pub file: FileId,
    /// Number of its first page.
    pub first: u32,
    /// Whole pages in it.
    pub pages: u32,
}

/// A tablespace.
#[derive(Clone, Debug)]
pub struct Space {
    /// How its pages are laid out.
    pub format: SpaceFormat,
    /// What page 0 says of the whole, where page 0 is sound.
    pub header: Option<SpaceHeader>,
    /// What opens its encrypted pages.
    pub key: SpaceKey,
    /// Its files, in the order of their pages.
    pub files: Vec<SpaceFile>,
}

impl Space {
    /// Opens the tablespace whose files these are, with their lengths in bytes.
    ///
    /// # Errors
    /// Why the first file is not one of a tablespace, as a clause.
    pub fn open(files: &[(PathBuf, FileId, u64)], keys: &KeyStore, page_size: Option<u32>) -> Result<Self, String> {
        let (path, ..) = files.first().ok_or("there is no file")?;
        let head = first_bytes(path, HEAD)?;
        let part = match space::by_page0(&head, page_size) {
            Some(part) => part,
            None => {
                space::by_pages(&first_bytes(path, LONG_HEAD)?, page_size, None).map_err(|error| error.to_string())?
            }
        };
        let key = SpaceKey::find(&head, path, &part.format, keys).map_err(|error| error.to_string())?;
        let mut space = Self { format: part.format, header: part.header, key, files: Vec::new() };
        for (path, file, len) in files {
            let pages = len / u64::from(space.format.physical().get());
            let pages = u32::try_from(pages).unwrap_or(u32::MAX);
            space.files.push(SpaceFile { path: path.clone(), file: *file, first: space.pages(), pages });
        }
        Ok(space)
    }

    /// Whole pages in all its files.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.files.last().map_or(0, |file| file.first.saturating_add(file.pages))
    }

    /// The first file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |file| &file.path)
    }

    /// The name of the page `page_no`.
    #[must_use]
    pub fn id(&self, page_no: u32) -> PageId {
        PageId { space: self.format.space(), page_no: PageNo(page_no) }
    }

    fn file_of(&self, page_no: u32) -> Option<(&SpaceFile, u64)> {
        let file = self.files.iter().find(|file| page_no.checked_sub(file.first).is_some_and(|at| at < file.pages))?;
        Some((file, u64::from(page_no - file.first) * u64::from(self.format.physical().get())))
    }

    /// What to ask a gatherer for to get the page; `None` where the files end before it.
    #[must_use]
    pub fn want(&self, page_no: u32) -> Option<Want> {
        let (file, offset) = self.file_of(page_no)?;
        Some(Want { file: file.file, offset, len: self.format.physical().get(), tag: u64::from(page_no) })
    }

    /// Reads one page, past all plans: for the few pages that say where the others are.
    ///
    /// # Errors
    /// Why it cannot be read, as a clause.
    pub fn stored(&self, page_no: u32) -> Result<Vec<u8>, String> {
        let (file, offset) = self.file_of(page_no).ok_or_else(|| format!("page {page_no} is not in the file"))?;
        let mut page = vec![0; self.format.physical().bytes()];
        let read = File::open(&file.path).and_then(|file| file.read_exact_at(&mut page, offset));
        read.map_err(|error| format!("page {page_no} cannot be read: {}", plain(&error)))?;
        Ok(page)
    }

    /// Reads and opens one page that must be sound.
    ///
    /// # Errors
    /// Why it cannot be had, as a clause.
    pub fn sound(&self, page_no: u32, opener: &mut Opener) -> Result<Arc<[u8]>, String> {
        let stored = self.stored(page_no)?;
        let Opened { verdict, image } = opener.open(&stored, page_no, self);
        match (verdict, image) {
            (Verdict::Corrupt(why), _) => Err(format!("page {page_no} is damaged: {why}")),
            (Verdict::Empty, _) => Err(format!("page {page_no} is all zero")),
            (_, Ok(image)) => Ok(image),
            (_, Err(why)) => Err(format!("page {page_no}: {why}")),
        }
    }
}

fn first_bytes(path: &Path, len: usize) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(len as u64).read_to_end(&mut head));
    read.map_err(|error| format!("cannot be read: {}", plain(&error)))?;
    Ok(head)
}
