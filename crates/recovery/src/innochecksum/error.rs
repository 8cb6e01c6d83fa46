//! Why a file was not read or written, in the original tool's words where it has a message for it.

use std::io;
use std::path::PathBuf;

use flow::rewrite::RewriteError;
use format::NotTablespace;
use thiserror::Error;

/// Why the run over a file ended. The text is the complete message.
#[derive(Debug, Error)]
pub enum FileError {
    /// No such file.
    #[error("Error: {} cannot be found", .0.display())]
    Missing(PathBuf),
    /// The file exists but cannot be opened.
    #[error("Error: Unable to open file:: {}: {}", path.display(), system_words(error))]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another process, most likely a server, holds a lock.
    #[error("Error: Unable to lock file:: {}\nfcntl: {}", path.display(), system_words(error))]
    Lock {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Standard input ends before the first page asked for.
    #[error("Error: Unable to seek to necessary offset")]
    StreamTooShort,
    /// The offset is greater than any file can be long.
    #[error("Error: Unable to seek to necessary offset: Invalid argument")]
    OffsetTooLarge,
    /// The device failed, not the data.
    #[error("Error: {} cannot be read at byte {offset}: {}", path.display(), system_words(error))]
    Read {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// The system's error.
        error: io::Error,
    },
    /// Not a file of pages.
    #[error("Error: {} is not an InnoDB tablespace: {why}", path.display())]
    NotTablespace {
        /// The file.
        path: PathBuf,
        /// Why it is not a tablespace.
        why: NotTablespace,
    },
    /// `--tablespace-flags` and page 0 disagree.
    #[error("Error: Mismatch between provided tablespace flags ({given:#x}) and file flags ({stored:#x})")]
    FlagsDiffer {
        /// From the command line.
        given: u32,
        /// From the file.
        stored: u32,
    },
    /// The checksums of this file cannot be replaced.
    #[error("Error: {} is not rewritten: {why}. Nothing was changed.", path.display())]
    NotRewritable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: ReadOnlyReason,
    },
    /// The journal beside the tablespace could not be opened, created or removed.
    #[error("Error: {} cannot be written: {}", path.display(), system_words(error))]
    Journal {
        /// The journal.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file with the journal's name holds something else.
    #[error("Error: {} is not a journal of innochecksum. Nothing was changed.", .0.display())]
    ForeignJournal(PathBuf),
    /// Pages could not be written. The journal is kept for the next run.
    #[error("Error: {} cannot be written: {}", path.display(), rewrite_words(error))]
    Write {
        /// The tablespace.
        path: PathBuf,
        /// What failed.
        error: RewriteError,
    },
}

/// Why the checksums of a file are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReadOnlyReason {
    /// Each page follows the rules of its own tablespace.
    #[error("a doublewrite file holds copies of other files' pages")]
    DoublewriteFile,
    /// A full_crc32 tablespace has only one kind of checksum.
    #[error("pages of a full_crc32 tablespace carry no other checksum (use --write=crc32)")]
    FullCrc32,
    /// The checksum of an encrypted page cannot be computed without the key.
    #[error("it is encrypted, and the checksums of its pages lie inside the encryption")]
    Encrypted,
}

/// The system's message without the error number that Rust appends.
#[must_use]
pub fn system_words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// The error without the file name, which is already in the message.
fn rewrite_words(error: &RewriteError) -> String {
    match error {
        RewriteError::Io { source, .. } => system_words(source),
        other => other.to_string(),
    }
}
