//! The location of the system tablespace's doublewrite area.
//!
//! All MariaDB servers, and MySQL up to 8.0.19, write copies of pages to two runs of pages of space 0 before they write the pages in place.
//! MySQL 8.0.20 and later keep the area allocated but unused. Page 5 gives the runs.

use crate::bytes::be;
use crate::page::fsp::FileAddress;
use crate::types::{PageNo, PageSize};

/// The page of the system tablespace that names the area: the transaction system header.
pub const TRX_SYS_PAGE_NO: PageNo = PageNo(5);

/// Distance of the doublewrite header from the end of page 5.
const HEADER_FROM_END: usize = 200;
/// The segment header: tablespace, then the inode's page and offset.
const SEGMENT_INODE: usize = 4;
const MAGIC: usize = 10;
const BLOCK1: usize = 14;
const BLOCK2: usize = 18;
const MAGIC_VALUE: u32 = 536_853_855;

/// The two runs of pages, each an extent long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DoublewriteArea {
    /// First page of the first run.
    pub block1: PageNo,
    /// First page of the second run.
    pub block2: PageNo,
}

impl DoublewriteArea {
    /// The place in every new system tablespace of both servers: the second and third extent.
    #[must_use]
    pub fn usual(logical: PageSize) -> Self {
        let extent = logical.extent_pages();
        Self { block1: PageNo(extent), block2: PageNo(2 * extent) }
    }

    /// Reads the header on page 5 of the system tablespace; `None` if the server never created a doublewrite area.
    #[must_use]
    pub fn parse(page: &[u8]) -> Option<Self> {
        let header = page.get(page.len().checked_sub(HEADER_FROM_END)?..)?;
        let block = |offset| be::u32_at(header, offset).map(PageNo);
        let made = be::u32_at(header, MAGIC)? == MAGIC_VALUE;
        Some(Self { block1: block(BLOCK1)?, block2: block(BLOCK2)? }).filter(|_| made)
    }

    /// Reads, from page 5, the address of the inode of the area's segment. Besides the two runs, the segment owns half an extent of
    /// fragment pages. They were allocated only to make the runs whole extents, so they are in use but never written.
    #[must_use]
    pub fn segment_inode(page: &[u8]) -> Option<FileAddress> {
        Self::parse(page)?;
        let header = page.get(page.len().checked_sub(HEADER_FROM_END)?..)?;
        FileAddress::read(header, SEGMENT_INODE)
    }

    /// Whether `page_no` is in one of the runs.
    #[must_use]
    pub fn contains(&self, page_no: PageNo, extent_pages: u32) -> bool {
        let within = |first: PageNo| page_no.0.checked_sub(first.0).is_some_and(|offset| offset < extent_pages);
        within(self.block1) || within(self.block2)
    }
}
