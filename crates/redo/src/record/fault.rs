//! Why bytes are no record.

use thiserror::Error;

/// Why the bytes of a mini-transaction are no records. Its checksum was right: the server wrote what it cannot read, or this
/// program does not know it, or it was decrypted with a wrong key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("the redo record at byte {at} of its mini-transaction {fault}")]
pub struct RecordError {
    /// Where the record begins, bytes from the start of the bytes that were given.
    pub at: usize,
    /// What is wrong with it.
    pub fault: RecordFault,
}

/// What can be wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum RecordFault {
    /// It is longer than the bytes, or its length is written as no length can be.
    #[error("has a length that cannot be")]
    Length,
    /// A type that does not exist.
    #[error("has the type 0x{0:x}0, which does not exist")]
    Type(u8),
    /// The same, in a log of MySQL.
    #[error("has the type {0}, which does not exist")]
    Kind(u8),
    /// A subtype that does not exist.
    #[error("has the subtype {0}, which does not exist")]
    Subtype(u8),
    /// It continues a page, but there is none to continue.
    #[error("belongs to the page of the record before, which was freed")]
    NoPage,
    /// Its fields end early, or are followed by something.
    #[error("does not hold what a record of its type holds")]
    Fields,
    /// It would write to the page's checksum or number, or move from there.
    #[error("changes byte {0} of its page, which no record may")]
    Offset(usize),
    /// A file name that is none.
    #[error("names no file")]
    FileName,
    /// A checkpoint is the last record of its mini-transaction.
    #[error("is a checkpoint, but not the last record")]
    AfterCheckpoint,
}
