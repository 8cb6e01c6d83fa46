//! What ends a run early, in the original's words where it has some.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the run ends. The text is the whole message.
#[derive(Debug, Error)]
pub enum Fault {
    /// Options that exclude each other.
    #[error("Error: --strict-check option cannot be used together with --no-check option.")]
    StrictWithoutCheck,
    /// `--no-check` alone would do nothing.
    #[error("Error: --no-check must be associated with --write option.")]
    NoCheckAlone,
    /// The file of `--log` or `--page-type-dump`.
    #[error("Failed to create file: {}: {}", path.display(), system(error))]
    Create {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// No such file.
    #[error("Error: {} cannot be found", .0.display())]
    Missing(PathBuf),
    /// It is there and cannot be opened.
    #[error("Error: Unable to open file:: {}: {}", path.display(), system(error))]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Another process, a server most likely, holds a lock.
    #[error("Error: Unable to lock file:: {}\nfcntl: {}", path.display(), system(error))]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Not even the head of a page.
    #[error("Error: Was not able to read the minimum page size of 1024 bytes.  Bytes read was {0}")]
    NoHead(usize),
    /// The file ends within a page.
    #[error("Error: bytes read ({read}) doesn't match page size ({size})")]
    PartialPage {
        /// Bytes there are.
        read: usize,
        /// Bytes of a page.
        size: usize,
    },
    /// Standard input ends before the first page asked for.
    #[error("Error: Unable to seek to necessary offset")]
    StreamTooShort,
    /// No file is so large.
    #[error("Error: Unable to seek to necessary offset: Invalid argument")]
    OffsetTooLarge,
    /// More damage than `--allow-mismatches` allows.
    #[error("Exceeded the maximum allowed checksum mismatch count::{0}")]
    TooManyMismatches(u64),
    /// The device, not the data.
    #[error("Error: {} cannot be read at byte {offset}: {}", path.display(), system(error))]
    Read {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// Why not.
        error: io::Error,
    },
    /// Not a file of pages.
    #[error("Error: {} is not an InnoDB tablespace: {why}", path.display())]
    NotTablespace {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
    /// `--tablespace-flags` against page 0.
    #[error("Error: Mismatch between provided tablespace flags ({given:#x}) and file flags ({stored:#x})")]
    FlagsDiffer {
        /// On the command line.
        given: u32,
        /// In the file.
        stored: u32,
    },
    /// `--write` on a file whose checksums cannot be replaced.
    #[error("Error: {} is not rewritten: {why}. Nothing was changed.", path.display())]
    NotRewritable {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// `--write` met encrypted pages in a file that does not say that it is encrypted.
    #[error(
        "Error: {count} encrypted pages of {} keep their checksums, which lie inside the encryption; all other pages were rewritten",
        path.display()
    )]
    EncryptedLeft {
        /// The file.
        path: PathBuf,
        /// Such pages.
        count: u64,
    },
    /// The tablespace or its journal could not be written.
    #[error("Error: {} cannot be written: {}", path.display(), system(error))]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Standard output, standard error, the log or the dump.
    #[error("Error: the output cannot be written: {}", system(.0))]
    Output(#[from] io::Error),
}

/// The system's words for an error, without the number that Rust adds.
fn system(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
