//! Single pages of a tablespace by number, over all its files: extent descriptors and dictionary information, which are needed out
//! of order while the sweep goes by.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use format::codec::{self, Scratch};
use format::keyring::KeyStore;
use format::{ExtentMap, PageId, PageNo, SpaceFormat, SpaceHeader, Verdict, verify_page};

use super::look::Use;
use crate::source::datadir::plain;
use crate::source::keys::SpaceKey;
use crate::source::name::NameHint;
use crate::source::space::{self, Part};

/// Where the pages of a tablespace are.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    format: SpaceFormat,
    /// The space header, from whichever file holds page 0.
    header: Option<SpaceHeader>,
    key: SpaceKey,
    files: Vec<Span>,
}

#[derive(Clone, Debug)]
struct Span {
    path: PathBuf,
    first: u32,
    pages: u64,
}

/// The extent descriptors that a worker used last: it goes through a file from front to back, so the next page is mostly
/// described by the same ones.
#[derive(Default)]
pub(super) struct Descriptors(Option<(u32, u32, Option<ExtentMap>)>);

impl Pages {
    /// One file of its own.
    pub fn new(path: &Path, len: u64, part: &Part) -> Self {
        let span = Span { path: path.to_path_buf(), first: part.first_page, pages: part.pages_in(len) };
        Self { format: part.format, header: part.header, key: part.key.clone(), files: vec![span] }
    }

    /// The files of the system tablespace before `path`, if it is `ibdata2` or a later one: what is known of them, and the number
    /// of the page that follows them.
    pub fn before(path: &Path, page_size: Option<u32>, keys: &KeyStore) -> Option<(Self, Part, u32)> {
        let NameHint::System(number @ 2..) = NameHint::of(path) else { return None };
        let sibling = |number: u32| path.with_file_name(format!("ibdata{number}"));
        let first = sibling(1);
        let page0 = head(&first, space::HEAD).ok()?;
        let mut part = space::by_page0(&page0, page_size)?;
        part.key = SpaceKey::find(&page0, &first, &part.format, keys).unwrap_or_default();
        let mut pages = Self::new(&first, std::fs::metadata(&first).ok()?.len(), &part);
        for earlier in 2..number {
            let path = sibling(earlier);
            let len = std::fs::metadata(&path).ok()?.len();
            pages.push(&path, len);
        }
        let next = pages.end();
        Some((pages, part, next))
    }

    /// Adds the file that comes next.
    pub fn push(&mut self, path: &Path, len: u64) {
        let pages = len / u64::from(self.format.physical().get());
        self.files.push(Span { path: path.to_path_buf(), first: self.end(), pages });
    }

    fn end(&self) -> u32 {
        let end = self.files.last().map_or(0, |span| u64::from(span.first) + span.pages);
        u32::try_from(end).unwrap_or(u32::MAX)
    }

    pub fn format(&self) -> &SpaceFormat {
        &self.format
    }

    pub fn header(&self) -> Option<&SpaceHeader> {
        self.header.as_ref()
    }

    /// The page `number`, if it is sound: opened, if that can be done.
    ///
    /// # Errors
    /// Why not, as a clause.
    pub fn sound(&self, number: u32) -> Result<Vec<u8>, String> {
        let holds = |span: &&Span| number.checked_sub(span.first).is_some_and(|index| u64::from(index) < span.pages);
        let span = self.files.iter().find(holds).ok_or_else(|| format!("page {number} is not in the file"))?;
        let mut page = vec![0; self.format.physical().bytes()];
        let offset = u64::from(number - span.first) * page.len() as u64;
        let read = File::open(&span.path).and_then(|file| file.read_exact_at(&mut page, offset));
        read.map_err(|error| format!("page {number} cannot be read: {}", plain(&error)))?;
        let id = PageId { space: self.format.space(), page_no: PageNo(number) };
        match verify_page(&page, id, &self.format) {
            Verdict::Ok(_) | Verdict::Unverifiable(_) => {
                let (context, mut scratch) = (self.key.context(&self.format), Scratch::new());
                let opened = codec::open_page(&page, id, &context, &mut scratch);
                Ok(opened.map_or_else(|_| page.clone(), |opened| opened.page.to_vec()))
            }
            Verdict::Empty => Err(format!("page {number} is all zero")),
            Verdict::Corrupt(why) => Err(format!("page {number} is damaged: {why}")),
        }
    }

    /// Whether page `number` of the file `file` is in use. `last` remembers the descriptors from call to call.
    pub fn use_of(&self, file: u32, number: u32, last: &mut Descriptors) -> Use {
        let Some(header) = &self.header else { return Use::Unknown };
        if number >= header.free_limit.0 {
            return Use::NeverUsed;
        }
        let region = number / self.format.physical().get();
        if !matches!(&last.0, Some((f, r, _)) if (*f, *r) == (file, region)) {
            last.0 = Some((file, region, self.descriptors(region)));
        }
        let map = last.0.as_ref().and_then(|(_, _, map)| map.as_ref());
        match map.and_then(|map| map.is_free(PageNo(number))) {
            Some(true) => Use::Free,
            Some(false) => Use::Used,
            None => Use::Unknown,
        }
    }

    /// The descriptors of the pages from `region` times the page size on; they lie on the first of these.
    fn descriptors(&self, region: u32) -> Option<ExtentMap> {
        let number = region * self.format.physical().get();
        ExtentMap::parse(&self.sound(number).ok()?, PageNo(number), &self.format).ok()
    }
}

/// The first bytes of a file, up to `len`.
pub(super) fn head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut head = Vec::new();
    File::open(path)?.take(len as u64).read_to_end(&mut head)?;
    Ok(head)
}
