//! Consecutive pages, verified with the same verdicts as by [`verify_page`](super::verify::verify_page), but together where a checksum is
//! faster for several pages at once.

use std::cell::Cell;

use crate::fold::{PAGES_MAX, innodb_new_many};
use crate::page::space_format::SpaceFormat;
use crate::page::verdict::Verdict;
use crate::page::verify;
use crate::types::PageId;

/// Consecutive pages of one tablespace.
#[derive(Debug)]
pub struct PageRun<'p> {
    bytes: &'p [u8],
    format: &'p SpaceFormat,
    /// The last group of pages for which `innodb` checksums were computed, and the checksums. A group takes as long as two or three single
    /// pages: little is lost on a lone page that needs this checksum, and much is gained in a tablespace full of them.
    sums: Cell<Option<(usize, [u32; PAGES_MAX])>>,
}

impl<'p> PageRun<'p> {
    /// The pages in `bytes`, which starts with a page. An incomplete page at the end is ignored.
    #[must_use]
    pub fn new(bytes: &'p [u8], format: &'p SpaceFormat) -> Self {
        Self { bytes, format, sums: Cell::new(None) }
    }

    /// The pages.
    #[inline]
    pub fn pages(&self) -> impl Iterator<Item = &'p [u8]> + use<'p> {
        self.bytes.chunks_exact(self.format.physical().bytes())
    }

    /// Judges page `index` of [`PageRun::pages`], stored at `id` in its tablespace.
    #[inline]
    #[must_use]
    pub fn verify(&self, index: usize, id: PageId) -> Verdict {
        let size = self.format.physical().bytes();
        let page = self.bytes.get(index * size..).map_or(&[][..], |rest| rest.get(..size).unwrap_or(rest));
        verify::verify_with(page, id, self.format, &|| self.innodb_new(index))
    }

    #[cold]
    fn innodb_new(&self, index: usize) -> u32 {
        let size = self.format.physical().bytes();
        let (group, lane) = (index / PAGES_MAX, index % PAGES_MAX);
        let sums = match self.sums.get() {
            Some((of, sums)) if of == group => sums,
            _ => innodb_new_many(self.bytes.chunks(size * PAGES_MAX).nth(group).unwrap_or_default(), size),
        };
        self.sums.set(Some((group, sums)));
        sums.get(lane).copied().unwrap_or(0)
    }
}
