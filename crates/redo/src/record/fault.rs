//! Why bytes are not a record.

use thiserror::Error;

/// Why the bytes of a mini-transaction are not records although its checksum is right: the server wrote something it cannot read itself,
/// this program does not know it, or it was decrypted with a wrong key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("the redo record at byte {at} of its mini-transaction {fault}")]
pub struct RecordError {
    /// Offset of the record from the start of the given bytes.
    pub at: usize,
    /// What is wrong with it.
    pub fault: RecordFault,
}

/// Faults of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum RecordFault {
    /// It is longer than the bytes, or its length is encoded in an impossible way.
    #[error("has an impossible length")]
    Length,
    /// An unknown type.
    #[error("has the type 0x{0:x}0, which does not exist")]
    Type(u8),
    /// An unknown type in a MySQL log.
    #[error("has the type {0}, which does not exist")]
    Kind(u8),
    /// An unknown subtype.
    #[error("has the subtype {0}, which does not exist")]
    Subtype(u8),
    /// It continues a page, but there is none to continue.
    #[error("belongs to the page of the previous record, which was freed")]
    NoPage,
    /// Its fields end early, or are followed by other bytes.
    #[error("does not have the fields of its type")]
    Fields,
    /// It would write the page's checksum or number, or move bytes from there.
    #[error("changes byte {0} of its page, which no record may change")]
    Offset(usize),
    /// Its mini-transaction is longer than any server could recover.
    #[error("belongs to a mini-transaction of more than 256 MiB")]
    MtrSize,
    /// An invalid file name.
    #[error("names no file")]
    FileName,
    /// It describes row versions in the form that only MySQL 8.0.29 wrote.
    #[error("describes row versions in the form of MySQL 8.0.29, which no other server reads")]
    EarlyVersions,
    /// A checkpoint must be the last record of its mini-transaction.
    #[error("is a checkpoint, but not the last record")]
    AfterCheckpoint,
}
