//! Binary and relay logs of MySQL and MariaDB: whether every event is as it was written.
//!
//! ```text
//! file   = magic fe "bin" | format description event | event event ...      all integers little-endian
//! event  = header 19 | body | CRC-32 of all before it, 4, if the format description says so
//! header = timestamp 4 | type 1 | server id 4 | length of the event 4 | position of the next one 4 | flags 2
//! ```
//!
//! The format description (type 15) comes first and decides for what follows; relay logs hold several. The CRC of a format
//! description is computed with the flag "in use" cleared, which stays set on disk when a server was killed. Compressed
//! transactions (MySQL) and compressed events (MariaDB) are events with a CRC like any other.
//!
//! Encrypted logs are decrypted on the way, with the keys of [`Verifier::with_keys`]. What cannot be verified without a key: MySQL's
//! files (magic `fd "bin"`, see [`EncryptedHeader`]) behind their header, and in MariaDB's files every event behind
//! START_ENCRYPTION, of which only the length is readable.
//!
//! A log without checksums is walked from event to event, which proves no more than that the lengths lead to its end.
//!
//! The facts behind this were verified on logs of MySQL 5.0 to 9.7 and MariaDB 10.11 and 11.8.

mod event;
mod event_sum;
mod format_description;
mod opening;
mod verify;

pub use event::EventType;
pub use format_description::{EncryptedHeader, FormatDescription};
pub use verify::Verifier;

use thiserror::Error;

/// First bytes of a binary or relay log.
pub const MAGIC: [u8; 4] = *b"\xFEbin";
/// First bytes of a log that MySQL (8.0.14 and later) encrypted.
pub const MAGIC_ENCRYPTED: [u8; 4] = *b"\xFDbin";

/// One event and what is to be said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Where it begins, bytes from the start of the file.
    pub position: u64,
    /// Its length in bytes, as verified, or else as its header says.
    pub len: u32,
    /// What it is; `None` where that is encrypted.
    pub kind: Option<EventType>,
    /// Whether it is sound.
    pub verdict: Verdict,
}

/// Whether an event is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its checksum is right.
    Ok,
    /// It was written without a checksum.
    NoChecksum,
    /// It cannot be verified.
    Unverifiable(Why),
    /// It is damaged.
    Corrupt(Corruption),
}

/// Why an event cannot be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Why {
    /// Encrypted by MariaDB.
    #[error("the event is encrypted")]
    Encrypted,
    /// It has no right checksum, and whether it should have one is not known.
    #[error("whether events have checksums is not known: the log begins with no sound format description")]
    UnknownFormat,
}

/// How an event is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Corruption {
    /// The checksum does not fit.
    #[error("the event's checksum is {stored:08x}, its content gives {computed:08x}")]
    Checksum {
        /// The checksum in the event.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// Checksum and next position prove that the length is wrong.
    #[error("the event claims {stored} bytes; its checksum and next position prove that it has {actual}")]
    Length {
        /// The length in the header.
        stored: u32,
        /// The true length.
        actual: u32,
    },
    /// Checksum and length prove that the next position is wrong.
    #[error("the event says that the next one is at {stored}; its checksum and length prove that it is at {actual}")]
    NextPosition {
        /// The position in the header.
        stored: u32,
        /// The true position, modulo 2^32.
        actual: u32,
    },
    /// The first event is not a format description, as it is in every log since MySQL 5.0.
    #[error("the log begins with an event of type {code} where the format description must be")]
    NotFormatDescription {
        /// The type that is there.
        code: u8,
    },
    /// No event can look like this. Where the next one begins is unknown, so nothing behind it is examined.
    #[error("no event begins here (type {code}, length {len}): the log cannot be read on")]
    NoEvent {
        /// The byte where the type should be.
        code: u8,
        /// What should be the length.
        len: u32,
    },
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With a whole event.
    Whole,
    /// In the middle of an event. In a log that is [in use](Summary::in_use) that is not damage: the server was writing it.
    Cut {
        /// Where the event begins.
        position: u64,
        /// Bytes of it that are there.
        present: u64,
    },
    /// With zeros, in a log that is in use: space which the file system had given before the bytes came.
    Zeros {
        /// Where they begin.
        position: u64,
        /// How many.
        len: u64,
    },
    /// Behind a place that is no event: bytes which could not be examined.
    Unexamined {
        /// Where they begin.
        position: u64,
        /// How many.
        len: u64,
    },
    /// Behind the header of a file that MySQL encrypted: bytes which need the key.
    Encrypted {
        /// Where they begin.
        position: u64,
        /// How many.
        len: u64,
    },
}

/// What was found in a whole log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Events in all. Sum of the four numbers below.
    pub events: u64,
    /// Events whose checksum is right.
    pub ok: u64,
    /// Events written without checksum.
    pub no_checksum: u64,
    /// Events that cannot be verified.
    pub unverifiable: u64,
    /// Damaged events.
    pub corrupt: u64,
    /// The log was not closed: a server has it open or was killed.
    pub in_use: bool,
    /// How it ends.
    pub tail: Tail,
    /// The key that the log asks for and that is not among those given.
    pub missing_key: Option<String>,
    /// The first format description, if there was one.
    pub format: Option<FormatDescription>,
}

impl Summary {
    /// Whether the log is damaged: an event is, or the log was closed and yet ends in the middle of one.
    #[must_use]
    pub const fn is_damaged(&self) -> bool {
        let cut = matches!(self.tail, Tail::Cut { .. }) && !self.in_use;
        self.corrupt > 0 || cut || matches!(self.tail, Tail::Unexamined { .. })
    }
}

/// Why a file is not verified as a binary log.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The magic number is missing.
    #[error("the file does not begin as a binary log does")]
    NotBinlog,
    /// The header of a file that MySQL encrypted is not understood.
    #[error("the encryption header of the binary log is damaged or of an unknown version")]
    EncryptionHeader,
    /// A key of the right name is there, but what it decrypts is no log.
    #[error(
        "the key {key} does not open the binary log: it is another server's, or an older copy, or the log's own \
         information about its encryption is damaged"
    )]
    WrongKey {
        /// Its name in the keyring, or its number in the key file.
        key: String,
    },
    /// The file ends before its first event.
    #[error("the binary log ends within its header, after {len} bytes")]
    TooShort {
        /// Length of the file.
        len: u64,
    },
}
