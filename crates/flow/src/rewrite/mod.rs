//! Reads blocks of files, changes them, and writes them back in place, so that no crash leaves a block half written.
//!
//! ```text
//! stretches -> read, many at a time, each into a buffer of its own -> changed there, by all workers
//!   -> the shadow file: what differs, with its place and a checksum; one write and one sync for many stretches
//!   -> in place, from the same buffer
//! all at once: while one stretch is written another is changed and a third is read
//! ```
//!
//! The shadow has only the changed bytes of a block. A block torn by a crash is a mix of old and new bytes: where the two are equal it is
//! already right, and where they differ the shadow has the new ones. [`replay`] writes those again, which changes nothing where they
//! already are. To make sure that the old bytes are the same after a crash, the files are synced before the first write in place.
//!
//! Batches of the shadow form a chain; no block is written in place before its batch is durable. When the shadow is full, the files are
//! synced, and a new chain begins. Nothing else syncs them: a run costs one sync per file for each full shadow, and one sync of the shadow
//! per batch, while other stretches are in flight. A failed sync is never repeated: after the first failure nothing more is written.
//!
//! Files that are new need no shadow ([`Safety::NewFiles`]): if a crash tears one of their blocks, nothing is lost but the run.
//!
//! A [`Prefetch`] reads what will probably change before it is known how; a rewriter that [holds](Rewriter::hold) that reads only the rest.
//!
//! Sketch: 2 GiB of pages, a tenth of which changes, on a volume of 1 GiB/s: 2 s to read, 2 s to write, 0.2 s for the shadow. Whole pages
//! in the shadow would add 2 s, and doing one step after another would add as much again.

mod change;
mod changes;
mod channel;
mod crew;
mod error;
mod options;
mod pipeline;
mod prefetch;
mod replay;
mod rewriter;
mod shadow;

use std::convert::Infallible;

pub use self::change::{Change, Stretch};
pub use self::changes::Changes;
use self::crew::Crew;
pub use self::error::{RewriteError, RunError};
pub use self::options::{RewriteOptions, RewriteTarget, Safety};
use self::pipeline::Pipeline;
pub use self::prefetch::{Prefetch, Prefetched};
pub use self::replay::{Replayed, replay, replay_if};
pub use self::rewriter::Rewriter;

impl Rewriter {
    /// Reads, changes and writes all stretches in place. They are durable only after [`Rewriter::finish`], but with a shadow whole after any
    /// crash, once [replayed](replay). A later run may use the same stretches again.
    ///
    /// # Errors
    /// The first failure; after that, always [`RewriteError::Latched`].
    pub fn run<C: Change>(
        &mut self,
        stretches: impl IntoIterator<Item = Stretch>,
        change: &C,
    ) -> Result<(), RunError<C::Error>> {
        self.guarded(|rewriter| {
            std::thread::scope(|scope| {
                let crew = Crew::hire(scope, rewriter.options.workers, change);
                Pipeline::new(rewriter, stretches.into_iter(), crew).run()
            })
        })
    }

    /// Makes everything durable, and empties the shadow.
    ///
    /// # Errors
    /// As [`Rewriter::run`].
    pub fn finish(mut self) -> Result<(), RewriteError> {
        self.guarded(|rewriter| Pipeline::new(rewriter, std::iter::empty(), Crew::<Infallible>::none()).finish())
    }
}
