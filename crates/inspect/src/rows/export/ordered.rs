//! One output shared by several workers: in the order of their ranges, or as pieces arrive.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::format::Output;

/// The output of all workers.
pub(super) struct Shared<'o, O: Output> {
    state: Mutex<OrderState<'o, O>>,
    turned: Condvar,
    ordered: bool,
    /// How many ranges may be held.
    held_max: usize,
}

struct OrderState<'o, O: Output> {
    out: &'o mut O,
    /// The range whose turn it is.
    turn: usize,
    /// Complete ranges that wait for their turn, so that their workers need not wait for a slower one.
    held: BTreeMap<usize, O::Piece>,
    /// The first error.
    failed: Option<io::Error>,
    ended: bool,
}

impl<O: Output> OrderState<'_, O> {
    fn put(&mut self, piece: O::Piece) {
        if let Err(error) = self.out.write(piece) {
            self.failed = Some(error);
            self.ended = true;
        }
    }

    /// Passes the turn to the next range that is not held, and writes the held ones on the way.
    fn pass_turn(&mut self) {
        self.turn += 1;
        while !self.ended
            && let Some(piece) = self.held.remove(&self.turn)
        {
            self.put(piece);
            self.turn += 1;
        }
    }
}

/// Where in its range a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// More of the range follows.
    Some,
    /// It is the last, or only, piece of the range.
    Last,
    /// The last piece of all: everything before it is wanted, nothing after it.
    End,
}

impl<'o, O: Output> Shared<'o, O> {
    /// Up to `held_max` ranges are kept in memory until their turn.
    pub(super) fn new(out: &'o mut O, ordered: bool, held_max: usize) -> Self {
        let state = OrderState { out, turn: 0, held: BTreeMap::new(), failed: None, ended: false };
        Self { state: Mutex::new(state), turned: Condvar::new(), ordered, held_max }
    }

    fn lock(&self) -> MutexGuard<'_, OrderState<'o, O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a piece of `range` once it is that range's turn; the last one passes the turn on. `false` if no more is wanted.
    pub(super) fn write(&self, range: usize, piece: O::Piece, part: Part) -> bool {
        let mut state = self.lock();
        while self.ordered && state.turn != range && !state.ended {
            // A last piece that comes before its turn is the whole range: an earlier piece would have waited for the turn.
            if part == Part::Last && state.held.len() < self.held_max {
                state.held.insert(range, piece);
                return true;
            }
            state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended {
            return false;
        }
        state.put(piece);
        match part {
            Part::Some => {}
            Part::Last if self.ordered => state.pass_turn(),
            Part::Last => {}
            Part::End => state.ended = true,
        }
        if part != Part::Some || state.ended {
            self.turned.notify_all();
        }
        !state.ended
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Numbers(Vec<usize>);

    impl Output for Numbers {
        type Piece = usize;

        fn write(&mut self, piece: usize) -> io::Result<()> {
            self.0.push(piece);
            Ok(())
        }

        fn finish(&mut self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
    }

    #[test]
    fn a_whole_range_is_held_until_those_before_it_are_written() {
        let mut out = Numbers::default();
        let shared = Shared::new(&mut out, true, 2);
        assert!(shared.write(2, 20, Part::Last) && shared.write(1, 10, Part::Last));
        assert!(shared.lock().out.0.is_empty());
        assert!(shared.write(0, 0, Part::Some) && shared.write(0, 1, Part::Last));
        assert!(shared.write(3, 30, Part::Last));
        shared.finish().expect("nothing failed");
        assert_eq!(out.0, [0, 1, 10, 20, 30]);
    }

    #[test]
    fn the_range_that_ends_a_scan_comes_after_all_before_it_and_last() {
        let mut out = Numbers::default();
        let shared = Shared::new(&mut out, true, 8);
        std::thread::scope(|scope| {
            assert!(shared.write(2, 2, Part::Last));
            let ending = scope.spawn(|| shared.write(1, 1, Part::End));
            assert!(shared.write(0, 0, Part::Last));
            assert!(!ending.join().expect("no panic"));
        });
        assert!(!shared.write(3, 3, Part::Last));
        shared.finish().expect("nothing failed");
        assert_eq!(out.0, [0, 1], "range 2 was held, and is not wanted any more");
    }

    #[test]
    fn workers_at_different_speeds_write_in_order() {
        const RANGES: usize = 400;
        for held_max in [0, 1, 3, 100] {
            let mut out = Numbers::default();
            let shared = Shared::new(&mut out, true, held_max);
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for worker in 0..4 {
                    let (shared, next) = (&shared, &next);
                    scope.spawn(move || {
                        loop {
                            let range = next.fetch_add(1, Ordering::Relaxed);
                            if range >= RANGES {
                                break;
                            }
                            (0..range * 7 % (2 + worker)).for_each(|_| std::thread::yield_now());
                            let is_cut = range % 5 == 0;
                            assert!(!is_cut || shared.write(range, 2 * range, Part::Some));
                            assert!(shared.write(range, 2 * range + 1, Part::Last));
                            assert!(shared.lock().held.len() <= held_max);
                        }
                    });
                }
            });
            shared.finish().expect("nothing failed");
            let expected = (0..RANGES).flat_map(|range| [(range % 5 == 0).then_some(2 * range), Some(2 * range + 1)]);
            assert_eq!(out.0, expected.flatten().collect::<Vec<_>>(), "{held_max} held");
        }
    }
}
