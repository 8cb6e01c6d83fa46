//! Binary and relay logs of MySQL and MariaDB: whether every event is as it was written.
//!
//! ```text
//! file   = magic fe "bin" | format description event | event event ...      all integers little-endian
//! event  = header 19 | body | CRC-32 of all before it, 4, if the format description says so
//! header = timestamp 4 | type 1 | server id 4 | length of the event 4 | position of the next one 4 | flags 2
//! ```
//!
//! The format description (type 15) comes first and governs what follows; relay logs have several. The CRC of a format description is
//! computed without the "in use" flag, which stays set on disk when a server is killed. Compressed transactions (MySQL) and compressed
//! events (MariaDB) are events with a CRC like any other.
//!
//! Encrypted logs are decrypted on the fly, with the keys of [`Verifier::with_keys`]. Without a key, two things cannot be verified: MySQL's
//! files (magic `fd "bin"`, see [`EncryptedHeader`]) after their header, and in MariaDB's files every event after START_ENCRYPTION, of
//! which only the length is readable.
//!
//! In a log without checksums, events are followed one by one, which proves only that the lengths lead to its end.
//!
//! These facts were verified on logs of MySQL 5.0 to 9.7 and MariaDB 10.11 and 11.8.

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

/// One event and its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Its offset from the start of the file, bytes.
    pub position: u64,
    /// Its length in bytes, as verified, or according to its header.
    pub len: u32,
    /// Its type; `None` if that is encrypted.
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
    /// Its checksum is not right, and it is unknown whether it should have one.
    #[error("it is unknown whether events have checksums: the log does not begin with a sound format description")]
    UnknownFormat,
}

/// How an event is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Corruption {
    /// The checksum does not match.
    #[error("the event's checksum is {stored:08x}, but its content gives {computed:08x}")]
    Checksum {
        /// The checksum in the event.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// Checksum and next position prove the length wrong.
    #[error("the event claims {stored} bytes; its checksum and next position prove that it has {actual}")]
    Length {
        /// The length in the header.
        stored: u32,
        /// The true length.
        actual: u32,
    },
    /// Checksum and length prove the next position wrong.
    #[error("the event says that the next one is at {stored}; its checksum and length prove that it is at {actual}")]
    NextPosition {
        /// The position in the header.
        stored: u32,
        /// The true position, modulo 2^32.
        actual: u32,
    },
    /// The first event is not a format description, as in every log since MySQL 5.0.
    #[error("the log begins with an event of type {code} instead of the format description")]
    NotFormatDescription {
        /// The type found.
        code: u8,
    },
    /// No event looks like this. The start of the next one is unknown, so nothing after this is examined.
    #[error("no event begins here (type {code}, length {len}): the log cannot be read further")]
    NoEvent {
        /// The byte in place of the type.
        code: u8,
        /// The number in place of the length.
        len: u32,
    },
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With a complete event.
    Whole,
    /// In the middle of an event. In a log that is [in use](Summary::in_use) that is not damage: the server was writing it.
    Cut {
        /// Where the event begins.
        position: u64,
        /// Bytes of it that are present.
        present: u64,
    },
    /// With zeros, in a log that is in use: space that the file system had allocated before the bytes arrived.
    Zeros {
        /// Where they begin.
        position: u64,
        /// How many.
        len: u64,
    },
    /// After a place that is not an event: bytes that could not be examined.
    Unexamined {
        /// Where they begin.
        position: u64,
        /// How many.
        len: u64,
    },
    /// After the header of a file encrypted by MySQL: bytes that need the key.
    Encrypted {
        /// Where they begin.
        position: u64,
        /// How many.
        len: u64,
    },
}

/// The result for a whole log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Number of events, the sum of the four numbers below.
    pub events: u64,
    /// Events with the right checksum.
    pub ok: u64,
    /// Events written without a checksum.
    pub no_checksum: u64,
    /// Events that cannot be verified.
    pub unverifiable: u64,
    /// Damaged events.
    pub corrupt: u64,
    /// The log was not closed: a server has it open or was killed.
    pub in_use: bool,
    /// How it ends.
    pub tail: Tail,
    /// The key that the log needs, if it was not given.
    pub missing_key: Option<String>,
    /// The first format description, if there was one.
    pub format: Option<FormatDescription>,
}

impl Summary {
    /// Whether the log is damaged: an event is, or the log was closed and still ends within one.
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
    #[error("the file does not begin like a binary log")]
    NotBinlog,
    /// The header of a file encrypted by MySQL is not supported.
    #[error("the encryption header of the binary log is damaged or of an unknown version")]
    EncryptionHeader,
    /// There is a key of the right name, but it does not decrypt to a log.
    #[error(
        "the key {key} does not open the binary log: it is another server's, or an older copy, or the log's encryption header is damaged"
    )]
    WrongKey {
        /// Its name in the keyring, or its id in the key file.
        key: String,
    },
    /// The file ends before its first event.
    #[error("the binary log ends within its header, after {len} bytes")]
    TooShort {
        /// Length of the file.
        len: u64,
    },
}
