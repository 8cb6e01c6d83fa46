//! One output for several workers: in the order of their ranges, or as it comes.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::format::Output;

/// Where all workers write.
pub(super) struct Shared<'o, O> {
    state: Mutex<OrderState<'o, O>>,
    turned: Condvar,
    ordered: bool,
}

struct OrderState<'o, O> {
    out: &'o mut O,
    /// The range whose turn it is.
    turn: usize,
    /// Ranges that ended before it was their turn, and had written nothing.
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

    /// Writes a piece, which belongs to that range, when it is its turn; with `last` the turn passes on. `false`: nothing more is wanted.
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

    /// Nothing more is written, by anybody: called by the one whose turn it is.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.turned.notify_all();
    }

    /// Nothing more is written, for this is why.
    pub(super) fn fail(&self, error: io::Error) {
        let mut state = self.lock();
        state.failed.get_or_insert(error);
        state.ended = true;
        self.turned.notify_all();
    }

    /// Whether a piece of that range could be written at once.
    pub(super) fn is_turn(&self, range: usize) -> bool {
        let state = self.lock();
        !self.ordered || state.turn == range || state.ended
    }

    /// Why not everything could be written, if so.
    pub(super) fn finish(self) -> io::Result<()> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failed.map_or(Ok(()), Err)
    }
}
