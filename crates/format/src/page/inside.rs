//! The page inside an encrypted or page-compressed one: [`verify_page`] judges the bytes as they lie in the file, this the image
//! that the server would work on.

use crate::bytes::be;
use crate::codec::{self, CodecError, Context, ErrorKind, Scratch};
use crate::corruption::Corruption;
use crate::page::fil::{FIL_PAGE_LSN, FIL_PAGE_SPACE_ID};
use crate::page::kind::{Encryption, Family, Scheme};
use crate::page::space_format::SpaceFormat;
use crate::page::verdict::{Verdict, Why};
use crate::page::verify::verify_page;
use crate::types::{PageId, SpaceId};

/// Opens the page and judges the image, where the page needs to be opened at all.
///
/// `outside` is what [`verify_page`] said of the bytes as they lie there. Damage found by it stands: a page whose stored bytes are
/// wrong cannot be opened. Where there is no key, it stands as well: MariaDB's checksum over the encrypted bytes is a full verdict
/// on them.
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
    // A copy of another tablespace's page: its key is not ours, and its content is nobody's loss.
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
            // MariaDB's stored bytes were sound before they were opened, so it is the key that does not fit.
            let proven = format.family() == Family::MariaDb && matches!(outside, Verdict::Ok(_)) && opened.decrypted;
            if proven && !matches!(inner, Verdict::Ok(_)) { Verdict::Unverifiable(Why::WrongKey) } else { inner }
        }
        Err(error) => match (error.kind(), outside) {
            // Keys were given, and not the one that the page names: its server would not read it with them either.
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

/// What is wrong with a page that does not open with a key that opens other pages of its tablespace, which [`verify_inside`] cannot
/// know and calls [`Why::WrongKey`]. `None` if nothing is.
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

/// The checksum of a full_crc32 page is that of the stored bytes; of the image there are the LSN's two halves and the place.
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
