//! What ends a run early, in the original's words if it has any.

use std::io;
use std::path::PathBuf;

use recovery::innochecksum::{FileError, system_words};
use thiserror::Error;

/// Why the run ends. The text is the complete message.
#[derive(Debug, Error)]
pub enum Fault {
    /// Options that exclude each other.
    #[error("Error: --strict-check option cannot be used together with --no-check option.")]
    StrictWithoutCheck,
    /// `--no-check` alone would do nothing.
    #[error("Error: --no-check must be associated with --write option.")]
    NoCheckAlone,
    /// The file of `--log` or `--page-type-dump`.
    #[error("Failed to create file: {}: {}", path.display(), system_words(error))]
    Create {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Less than the head of a page.
    #[error("Error: Was not able to read the minimum page size of 1024 bytes.  Bytes read was {0}")]
    NoHead(usize),
    /// The file ends within a page.
    #[error("Error: bytes read ({read}) doesn't match page size ({size})")]
    PartialPage {
        /// Bytes present.
        read: usize,
        /// Bytes of a page.
        size: usize,
    },
    /// More damage than `--allow-mismatches` allows.
    #[error("Exceeded the maximum allowed checksum mismatch count::{0}")]
    TooManyMismatches(u64),
    /// `--write` met encrypted pages in a file that does not say that it is encrypted.
    #[error(
        "Error: {count} encrypted pages of {} keep their checksums, which lie inside the encryption; all other pages were rewritten",
        path.display()
    )]
    EncryptedLeft {
        /// The file.
        path: PathBuf,
        /// Number of such pages.
        count: u64,
    },
    /// Standard output, standard error, the log or the dump.
    #[error("Error: the output cannot be written: {}", system_words(.0))]
    Output(#[from] io::Error),
}
