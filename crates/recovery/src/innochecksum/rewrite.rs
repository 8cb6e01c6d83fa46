//! Replaces checksums and nothing else, on pages that may be badly damaged. [`format::seal_page`] would also make the LSN halves of a torn
//! page agree and so hide the tear. Here they stay as they are, as in the original.

use std::path::Path;

use format::bytes::{be, is_zero};
use format::checksum::{self, NO_CHECKSUM_MAGIC};
use format::{Encryption, Family, Scheme, SpaceFormat};

use super::error::{FileError, ReadOnlyReason};
use super::judge::{Examined, PageOutcome, is_encrypted};
use super::layout::FileLayout;

/// A checksum to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// CRC-32C.
    Crc32,
    /// The two formulas from before CRC-32C.
    Innodb,
    /// The magic number.
    None,
}

impl ChecksumKind {
    /// All kinds, in the order of the server's numbers for them.
    pub const ALL: [Self; 3] = [Self::Crc32, Self::Innodb, Self::None];

    /// The server's name for this kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Innodb => "innodb",
            Self::None => "none",
        }
    }
}

/// The checksums written to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewChecksums {
    /// In the page header and in the trailer.
    Pair {
        /// Bytes 0 to 3.
        header: u32,
        /// The first half of the last 8 bytes.
        trailer: u32,
    },
    /// The only field of pages without a trailer.
    Single(u32),
}

/// A page with its checksums replaced.
#[derive(Debug)]
pub struct Rewritten {
    /// The page; equal to the stored one if there is nothing to replace.
    pub page: Vec<u8>,
    /// The new checksums; `None` for a page left alone or never written.
    pub checksums: Option<NewChecksums>,
    /// Whether its checksums are inside the encryption, so that they were left alone.
    pub is_encrypted: bool,
}

/// Rejects files whose checksums cannot be replaced, before anything is written.
///
/// # Errors
/// [`FileError::NotRewritable`].
pub fn refuse_unfit(layout: &FileLayout, kind: ChecksumKind, path: &Path) -> Result<(), FileError> {
    let format = &layout.format;
    let why = match (format.scheme(), format.encryption()) {
        _ if layout.copies => ReadOnlyReason::DoublewriteFile,
        (Scheme::FullCrc32, _) if kind != ChecksumKind::Crc32 => ReadOnlyReason::FullCrc32,
        (Scheme::Classic | Scheme::Zip, Encryption::MySql | Encryption::MariaDb) => ReadOnlyReason::Encrypted,
        _ => return Ok(()),
    };
    Err(FileError::NotRewritable { path: path.to_owned(), why })
}

/// Replaces the checksums of a page: `stored` is the page in the file, `examined` the verdict on it.
#[must_use]
pub fn rewritten(stored: &[u8], examined: &Examined<'_>, layout: &FileLayout, kind: ChecksumKind) -> Rewritten {
    let format = &layout.format;
    let has_checksum_outside = format.scheme() != Scheme::FullCrc32;
    let is_encrypted = has_checksum_outside && is_encrypted(stored, format);
    // MariaDB's compressed pages have their checksum inside.
    let is_inside = has_checksum_outside && examined.inflated && format.family() == Family::MariaDb;
    if is_encrypted || is_inside || examined.outcome == PageOutcome::NotInflated {
        return Rewritten { page: stored.to_vec(), checksums: None, is_encrypted };
    }
    let mut page = examined.page.to_vec();
    let checksums = if is_blank(&page, format.scheme()) {
        // A page that was never written has no checksum.
        page.fill(0);
        None
    } else {
        set_checksums(&mut page, kind, format)
    };
    if page == examined.page {
        // Nothing changed: keep the compressed form.
        page = stored.to_vec();
    }
    Rewritten { page, checksums, is_encrypted }
}

fn set_checksums(page: &mut [u8], kind: ChecksumKind, format: &SpaceFormat) -> Option<NewChecksums> {
    match format.scheme() {
        Scheme::Zip => zip(page, kind),
        Scheme::Classic => classic(page, kind),
        Scheme::FullCrc32 => full_crc32(page),
    }
}

/// Whether the page is zero apart from its checksums.
fn is_blank(page: &[u8], scheme: Scheme) -> bool {
    let (body, trailer) = match scheme {
        Scheme::Classic => page.split_at_checked(page.len().saturating_sub(8)).unwrap_or((page, &[])),
        Scheme::Zip | Scheme::FullCrc32 => (page, [].as_slice()),
    };
    let rest = if scheme == Scheme::FullCrc32 { body } else { body.get(4..).unwrap_or(&[]) };
    is_zero(rest) && is_zero(trailer.get(4..).unwrap_or(&[]))
}

fn zip(page: &mut [u8], algorithm: ChecksumKind) -> Option<NewChecksums> {
    let checksum = match algorithm {
        ChecksumKind::Crc32 => checksum::zip_crc32(page),
        ChecksumKind::Innodb => checksum::zip_adler(page),
        ChecksumKind::None => NO_CHECKSUM_MAGIC,
    };
    be::put_u32(page, 0, checksum).map(|()| NewChecksums::Single(checksum))
}

fn classic(page: &mut [u8], algorithm: ChecksumKind) -> Option<NewChecksums> {
    let end = page.len().checked_sub(8)?;
    let header = match algorithm {
        ChecksumKind::Crc32 => checksum::crc32(page),
        ChecksumKind::Innodb => checksum::innodb_new(page),
        ChecksumKind::None => NO_CHECKSUM_MAGIC,
    };
    be::put_u32(page, 0, header)?;
    // The older formula covers the newer formula's result.
    let trailer = if algorithm == ChecksumKind::Innodb { checksum::innodb_old(page) } else { header };
    be::put_u32(page, end, trailer)?;
    Some(NewChecksums::Pair { header, trailer })
}

/// The checksum follows the used part of a compressed page and covers encrypted bytes as stored.
fn full_crc32(page: &mut [u8]) -> Option<NewChecksums> {
    let kind = be::u16_at(page, 24)?;
    let size = if kind & 0x8000 == 0 { page.len() } else { usize::from(kind & 0x7FFF) << 8 };
    let part = page.get_mut(..size)?;
    let checksum = checksum::full_crc32(part);
    be::put_u32(part, size.checked_sub(4)?, checksum).map(|()| NewChecksums::Single(checksum))
}
