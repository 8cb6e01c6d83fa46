//! A worker's rows on their way to the output: encoded, counted, and refused one by one.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::{Encoder, Output};
use super::ordered::{Part, Shared};
use crate::rows::batch::Batch;
use crate::rows::reader::Problem;
use crate::rows::scan::RowSink;

/// A worker's output.
pub(super) struct Writing<'w, 'o, E: Encoder, O: Output<Piece = E::Piece>> {
    /// Always `Some`: there is one per worker.
    pub encoder: Option<E>,
    pub range: usize,
    pub shared: &'w Shared<'o, O>,
    pub rows: &'w AtomicU64,
    pub left: Option<u64>,
    pub skip: bool,
}

impl<E: Encoder, O: Output<Piece = E::Piece>> Writing<'_, '_, E, O> {
    /// Writes what was encoded. `false` if no more is wanted.
    fn pass_on(&mut self, part: Part) -> bool {
        let Some(encoder) = &mut self.encoder else { return false };
        match encoder.take() {
            Ok(piece) => self.shared.write(self.range, piece, part),
            Err(error) => {
                self.shared.fail(error);
                false
            }
        }
    }

    fn encode(&mut self, batch: &Batch, problems: &mut Vec<Problem>) -> ControlFlow<()> {
        let Some(encoder) = &mut self.encoder else { return ControlFlow::Break(()) };
        let mut written = 0;
        let mut outcome = ControlFlow::Continue(());
        for row in batch.rows() {
            if self.left == Some(0) {
                break;
            }
            match encoder.row(&row) {
                Ok(()) => {
                    written += 1;
                    self.left = self.left.map(|left| left - 1);
                }
                // A purged row may be unreadable, which is not damage.
                Err(_) if row.state() == crate::rows::batch::RowState::Freed => {}
                Err((column, why)) => {
                    problems.push(Problem::of_value(&row, batch.plan(), column, &why));
                    if !self.skip {
                        outcome = ControlFlow::Break(());
                        break;
                    }
                }
            }
        }
        // Relaxed: a count, read when the workers have been joined.
        self.rows.fetch_add(written, Ordering::Relaxed);
        outcome
    }
}

impl<E: Encoder, O: Output<Piece = E::Piece>> Drop for Writing<'_, '_, E, O> {
    /// A worker that panics must not leave others waiting for its turn to pass.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(std::io::Error::other("a worker ended by a panic"));
        }
    }
}

impl<E: Encoder, O: Output<Piece = E::Piece>> RowSink for Writing<'_, '_, E, O> {
    fn begin(&mut self, range: usize) {
        self.range = range;
    }

    fn batch(&mut self, batch: &Batch, problems: &mut Vec<Problem>) -> ControlFlow<()> {
        self.encode(batch, problems)?;
        let is_turn = || self.shared.is_turn(self.range);
        let full = self.encoder.as_mut().map_or(Ok(false), |encoder| encoder.is_full(&is_turn));
        match full {
            Ok(true) if !self.pass_on(Part::Some) => return ControlFlow::Break(()),
            Ok(_) => {}
            Err(error) => {
                self.shared.fail(error);
                return ControlFlow::Break(());
            }
        }
        if self.left == Some(0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn end(&mut self, outcome: ControlFlow<()>) -> ControlFlow<()> {
        let goes_on = self.pass_on(if outcome.is_break() { Part::End } else { Part::Last });
        if goes_on { outcome } else { ControlFlow::Break(()) }
    }
}
