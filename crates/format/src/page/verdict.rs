//! The possible verdicts on a page, and verdicts shared by several kinds of pages.

use std::fmt;

use crate::bytes::{be, is_zero};
use crate::checksum::Algorithm;
use crate::corruption::{ChecksumField, Corruption};
use crate::fil::FIL_PAGE_LSN;

/// The result of verifying a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Sound, with this checksum.
    Ok(Algorithm),
    /// All zero: never written. The space header and the extent descriptors say whether it should have been.
    Empty,
    /// Damaged.
    Corrupt(Corruption),
    /// The content cannot be judged. The fields that can be checked (page number, space id) are right.
    Unverifiable(Why),
}

/// Why a page's content cannot be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// A temporary tablespace: its server neither writes nor checks checksums.
    NoChecksum,
    /// Encrypted, so only the key can show whether it is sound.
    EncryptedNoKey,
    /// Encrypted, and the given key does not open it.
    WrongKey,
    /// Compressed, so only inflating can show whether it is sound.
    PageCompressed,
    /// A doublewrite slot without a sound page: a stale or torn copy, which is harmless.
    DoublewriteSlot,
    /// The big-endian variant of crc32 in a MariaDB tablespace: accepted up to MariaDB 10.2, rejected by later servers.
    OldBigEndianChecksum,
}

impl Why {
    /// A stable code for programs, in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoChecksum => "no_checksum",
            Self::EncryptedNoKey => "encrypted_no_key",
            Self::WrongKey => "wrong_key",
            Self::PageCompressed => "page_compressed",
            Self::DoublewriteSlot => "doublewrite_slot",
            Self::OldBigEndianChecksum => "old_big_endian_checksum",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoChecksum => "temporary tablespaces carry no checksums",
            Self::EncryptedNoKey => "encrypted, and there is no key",
            Self::WrongKey => "encrypted, and the given key does not open it: is it the key of this server?",
            Self::PageCompressed => "page-compressed, not inflated",
            Self::DoublewriteSlot => "a stale or torn copy in the doublewrite area",
            Self::OldBigEndianChecksum => "a big-endian crc32, which MariaDB accepts only up to version 10.2",
        })
    }
}

/// Computes the page's [`innodb_new`](crate::checksum::innodb_new) on demand: seldom needed, and slow.
pub(crate) type InnodbNew<'a> = dyn Fn() -> u32 + 'a;

/// The LSN halves in header and trailer (`trailer_offset`), if they differ.
pub(crate) fn differing_halves(page: &[u8], trailer_offset: usize) -> Option<(u32, u32)> {
    let header = be::u32_at(page, FIL_PAGE_LSN + 4)?;
    let trailer = be::u32_at(page, trailer_offset)?;
    (header != trailer).then_some((header, trailer))
}

/// The verdict on a page whose checksum fields and LSN are zero: empty, or corrupt at the first byte that should be zero. Bytes 26 to 33
/// may have any value unless `all`.
pub(crate) fn zero_verdict(page: &[u8], all: bool, crc: u32) -> Verdict {
    let (head, rest) = page.split_at_checked(26).unwrap_or((page, &[]));
    let (middle, rest) = rest.split_at_checked(8).unwrap_or((rest, &[]));
    if is_zero(head) && is_zero(rest) && (!all || is_zero(middle)) {
        return Verdict::Empty;
    }
    let offset = page.iter().zip(0_u32..).find(|&(&byte, at)| byte != 0 && (all || !(26..34).contains(&at)));
    Verdict::Corrupt(Corruption::NotZeroPage { offset: offset.map_or(0, |(_, at)| at), computed: crc })
}

/// The checksum finding for a page that matches no algorithm: the first field that differs.
pub(crate) fn mismatch(algorithm: Algorithm, fields: &[(ChecksumField, u32)], computed: u32) -> Corruption {
    let differing = fields.iter().find(|&&(_, stored)| stored != computed).or(fields.first());
    let (field, stored) = differing.copied().unwrap_or((ChecksumField::Header, 0));
    Corruption::ChecksumMismatch { algorithm, field, stored, computed }
}
