//! Derives the format of a tablespace from the first bytes of its first file.

use thiserror::Error;

use crate::bytes::{be, is_zero};
use crate::codec::mariadb_encryption::{CRYPT_DATA_AFTER_XDES, CRYPT_MAGIC};
use crate::fil::{FIL_PAGE_NEXT, FIL_PAGE_OFFSET, FIL_PAGE_PREV, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE, PageType};
use crate::kind::{Encryption, Family, Scheme};
use crate::page::fsp::{self, FSP_SPACE_FLAGS, FSP_SPACE_ID};
use crate::page::guess;
use crate::page::space_format::{SpaceFormat, default_doublewrite};
use crate::types::{PageSize, SpaceId};

/// Why the first bytes of a file are not those of a tablespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotTablespace {
    /// Too few bytes.
    #[error("only {len} bytes, but the smallest tablespace header needs {MIN_HEAD}")]
    TooShort {
        /// Bytes given.
        len: usize,
    },
    /// Nothing but zeros.
    #[error("the first page is all zeros: there is no tablespace header")]
    Zero,
    /// The first page is not page 0: another kind of file, or a later file of the system tablespace.
    #[error("the first page says that it is page {page_no}, but a tablespace begins with page 0")]
    PageNumber {
        /// The number in the page.
        page_no: u32,
    },
    /// The two places that name the tablespace differ.
    #[error("the first page names space {fil} in the page header and space {fsp} in the space header")]
    SpaceIds {
        /// Tablespace according to the page header.
        fil: u32,
        /// Tablespace according to the space header.
        fsp: u32,
    },
    /// An id that no tablespace has.
    #[error("the first page names space {space}, which no tablespace can have")]
    SpaceId {
        /// The number.
        space: u32,
    },
    /// Not the type of a tablespace's first page.
    #[error("the first page has type {page_type}, but a tablespace begins with type 8")]
    PageType {
        /// The type in the page.
        page_type: u16,
    },
    /// A flags word that no server writes.
    #[error("neither MySQL nor MariaDB writes the space flags 0x{flags:x}")]
    Flags {
        /// The word.
        flags: u32,
    },
}

/// Bytes that [`SpaceFormat::from_page0`] needs at least.
pub const MIN_HEAD: usize = 1024;

impl SpaceFormat {
    /// Decides the format from the first bytes of a tablespace's first file.
    ///
    /// [`MIN_HEAD`] bytes are enough. More (the first 64 KiB) settle two more questions: whether the tablespace has MariaDB crypt data, and
    /// which page size an ambiguous flags word means (4 or 64 KiB pages against MariaDB 10.1).
    ///
    /// # Errors
    /// Why the bytes are not a tablespace's head. [`SpaceFormat::guess`] may still recognise the file.
    pub fn from_page0(head: &[u8]) -> Result<Self, NotTablespace> {
        let space = check_head(head)?;
        let flags = be::u32_at(head, FSP_SPACE_FLAGS).unwrap_or(0);
        let marker = Marker::read(head);
        let readings = [
            full_crc32_flags(flags),
            (marker != Marker::MariaDb).then(|| mysql_flags(flags)).flatten(),
            (marker != Marker::MySql).then(|| mariadb_flags(flags)).flatten(),
            (marker != Marker::MySql).then(|| mariadb_10_1_flags(flags)).flatten(),
        ];
        let reading = most_likely(readings.into_iter().flatten(), head).ok_or(NotTablespace::Flags { flags })?;
        Ok(reading.into_format(space, flags, head))
    }
}

/// Checks what the first pages of all tablespaces have in common (section 1 of the format facts).
fn check_head(head: &[u8]) -> Result<SpaceId, NotTablespace> {
    let word = |offset| be::u32_at(head, offset).unwrap_or(0);
    if head.len() < MIN_HEAD {
        return Err(NotTablespace::TooShort { len: head.len() });
    }
    if head.get(..MIN_HEAD).is_some_and(is_zero) {
        return Err(NotTablespace::Zero);
    }
    let page_no = word(FIL_PAGE_OFFSET);
    if page_no != 0 {
        return Err(NotTablespace::PageNumber { page_no });
    }
    let page_type = be::u16_at(head, FIL_PAGE_TYPE).unwrap_or(0);
    // Servers up to 5.1 left the type of page 0 at zero.
    if page_type != PageType::FSP_HDR.0 && page_type != PageType::ALLOCATED.0 {
        return Err(NotTablespace::PageType { page_type });
    }
    let (fil, fsp) = (word(FIL_PAGE_SPACE_ID), word(FSP_SPACE_ID));
    if fil != fsp {
        return Err(NotTablespace::SpaceIds { fil, fsp });
    }
    if SpaceId(fil) == SpaceId::NONE {
        return Err(NotTablespace::SpaceId { space: fil });
    }
    Ok(SpaceId(fil))
}

/// Page 0 has no neighbours; each vendor stores something else in those fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    MySql,
    MariaDb,
    Unknown,
}

impl Marker {
    fn read(head: &[u8]) -> Self {
        match (be::u32_at(head, FIL_PAGE_PREV), be::u32_at(head, FIL_PAGE_NEXT)) {
            (Some(u32::MAX), Some(u32::MAX)) => Self::MariaDb,
            // MySQL 8.0 and later: server version in decimal, space version 1.
            (Some(80_000..=999_999), Some(1)) => Self::MySql,
            _ => Self::Unknown,
        }
    }
}

/// One interpretation of a flags word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    family: Family,
    scheme: Scheme,
    logical: PageSize,
    physical: PageSize,
    encrypted: bool,
    temporary: bool,
    page_compressed: bool,
}

impl Reading {
    fn into_format(self, space: SpaceId, flags: u32, head: &[u8]) -> SpaceFormat {
        let crypt = crypt_data(head, self.logical, self.physical);
        // Only MariaDB has crypt data, so its presence decides the vendor where an old flags word does not.
        let family = if crypt.is_some() { Family::MariaDb } else { self.family };
        let encryption = match (family, self.encrypted, crypt) {
            (Family::MySql, true, _) => Encryption::MySql,
            (Family::MariaDb, _, Some(true)) => Encryption::MariaDb,
            _ => Encryption::None,
        };
        let mariadb_temporary = self.scheme == Scheme::FullCrc32 && space == SpaceId::MYSQL_DICTIONARY;
        SpaceFormat {
            family,
            scheme: self.scheme,
            logical: self.logical,
            physical: self.physical,
            space,
            flags,
            temporary: self.temporary || mariadb_temporary,
            encryption,
            page_compressed: self.page_compressed,
            doublewrite: default_doublewrite(space, self.logical),
        }
    }
}

/// Whether MariaDB's crypt data is switched on; `None` if there is no crypt data.
fn crypt_data(head: &[u8], logical: PageSize, physical: PageSize) -> Option<bool> {
    let start = fsp::xdes_array_end(logical, physical) + CRYPT_DATA_AFTER_XDES;
    let rest = head.get(start..)?.strip_prefix(&CRYPT_MAGIC)?;
    rest.first().map(|&kind| kind != 0)
}

/// Among the interpretations of a flags word, the one whose page size best fits the page numbers in `head`; the first one on a tie.
fn most_likely(readings: impl Iterator<Item = Reading>, head: &[u8]) -> Option<Reading> {
    let mut best: Option<(Reading, usize)> = None;
    for reading in readings {
        let hits = guess::numbered_pages(head, reading.physical, 0);
        if best.is_none_or(|(_, most)| hits > most) {
            best = Some((reading, hits));
        }
    }
    best.map(|(reading, _)| reading)
}

const POST_ANTELOPE: u32 = 1;
const ATOMIC_BLOBS: u32 = 1 << 5;
const MYSQL_DATA_DIR: u32 = 1 << 10;
const MYSQL_SHARED: u32 = 1 << 11;
const MYSQL_TEMPORARY: u32 = 1 << 12;
const MYSQL_ENCRYPTION: u32 = 1 << 13;
const MARIADB_PAGE_COMPRESSED: u32 = 1 << 16;
const FULL_CRC32: u32 = 1 << 4;

/// MariaDB 10.4 and later.
fn full_crc32_flags(flags: u32) -> Option<Reading> {
    let ssize = flags & 15;
    let algorithm = (flags >> 5) & 7;
    let valid = flags & FULL_CRC32 != 0 && flags >> 8 == 0 && ssize >= 3 && algorithm <= 6;
    let size = PageSize::from_ssize(ssize).filter(|_| valid)?;
    Some(Reading {
        family: Family::MariaDb,
        scheme: Scheme::FullCrc32,
        logical: size,
        physical: size,
        encrypted: false,
        temporary: false,
        page_compressed: algorithm != 0,
    })
}

fn mysql_flags(flags: u32) -> Option<Reading> {
    let has = |bit: u32| flags & bit != 0;
    let valid = has(POST_ANTELOPE) == has(ATOMIC_BLOBS)
        && flags >> 15 == 0
        && !(has(MYSQL_DATA_DIR) && (has(MYSQL_SHARED) || has(MYSQL_TEMPORARY)))
        && !(has(MYSQL_ENCRYPTION) && has(MYSQL_TEMPORARY));
    let reading = page_sizes(Family::MySql, (flags >> 6) & 15, (flags >> 1) & 15).filter(|_| valid)?;
    Some(Reading { encrypted: has(MYSQL_ENCRYPTION), temporary: has(MYSQL_TEMPORARY), ..reading })
}

/// MariaDB 10.1.21 and later, without full_crc32.
fn mariadb_flags(flags: u32) -> Option<Reading> {
    let ssize = (flags >> 6) & 15;
    // 5 would mean 16 KiB, which is written as 0.
    let valid = (flags >> 11) & 31 == 0 && flags >> 17 == 0 && ssize != 5;
    let reading = mariadb_sizes(flags, ssize).filter(|_| valid)?;
    Some(Reading { page_compressed: flags & MARIADB_PAGE_COMPRESSED != 0, ..reading })
}

/// MariaDB 10.1.0 to 10.1.20, which store the page size elsewhere.
fn mariadb_10_1_flags(flags: u32) -> Option<Reading> {
    let (ssize, level, atomic_writes) = ((flags >> 13) & 15, (flags >> 7) & 15, (flags >> 11) & 3);
    let page_compressed = flags & (1 << 6) != 0;
    let valid = flags >> 18 == 0 && page_compressed == (level != 0) && level <= 9 && atomic_writes != 3 && ssize != 5;
    let reading = mariadb_sizes(flags, ssize).filter(|_| valid)?;
    Some(Reading { page_compressed, ..reading })
}

fn mariadb_sizes(flags: u32, ssize: u32) -> Option<Reading> {
    let has = |bit: u32| flags & bit != 0;
    let zip = (flags >> 1) & 15;
    let limit = if ssize == 0 { 5 } else { ssize };
    let valid = (has(POST_ANTELOPE) || !has(ATOMIC_BLOBS)) && zip <= limit && (zip == 0 || has(ATOMIC_BLOBS));
    page_sizes(Family::MariaDb, ssize, zip).filter(|_| valid)
}

/// Sizes from their exponents; 0 means 16 KiB, or "not zip".
fn page_sizes(family: Family, ssize: u32, zip: u32) -> Option<Reading> {
    let logical = match ssize {
        0 => PageSize::DEFAULT,
        3..=7 => PageSize::from_ssize(ssize)?,
        _ => return None,
    };
    let (scheme, physical) = match zip {
        0 => (Scheme::Classic, logical),
        1..=5 => (Scheme::Zip, PageSize::from_ssize(zip)?),
        _ => return None,
    };
    let zip_fits = physical <= logical && logical <= PageSize::DEFAULT;
    let reading =
        Reading { family, scheme, logical, physical, encrypted: false, temporary: false, page_compressed: false };
    (scheme == Scheme::Classic || zip_fits).then_some(reading)
}
