//! `--write`: new checksums, and nothing else, for pages that may be quite wrong. [`format::seal_page`] would also make the LSN
//! halves of a torn page agree, which would hide the tear; here they stay as they are, as in the original.

use std::io::{self, Write};
use std::path::Path;

use format::bytes::{be, is_zero};
use format::page::checksum::{self, NO_CHECKSUM_MAGIC};
use format::{Encryption, Scheme, SpaceFormat};

use super::Fault;
use super::layout::Layout;
use super::options::Checksum;

/// Says why the checksums of a file cannot be replaced, before anything is written.
pub fn refusal(layout: &Layout, algorithm: Checksum, path: &Path) -> Option<Fault> {
    let format = &layout.format;
    let why = match (format.scheme(), format.encryption()) {
        _ if layout.copies => "a doublewrite file holds copies of other files' pages",
        (Scheme::FullCrc32, _) if algorithm != Checksum::Crc32 => {
            "pages of a full_crc32 tablespace carry no other checksum (use --write=crc32)"
        }
        (Scheme::Classic | Scheme::Zip, Encryption::MySql | Encryption::MariaDb) => {
            "it is encrypted, and the checksums of its pages lie inside the encryption"
        }
        _ => return None,
    };
    Some(Fault::NotRewritable { path: path.to_owned(), why })
}

/// Replaces the checksums of `page`, and writes to the log what they are now.
pub fn set_checksums(
    page: &mut [u8],
    position: u64,
    algorithm: Checksum,
    format: &SpaceFormat,
    log: Option<&mut impl Write>,
) -> io::Result<()> {
    let fields = match format.scheme() {
        Scheme::Zip => zip(page, algorithm).map(|checksum| (checksum, None)),
        Scheme::Classic => classic(page, algorithm).map(|(header, trailer)| (header, Some(trailer))),
        Scheme::FullCrc32 => full_crc32(page).map(|checksum| (checksum, None)),
    };
    match (log, fields) {
        (Some(log), Some((header, Some(trailer)))) => {
            writeln!(log, "page::{position}; Updated checksum field1 = {header}")?;
            writeln!(log, "page::{position}; Updated checksum field2 = {trailer}")
        }
        (Some(log), Some((checksum, None))) => writeln!(log, "page::{position}; Updated checksum = {checksum}"),
        _ => Ok(()),
    }
}

/// Whether there is nothing in the page but perhaps checksums.
pub fn is_blank(page: &[u8], scheme: Scheme) -> bool {
    let (body, trailer) = match scheme {
        Scheme::Classic => page.split_at_checked(page.len().saturating_sub(8)).unwrap_or((page, &[])),
        Scheme::Zip | Scheme::FullCrc32 => (page, [].as_slice()),
    };
    let rest = if scheme == Scheme::FullCrc32 { body } else { body.get(4..).unwrap_or(&[]) };
    is_zero(rest) && is_zero(trailer.get(4..).unwrap_or(&[]))
}

fn zip(page: &mut [u8], algorithm: Checksum) -> Option<u32> {
    let checksum = match algorithm {
        Checksum::Crc32 => checksum::zip_crc32(page),
        Checksum::Innodb => checksum::zip_adler(page),
        Checksum::None => NO_CHECKSUM_MAGIC,
    };
    be::put_u32(page, 0, checksum).map(|()| checksum)
}

fn classic(page: &mut [u8], algorithm: Checksum) -> Option<(u32, u32)> {
    let end = page.len().checked_sub(8)?;
    let header = match algorithm {
        Checksum::Crc32 => checksum::crc32(page),
        Checksum::Innodb => checksum::innodb_new(page),
        Checksum::None => NO_CHECKSUM_MAGIC,
    };
    be::put_u32(page, 0, header)?;
    // The older formula covers the newer one's result.
    let trailer = if algorithm == Checksum::Innodb { checksum::innodb_old(page) } else { header };
    be::put_u32(page, end, trailer)?;
    Some((header, trailer))
}

/// The checksum ends the used part of a compressed page, and covers encrypted bytes as they are.
fn full_crc32(page: &mut [u8]) -> Option<u32> {
    let kind = be::u16_at(page, 24)?;
    let size = if kind & 0x8000 == 0 { page.len() } else { usize::from(kind & 0x7FFF) << 8 };
    let part = page.get_mut(..size)?;
    let checksum = checksum::full_crc32(part);
    be::put_u32(part, size.checked_sub(4)?, checksum).map(|()| checksum)
}
