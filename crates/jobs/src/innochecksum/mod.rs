//! `innochecksum`: one file's pages judged one at a time, in order, and their checksums replaced in place. The command line keeps the
//! original's options and words; this room has what they are about.
//!
//! ```text
//! FileInput (open, lock) -> finish_interrupted -> FileLayout (page size) -> pages -> PageJudge -> rewritten -> PageWriter -> flow::rewrite
//! ```

mod error;
mod input;
mod judge;
mod layout;
mod rewrite;
mod writer;

pub use self::error::{FileError, ReadOnlyReason, system_words};
pub use self::input::FileInput;
pub use self::judge::{Examined, PageJudge, PageOutcome};
pub use self::layout::{FileLayout, HEAD_MIN};
pub use self::rewrite::{ChecksumKind, NewChecksums, Rewritten, refuse_unfit, rewritten};
pub use self::writer::{PageWriter, is_interrupted};
