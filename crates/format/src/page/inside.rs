//! The page inside an encrypted or page-compressed one: [`verify_page`] judges the stored bytes, this module the image that the server
//! works on.

use crate::bytes::be;
use crate::codec::{self, CodecError, Context, ErrorKind, Scratch};
use crate::corruption::Corruption;
use crate::fil::{FIL_PAGE_LSN, FIL_PAGE_SPACE_ID};
use crate::kind::{Encryption, Family, Scheme};
use crate::page::space_format::SpaceFormat;
use crate::page::verdict::{Verdict, Why};
use crate::page::verify::verify_page;
use crate::types::{PageId, SpaceId};

/// Opens the page, if it needs opening, and judges the image.
///
/// `outside` is the verdict of [`verify_page`] on the stored bytes. If it is damage, it stands: a page with wrong stored bytes cannot be
/// opened. Without a key it stands too: MariaDB's checksum over the encrypted bytes is a full verdict on them.
#[must_use]
pub fn verify_inside(
    page: &[u8],
    id: PageId,
    format: &SpaceFormat,
    context: &Context<'_>,
    scratch: &mut Scratch,
    outside: Verdict,
) -> Verdict {
    let openable = matches!(
        outside,
        Verdict::Ok(_) | Verdict::Unverifiable(Why::EncryptedNoKey) | Verdict::Unverifiable(Why::PageCompressed)
    );
    // A copy of another tablespace's page: we lack its key, and losing it loses no data.
    if format.is_doublewrite_slot(id) {
        return outside;
    }
    if !openable || !codec::steps(page, id, context).any() {
        return outside;
    }
    match codec::open_page(page, id, context, scratch) {
        Ok(opened) if format.scheme() == Scheme::FullCrc32 => full_crc32_image(opened.page, id, outside),
        Ok(opened) => {
            let plain = format.with_encryption(Encryption::None).with_page_compressed(false);
            let inner = verify_page(opened.page, id, &plain);
            // MariaDB's stored bytes were sound before decryption, so the key must be wrong.
            let proven = format.family() == Family::MariaDb && matches!(outside, Verdict::Ok(_)) && opened.decrypted;
            if proven && !matches!(inner, Verdict::Ok(_)) { Verdict::Unverifiable(Why::WrongKey) } else { inner }
        }
        Err(error) => match (error.kind(), outside) {
            // Keys were given, but not the version that the page names. Its server could not read the page with them either.
            (ErrorKind::NoKey, Verdict::Ok(_)) if matches!(error, CodecError::NoKeyVersion { .. }) => {
                Verdict::Unverifiable(Why::EncryptedNoKey)
            }
            (ErrorKind::NoKey, Verdict::Ok(_)) => outside,
            (ErrorKind::NoKey, _) => Verdict::Unverifiable(Why::EncryptedNoKey),
            (ErrorKind::WrongKey, _) => Verdict::Unverifiable(Why::WrongKey),
            (ErrorKind::Unknown, _) => Verdict::Unverifiable(Why::PageCompressed),
            (ErrorKind::Damaged, _) => Verdict::Corrupt(Corruption::CannotBeOpened(error)),
        },
    }
}

/// The damage of a page that does not open with a key that opens other pages of its tablespace. [`verify_inside`] does not know about the
/// other pages and says [`Why::WrongKey`]. `None` if the page is sound.
#[must_use]
pub fn damage_inside(
    page: &[u8],
    id: PageId,
    format: &SpaceFormat,
    context: &Context<'_>,
    scratch: &mut Scratch,
) -> Option<Corruption> {
    let error = match codec::open_page(page, id, context, scratch) {
        Ok(opened) => {
            let plain = format.with_encryption(Encryption::None).with_page_compressed(false);
            return match verify_page(opened.page, id, &plain) {
                Verdict::Corrupt(corruption) => Some(corruption),
                _ => None,
            };
        }
        Err(CodecError::WrongKey { key_id, version }) => CodecError::DamagedCiphertext { key_id, version },
        Err(error) => error,
    };
    Some(Corruption::CannotBeOpened(error))
}

/// A full_crc32 checksum covers the stored bytes. In the image, the two LSN halves and the page's place can be checked.
fn full_crc32_image(image: &[u8], id: PageId, outside: Verdict) -> Verdict {
    let header = be::u32_at(image, FIL_PAGE_LSN + 4).unwrap_or(0);
    let trailer = be::u32_at(image, image.len().saturating_sub(8)).unwrap_or(0);
    let space = SpaceId(be::u32_at(image, FIL_PAGE_SPACE_ID).unwrap_or(0));
    if header != trailer {
        Verdict::Corrupt(Corruption::LsnMismatch { header, trailer })
    } else if space != id.space {
        Verdict::Corrupt(Corruption::MisplacedPage { space: Some(space), page_no: id.page_no, expected: id })
    } else {
        outside
    }
}
