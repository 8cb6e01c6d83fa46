//! A file in another one, as that sees it: an archive, or a compressed file, need not know what its files are checked by.

use std::path::PathBuf;

use super::examined::{Break, Context, Role, StreamOutcome};
use crate::source::name::NameHint;

/// Takes a file whose bytes come one after the other.
pub(super) trait Inner: Send {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]);

    /// The next `len` bytes are zeros.
    fn skip(&mut self, len: u64);

    /// No more bytes come, and not because it was all.
    fn broken(&mut self, why: Break);

    /// Bytes that came so far.
    fn len(&self) -> u64;

    /// The end.
    fn finish(self: Box<Self>) -> StreamOutcome;
}

/// Makes one.
pub(super) type OpenInner = fn(Context, PathBuf, NameHint, Role) -> Box<dyn Inner>;
