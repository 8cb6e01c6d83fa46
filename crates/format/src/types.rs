//! Identities and positions: newtypes with their own arithmetic and formatting.

use std::fmt;

/// Id of a tablespace, as assigned by the server; 0 is the system tablespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

impl SpaceId {
    /// The system tablespace (`ibdata1` and the files after it).
    pub const SYSTEM: Self = Self(0);
    /// The dictionary tablespace `mysql.ibd` of MySQL 8.0 and later. MariaDB gives its `ibtmp1` the same id.
    pub const MYSQL_DICTIONARY: Self = Self(0xFFFF_FFFE);
    /// `ibtmp1` of MySQL 8.0 and later.
    pub const MYSQL_TEMPORARY: Self = Self(0xFFFF_FFFD);
    /// Stand for the two newest files of the binary log within InnoDB in MariaDB's redo log (12.3 and later): `LOG_BINLOG_ID_0` and `_1`.
    pub const MARIADB_BINLOG: [Self; 2] = [Self(0xFFFF_FFF0), Self(0xFFFF_FFF1)];
    /// An id that no tablespace has.
    pub const NONE: Self = Self(u32::MAX);
}

impl fmt::Display for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a page within its tablespace. In a tablespace of several files the numbers continue across the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u32);

impl PageNo {
    /// "No page": the end of a list or of a level.
    pub const NONE: Self = Self(u32::MAX);

    /// The page `pages` after this one; `None` if its number exceeds 32 bits.
    #[must_use]
    pub fn checked_add(self, pages: u32) -> Option<Self> {
        self.0.checked_add(pages).map(Self)
    }
}

impl fmt::Display for PageNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a page belongs: tablespace and number (the server's `page_id_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The tablespace.
    pub space: SpaceId,
    /// The page within it.
    pub page_no: PageNo,
}

impl PageId {
    /// The page `page_no` of the tablespace `space`.
    #[must_use]
    pub const fn new(space: u32, page_no: u32) -> Self {
        Self { space: SpaceId(space), page_no: PageNo(page_no) }
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of space {}", self.page_no, self.space)
    }
}

/// Log sequence number: a position in the redo log, in bytes, that only grows. Prints in decimal, as the servers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The half that a page repeats in its trailer.
    #[must_use]
    pub const fn low32(self) -> u32 {
        (self.0 & 0xFFFF_FFFF) as u32
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Size of a page in bytes: a power of two from 1 KiB (smallest compressed page) to 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u32);

impl PageSize {
    /// 1 KiB, the smallest compressed page.
    pub const MIN: Self = Self(1 << 10);
    /// 16 KiB, the servers' default.
    pub const DEFAULT: Self = Self(1 << 14);
    /// 64 KiB.
    pub const MAX: Self = Self(1 << 16);
    /// All sizes, smallest first.
    pub const ALL: [Self; 7] =
        [Self::MIN, Self(1 << 11), Self(1 << 12), Self(1 << 13), Self::DEFAULT, Self(1 << 15), Self::MAX];

    /// A page size of `bytes`, if InnoDB supports it.
    #[must_use]
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes.is_power_of_two() && bytes >= Self::MIN.0 && bytes <= Self::MAX.0 { Some(Self(bytes)) } else { None }
    }

    /// `512 << exponent`: how flags words store sizes.
    #[must_use]
    pub const fn from_ssize(exponent: u32) -> Option<Self> {
        if exponent >= 1 && exponent <= 7 { Some(Self(512 << exponent)) } else { None }
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// In bytes, as the 32-bit number used in page arithmetic.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Offset of page `index` in a file with this page size: the only place where a page number becomes a file offset.
    #[must_use]
    pub const fn offset_of(self, index: u32) -> u64 {
        index as u64 * self.0 as u64
    }

    /// Pages per extent for this *logical* page size: 1 MiB worth of pages, but at least 64.
    #[must_use]
    pub const fn extent_pages(self) -> u32 {
        match self.0 {
            ..=4096 => 256,
            8192 => 128,
            _ => 64,
        }
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB", self.0 / 1024)
    }
}
