//! What the bytes of InnoDB's redo logs mean: headers and checkpoints, framing and keys, records, and what a record does to its page.
//!
//! This crate is pure, like `format`: byte slices in, facts and typed errors out. The caller does the reading. Whether recovery is pending:
//!
//! ```text
//! identify(first bytes) -> LogVendor
//!   MySql:   mysql::LogFile::parse for each file -> mysql::newest_checkpoint -> read the blocks there -> mysql::state
//!   MariaDb: mariadb::LogFile::parse -> LogFile::checkpoint_place -> read there -> LogFile::state
//! ```

#![forbid(unsafe_code)]

use thiserror::Error;

use format::bytes::be;
use format::types::Lsn;

pub mod apply;
pub mod archived;
pub mod block;
pub mod checkpoint;
pub mod close_blocks;
pub mod follow;
pub mod layout;
pub mod log_key;
mod log_unlock;
pub mod mariadb;
mod mariadb_state;
mod mtr;
pub mod mtr_reader;
mod mtr_search;
pub mod mysql;
pub mod older;
pub mod plain_block;
pub mod record;
pub mod rewind;
pub mod segment;
pub mod verify_blocks;
pub mod verify_mariadb;
pub mod verify_mysql;

/// Whether the log holds changes that the data files may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogState {
    /// The newest checkpoint is the end of the log: the server was shut down cleanly.
    Clean,
    /// There is redo after the newest checkpoint: the server was killed, or is running.
    NeedsRecovery,
    /// The given bytes do not decide; read more from the same place.
    Undecided,
}

/// The vendor whose format a redo log file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogVendor {
    /// MySQL 5.7.9 and later: see [`mysql`].
    MySql,
    /// MariaDB 10.5 and later: see [`mariadb`].
    MariaDb,
}

/// Why a redo log cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RedoError {
    /// Too few bytes.
    #[error("only {len} bytes of redo log, but {needed} are needed")]
    TooShort {
        /// Bytes given.
        len: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// An unsupported format: from before MySQL 5.7.9 or MariaDB 10.5, or newer than this program.
    #[error("{}", unknown_format(*format))]
    UnknownFormat {
        /// The first four bytes.
        format: u32,
    },
    /// The file header is damaged.
    #[error("the redo log header's checksum is {stored:08x}, but its content gives {computed:08x}")]
    HeaderChecksum {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the content.
        computed: u32,
    },
    /// No checkpoint can be read.
    #[error("the redo log holds no valid checkpoint")]
    NoCheckpoint,
    /// The log does not match its checkpoint.
    #[error("the redo log is damaged at its newest checkpoint, LSN {lsn}")]
    CheckpointDamaged {
        /// The checkpoint.
        lsn: Lsn,
    },
}

/// Where formats 1 to 6 name their creator.
const CREATOR: usize = 16;

/// Distinguishes the formats by the first four bytes of a file.
///
/// # Errors
/// [`RedoError::TooShort`], [`RedoError::UnknownFormat`].
pub fn identify(head: &[u8]) -> Result<LogVendor, RedoError> {
    let format = be::u32_at(head, 0).ok_or(RedoError::TooShort { len: head.len() as u64, needed: 4 })?;
    match format {
        // MariaDB 10.2 has the number of MySQL 5.7, whose records are others.
        1 if head.get(CREATOR..).is_some_and(|creator| creator.starts_with(b"MariaDB")) => {
            Err(RedoError::UnknownFormat { format })
        }
        1..=6 => Ok(LogVendor::MySql),
        _ if mariadb::Format::from_number(format).is_some() => Ok(LogVendor::MariaDb),
        _ => Err(RedoError::UnknownFormat { format }),
    }
}

/// The servers that write this format, if it is a known number. In formats that MariaDB encrypts, the highest bit is set.
#[must_use]
pub const fn writers_of(format: u32) -> Option<&'static str> {
    Some(match format & 0x7FFF_FFFF {
        0 => "MySQL up to 5.6 and MariaDB up to 10.1",
        1 => "MySQL 5.7 and MariaDB 10.2",
        2..=5 => "MySQL 8.0.0 to 8.0.29",
        6 => "MySQL 8.0.30 and later",
        103 => "MariaDB 10.3",
        104 => "MariaDB 10.4",
        _ => return None,
    })
}

fn unknown_format(format: u32) -> String {
    match writers_of(format) {
        Some(writers) => format!("the redo log has format {format}, that of {writers}, which innokit does not read"),
        None => format!("the redo log has the unknown format 0x{format:08x}"),
    }
}

/// Checks the CRC-32C at `at`, which covers all bytes before it.
fn check_crc(bytes: &[u8], at: usize) -> Result<(), RedoError> {
    let short = RedoError::TooShort { len: bytes.len() as u64, needed: at as u64 + 4 };
    let stored = be::u32_at(bytes, at).ok_or(short)?;
    let computed = bytes.get(..at).map(format::checksum::crc32c).ok_or(short)?;
    if stored == computed { Ok(()) } else { Err(RedoError::HeaderChecksum { stored, computed }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_mariadb_10_2_is_not_taken_for_one_of_mysql() {
        let mut head = vec![0; 512];
        head[3] = 1;
        head[16..29].copy_from_slice(b"MariaDB 10.2.");
        let error = identify(&head).unwrap_err();
        assert!(error.to_string().contains("MariaDB 10.2, which innokit does not read"), "{error}");
        head[16..26].copy_from_slice(b"MySQL 5.7.");
        assert_eq!(identify(&head), Ok(LogVendor::MySql));
    }
}
