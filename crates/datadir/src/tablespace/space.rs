//! A tablespace whose pages are read by number: its files, its page format, its key.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flow::{BLOCK_ALIGN, Counters, FileId, FileSet, Gather, GatherPlan, PageCache, ReadAhead, ReadOptions, Want};
use format::keyring::KeyStore;
use format::page::sdi::SDI_FLAG;
use format::{PageId, PageNo, SpaceFormat, SpaceHeader, Verdict, Why};

use crate::fault;
use crate::files::{self, File};
use crate::inventory::plain;
use crate::keys::SpaceKey;
use crate::page::PageAt;
use crate::reading::{head_of, read_into};
use crate::remote::RemoteObject;
use crate::space::{self, HEAD, LONG_HEAD};
use crate::tablespace::opener::{Opened, Opener};

/// Read this many pages one by one: opening a queue takes longer.
const FEW: usize = 2;

/// A file that is, or is a part of, a tablespace yet to be opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundFile {
    /// Its path.
    pub path: PathBuf,
    /// If it is outside of the datadir, the path that it would have inside.
    pub home: Option<Box<Path>>,
    /// Its index in the run's set of files; 0 if it is read by itself.
    pub file: FileId,
    /// Its length in bytes.
    pub len: u64,
}

impl FoundFile {
    /// Where the server has its name: what belongs to it, such as its definition, is beside that.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.as_deref().unwrap_or(&self.path)
    }

    /// A file that is read by itself.
    ///
    /// # Errors
    /// Its length cannot be read.
    pub fn of(path: PathBuf) -> std::io::Result<Self> {
        let len = files::metadata(&path)?.len();
        Ok(Self { path, home: None, file: FileId(0), len })
    }
}

/// One file of a tablespace.
#[derive(Clone, Debug)]
pub struct SpaceFile {
    /// Its path.
    pub path: PathBuf,
    /// Its index in the run's set of files.
    pub file: FileId,
    /// Number of its first page.
    pub first: u32,
    /// Whole pages in it.
    pub pages: u32,
    /// The object in a bucket, as it was when the tablespace was opened.
    pub object: Option<Arc<dyn RemoteObject>>,
}

impl SpaceFile {
    /// A file that begins with page `first` of its tablespace. If it cannot be found now, that shows when it is read.
    pub fn of(path: PathBuf, file: FileId, first: u32, pages: u32) -> Self {
        let object = files::found(&path).ok().flatten();
        Self { path, file, first, pages, object }
    }

    fn open(&self) -> std::io::Result<File> {
        File::open_found(&self.path, self.object.as_ref())
    }
}

/// The file of the page read last, because the next one is in the same file as a rule, and opening costs more than reading; and memory that
/// the next page, or the next file's head, takes again.
#[derive(Debug, Default)]
pub struct OpenFile {
    opened: Option<(PathBuf, File)>,
    page: Vec<u8>,
    head: Vec<u8>,
}

impl OpenFile {
    /// The file, and room for `len` bytes.
    fn of(&mut self, file: &SpaceFile, len: usize) -> std::io::Result<(&File, &mut [u8])> {
        let kept = self.opened.take().filter(|(path, _)| *path == file.path && file.object.is_none());
        let opened = match kept {
            Some(kept) => kept,
            None => (file.path.clone(), file.open()?),
        };
        self.page.resize(len, 0);
        Ok((&self.opened.insert(opened).1, &mut self.page))
    }

    /// Opens a file and reads its first bytes.
    fn head(&mut self, path: &Path) -> std::io::Result<&[u8]> {
        self.opened = None;
        let file = File::open(path)?;
        self.head.resize(HEAD, 0);
        let got = read_into(&file, 0, &mut self.head)?;
        self.opened = Some((path.to_path_buf(), file));
        Ok(self.head.get(..got).unwrap_or(&[]))
    }
}

/// A tablespace.
#[derive(Clone, Debug)]
pub struct Tablespace {
    /// The format of its pages.
    pub format: SpaceFormat,
    /// The space header, if page 0 is sound.
    pub header: Option<SpaceHeader>,
    /// The key for its encrypted pages.
    pub key: SpaceKey,
    /// Its files, in page order.
    pub files: Vec<SpaceFile>,
    /// See [`FoundFile::home`].
    pub home: Option<Box<Path>>,
}

impl Tablespace {
    /// Opens a tablespace from its files.
    ///
    /// # Errors
    /// Why the first file is not a tablespace, as a clause.
    pub fn open(files: &[FoundFile], keys: &KeyStore, page_size: Option<u32>) -> Result<Self, String> {
        Self::open_with(files, keys, page_size, &mut Opener::new())
    }

    /// The same with an opener, which keeps the file open for the pages that are read next.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(
        files: &[FoundFile],
        keys: &KeyStore,
        page_size: Option<u32>,
        opener: &mut Opener,
    ) -> Result<Self, String> {
        let FoundFile { path, home, .. } = files.first().ok_or("there is no file")?;
        let head = opener.file.head(path).map_err(|error| format!("cannot be read: {}", plain(&error)))?;
        let part = match space::by_page0(head, page_size) {
            Some(part) => part,
            None => {
                space::by_pages(&first_bytes(path, LONG_HEAD)?, page_size, None).map_err(|error| error.to_string())?
            }
        };
        let key = SpaceKey::find(head, path, &part.format, keys).map_err(|error| error.to_string())?;
        let mut space = Self { format: part.format, header: part.header, key, files: Vec::new(), home: home.clone() };
        for FoundFile { path, file, len, .. } in files {
            let pages = len / u64::from(space.format.physical().get());
            let pages = u32::try_from(pages).unwrap_or(u32::MAX);
            let file = SpaceFile::of(path.clone(), *file, space.pages(), pages);
            space.files.push(file);
        }
        if space.has_wrong_key(opener) {
            return Err(format!("is {}", Why::WrongKey));
        }
        Ok(space)
    }

    /// Whether none of its first pages opens with MariaDB's key, and some say why not: then no page means anything. One page that does not open
    /// beside others that do is damaged. MySQL's keys prove themselves on page 0.
    fn has_wrong_key(&self, opener: &mut Opener) -> bool {
        const TRIED: u32 = 16;
        if !matches!(self.key, SpaceKey::MariaDb(_)) {
            return false;
        }
        let mut is_wrong = false;
        // From the page of segment inodes on: that one is read next anyway.
        for page_no in 2..self.pages().min(2 + TRIED) {
            let tried = self.stored_with(page_no, opener, |stored, opener| Ok(opener.unlocks(stored, page_no, self)));
            match tried {
                Ok(Some(true)) => return false,
                Ok(Some(false)) => is_wrong = true,
                Ok(None) | Err(_) => {}
            }
        }
        is_wrong
    }

    /// Whether it has dictionary information of its own (SDI).
    #[must_use]
    pub fn has_dictionary_information(&self) -> bool {
        self.header.is_some_and(|header| header.flags & SDI_FLAG != 0)
    }

    /// Number of whole pages in all its files.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.files.last().map_or(0, |file| file.first.saturating_add(file.pages))
    }

    /// The first file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |file| &file.path)
    }

    /// Where the server has its name: what belongs to it, such as its definition, is beside that.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.as_deref().unwrap_or_else(|| self.path())
    }

    /// The page's id.
    #[must_use]
    pub fn id(&self, page_no: u32) -> PageId {
        PageId { space: self.format.space(), page_no: PageNo(page_no) }
    }

    /// The page's place, with the format and the key that open it.
    #[must_use]
    pub fn at(&self, page_no: u32) -> PageAt<'_> {
        PageAt { id: self.id(page_no), format: &self.format, key: &self.key }
    }

    /// The file that has the page, and the byte offset.
    fn place_of(&self, page_no: u32) -> Option<(usize, u64)> {
        let has_it = |file: &SpaceFile| page_no.checked_sub(file.first).filter(|at| *at < file.pages);
        let (number, at) = self.files.iter().enumerate().find_map(|(number, file)| Some((number, has_it(file)?)))?;
        Some((number, self.format.physical().offset_of(at)))
    }

    /// The file that has the page, and where the page begins in it, bytes; `None` if the files end before it.
    #[must_use]
    pub fn place(&self, page_no: u32) -> Option<(&Path, u64)> {
        self.file_of(page_no).map(|(file, offset)| (file.path.as_path(), offset))
    }

    fn file_of(&self, page_no: u32) -> Option<(&SpaceFile, u64)> {
        let (number, offset) = self.place_of(page_no)?;
        Some((self.files.get(number)?, offset))
    }

    /// The request that gets the page; `None` if the files end before it.
    #[must_use]
    pub fn want(&self, page_no: u32) -> Option<Want> {
        let (file, offset) = self.file_of(page_no)?;
        Some(Want { file: file.file, offset, len: self.format.physical().get(), tag: u64::from(page_no) })
    }

    /// Reads one page without planning: for the few pages that say where the others are.
    ///
    /// # Errors
    /// Why it cannot be read, as a clause.
    pub fn stored(&self, page_no: u32) -> Result<Vec<u8>, String> {
        let mut open = OpenFile::default();
        self.stored_by(page_no, &mut open)?;
        Ok(open.page)
    }

    /// Passes the page to `take`, which has the opener too, with the file that may be open from the page before.
    ///
    /// # Errors
    /// As [`Self::stored`].
    pub fn stored_with<T>(
        &self,
        page_no: u32,
        opener: &mut Opener,
        take: impl FnOnce(&[u8], &mut Opener) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut file = std::mem::take(&mut opener.file);
        let taken = self.stored_by(page_no, &mut file).and_then(|page| take(page, opener));
        opener.file = file;
        taken
    }

    fn stored_by<'o>(&self, page_no: u32, open: &'o mut OpenFile) -> Result<&'o [u8], String> {
        let (file, offset) = self.file_of(page_no).ok_or_else(|| not_there(page_no))?;
        let opened = open.of(file, self.format.physical().bytes());
        let (opened, page) = opened.map_err(|error| format!("page {page_no} cannot be read: {}", plain(&error)))?;
        let read = opened.read_exact_at(page, offset);
        read.map_err(|error| fault::note_page(&file.path, page_no, &error))?;
        Ok(page)
    }

    /// Reads many pages and passes each, or the reason it cannot be read, to `take`, in the order of the list.
    pub fn each_stored(&self, pages: &[u32], take: impl FnMut(u32, Result<&[u8], String>)) {
        self.each_stored_by(pages, &mut OpenFile::default(), take);
    }

    /// The same; `take` has the opener too. Of a small tablespace, the opener's file stays open for the next page: most of many tablespaces
    /// are small, and opening each of their files five times took longer than reading it.
    pub fn each_stored_with(
        &self,
        pages: &[u32],
        opener: &mut Opener,
        mut take: impl FnMut(u32, Result<&[u8], String>, &mut Opener),
    ) {
        let mut file = std::mem::take(&mut opener.file);
        self.each_stored_by(pages, &mut file, |page_no, stored| take(page_no, stored, opener));
        opener.file = file;
    }

    fn one_by_one(&self, pages: &[u32], open: &mut OpenFile, mut take: impl FnMut(u32, Result<&[u8], String>)) {
        for page_no in pages {
            take(*page_no, self.stored_by(*page_no, open));
        }
    }

    fn each_stored_by(&self, pages: &[u32], open: &mut OpenFile, mut take: impl FnMut(u32, Result<&[u8], String>)) {
        // For a few pages, opening a queue is not worth it.
        if pages.len() <= FEW {
            return self.one_by_one(pages, open, take);
        }
        let (set, page) = (self.own_set(), self.format.physical().get());
        let options = ReadOptions { block_size: 2 * BLOCK_ALIGN, depth: 32, ..ReadOptions::default() };
        let (plan, counters) = (GatherPlan::new(options.block_size), Counters::new(1));
        let ahead = ReadAhead::Logical { bytes: 64 * u64::from(BLOCK_ALIGN) };
        let Ok(mut gather) = Gather::new(&set, &plan, &options, ahead, counters.worker(0)) else {
            return self.one_by_one(pages, open, take);
        };
        let mut left = pages.iter();
        loop {
            while gather.has_room() {
                let Some(page_no) = left.next() else { break };
                // A read past the end finds nothing, whichever file it asks.
                let beyond = Want { file: FileId(0), offset: u64::MAX / 2, len: page, tag: 0 };
                let want =
                    self.place_of(*page_no).map(|(at, offset)| Want { file: FileId(at as u32), offset, ..beyond });
                gather.ask(Want { tag: u64::from(*page_no), ..want.unwrap_or(beyond) });
            }
            let Some(item) = gather.next() else { return };
            let page_no = item.want.tag as u32;
            let read = match item.lost {
                Some(error) => Err(self.lost(page_no, error)),
                None if item.bytes.len() < page as usize => Err(not_there(page_no)),
                None => Ok(item.bytes),
            };
            take(page_no, read);
        }
    }

    /// The words for a page that could not be read, which is noted.
    pub fn lost(&self, page_no: u32, error: &std::io::Error) -> String {
        fault::note_page(self.place(page_no).map_or(self.path(), |(path, _)| path), page_no, error)
    }

    /// The system's words only, for a finding that names the page.
    pub fn lost_why(&self, page_no: u32, error: &std::io::Error) -> String {
        self.lost(page_no, error);
        plain(error)
    }

    /// Whether some bytes of it could not be read, so that what was found may only be a consequence.
    pub fn is_unread(&self) -> bool {
        self.files.iter().any(|file| fault::is_unread(&file.path))
    }

    /// The files numbered within this tablespace, not within the run.
    fn own_set(&self) -> FileSet {
        let page = u64::from(self.format.physical().get());
        files::set_found(
            self.files.iter().map(|file| (file.path.clone(), u64::from(file.pages) * page, file.object.clone())),
        )
    }

    /// Whether nearly all of its bytes are in the page cache, as far as the kernel tells.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        let page = u64::from(self.format.physical().get());
        let mut cache = PageCache::new();
        self.files.iter().all(|file| {
            let opened = file.open();
            let opened = opened.as_ref().ok().and_then(File::here);
            opened.is_some_and(|opened| cache.holds_most(opened.as_fd(), u64::from(file.pages) * page))
        })
    }

    /// Reads and opens one page that must be sound.
    ///
    /// # Errors
    /// Why it cannot be read, as a clause.
    pub fn sound(&self, page_no: u32, opener: &mut Opener) -> Result<Arc<[u8]>, String> {
        self.stored_with(page_no, opener, |stored, opener| self.opened(page_no, stored, opener))
    }

    /// Opens one page that must be sound, from its stored bytes.
    ///
    /// # Errors
    /// Why it cannot be read, as a clause.
    pub fn opened(&self, page_no: u32, stored: &[u8], opener: &mut Opener) -> Result<Arc<[u8]>, String> {
        let Opened { verdict, image } = opener.open(stored, page_no, self);
        match (verdict, image) {
            (Verdict::Corrupt(why), _) => Err(format!("page {page_no} is damaged: {why}")),
            (Verdict::Empty, _) => Err(format!("page {page_no} is all zero")),
            (_, Ok(image)) => Ok(image),
            (_, Err(why)) => Err(format!("page {page_no}: {why}")),
        }
    }
}

fn not_there(page_no: u32) -> String {
    format!("page {page_no} is not in the file")
}

fn first_bytes(path: &Path, len: usize) -> Result<Vec<u8>, String> {
    let read = File::open(path).and_then(|file| head_of(&file, len));
    read.map_err(|error| format!("cannot be read: {}", plain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_read_together_are_those_read_one_by_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/scattered/scattered-16k.ibd.zst");
        let bytes = zstd::decode_all(File::open(packed).expect("the fixture")).expect("fixtures are zstd");
        // One tablespace in two files, like a system tablespace.
        let (one, other) = bytes.split_at(1000 * 16384);
        let part = |name: &str, number: u32, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            FoundFile { path, home: None, file: FileId(number), len: bytes.len() as u64 }
        };
        let files = [part("one", 7, one), part("other", 3, other)];
        let space = Tablespace::open(&files, &KeyStore::default(), None).expect("a tablespace");
        let pages: Vec<u32> = (0..space.pages() + 2).map(|number| number * 1009 % (space.pages() + 2)).collect();
        let (mut came, mut missing) = (Vec::new(), 0);
        space.each_stored(&pages, |page_no, read| {
            assert_eq!(read.map(<[u8]>::to_vec), space.stored(page_no), "page {page_no}");
            missing += u32::from(page_no >= space.pages());
            came.push(page_no);
        });
        assert_eq!((came, missing), (pages, 2));
    }
}
