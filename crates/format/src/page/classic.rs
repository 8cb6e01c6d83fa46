//! Formats with a checksum at byte 0: ordinary pages of MySQL and of older MariaDB tablespaces, and zip pages of both.

use crate::bytes::be;
use crate::checksum::{self, Algorithm, NO_CHECKSUM_MAGIC};
use crate::corruption::{ChecksumField, Corruption};
use crate::fil::{FIL_PAGE_DATA, FIL_PAGE_LSN, FIL_PAGE_TYPE, PageType};
use crate::kind::{Encryption, Family};
use crate::page::space_format::SpaceFormat;
use crate::page::verdict::{InnodbNew, Verdict, Why, differing_halves, mismatch, zero_verdict};
use crate::types::PageNo;

/// MySQL's compression information: version, algorithm, original type, original size, compressed size.
const COMPRESSION_VERSION: usize = 26;
const COMPRESSION_ALGORITHM: usize = 27;
const ORIGINAL_TYPE: usize = 28;
const ORIGINAL_SIZE: usize = 30;
const COMPRESSED_SIZE: usize = 32;
/// MariaDB's key version, and the checksum of the encrypted page.
const KEY_VERSION: usize = 26;
const POST_ENCRYPTION_CHECKSUM: usize = 30;

/// Checksums of an ordinary page, computed by the caller or on demand.
pub(crate) struct Sums<'a> {
    /// [`checksum::crc32`].
    pub crc: u32,
    /// [`checksum::innodb_new`].
    pub innodb_new: &'a InnodbNew<'a>,
}

/// Ordinary pages.
pub(crate) fn judge(page: &[u8], page_no: PageNo, format: &SpaceFormat, sums: &Sums<'_>) -> Verdict {
    let crc = sums.crc;
    let end = page.len().saturating_sub(8);
    let fields = Fields {
        header: be::u32_at(page, 0).unwrap_or(0),
        trailer: be::u32_at(page, end).unwrap_or(0),
        lsn: be::u64_at(page, FIL_PAGE_LSN).unwrap_or(0),
    };
    let halves = differing_halves(page, end + 4);
    let unwritten = fields.header == 0 && fields.trailer == 0 && fields.lsn == 0;
    if unwritten && halves.is_none() {
        // An import compresses pages of zeros as well, and gives them neither checksum nor LSN.
        let kind = PageType(be::u16_at(page, FIL_PAGE_TYPE).unwrap_or(0));
        let packed = Some(kind).filter(|_| format.family() == Family::MySql);
        let verdict = packed.and_then(|kind| mysql_transformed(page, kind, format));
        return verdict.unwrap_or_else(|| zero_verdict(page, false, crc));
    }
    if let Some(verdict) = transformed(page, page_no, format, crc, halves.is_some()) {
        return verdict;
    }
    let accepted = match format.family() {
        Family::MySql => mysql_accepts(page, &fields, sums),
        Family::MariaDb => mariadb_accepts(page, &fields, sums),
    };
    match (accepted, halves) {
        (Some(Verdict::Ok(_)), Some((header, trailer))) => {
            Verdict::Corrupt(Corruption::LsnMismatch { header, trailer })
        }
        (_, Some((header, trailer))) => Verdict::Corrupt(Corruption::TornPage { header, trailer }),
        (Some(Verdict::Ok(Algorithm::None)) | None, None) if skips_checksums(format) => {
            Verdict::Unverifiable(Why::NoChecksum)
        }
        (Some(Verdict::Ok(Algorithm::None)), None) if format.family() == Family::MySql => {
            opaque(page).map_or(Verdict::Ok(Algorithm::None), Verdict::Unverifiable)
        }
        (Some(verdict), None) => verdict,
        (None, None) => Verdict::Corrupt(closest(page, &fields, sums)),
    }
}

/// Pages of ROW_FORMAT=COMPRESSED tablespaces. `crc` is the page's [`checksum::zip_crc32`].
pub(crate) fn judge_zip(page: &[u8], page_no: PageNo, format: &SpaceFormat, crc: u32) -> Verdict {
    let stored = be::u32_at(page, 0).unwrap_or(0);
    if stored == 0 && be::u64_at(page, FIL_PAGE_LSN) == Some(0) {
        return zero_verdict(page, true, crc);
    }
    if let Some(verdict) = transformed(page, page_no, format, crc, true) {
        return verdict;
    }
    if stored == crc {
        return Verdict::Ok(Algorithm::Crc32);
    }
    if stored == NO_CHECKSUM_MAGIC {
        return no_checksum(format);
    }
    if stored == checksum::zip_adler(page) {
        return Verdict::Ok(Algorithm::Innodb);
    }
    if stored == checksum::zip_crc32_big_endian(page) {
        return big_endian(format.family());
    }
    if skips_checksums(format) {
        return Verdict::Unverifiable(Why::NoChecksum);
    }
    Verdict::Corrupt(mismatch(Algorithm::Crc32, &[(ChecksumField::Header, stored)], crc))
}

struct Fields {
    header: u32,
    trailer: u32,
    lsn: u64,
}

/// MySQL accepts anything in its temporary tablespaces.
fn skips_checksums(format: &SpaceFormat) -> bool {
    format.is_temporary() && format.family() == Family::MySql
}

fn no_checksum(format: &SpaceFormat) -> Verdict {
    if skips_checksums(format) { Verdict::Unverifiable(Why::NoChecksum) } else { Verdict::Ok(Algorithm::None) }
}

fn big_endian(family: Family) -> Verdict {
    match family {
        Family::MySql => Verdict::Ok(Algorithm::Crc32BigEndian),
        Family::MariaDb => Verdict::Unverifiable(Why::OldBigEndianChecksum),
    }
}

fn mysql_accepts(page: &[u8], fields: &Fields, sums: &Sums<'_>) -> Option<Verdict> {
    let both = |value| fields.header == value && fields.trailer == value;
    if both(sums.crc) {
        return Some(Verdict::Ok(Algorithm::Crc32));
    }
    if both(NO_CHECKSUM_MAGIC) {
        return Some(Verdict::Ok(Algorithm::None));
    }
    let old = fields.trailer == high_half(fields.lsn) || fields.trailer == checksum::innodb_old(page);
    if old && (fields.header == 0 || fields.header == (sums.innodb_new)()) {
        return Some(Verdict::Ok(Algorithm::Innodb));
    }
    (fields.header == fields.trailer && both(checksum::crc32_big_endian(page)))
        .then_some(Verdict::Ok(Algorithm::Crc32BigEndian))
}

/// MariaDB checks the two fields separately, so a page may combine two algorithms.
fn mariadb_accepts(page: &[u8], fields: &Fields, sums: &Sums<'_>) -> Option<Verdict> {
    let both = |value| fields.header == value && fields.trailer == value;
    if both(sums.crc) {
        return Some(Verdict::Ok(Algorithm::Crc32));
    }
    if both(NO_CHECKSUM_MAGIC) {
        return Some(Verdict::Ok(Algorithm::None));
    }
    let old = fields.trailer == high_half(fields.lsn) || fields.trailer == checksum::innodb_old(page);
    let new = fields.header == 0 || fields.header == (sums.innodb_new)();
    let trailer = old || fields.trailer == NO_CHECKSUM_MAGIC;
    let header = new || fields.header == NO_CHECKSUM_MAGIC;
    if old && new {
        Some(Verdict::Ok(Algorithm::Innodb))
    } else if trailer && header {
        Some(Verdict::Ok(Algorithm::Mixed))
    } else {
        let swapped = fields.header == fields.trailer && both(checksum::crc32_big_endian(page));
        swapped.then(|| big_endian(Family::MariaDb))
    }
}

fn high_half(lsn: u64) -> u32 {
    u32::try_from(lsn >> 32).unwrap_or(0)
}

/// Whether the page has checksums as written before MySQL 4.1.1.
pub(crate) fn is_ancient(page: &[u8]) -> bool {
    let trailer = be::u32_at(page, page.len().saturating_sub(8));
    be::u32_at(page, 0) == Some(0) || trailer == be::u32_at(page, FIL_PAGE_LSN)
}

/// The finding for a page that matches no algorithm: if one field is right under some algorithm, the other field is the wrong one.
fn closest(page: &[u8], fields: &Fields, sums: &Sums<'_>) -> Corruption {
    let crc = sums.crc;
    let both = [(ChecksumField::Header, fields.header), (ChecksumField::Trailer, fields.trailer)];
    let (new, old) = ((sums.innodb_new)(), checksum::innodb_old(page));
    let header = |computed| mismatch(Algorithm::Innodb, &[(ChecksumField::Header, fields.header)], computed);
    let trailer = |computed| mismatch(Algorithm::Innodb, &[(ChecksumField::Trailer, fields.trailer)], computed);
    if fields.header == crc || fields.trailer == crc {
        mismatch(Algorithm::Crc32, &both, crc)
    } else if fields.header == new {
        trailer(old)
    } else if fields.trailer == old {
        header(new)
    } else if fields.header == NO_CHECKSUM_MAGIC || fields.trailer == NO_CHECKSUM_MAGIC {
        mismatch(Algorithm::None, &both, NO_CHECKSUM_MAGIC)
    } else {
        mismatch(Algorithm::Crc32, &both, crc)
    }
}

/// Encrypted and page-compressed pages: the checksum at byte 0 belongs to another image of the page.
///
/// `not_plain` means that the LSN trailer contradicts the header or is missing. A plain page whose damaged type field names one of these
/// types still has its trailer, and must not pass as unverifiable.
fn transformed(page: &[u8], page_no: PageNo, format: &SpaceFormat, crc: u32, not_plain: bool) -> Option<Verdict> {
    let kind = PageType(be::u16_at(page, FIL_PAGE_TYPE)?);
    match format.family() {
        Family::MySql if not_plain => mysql_transformed(page, kind, format),
        Family::MySql => None,
        Family::MariaDb => mariadb_transformed(page, page_no, kind, format, crc),
    }
}

/// Why a page without a checksum cannot be decided if its type says that it must be opened first: its server would open it and judge the
/// result. Its own fields look like a plain page's, so most likely the type is damaged, but no checksum proves that.
fn opaque(page: &[u8]) -> Option<Why> {
    match PageType(be::u16_at(page, FIL_PAGE_TYPE)?) {
        PageType::COMPRESSED => Some(Why::PageCompressed),
        PageType::ENCRYPTED | PageType::COMPRESSED_AND_ENCRYPTED | PageType::ENCRYPTED_RTREE => {
            Some(Why::EncryptedNoKey)
        }
        _ => None,
    }
}

fn mysql_transformed(page: &[u8], kind: PageType, format: &SpaceFormat) -> Option<Verdict> {
    match kind {
        PageType::COMPRESSED if compression_info_is_sane(page) => Some(Verdict::Unverifiable(Why::PageCompressed)),
        PageType::COMPRESSED_AND_ENCRYPTED if compression_info_is_sane(page) => {
            Some(Verdict::Unverifiable(Why::EncryptedNoKey))
        }
        PageType::ENCRYPTED | PageType::ENCRYPTED_RTREE if encryption_info_is_sane(page, format) => {
            Some(Verdict::Unverifiable(Why::EncryptedNoKey))
        }
        _ => None,
    }
}

/// The checks that MySQL makes before it inflates.
fn compression_info_is_sane(page: &[u8]) -> bool {
    let byte = |at: usize| page.get(at).copied().unwrap_or(0);
    let size = |at| be::u16_at(page, at).map_or(0, usize::from);
    let original = size(ORIGINAL_SIZE);
    matches!(byte(COMPRESSION_VERSION), 1 | 2)
        && matches!(byte(COMPRESSION_ALGORITHM), 1 | 2)
        && (4096 - 46..=65_536 - 38).contains(&original)
        && size(COMPRESSED_SIZE) <= page.len().saturating_sub(FIL_PAGE_DATA)
}

/// Encrypted pages keep their original type, which cannot itself be an encrypted one. Type 0 counts only if the tablespace says that it is
/// encrypted; otherwise the type field is probably damaged.
fn encryption_info_is_sane(page: &[u8], format: &SpaceFormat) -> bool {
    let original = PageType(be::u16_at(page, ORIGINAL_TYPE).unwrap_or(0));
    let encrypted_space = format.encryption() == Encryption::MySql;
    let known = original.name(Family::MySql).is_some() && !(14..=17).contains(&original.0);
    known && (original != PageType::ALLOCATED || encrypted_space)
}

fn mariadb_transformed(
    page: &[u8],
    page_no: PageNo,
    kind: PageType,
    format: &SpaceFormat,
    crc: u32,
) -> Option<Verdict> {
    let key_version = be::u32_at(page, KEY_VERSION)?;
    let encrypted_sum_fits = key_version != 0 && be::u32_at(page, POST_ENCRYPTION_CHECKSUM)? == crc && page_no.0 != 0;
    match kind {
        // The server writes this checksum but never checks it: it can only count in the page's favour.
        PageType::PAGE_COMPRESSED_ENCRYPTED if format.is_page_compressed() => Some(if encrypted_sum_fits {
            Verdict::Ok(Algorithm::Crc32)
        } else {
            Verdict::Unverifiable(Why::EncryptedNoKey)
        }),
        PageType::PAGE_COMPRESSED if format.is_page_compressed() => Some(Verdict::Unverifiable(Why::PageCompressed)),
        _ if encrypted_sum_fits => Some(encrypted_verdict(page, format)),
        _ => None,
    }
}

/// The verdict on a page whose encrypted bytes are sound: the trailer stays plain and must still agree.
fn encrypted_verdict(page: &[u8], format: &SpaceFormat) -> Verdict {
    let trailer = page.len().saturating_sub(4);
    let ordinary = format.scheme() == crate::Scheme::Classic;
    match differing_halves(page, trailer).filter(|_| ordinary) {
        Some((header, trailer)) => Verdict::Corrupt(Corruption::LsnMismatch { header, trailer }),
        None => Verdict::Ok(Algorithm::Crc32),
    }
}
