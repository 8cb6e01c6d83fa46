//! Everything that can be wrong with a page's bytes, with the value found and the value expected.

use std::fmt;

use thiserror::Error;

use crate::checksum::Algorithm;
use crate::codec::CodecError;
use crate::index_rule::IndexFinding;
use crate::types::{PageId, PageNo, SpaceId};
use crate::zip_damage::ZipDamage;

/// Present in every used inode.
pub const SEGMENT_MAGIC: u32 = 97_937_874;

/// One of a page's checksum fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumField {
    /// At byte 0.
    Header,
    /// 8 bytes before the end.
    Trailer,
    /// The last 4 bytes of a full_crc32 page (of its compressed part, if it is page_compressed).
    End,
    /// At byte 30, over the encrypted page (MariaDB).
    PostEncryption,
}

/// What is wrong with a page.
///
/// `Display` is the message; [`Corruption::reason`] is the stable code for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Corruption {
    /// No checksum that the server accepts matches the content.
    #[error("{algorithm} checksum mismatch: the {field} says {stored:08x}, the content gives {computed:08x}")]
    ChecksumMismatch {
        /// The algorithm that the page should use.
        algorithm: Algorithm,
        /// The field that differs.
        field: ChecksumField,
        /// The value in the page.
        stored: u32,
        /// The value computed from the content.
        computed: u32,
    },
    /// The checksum fails and the two copies of the LSN differ: an incomplete write.
    #[error(
        "torn page: the checksum fails, and the LSN ends in {header:08x} at the start, {trailer:08x} at the end of the page"
    )]
    TornPage {
        /// Low half of the LSN in the header.
        header: u32,
        /// The same half in the trailer.
        trailer: u32,
    },
    /// The checksum is right, but the two copies of the LSN differ; the servers reject the page.
    #[error(
        "the checksum is right, but the LSN ends in {header:08x} at the start, {trailer:08x} at the end of the page"
    )]
    LsnMismatch {
        /// Low half of the LSN in the header.
        header: u32,
        /// The same half in the trailer.
        trailer: u32,
    },
    /// A page whose checksum cannot be verified has another page number.
    #[error("the page says that it is page {stored}, but it is in the place of page {expected}")]
    WrongPageNumber {
        /// The number in the page.
        stored: PageNo,
        /// The number of its actual place.
        expected: PageNo,
    },
    /// A page whose checksum cannot be verified names another tablespace.
    #[error("the page says that it belongs to space {stored}, but it is in space {expected}")]
    WrongSpaceId {
        /// The tablespace in the page.
        stored: SpaceId,
        /// The tablespace it is stored in.
        expected: SpaceId,
    },
    /// A sound page that belongs elsewhere.
    #[error("{}", lies_here(*space, *page_no))]
    MisplacedPage {
        /// The tablespace in the page; `None` if encryption or compression hides it.
        space: Option<SpaceId>,
        /// The number in the page.
        page_no: PageNo,
        /// The place where it is stored.
        expected: PageId,
    },
    /// The size of the compressed part is impossible.
    #[error("the compressed part of the page claims {stored} bytes, but at most {limit} are possible")]
    BadCompressedSize {
        /// The size in the page, bytes.
        stored: u32,
        /// The largest possible size, bytes.
        limit: u32,
    },
    /// Checksums and LSN are zero, as in a page that was never written, but the page is not.
    #[error(
        "checksum and LSN are zero, as on a page that was never written, but byte {offset} is not; the content gives {computed:08x}"
    )]
    NotZeroPage {
        /// Offset of the first byte that should be zero.
        offset: u32,
        /// The checksum of the content.
        computed: u32,
    },
    /// Fewer or more bytes than a page.
    #[error("{len} bytes instead of a page of {expected}")]
    TruncatedPage {
        /// Number of bytes.
        len: u32,
        /// Page size, bytes.
        expected: u32,
    },
    /// An encrypted or page-compressed page that cannot be opened.
    #[error("{0}")]
    CannotBeOpened(CodecError),
    /// The page type is not the one that its place requires.
    #[error("page type {stored} instead of type {expected}")]
    WrongPageType {
        /// The type in the page.
        stored: u16,
        /// The type of the structure expected here.
        expected: u16,
    },
    /// An extent descriptor is in a state that does not exist.
    #[error("the descriptor of the extent at page {page_no} has state {state}, which does not exist")]
    BadExtentState {
        /// First page of the extent.
        page_no: PageNo,
        /// The state in the descriptor.
        state: u32,
    },
    /// A used slot of an inode page lacks the magic number of segment inodes.
    #[error("segment inode {slot} has the magic number {stored} instead of {SEGMENT_MAGIC}")]
    BadSegmentMagic {
        /// The slot, counted from 0.
        slot: u32,
        /// The number in the slot.
        stored: u32,
    },
    /// A rule of index pages is broken.
    #[error("{0}")]
    Index(IndexFinding),
    /// A page of ROW_FORMAT=COMPRESSED cannot be unpacked.
    #[error("{0}")]
    Zip(ZipDamage),
}

impl Corruption {
    /// A stable code for programs, in snake case.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::ChecksumMismatch { .. } => "checksum_mismatch",
            Self::TornPage { .. } => "torn_page",
            Self::LsnMismatch { .. } => "lsn_mismatch",
            Self::WrongPageNumber { .. } => "wrong_page_number",
            Self::WrongSpaceId { .. } => "wrong_space_id",
            Self::MisplacedPage { .. } => "misplaced_page",
            Self::BadCompressedSize { .. } => "bad_compressed_size",
            Self::NotZeroPage { .. } => "not_zero_page",
            Self::TruncatedPage { .. } => "truncated_page",
            Self::CannotBeOpened(error) => error.reason(),
            Self::WrongPageType { .. } => "wrong_page_type",
            Self::BadExtentState { .. } => "bad_extent_state",
            Self::BadSegmentMagic { .. } => "bad_segment_magic",
            Self::Index(finding) => finding.rule.name(),
            Self::Zip(_) => "cannot_be_unpacked",
        }
    }

    /// The value found, if the finding is about a single value.
    #[must_use]
    pub fn stored(&self) -> Option<u64> {
        Some(match *self {
            Self::ChecksumMismatch { stored, .. }
            | Self::BadCompressedSize { stored, .. }
            | Self::BadSegmentMagic { stored, .. } => u64::from(stored),
            Self::TornPage { header, .. } | Self::LsnMismatch { header, .. } => u64::from(header),
            Self::WrongPageNumber { stored, .. } => u64::from(stored.0),
            Self::WrongSpaceId { stored, .. } => u64::from(stored.0),
            Self::MisplacedPage { page_no, space, expected } => match space {
                Some(space) if page_no == expected.page_no => u64::from(space.0),
                _ => u64::from(page_no.0),
            },
            Self::NotZeroPage { .. } => 0,
            Self::TruncatedPage { len, .. } => u64::from(len),
            Self::WrongPageType { stored, .. } => u64::from(stored),
            Self::BadExtentState { state, .. } => u64::from(state),
            Self::Index(finding) => finding.found,
            Self::CannotBeOpened(_) | Self::Zip(_) => return None,
        })
    }

    /// The expected value, computed from the content or known from the page's place. `None` if the finding has none.
    #[must_use]
    pub fn computed(&self) -> Option<u64> {
        Some(match *self {
            Self::ChecksumMismatch { computed, .. } | Self::NotZeroPage { computed, .. } => u64::from(computed),
            Self::TornPage { trailer, .. } | Self::LsnMismatch { trailer, .. } => u64::from(trailer),
            Self::WrongPageNumber { expected, .. } => u64::from(expected.0),
            Self::WrongSpaceId { expected, .. } => u64::from(expected.0),
            Self::MisplacedPage { page_no, space, expected } => match space {
                Some(_) if page_no == expected.page_no => u64::from(expected.space.0),
                _ => u64::from(expected.page_no.0),
            },
            Self::BadCompressedSize { limit, .. } => u64::from(limit),
            Self::TruncatedPage { expected, .. } => u64::from(expected),
            Self::WrongPageType { expected, .. } => u64::from(expected),
            Self::BadExtentState { .. } | Self::CannotBeOpened(_) | Self::Zip(_) => {
                return None;
            }
            Self::BadSegmentMagic { .. } => u64::from(SEGMENT_MAGIC),
            Self::Index(finding) => finding.expected,
        })
    }
}

/// Names the page stored where another one belongs.
fn lies_here(space: Option<SpaceId>, page_no: PageNo) -> String {
    match space {
        Some(space) => format!("page {page_no} of space {space} is here instead, with a valid checksum"),
        None => format!("page {page_no} is here instead, with a valid checksum; its space is encrypted or compressed"),
    }
}

impl fmt::Display for ChecksumField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "page header",
            Self::Trailer => "page trailer",
            Self::End => "end of the page",
            Self::PostEncryption => "encrypted page's header",
        })
    }
}
