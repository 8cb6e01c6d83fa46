//! The format of a tablespace's pages. [`SpaceFormat::from_page0`] decides it once from page 0; all other code passes it along.

use crate::kind::{Encryption, Family, Scheme};
use crate::page::doublewrite::DoublewriteArea;
use crate::types::{PageId, PageSize, SpaceId};

/// The facts about a tablespace that are needed to judge its pages. Small and `Copy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpaceFormat {
    pub(super) family: Family,
    pub(super) scheme: Scheme,
    pub(super) logical: PageSize,
    pub(super) physical: PageSize,
    pub(super) space: SpaceId,
    pub(super) flags: u32,
    pub(super) temporary: bool,
    pub(super) encryption: Encryption,
    pub(super) page_compressed: bool,
    pub(super) doublewrite: Option<DoublewriteArea>,
}

impl SpaceFormat {
    /// Assembles a format: uncompressed or zip, not encrypted. `None` if a zip page would be larger than a logical one, or the scheme does
    /// not fit the family or the sizes.
    #[must_use]
    pub fn new(family: Family, scheme: Scheme, logical: PageSize, physical: PageSize, space: SpaceId) -> Option<Self> {
        let fits = match scheme {
            Scheme::Classic => logical == physical,
            Scheme::Zip => physical <= logical && logical <= PageSize::DEFAULT,
            Scheme::FullCrc32 => logical == physical && family == Family::MariaDb,
        };
        let format = Self {
            family,
            scheme,
            logical,
            physical,
            space,
            flags: 0,
            temporary: false,
            encryption: Encryption::None,
            page_compressed: false,
            doublewrite: default_doublewrite(space, logical),
        };
        (fits && logical.bytes() >= 4096).then_some(format)
    }

    /// The vendor whose server writes the tablespace.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Where its pages keep their checksums.
    #[inline]
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Size of a page in memory (`innodb_page_size`).
    #[must_use]
    pub const fn logical(&self) -> PageSize {
        self.logical
    }

    /// Size of a page in the file; smaller than the logical size for most compressed tables.
    #[inline]
    #[must_use]
    pub const fn physical(&self) -> PageSize {
        self.physical
    }

    /// The space id.
    #[must_use]
    pub const fn space(&self) -> SpaceId {
        self.space
    }

    /// The flags word of page 0 as stored; 0 for formats that were not read from a page 0.
    #[must_use]
    pub const fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether it is for temporary tables; MySQL writes no checksums there.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Whether the tablespace says that it is encrypted.
    #[must_use]
    pub const fn encryption(&self) -> Encryption {
        self.encryption
    }

    /// Whether MariaDB's page_compressed flag is set. (MySQL's page compression is not recorded in the file.)
    #[must_use]
    pub const fn is_page_compressed(&self) -> bool {
        self.page_compressed
    }

    /// Pages in an extent.
    #[must_use]
    pub const fn extent_pages(&self) -> u32 {
        self.logical.extent_pages()
    }

    /// Whether `id` is in the system tablespace's doublewrite area, which holds copies of other pages.
    #[must_use]
    pub fn is_doublewrite_slot(&self, id: PageId) -> bool {
        id.space == SpaceId::SYSTEM
            && self.doublewrite.is_some_and(|area| area.contains(id.page_no, self.extent_pages()))
    }

    /// Overrides the page size with the user's. In a zip tablespace this is the size of the compressed pages.
    #[must_use]
    pub fn with_page_size(mut self, size: PageSize) -> Self {
        self.physical = size;
        if self.scheme != Scheme::Zip || self.logical < size {
            self.logical = size;
        }
        if self.doublewrite.is_some() {
            self.doublewrite = default_doublewrite(self.space, self.logical);
        }
        self
    }

    /// Applies another vendor's rules. A full_crc32 tablespace is always MariaDB's.
    #[must_use]
    pub fn with_family(mut self, family: Family) -> Self {
        if self.scheme != Scheme::FullCrc32 {
            self.family = family;
        }
        self
    }

    /// The same format with another space id.
    #[must_use]
    pub fn with_space(mut self, space: SpaceId) -> Self {
        self.space = space;
        self.doublewrite = default_doublewrite(space, self.logical);
        self
    }

    /// Sets the doublewrite area given on page 5 of the system tablespace (`None` if it has none). The default is the place where both
    /// servers always put it: the second and third extent.
    #[must_use]
    pub fn with_doublewrite_area(mut self, area: Option<DoublewriteArea>) -> Self {
        self.doublewrite = area;
        self
    }

    /// The same format, marked as temporary or not.
    #[must_use]
    pub fn with_temporary(mut self, temporary: bool) -> Self {
        self.temporary = temporary;
        self
    }

    /// The same format, marked as encrypted or not.
    #[must_use]
    pub fn with_encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = encryption;
        self
    }

    /// The same format with or without MariaDB's page_compressed flag.
    #[must_use]
    pub fn with_page_compressed(mut self, page_compressed: bool) -> Self {
        self.page_compressed = page_compressed;
        self
    }
}

pub(super) fn default_doublewrite(space: SpaceId, logical: PageSize) -> Option<DoublewriteArea> {
    (space == SpaceId::SYSTEM).then(|| DoublewriteArea::usual(logical))
}
