//! Decides whether a server would open a tablespace with this header. A checksum proves that page 0 is as it was written. The file's other
//! pages and its SDI show whether it was written for this file.
//!
//! The rules are what MySQL 9.7 and MariaDB 10.11 and 11.8 refuse, or crash on, when they open and first use a table whose page 0 was
//! edited under a valid checksum. What they accept is no fault: any page type, any server version, anything in the unused fields.

use std::borrow::Cow;
use std::fmt;

use crate::bytes::be;
use crate::fil::{self, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE, PageType};
use crate::kind::{Family, Scheme};
use crate::page::fsp::{FSP_SPACE_FLAGS, FSP_SPACE_ID, xdes_array_end};
use crate::page::index::IndexPage;
use crate::page::sdi::{self, SDI_FLAG, SdiKind, SdiRecord};
use crate::page::space_format::SpaceFormat;
use crate::page::view;
use crate::record::RecordFields;
use crate::schema::builtin;
use crate::schema::sdi::tablespace_flags;
use crate::types::SpaceId;

/// The bit that MySQL 26 sets in the flags of an undo tablespace while it makes or truncates it (`mark_undo_tablespace_unusable`,
/// `fsp_flags_set_undo_unusable`: the bit after that of the SDI). Its predecessors leave a file beside it.
const UNDO_UNUSABLE: u32 = 1 << 15;

/// What is wrong with a tablespace header although page 0's checksum and number are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderFault {
    /// Page header and space header name different tablespaces: another page was written here, or one of the fields is damaged.
    SpaceIds {
        /// In the page header.
        fil: u32,
        /// In the space header.
        fsp: u32,
    },
    /// A flags word with bits that no known server sets; it would be valid without them.
    UnknownFlags {
        /// The word.
        flags: u32,
        /// The bits.
        unknown: u32,
    },
    /// A combination of known flags that no server writes.
    ImpossibleFlags {
        /// The word.
        flags: u32,
    },
    /// The flags describe another checksum scheme or page size than the file's pages have.
    FlagsOfOthers {
        /// The word.
        flags: u32,
        /// Page size in the file, bytes.
        page_size: u32,
    },
    /// A flag that makes a false statement about the tablespace.
    UntrueFlag {
        /// The word.
        flags: u32,
        /// What the flag says, and what contradicts it.
        why: &'static str,
    },
    /// The flags in the file's SDI differ.
    OtherFlagsInSdi {
        /// The word in page 0.
        flags: u32,
        /// The word in the SDI.
        sdi: u32,
    },
}

impl HeaderFault {
    /// A stable code for programs, in snake case.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::SpaceIds { .. } => "header_space_ids",
            Self::UnknownFlags { .. } => "unknown_flags",
            Self::ImpossibleFlags { .. } | Self::FlagsOfOthers { .. } | Self::UntrueFlag { .. } => "wrong_flags",
            Self::OtherFlagsInSdi { .. } => "flags_differ_from_sdi",
        }
    }

    /// Whether a newer server may have written the header: then it must not be called damage.
    #[must_use]
    pub const fn may_be_newer(&self) -> bool {
        matches!(self, Self::UnknownFlags { .. })
    }

    /// The value in the page, and the right one if that is known.
    #[must_use]
    pub const fn values(&self) -> (u32, Option<u32>) {
        match *self {
            Self::SpaceIds { fil, fsp } => (fsp, Some(fil)),
            Self::UnknownFlags { flags, unknown } => (flags, Some(flags & !unknown)),
            Self::OtherFlagsInSdi { flags, sdi } => (flags, Some(sdi)),
            Self::ImpossibleFlags { flags } | Self::FlagsOfOthers { flags, .. } | Self::UntrueFlag { flags, .. } => {
                (flags, None)
            }
        }
    }
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SpaceIds { fil, fsp } => {
                write!(
                    f,
                    "the page header names space {fil} and the space header space {fsp}: the server will not open the file"
                )
            }
            Self::UnknownFlags { flags, unknown: UNDO_UNUSABLE } => {
                write!(
                    f,
                    "the space flags 0x{flags:x} have the bit UNDO_UNUSABLE of MySQL 26: the server was making or truncating this undo tablespace. \
                     This build does not know that server"
                )
            }
            Self::UnknownFlags { flags, unknown } => {
                write!(
                    f,
                    "unknown flags 0x{unknown:x} in the space flags 0x{flags:x}: written by a newer server? The servers known to innokit refuse it"
                )
            }
            Self::ImpossibleFlags { flags } => {
                write!(
                    f,
                    "the space flags 0x{flags:x} are a combination that no server writes, and the server will not open the file"
                )
            }
            Self::FlagsOfOthers { flags, page_size } => {
                write!(
                    f,
                    "the space flags 0x{flags:x} do not match the file's pages of {page_size} bytes: the server will not open it"
                )
            }
            Self::UntrueFlag { flags, why } => write!(f, "the space flags 0x{flags:x} are wrong: {why}"),
            Self::OtherFlagsInSdi { flags, sdi } => {
                write!(
                    f,
                    "the space flags are 0x{flags:x} but those in the file's dictionary information are 0x{sdi:x}: the server crashes if they differ"
                )
            }
        }
    }
}

const ENCRYPTION_FLAG: u32 = 1 << 13;
const TEMPORARY_FLAG: u32 = 1 << 12;
const SHARED_FLAG: u32 = 1 << 11;
const ATOMIC_BLOBS: u32 = 1 << 5;
const ZIP_SSIZE: u32 = 15 << 1;
/// Bits known to MySQL, to MariaDB, and to MariaDB's full_crc32.
const MYSQL_FLAGS: u32 = (1 << 15) - 1;
const MARIADB_FLAGS: u32 = (1 << 17) - 1;
const FULL_CRC32_FLAGS: u32 = (1 << 8) - 1;
/// MySQL 8 numbers its temporary tablespaces from here on.
const TEMPORARY_SPACES: u32 = 0xFCF0_0000;
/// MySQL's encryption information starts with one of these.
const ENCRYPTION_MAGIC: [&[u8]; 4] = [b"lCA", b"lCB", b"lCC", b"lDC"];

/// Judges the header in `head`, the first bytes of a tablespace's first file. `format` is the format of its pages, derived from page 0 or
/// from the pages after it. In this format, page 0 has the right checksum and number.
#[must_use]
pub fn judge_header(head: &[u8], format: &SpaceFormat) -> Option<HeaderFault> {
    let size = format.physical().bytes();
    let page0 = head.get(..size)?;
    let (fil, fsp) = (be::u32_at(page0, FIL_PAGE_SPACE_ID)?, be::u32_at(page0, FSP_SPACE_ID)?);
    if fil != fsp {
        return Some(HeaderFault::SpaceIds { fil, fsp });
    }
    let flags = be::u32_at(page0, FSP_SPACE_FLAGS)?;
    let Ok(stated) = SpaceFormat::from_page0(&typed_as_header(head)) else {
        return Some(unreadable_flags(head, flags, format));
    };
    if stated.scheme() != format.scheme() || stated.physical() != format.physical() {
        return Some(HeaderFault::FlagsOfOthers { flags, page_size: format.physical().get() });
    }
    match stated.family() {
        Family::MySql => mysql_fault(head, page0, flags, &stated),
        Family::MariaDb => None,
    }
}

/// Page 0 with the type it should have. Servers ignore the type, so we must be able to read a header of any type.
fn typed_as_header(head: &[u8]) -> Cow<'_, [u8]> {
    if be::u16_at(head, FIL_PAGE_TYPE) == Some(PageType::FSP_HDR.0) {
        return Cow::Borrowed(head);
    }
    let mut copy = head.to_vec();
    // A page too short for a type is too short for a header, which the caller reports.
    be::put_u16(&mut copy, FIL_PAGE_TYPE, PageType::FSP_HDR.0).unwrap_or_default();
    Cow::Owned(copy)
}

/// Flags that cannot be read: unknown bits, or an impossible combination.
fn unreadable_flags(head: &[u8], flags: u32, format: &SpaceFormat) -> HeaderFault {
    let known = match (format.scheme(), format.family()) {
        (Scheme::FullCrc32, _) => FULL_CRC32_FLAGS,
        (_, Family::MySql) => MYSQL_FLAGS,
        (_, Family::MariaDb) => MARIADB_FLAGS,
    };
    let unknown = flags & !known;
    let mut without = typed_as_header(head).into_owned();
    be::put_u32(&mut without, FSP_SPACE_FLAGS, flags & known).unwrap_or_default();
    match SpaceFormat::from_page0(&without) {
        Ok(rest) if unknown != 0 && rest.scheme() == format.scheme() && rest.physical() == format.physical() => {
            HeaderFault::UnknownFlags { flags, unknown }
        }
        _ => HeaderFault::ImpossibleFlags { flags },
    }
}

fn mysql_fault(head: &[u8], page0: &[u8], flags: u32, format: &SpaceFormat) -> Option<HeaderFault> {
    let has = |flag: u32| flags & flag != 0;
    let untrue = |why| Some(HeaderFault::UntrueFlag { flags, why });
    if has(TEMPORARY_FLAG) && format.space().0 < TEMPORARY_SPACES {
        return untrue("they mark a tablespace for temporary tables, but this is not one");
    }
    if has(SHARED_FLAG) && has(ATOMIC_BLOBS) && flags & ZIP_SSIZE == 0 {
        return untrue("they mark a tablespace shared by several tables, but are otherwise those of a single table");
    }
    let end = xdes_array_end(format.logical(), format.physical());
    let is_locked = page0.get(end..).is_some_and(|info| ENCRYPTION_MAGIC.iter().any(|magic| info.starts_with(magic)));
    if has(ENCRYPTION_FLAG) && !is_locked {
        return untrue("they mark the tablespace as encrypted, but there is no encryption information");
    }
    // The server ignores the flag for SDI; encryption may be in progress.
    let compared = MYSQL_FLAGS & !SDI_FLAG & !ENCRYPTION_FLAG;
    let sdi = sdi_flags(head, page0, format)?;
    ((flags ^ sdi) & compared != 0).then_some(HeaderFault::OtherFlagsInSdi { flags, sdi })
}

/// SDI takes a few hundred bytes of JSON; skip anything larger.
const JSON_MAX: u32 = 1 << 14;
const RECORDS_MAX: usize = 64;

/// The tablespace flags in its own SDI, if they can be read from `head` without opening a page.
fn sdi_flags(head: &[u8], page0: &[u8], format: &SpaceFormat) -> Option<u32> {
    let root = sdi::stored_root(page0, format).filter(|_| format.scheme() == Scheme::Classic)?;
    let page = head.chunks_exact(format.physical().bytes()).nth(root.0 as usize)?;
    let is_sdi = view::page_type(page, format) == Some(PageType::SDI);
    if !is_sdi || fil::space_id(page) != Some(SpaceId(be::u32_at(page0, FIL_PAGE_SPACE_ID)?)) {
        return None;
    }
    let (page, index) = (IndexPage::parse(page, format).ok().filter(IndexPage::is_leaf)?, builtin::sdi()?);
    let mut fields = RecordFields::new();
    for record in page.records().take(RECORDS_MAX) {
        let record = record.ok()?;
        index.layout.locate(&record, &mut fields).ok()?;
        let object = SdiRecord::read(&record, &fields)?;
        if object.kind == SdiKind::Tablespace {
            let json = object.json(object.packed).ok().filter(|_| object.plain_len <= JSON_MAX)?;
            return tablespace_flags(&json);
        }
    }
    None
}
