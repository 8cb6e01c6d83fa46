//! Sealing, the last step before a page is written: LSN and checksum. The inverse of [`super::verify`].

use thiserror::Error;

use crate::bytes::be;
use crate::checksum::{self, Algorithm, NO_CHECKSUM_MAGIC};
use crate::codec::{
    CipherMode, Compression, Deflater, SpaceKeys, TablespaceKey, mariadb_compression, mariadb_encryption,
    mysql_encryption,
};
use crate::fil::{FIL_PAGE_FILE_FLUSH_LSN, FIL_PAGE_LSN, FIL_PAGE_SPACE_OR_CHKSUM, FIL_PAGE_TYPE, PageType};
use crate::kind::Scheme;
use crate::page::doublewrite::TRX_SYS_PAGE_NO;
use crate::page::space_format::SpaceFormat;
use crate::types::{Lsn, PageId, SpaceId};

/// Why a page was not sealed. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SealError {
    /// Not the page size of this tablespace.
    #[error("{len} bytes cannot be sealed as a page of {expected} bytes")]
    Length {
        /// Bytes given.
        len: usize,
        /// The page size, bytes.
        expected: usize,
    },
    /// Pages of this tablespace cannot have this checksum.
    #[error("a page of this tablespace cannot carry a checksum of the kind {0}")]
    Algorithm(Algorithm),
    /// There is no key to encrypt with.
    #[error("there is no key to encrypt the page with")]
    NoKey,
}

/// Writes `lsn` to header and trailer, then the checksum. Does not compress or encrypt: that must be done before.
///
/// # Errors
/// The length is not the format's page size, or the format does not use checksums of this kind.
pub fn seal_page(page: &mut [u8], lsn: Lsn, algorithm: Algorithm, format: &SpaceFormat) -> Result<(), SealError> {
    let expected = format.physical().bytes();
    if page.len() != expected {
        return Err(SealError::Length { len: page.len(), expected });
    }
    let sealed = match (format.scheme(), algorithm) {
        (Scheme::FullCrc32, Algorithm::FullCrc32) => seal_full(page, lsn),
        (Scheme::FullCrc32, _) | (_, Algorithm::FullCrc32 | Algorithm::Mixed) => None,
        (Scheme::Zip, _) => seal_zip(page, lsn, algorithm),
        (Scheme::Classic, _) => seal_classic(page, lsn, algorithm),
    };
    sealed.ok_or(SealError::Algorithm(algorithm))
}

/// Seals a MariaDB page to which redo was applied, as the server would before writing it: keeps the LSN in the header, clears the key
/// version (the page is not encrypted now) and computes a CRC-32C.
///
/// The page is written plain: neither encrypted nor page_compressed. A server reads plain pages in tablespaces of both kinds, but a page
/// that was encrypted is then no longer secret, and one that was compressed takes more room. [`seal_encrypted`] and
/// [`seal_page_compressed`] keep them as they were.
///
/// # Errors
/// As [`seal_page`].
pub fn seal_recovered(page: &mut [u8], id: PageId, format: &SpaceFormat) -> Result<(), SealError> {
    let expected = format.physical().bytes();
    let len = SealError::Length { len: page.len(), expected };
    if page.len() != expected {
        return Err(len);
    }
    let lsn = Lsn(be::u64_at(page, FIL_PAGE_LSN).ok_or(len)?);
    // In R-tree pages of the older layouts this field is a counter, which no server needs.
    match format.scheme() {
        _ if is_always_plain(id) => {}
        Scheme::FullCrc32 => be::put_u32(page, FIL_PAGE_SPACE_OR_CHKSUM, 0).ok_or(len)?,
        Scheme::Classic | Scheme::Zip => be::put_u64(page, FIL_PAGE_FILE_FLUSH_LSN, 0).ok_or(len)?,
    }
    let algorithm = if format.scheme() == Scheme::FullCrc32 { Algorithm::FullCrc32 } else { Algorithm::Crc32 };
    seal_page(page, lsn, algorithm, format)
}

/// [`seal_recovered`] for a MySQL page. With `key` the page is encrypted, unless it is page 0. A page of a tablespace with `COMPRESSION` is
/// written uncompressed, which servers can read.
///
/// # Errors
/// As [`seal_page`].
pub fn seal_mysql(
    page: &mut [u8],
    id: PageId,
    format: &SpaceFormat,
    key: Option<&TablespaceKey>,
) -> Result<(), SealError> {
    let expected = format.physical().bytes();
    let len = SealError::Length { len: page.len(), expected };
    if page.len() != expected {
        return Err(len);
    }
    let lsn = Lsn(be::u64_at(page, FIL_PAGE_LSN).ok_or(len)?);
    seal_page(page, lsn, Algorithm::Crc32, format)?;
    match key {
        Some(key) if id.page_no.0 != 0 => mysql_encryption::encrypt_page(page, key).ok_or(len),
        _ => Ok(()),
    }
}

/// Records on page 0 of MariaDB's system tablespace that all files contain every change up to `flushed`, and seals the page. Servers before
/// 10.8 read this at startup and write it at shutdown. The page's own LSN stays unchanged.
///
/// # Errors
/// As [`seal_page`].
pub fn seal_flush_lsn(page: &mut [u8], flushed: Lsn, format: &SpaceFormat) -> Result<(), SealError> {
    let expected = format.physical().bytes();
    let len = SealError::Length { len: page.len(), expected };
    be::put_u64(page, FIL_PAGE_FILE_FLUSH_LSN, flushed.0).ok_or(len)?;
    // Other checksums do not cover the field.
    if format.scheme() != Scheme::FullCrc32 {
        return Ok(());
    }
    let lsn = Lsn(be::u64_at(page, FIL_PAGE_LSN).ok_or(len)?);
    seal_page(page, lsn, Algorithm::FullCrc32, format)
}

/// Whether the page is never encrypted or compressed: servers read it before they know how the others are stored.
fn is_always_plain(id: PageId) -> bool {
    id.page_no.0 == 0 || (id.space == SpaceId::SYSTEM && id.page_no == TRX_SYS_PAGE_NO)
}

/// [`seal_recovered`] for a page of an encrypted tablespace: encrypts it with the newest of `keys`, as a server with these keys would.
/// Equal pages give equal bytes: the initialisation vector depends only on the page's id and LSN. Pages that servers keep plain stay plain.
/// The page is not page_compressed.
///
/// # Errors
/// As [`seal_page`]; [`SealError::NoKey`] if `keys` is empty.
pub fn seal_encrypted(
    page: &mut [u8],
    id: PageId,
    format: &SpaceFormat,
    keys: &SpaceKeys,
    mode: CipherMode,
) -> Result<(), SealError> {
    seal_recovered(page, id, format)?;
    let page_type = PageType(be::u16_at(page, FIL_PAGE_TYPE).unwrap_or(0));
    let describes_space = matches!(page_type, PageType::FSP_HDR | PageType::XDES);
    // In R-tree pages of the older layouts, a counter takes the place of the key version.
    let has_no_room = page_type == PageType::RTREE && format.scheme() != Scheme::FullCrc32;
    if is_always_plain(id) || describes_space || has_no_room {
        return Ok(());
    }
    mariadb_encryption::encrypt(page, id, format.scheme(), keys, mode).ok_or(SealError::NoKey)
}

/// [`seal_recovered`] for a page of a page_compressed tablespace: compresses it as a server would before writing it, then encrypts it if
/// there are keys. A page that servers keep uncompressed, or that frees no block when compressed, is sealed as by [`seal_recovered`] or
/// [`seal_encrypted`]. Equal pages give equal bytes, but not those of a server, whose compression library differs.
///
/// # Errors
/// As [`seal_encrypted`].
pub fn seal_page_compressed(
    page: &mut [u8],
    id: PageId,
    format: &SpaceFormat,
    crypt: Option<(&SpaceKeys, CipherMode)>,
    compression: Compression,
    deflater: &mut Deflater,
) -> Result<(), SealError> {
    seal_recovered(page, id, format)?;
    let is_compressed = is_compressible(page, id)
        && match format.scheme() {
            Scheme::FullCrc32 => mariadb_compression::compress_full_crc32(page, compression, deflater),
            Scheme::Classic => mariadb_compression::compress_classic(page, compression, crypt.is_some(), deflater),
            Scheme::Zip => None,
        }
        .is_some();
    match crypt {
        None => Ok(()),
        Some((keys, mode)) if is_compressed => {
            mariadb_encryption::encrypt(page, id, format.scheme(), keys, mode).ok_or(SealError::NoKey)
        }
        Some((keys, mode)) => seal_encrypted(page, id, format, keys, mode),
    }
}

/// Whether servers compress this page: all pages but those that describe the tablespace, and those without a type.
fn is_compressible(page: &[u8], id: PageId) -> bool {
    let page_type = PageType(be::u16_at(page, FIL_PAGE_TYPE).unwrap_or(0));
    !is_always_plain(id) && !matches!(page_type, PageType::FSP_HDR | PageType::XDES | PageType::ALLOCATED)
}

fn seal_full(page: &mut [u8], lsn: Lsn) -> Option<()> {
    let end = page.len().checked_sub(8)?;
    be::put_u64(page, FIL_PAGE_LSN, lsn.0)?;
    be::put_u32(page, end, lsn.low32())?;
    let crc = checksum::full_crc32(page);
    be::put_u32(page, end + 4, crc)
}

fn seal_zip(page: &mut [u8], lsn: Lsn, algorithm: Algorithm) -> Option<()> {
    be::put_u64(page, FIL_PAGE_LSN, lsn.0)?;
    let checksum = match algorithm {
        Algorithm::Crc32 => checksum::zip_crc32(page),
        Algorithm::Crc32BigEndian => checksum::zip_crc32_big_endian(page),
        Algorithm::Innodb => checksum::zip_adler(page),
        Algorithm::None => NO_CHECKSUM_MAGIC,
        Algorithm::FullCrc32 | Algorithm::Mixed => return None,
    };
    be::put_u32(page, FIL_PAGE_SPACE_OR_CHKSUM, checksum)
}

fn seal_classic(page: &mut [u8], lsn: Lsn, algorithm: Algorithm) -> Option<()> {
    let end = page.len().checked_sub(8)?;
    be::put_u64(page, FIL_PAGE_LSN, lsn.0)?;
    be::put_u32(page, end + 4, lsn.low32())?;
    let header = match algorithm {
        Algorithm::Crc32 => checksum::crc32(page),
        Algorithm::Crc32BigEndian => checksum::crc32_big_endian(page),
        Algorithm::Innodb => checksum::innodb_new(page),
        Algorithm::None => NO_CHECKSUM_MAGIC,
        Algorithm::FullCrc32 | Algorithm::Mixed => return None,
    };
    be::put_u32(page, FIL_PAGE_SPACE_OR_CHKSUM, header)?;
    // The old formula covers the new formula's result.
    let trailer = if algorithm == Algorithm::Innodb { checksum::innodb_old(page) } else { header };
    be::put_u32(page, end, trailer)
}
