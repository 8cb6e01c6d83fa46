//! A file inside another, as its container sees it: an archive or a compressed file need not know what checks its contents.

use std::path::PathBuf;

use super::examined::{Break, Context, Role, StreamOutcome};

/// Consumes a file as a stream of bytes.
pub(super) trait Inner: Send {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]);

    /// The next `len` bytes are zeros.
    fn skip(&mut self, len: u64);

    /// The input broke off: no more bytes will come, though the file has more.
    fn broken(&mut self, why: Break);

    /// Bytes received so far.
    fn len(&self) -> u64;

    /// Ends the stream and returns its outcome.
    fn finish(self: Box<Self>) -> StreamOutcome;
}

/// The two names of a file in a container.
#[derive(Debug, Clone)]
pub(super) struct InnerName {
    /// For the report, with the container's.
    pub shown: PathBuf,
    /// Its own, which says what it is.
    pub own: PathBuf,
}

/// Creates the [`Inner`] for a file in a container.
pub(super) type OpenInner = fn(Context, InnerName, Role) -> Box<dyn Inner>;
