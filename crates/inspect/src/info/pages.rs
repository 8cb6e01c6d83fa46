//! Single pages of a tablespace by number, across its files: extent descriptors and SDI, which the sweep needs out of order.

use std::io;
use std::path::Path;

use flow::FileId;
use format::keyring::KeyStore;
use format::{ExtentMap, PageNo, SpaceHeader};

use super::look::Use;
use datadir::files::{self, File};
use datadir::keys::SpaceKey;
use datadir::name::NameHint;
use datadir::reading::head_of;
use datadir::space::{self, SpacePart};
use datadir::tablespace::space::SpaceFile;
use datadir::tablespace::{Opener, Tablespace};

/// Reads the pages of a tablespace.
#[derive(Clone, Debug)]
pub(super) struct Pages(Tablespace);

/// The descriptors a worker used last. It reads a file from front to back, so the next page is usually covered by the same ones.
#[derive(Default)]
pub(super) struct Descriptors(Option<(u32, u32, Option<ExtentMap>)>);

impl Pages {
    /// A tablespace of this one file.
    pub fn new(path: &Path, len: u64, part: &SpacePart) -> Self {
        let pages = u32::try_from(part.pages_in(len)).unwrap_or(u32::MAX);
        let file = SpaceFile::of(path.to_path_buf(), FileId(0), part.first_page, pages);
        Self(Tablespace {
            format: part.format,
            header: part.header,
            key: part.key.clone(),
            files: vec![file],
            home: None,
        })
    }

    /// If `path` is `ibdata2` or later: the system tablespace files before it, their format, and the number of the page that follows them.
    pub fn before(path: &Path, page_size: Option<u32>, keys: &KeyStore) -> Option<(Self, SpacePart, u32)> {
        let NameHint::System(number @ 2..) = NameHint::of(path) else { return None };
        let sibling = |number: u32| path.with_file_name(format!("ibdata{number}"));
        let first = sibling(1);
        let page0 = head(&first, space::HEAD).ok()?;
        let mut part = space::by_page0(&page0, page_size)?;
        part.key = SpaceKey::find(&page0, &first, &part.format, keys).unwrap_or_default();
        let mut pages = Self::new(&first, files::metadata(&first).ok()?.len(), &part);
        for earlier in 2..number {
            let path = sibling(earlier);
            let len = files::metadata(&path).ok()?.len();
            pages.push(&path, len);
        }
        let next = pages.0.pages();
        Some((pages, part, next))
    }

    /// Appends the next file.
    pub fn push(&mut self, path: &Path, len: u64) {
        let Self(space) = self;
        let pages = u32::try_from(len / u64::from(space.format.physical().get())).unwrap_or(u32::MAX);
        space.files.push(SpaceFile::of(path.to_path_buf(), FileId(0), space.pages(), pages));
    }

    pub fn header(&self) -> Option<&SpaceHeader> {
        self.0.header.as_ref()
    }

    /// Whether page `number` of file `file` is in use. `last` caches the descriptors between calls.
    pub fn use_of(&self, file: u32, number: u32, last: &mut Descriptors) -> Use {
        let Some(header) = self.header() else { return Use::Unknown };
        if number >= header.free_limit.0 {
            return Use::NeverUsed;
        }
        let region = number / self.0.format.physical().get();
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

    /// The descriptors for region `region`; they are on its first page.
    fn descriptors(&self, region: u32) -> Option<ExtentMap> {
        let number = region * self.0.format.physical().get();
        ExtentMap::parse(&self.0.sound(number, &mut Opener::new()).ok()?, PageNo(number), &self.0.format).ok()
    }
}

/// The first bytes of a file, up to `len`.
pub(super) fn head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    head_of(&File::open(path)?, len)
}
