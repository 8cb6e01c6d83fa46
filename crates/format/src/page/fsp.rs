#![doc = include_str!("../../docs/fsp.md")]

use crate::bytes::be;
use crate::corruption::Corruption;
use crate::types::{PageNo, PageSize, SpaceId};

/// Space id, in the space header. 4 bytes.
pub const FSP_SPACE_ID: usize = 38;
/// Unused. 4 bytes.
pub const FSP_NOT_USED: usize = 42;
/// Pages in the tablespace. 4 bytes.
pub const FSP_SIZE: usize = 46;
/// Pages from here on have no extent descriptors yet: free, and always zero. 4 bytes.
pub const FSP_FREE_LIMIT: usize = 50;
/// Flags word. 4 bytes.
pub const FSP_SPACE_FLAGS: usize = 54;
/// Used pages in the extents of the FREE_FRAG list. 4 bytes.
pub const FSP_FRAG_N_USED: usize = 58;
/// Lists of extents: FREE, FREE_FRAG, FULL_FRAG. 16 bytes each.
pub const FSP_FREE: usize = 62;
/// See [`FSP_FREE`].
pub const FSP_FREE_FRAG: usize = 78;
/// See [`FSP_FREE`].
pub const FSP_FULL_FRAG: usize = 94;
/// Next segment id. 8 bytes.
pub const FSP_SEG_ID: usize = 110;
/// Lists of inode pages: full ones, ones with free slots. 16 bytes each.
pub const FSP_SEG_INODES_FULL: usize = 118;
/// See [`FSP_SEG_INODES_FULL`].
pub const FSP_SEG_INODES_FREE: usize = 134;
/// Start of the extent descriptors, on page 0 and on every other XDES page.
pub const XDES_ARR_OFFSET: usize = 150;

const _: () = assert!(FSP_FREE_FRAG == FSP_FREE + LIST_BASE_SIZE && FSP_FULL_FRAG == FSP_FREE_FRAG + LIST_BASE_SIZE);
const _: () = assert!(XDES_ARR_OFFSET == FSP_SEG_INODES_FREE + LIST_BASE_SIZE);

/// Bytes of a list base: length, first address, last address.
pub const LIST_BASE_SIZE: usize = 16;

/// Bytes of a list node: previous address, next address.
pub const LIST_NODE_SIZE: usize = 12;

/// Address of a list node: a page and an offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileAddress {
    /// The page; [`PageNo::NONE`] at the end of the list.
    pub page_no: PageNo,
    /// Offset of the node in the page, bytes.
    pub offset: u16,
}

/// Length and ends of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListBase {
    /// Nodes in the list.
    pub len: u32,
    /// First node.
    pub first: FileAddress,
    /// Last node.
    pub last: FileAddress,
}

impl ListBase {
    /// Reads the list base at `offset`.
    #[must_use]
    pub fn read(page: &[u8], offset: usize) -> Option<Self> {
        Some(Self {
            len: be::u32_at(page, offset)?,
            first: FileAddress::read(page, offset + 4)?,
            last: FileAddress::read(page, offset + 10)?,
        })
    }
}

/// A list node: a member's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListNode {
    /// The previous member.
    pub prev: FileAddress,
    /// The next member.
    pub next: FileAddress,
}

impl ListNode {
    /// Reads the node at `offset`.
    #[must_use]
    pub fn read(page: &[u8], offset: usize) -> Option<Self> {
        Some(Self { prev: FileAddress::read(page, offset)?, next: FileAddress::read(page, offset + 6)? })
    }
}

impl FileAddress {
    /// Whether this is the end of a list.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.page_no == PageNo::NONE
    }

    /// Reads the address at `offset`.
    #[must_use]
    pub fn read(page: &[u8], offset: usize) -> Option<Self> {
        Some(Self { page_no: PageNo(be::u32_at(page, offset)?), offset: be::u16_at(page, offset + 4)? })
    }
}

/// What page 0 says about the whole tablespace, as stored and unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceHeader {
    /// The tablespace.
    pub space: SpaceId,
    /// Pages in the tablespace, over all its files.
    pub size: u32,
    /// Pages from here on have never been used.
    pub free_limit: PageNo,
    /// Flags word.
    pub flags: u32,
    /// Used pages in the extents of the FREE_FRAG list.
    pub frag_n_used: u32,
    /// Extents without a used page.
    pub free: ListBase,
    /// Extents whose pages are allocated singly, with free pages left.
    pub free_frag: ListBase,
    /// The same, without free pages.
    pub full_frag: ListBase,
    /// The next segment's id.
    pub next_segment_id: u64,
    /// Inode pages without free slots.
    pub inodes_full: ListBase,
    /// Inode pages with free slots.
    pub inodes_free: ListBase,
}

impl SpaceHeader {
    /// Reads the space header from page 0, or from at least its first 150 bytes.
    ///
    /// # Errors
    /// [`Corruption::TruncatedPage`] for fewer bytes.
    pub fn parse(page0: &[u8]) -> Result<Self, Corruption> {
        Self::read(page0).ok_or(Corruption::TruncatedPage {
            len: u32::try_from(page0.len()).unwrap_or(u32::MAX),
            expected: XDES_ARR_OFFSET as u32,
        })
    }

    fn read(page0: &[u8]) -> Option<Self> {
        Some(Self {
            space: SpaceId(be::u32_at(page0, FSP_SPACE_ID)?),
            size: be::u32_at(page0, FSP_SIZE)?,
            free_limit: PageNo(be::u32_at(page0, FSP_FREE_LIMIT)?),
            flags: be::u32_at(page0, FSP_SPACE_FLAGS)?,
            frag_n_used: be::u32_at(page0, FSP_FRAG_N_USED)?,
            free: ListBase::read(page0, FSP_FREE)?,
            free_frag: ListBase::read(page0, FSP_FREE_FRAG)?,
            full_frag: ListBase::read(page0, FSP_FULL_FRAG)?,
            next_segment_id: be::u64_at(page0, FSP_SEG_ID)?,
            inodes_full: ListBase::read(page0, FSP_SEG_INODES_FULL)?,
            inodes_free: ListBase::read(page0, FSP_SEG_INODES_FREE)?,
        })
    }
}

/// Bytes of an extent descriptor: 24, plus two bits for each page of the extent.
#[must_use]
pub const fn xdes_size(logical: PageSize) -> usize {
    24 + logical.extent_pages() as usize / 4
}

/// Where an XDES page's extent descriptors end.
#[must_use]
pub const fn xdes_array_end(logical: PageSize, physical: PageSize) -> usize {
    XDES_ARR_OFFSET + xdes_size(logical) * (physical.get() / logical.extent_pages()) as usize
}
