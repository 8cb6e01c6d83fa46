//! MariaDB's binary log within InnoDB (12.3 and later, `binlog_storage_engine=innodb`): files `binlog-000000.ibb`, whose writes are in the
//! redo log of InnoDB.
//!
//! ```text
//! file   = header page | page page ...                  16 KiB each; all integers little-endian
//! page   = chunk chunk ... | zeros or 1 to 3 bytes ff | CRC-32C of all before it, 4
//! chunk  = type 1 | length 2 | content                  type: bit 7 continues a record, bit 6 is the record's last chunk
//! record = chunks of one type; each but the last ends where its page ends
//! ```
//!
//! A file is made as long as it will become, of zeros. So a page of zeros is sound, and nothing may follow one: the log is only appended to.
//! `FLUSH BINARY LOGS` cuts the file behind the page in use. A record may begin in the file before and end in the next one. Records of
//! the kinds GTID state and dummy may stand between the chunks of another. All numbers within records are [compressed](varint).
//!
//! The pages of two files at a time are in the redo log, as those of [two spaces](format::SpaceId::MARIADB_BINLOG). After a crash the newest
//! two may lack what is in it.
//!
//! No server that writes these files could be run: no registry had one. The facts are from the source, MariaDB/server: `fsp_binlog.cc`
//! (`crc32_pwrite_page`, `fsp_binlog_extract_header_page`, `fsp_binlog_write_rec`, `fsp_binlog_flush`, `binlog_chunk_reader::read_data`),
//! `innodb_binlog.cc` (`ibb_write_header_page`, `serialize_gtid_state`, `binlog_gtid_state`, `chunk_data_cache`, `chunk_data_oob`,
//! `chunk_data_xa_prepare`, `chunk_data_xa_complete`), `fsp_binlog.h` (types of chunks), `ut0compr_int.h`.

mod chunks;
mod header;
mod records;
pub mod varint;
mod verify;

pub use header::{Header, HeaderFault};
pub use records::{Gtid, GtidState, Place};
pub use verify::Verifier;

use thiserror::Error;

/// First bytes of a file that is in use: `IBB_MAGIC`.
pub const MAGIC: [u8; 4] = [0xfe, 0xfe, 0x0d, 0x01];
/// The page size that servers write, bytes: `ibb_page_size`. Another one would be said in the header.
pub const PAGE_SIZE: usize = 16_384;
/// Bytes of the header page that have a checksum of their own.
pub const HEADER_LEN: usize = 512;

/// The number in the name of a file: `binlog-000123.ibb` is 123.
#[must_use]
pub fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("binlog-")?.strip_suffix(".ibb")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The events of a committed transaction, or what of them is not out of band.
    Commit = 1,
    /// The GTIDs at this place.
    GtidState = 2,
    /// Events of a large transaction, written before it committed.
    OutOfBand = 3,
    /// Fills the page that `FLUSH BINARY LOGS` leaves.
    Dummy = 4,
    /// The XID of a prepared transaction.
    XaPrepare = 5,
    /// The XID of one that was committed or rolled back.
    XaComplete = 6,
}

impl Kind {
    /// By its number in the file.
    #[must_use]
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Commit),
            2 => Some(Self::GtidState),
            3 => Some(Self::OutOfBand),
            4 => Some(Self::Dummy),
            5 => Some(Self::XaPrepare),
            6 => Some(Self::XaComplete),
            _ => None,
        }
    }

    /// As messages call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::GtidState => "GTID state",
            Self::OutOfBand => "out-of-band",
            Self::Dummy => "dummy",
            Self::XaPrepare => "XA prepare",
            Self::XaComplete => "XA complete",
        }
    }

    /// Whether it may stand between the chunks of another record.
    const fn is_nested(self) -> bool {
        matches!(self, Self::GtidState | Self::Dummy)
    }
}

/// One page and its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its number in the file.
    pub number: u32,
    /// Whether it is sound.
    pub verdict: Verdict,
}

/// Whether a page is sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its checksum is right, and so are its chunks.
    Ok,
    /// Zeros: not written yet.
    Empty,
    /// Its checksum is right, but it has a record that only a newer server writes.
    Unknown {
        /// The number of the type.
        number: u8,
    },
    /// It is damaged.
    Corrupt(Corruption),
}

/// How a page is damaged. Offsets are bytes from the page's beginning.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Corruption {
    /// The checksum does not match.
    #[error("its checksum is {stored:08x}, but its content gives {computed:08x}")]
    Checksum {
        /// The checksum at its end.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// The first page is not the header of this file.
    #[error("{0}")]
    Header(#[from] HeaderFault),
    /// Bytes where none may be.
    #[error("at offset {offset}, bytes follow the end of the log (page {end})")]
    AfterEnd {
        /// Where they are.
        offset: usize,
        /// The page on which the log ended.
        end: u32,
    },
    /// No chunk has this type.
    #[error("at offset {offset}, no record has the type {number}")]
    Type {
        /// Where the chunk begins.
        offset: usize,
        /// The type without its flags.
        number: u8,
    },
    /// The length of a chunk is wrong.
    #[error("at offset {offset}, a chunk claims {len} bytes, which its page or its record rules out")]
    Length {
        /// Where the chunk begins.
        offset: usize,
        /// The length in it.
        len: usize,
    },
    /// A chunk continues a record that did not begin.
    #[error("at offset {offset}, a chunk ({}) continues a record that has not begun", .kind.name())]
    NotBegun {
        /// Where the chunk begins.
        offset: usize,
        /// Its type.
        kind: Kind,
    },
    /// A record began and was not continued.
    #[error("at offset {offset}, a record ({}) begins before the one from page {page} ({}) has ended", .kind.name(), .open.name())]
    NotEnded {
        /// Where the chunk begins.
        offset: usize,
        /// Its type.
        kind: Kind,
        /// The record that is open.
        open: Kind,
        /// The page on which that began.
        page: u32,
    },
    /// GTID states begin pages whose number is a multiple of the interval in the header, and page 1.
    #[error("at offset {offset}, a GTID state stands where none may: pages before it are missing, or there twice")]
    Misplaced {
        /// Where the chunk begins.
        offset: usize,
    },
    /// A record's content is wrong.
    #[error("the {} record that ends at offset {offset} {why}", .kind.name())]
    Record {
        /// Where its last chunk ends.
        offset: usize,
        /// Its type.
        kind: Kind,
        /// What is wrong, as a clause.
        why: String,
    },
}

/// The result for a whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Its header; `None` if that is damaged, or zeros.
    pub header: Option<Header>,
    /// Pages, the sum of the four numbers below.
    pub pages: u64,
    /// Sound ones.
    pub ok: u64,
    /// Pages of zeros.
    pub empty: u64,
    /// Those with records of a newer server.
    pub unknown: u64,
    /// Damaged ones.
    pub corrupt: u64,
    /// Records that end in this file, of each kind in the order of [`Kind`].
    pub records: [u64; 6],
    /// The GTIDs with which the file begins.
    pub gtids: Option<GtidState>,
    /// Page and offset in it at which the log ends; `None` if the last page is full: the log goes on in the next file.
    pub end: Option<(u32, usize)>,
    /// The kind of the record that goes on in the next file.
    pub open: Option<Kind>,
    /// Bytes behind the last whole page.
    pub rest: usize,
}

impl Summary {
    /// Whether pages are missing at the file's end: it has fewer than it was made with, and its last record has not ended. `FLUSH BINARY LOGS`
    /// leaves fewer too, but with a whole record.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.open.is_some() && self.header.is_some_and(|header| self.pages < header.pages)
    }
}

/// Why a file cannot be read as such a log.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// It is of a newer format.
    #[error("the binary log has the format {major}.{minor}; this build knows 1.0")]
    Version {
        /// The major version.
        major: u32,
        /// The minor version.
        minor: u32,
    },
}
