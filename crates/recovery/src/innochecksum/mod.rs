//! `innochecksum`: judges one file's pages one at a time, in order, and replaces their checksums in place. The command line crate has the
//! original's options and messages; this module does the work.
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
