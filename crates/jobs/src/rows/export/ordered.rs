//! One output shared by several workers: in the order of their ranges, or as pieces arrive.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::format::Output;

/// The output of all workers.
pub(super) struct Shared<'o, O> {
    state: Mutex<OrderState<'o, O>>,
    turned: Condvar,
    ordered: bool,
}

struct OrderState<'o, O> {
    out: &'o mut O,
    /// The range whose turn it is.
    turn: usize,
    /// The first error.
    failed: Option<io::Error>,
    ended: bool,
}

impl<'o, O: Output> Shared<'o, O> {
    pub(super) fn new(out: &'o mut O, ordered: bool) -> Self {
        let state = OrderState { out, turn: 0, failed: None, ended: false };
        Self { state: Mutex::new(state), turned: Condvar::new(), ordered }
    }

    fn lock(&self) -> MutexGuard<'_, OrderState<'o, O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a piece of `range` once it is that range's turn; `last` passes the turn on. `false` if no more is wanted.
    pub(super) fn write(&self, range: usize, piece: O::Piece, last: bool) -> bool {
        let mut state = self.lock();
        while self.ordered && state.turn != range && !state.ended {
            state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended {
            return false;
        }
        if let Err(error) = state.out.write(piece) {
            state.failed = Some(error);
            state.ended = true;
        }
        if last {
            state.turn = range + 1;
        }
        if last || state.ended {
            self.turned.notify_all();
        }
        !state.ended
    }

    /// Ends all writing; called by the worker whose turn it is.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.turned.notify_all();
    }

    /// Ends all writing because of an error.
    pub(super) fn fail(&self, error: io::Error) {
        let mut state = self.lock();
        state.failed.get_or_insert(error);
        state.ended = true;
        self.turned.notify_all();
    }

    /// Whether a piece of that range could be written without waiting.
    pub(super) fn is_turn(&self, range: usize) -> bool {
        let state = self.lock();
        !self.ordered || state.turn == range || state.ended
    }

    /// Returns the first error, if there was one.
    pub(super) fn finish(self) -> io::Result<()> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failed.map_or(Ok(()), Err)
    }
}
