//! A tablespace in memory whose pages a test can break and reseal with correct checksums.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::path::Path;

use format::page::index::IndexPage;
use format::{Algorithm, Lsn, Scheme, SpaceFormat, seal_page};

/// A tablespace with one table.
pub struct Ibd {
    pub bytes: Vec<u8>,
    pub original: Vec<u8>,
    pub format: SpaceFormat,
    ids: BTreeMap<String, u64>,
}

impl Ibd {
    /// The tablespace as its server left it. Its SDI describes the table (MySQL).
    pub fn new(bytes: Vec<u8>) -> Self {
        let dir = tempfile::TempDir::new().expect("a directory");
        let path = dir.path().join("sound.ibd");
        std::fs::write(&path, bytes).expect("written");
        Self::at(&path)
    }

    /// The tablespace in this file, described by its SDI or by the `.frm` file beside it.
    pub fn at(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("a file");
        let format = SpaceFormat::from_page0(&bytes).expect("a tablespace");
        let report = inspect::tables(&[path.to_path_buf()], &inspect::TableOptions::default()).expect("a report");
        let named = |index: &inspect::table::IndexReport| Some((index.name.clone()?, index.id));
        let ids = report.files[0].indexes.iter().filter_map(named).collect();
        Self { original: bytes.clone(), bytes, format, ids }
    }

    /// The names of the indexes.
    pub fn names(&self) -> Vec<String> {
        self.ids.keys().cloned().collect()
    }

    /// The name of the index with this number.
    pub fn name_of(&self, id: u64) -> String {
        self.ids.iter().find(|(_, other)| **other == id).expect("an index").0.clone()
    }

    fn size(&self) -> usize {
        self.format.physical().bytes()
    }

    pub fn stored(&self, number: u32) -> &[u8] {
        let size = self.size();
        &self.bytes[number as usize * size..][..size]
    }

    pub fn page(&mut self, number: u32) -> &mut [u8] {
        let size = self.size();
        &mut self.bytes[number as usize * size..][..size]
    }

    pub fn pages(&self) -> u32 {
        (self.bytes.len() / self.size()) as u32
    }

    fn pages_at(&self, index: &str, level: u16) -> Vec<u32> {
        let id = self.ids[index];
        let mut links = BTreeMap::new();
        for number in 0..self.pages() {
            let Ok(page) = IndexPage::parse(self.stored(number), &self.format) else { continue };
            // Freed pages keep their content, so ask the extent descriptors.
            if page.index_id() == id && page.level() == level && !self.is_free(number) {
                links.insert(page.prev().map(|prev| prev.0), number);
            }
        }
        let mut chain: Vec<u32> = Vec::new();
        while let Some(next) = links.get(&chain.last().copied()) {
            chain.push(*next);
        }
        chain
    }

    /// The leaves of an index in key order.
    pub fn leaves(&self, index: &str) -> Vec<u32> {
        self.pages_at(index, 0)
    }

    /// The root of an index of two levels.
    pub fn root(&self, index: &str) -> u32 {
        self.pages_at(index, 1)[0]
    }

    /// The origins (byte offsets) of a page's records.
    pub fn records(&self, number: u32) -> Vec<usize> {
        let page = IndexPage::parse(self.stored(number), &self.format).expect("an index page");
        page.records().map(|record| usize::from(record.expect("a record").origin())).collect()
    }

    /// Page and byte offset of the inode of an index's leaf segment or non-leaf segment.
    pub fn inode(&self, index: &str, leaves: bool) -> (u32, usize) {
        let page = IndexPage::parse(self.stored(self.root(index)), &self.format).expect("an index page");
        let (leaf, top) = page.segments().expect("segments");
        let header = if leaves { leaf } else { top };
        (header.inode.page_no.0, usize::from(header.inode.offset))
    }

    /// Whether the page is in a fragment extent that still has free pages.
    pub fn gives_single_pages(&self, number: u32) -> bool {
        let extent = self.format.extent_pages();
        let entry = 150 + (number / extent) as usize * (24 + extent as usize / 4);
        self.bytes[entry + 20..entry + 24] == [0, 0, 0, 2]
    }

    /// Whether the extent descriptors mark the page as free.
    pub fn is_free(&self, number: u32) -> bool {
        let extent = self.format.extent_pages();
        let entry = 150 + (number / extent) as usize * (24 + extent as usize / 4) + 24;
        self.bytes[entry + (number % extent / 4) as usize] >> (2 * (number % 4)) & 1 == 1
    }

    /// Marks a page as free or used in the extent descriptors of the first extents.
    pub fn set_free(&mut self, number: u32, free: bool) {
        let extent = self.format.extent_pages();
        let entry = 150 + (number / extent) as usize * (24 + extent as usize / 4) + 24;
        let (byte, bit) = ((number % extent / 4) as usize, 2 * (number % 4));
        let byte = &mut self.page(0)[entry + byte];
        *byte = if free { *byte | 1 << bit } else { *byte & !(1 << bit) };
    }

    /// The bytes, with the checksums of all changed pages recomputed.
    pub fn sealed(mut self) -> Vec<u8> {
        let (size, format) = (self.size(), self.format);
        for (page, before) in self.bytes.chunks_exact_mut(size).zip(self.original.chunks_exact(size)) {
            if page != before && page.iter().any(|byte| *byte != 0) {
                seal(page, &format);
            }
        }
        self.bytes
    }
}

/// Recomputes the checksum of a page.
pub fn seal(page: &mut [u8], format: &SpaceFormat) {
    let algorithm = if format.scheme() == Scheme::FullCrc32 { Algorithm::FullCrc32 } else { Algorithm::Crc32 };
    let lsn = Lsn(u64::from_be_bytes(page[16..24].try_into().expect("8 bytes")));
    seal_page(page, lsn, algorithm, format).expect("sealed");
}
