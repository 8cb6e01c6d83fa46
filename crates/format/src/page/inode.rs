//! Segment inodes: which pages and extents belong to each segment. Byte map in [`super::fsp`].

use crate::bytes::be;
use crate::corruption::{Corruption, SEGMENT_MAGIC};
use crate::fil::{self, FIL_PAGE_DATA, PageType};
use crate::page::fsp::{LIST_NODE_SIZE, ListBase};
use crate::page::space_format::SpaceFormat;
use crate::types::{PageNo, PageSize};

/// Node of the list of inode pages. 12 bytes.
pub const FSEG_INODE_PAGE_NODE: usize = FIL_PAGE_DATA;
/// The first inode, after the page header and the list node.
pub const FSEG_ARR_OFFSET: usize = FSEG_INODE_PAGE_NODE + LIST_NODE_SIZE;
/// Segment id; 0 in a free slot. 8 bytes.
pub const FSEG_ID: usize = 0;
/// Used pages in the extents of the NOT_FULL list. 4 bytes.
pub const FSEG_NOT_FULL_N_USED: usize = 8;
/// Lists of the segment's extents: FREE, NOT_FULL, FULL. 16 bytes each.
pub const FSEG_FREE: usize = 12;
/// See [`FSEG_FREE`].
pub const FSEG_NOT_FULL: usize = 28;
/// See [`FSEG_FREE`].
pub const FSEG_FULL: usize = 44;
/// [`SEGMENT_MAGIC`]. 4 bytes.
pub const FSEG_MAGIC_N: usize = 60;
/// Page numbers of fragment pages. 4 bytes each; there are half an extent of them.
pub const FSEG_FRAG_ARR: usize = 64;

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its id, unique in the tablespace.
    pub id: u64,
    /// Used pages in the extents of the NOT_FULL list.
    pub not_full_n_used: u32,
    /// Extents of the segment without a used page.
    pub free: ListBase,
    /// Extents with used and free pages.
    pub not_full: ListBase,
    /// Extents without a free page.
    pub full: ListBase,
    /// Pages allocated to the segment singly.
    pub fragments: Vec<PageNo>,
}

/// Bytes of one inode.
#[must_use]
pub const fn inode_size(logical: PageSize) -> usize {
    FSEG_FRAG_ARR + 2 * logical.extent_pages() as usize
}

/// Inodes on a page.
#[must_use]
pub const fn inodes_per_page(logical: PageSize, physical: PageSize) -> usize {
    (physical.bytes() - FSEG_ARR_OFFSET - 10) / inode_size(logical)
}

/// Reads the used inodes of an inode page and skips free slots. In encrypted tablespaces of both families inode pages are encrypted: check
/// [`is_readable`](crate::page::view::is_readable) first.
///
/// # Errors
/// [`Corruption::TruncatedPage`], [`Corruption::WrongPageType`], [`Corruption::BadSegmentMagic`].
pub fn parse_inodes(page: &[u8], format: &SpaceFormat) -> Result<Vec<Segment>, Corruption> {
    let size = format.physical();
    let truncated =
        Corruption::TruncatedPage { len: u32::try_from(page.len()).unwrap_or(u32::MAX), expected: size.get() };
    if page.len() != size.bytes() {
        return Err(truncated);
    }
    let stored = be::u16_at(page, fil::FIL_PAGE_TYPE).unwrap_or(0);
    if stored != PageType::INODE.0 {
        return Err(Corruption::WrongPageType { stored, expected: PageType::INODE.0 });
    }
    let slots = page.get(FSEG_ARR_OFFSET..).unwrap_or(&[]).chunks_exact(inode_size(format.logical()));
    let mut segments = Vec::new();
    for (slot, bytes) in (0..).zip(slots.take(inodes_per_page(format.logical(), size))) {
        segments.extend(Segment::parse(bytes, slot)?);
    }
    Ok(segments)
}

impl Segment {
    /// Reads the inode at `offset` bytes of an inode page; `None` if no used inode is there.
    #[must_use]
    pub fn at(page: &[u8], offset: u16, format: &SpaceFormat) -> Option<Self> {
        let start = usize::from(offset);
        let bytes = page.get(start..start.checked_add(inode_size(format.logical()))?)?;
        Self::parse(bytes, 0).ok().flatten()
    }

    fn parse(bytes: &[u8], slot: u32) -> Result<Option<Self>, Corruption> {
        let magic = be::u32_at(bytes, FSEG_MAGIC_N).unwrap_or(0);
        match be::u64_at(bytes, FSEG_ID) {
            None | Some(0) => Ok(None),
            Some(_) if magic != SEGMENT_MAGIC => Err(Corruption::BadSegmentMagic { slot, stored: magic }),
            Some(id) => Ok(Self::read(bytes, id)),
        }
    }

    fn read(bytes: &[u8], id: u64) -> Option<Self> {
        let (fragments, _) = bytes.get(FSEG_FRAG_ARR..)?.as_chunks::<4>();
        Some(Self {
            id,
            not_full_n_used: be::u32_at(bytes, FSEG_NOT_FULL_N_USED)?,
            free: ListBase::read(bytes, FSEG_FREE)?,
            not_full: ListBase::read(bytes, FSEG_NOT_FULL)?,
            full: ListBase::read(bytes, FSEG_FULL)?,
            fragments: fragments
                .iter()
                .map(|number| PageNo(u32::from_be_bytes(*number)))
                .filter(|&page_no| page_no != PageNo::NONE)
                .collect(),
        })
    }
}
