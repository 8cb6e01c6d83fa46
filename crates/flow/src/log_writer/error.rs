//! What can go wrong with a log.

use std::io;
use std::sync::Arc;

use super::LogPosition;

/// Why a log cannot be created, opened, read or written. Cheap to clone: a writer that has failed returns its first error to every caller.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A system call failed. The writer accepts nothing more: only reading the log again, after
    /// [`LogWriter::open`](super::LogWriter::open), tells what is durable.
    #[error("cannot {what} {file} at offset {offset}: {error}")]
    Io {
        /// The action: read, write, sync ...
        what: &'static str,
        /// The file.
        file: String,
        /// The offset in it, in bytes.
        offset: u64,
        /// The system's error.
        error: Arc<io::Error>,
    },
    /// The ring has wrapped around to bytes that were not released.
    #[error(
        "the log is full: the ring still holds everything from log position {released} on; release what you no longer need"
    )]
    Full {
        /// Everything before this was released.
        released: LogPosition,
    },
    /// A record is longer than a group can be.
    #[error("the record has {len} bytes, but a record of this log can have at most {max}")]
    RecordTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest possible, in bytes.
        max: usize,
    },
    /// The files are not those of one complete log.
    #[error("{file} is not a file of this log: {why}")]
    NotThisLog {
        /// The file.
        file: String,
        /// The reason.
        why: &'static str,
    },
    /// A log exists where a new one was to be created.
    #[error("{file} already exists: only a log with recycled space overwrites files")]
    Exists {
        /// The file.
        file: String,
    },
    /// Log blocks that were durable cannot be read any more, although later ones can.
    #[error(
        "{file}, offset {offset}: the log block at position {position} is damaged, but later ones are there, so this is not the end of the log"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the block in it, in bytes.
        offset: u64,
        /// Its log position.
        position: LogPosition,
    },
    /// A ring of these sizes is not possible.
    #[error(
        "a log of {files} files of {file_size} bytes with blocks of {block_size} bytes cannot be made: 2 to 1000 files of at least two blocks, blocks of 4096 to 65536 bytes, a power of two"
    )]
    Layout {
        /// Files in the ring.
        files: u32,
        /// Bytes of each.
        file_size: u64,
        /// Bytes of a block.
        block_size: u32,
    },
    /// A group of this size is not possible.
    #[error("the largest group is {group_max} bytes, but must be a multiple of 512, at most {max} in this log")]
    GroupMax {
        /// The requested size, in bytes.
        group_max: u32,
        /// The largest possible, in bytes.
        max: u64,
    },
    /// The system does not provide the memory for the buffers.
    #[error("no memory for the log's buffers: {0}")]
    Memory(Arc<io::Error>),
}
