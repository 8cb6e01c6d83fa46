//! Who writes, who sleeps and who is woken, when many callers wait for one log. This file knows nothing of bytes and files.
//!
//! Callers add to the group being **gathered**, under the lock, and wait. One of them takes the **lane**, and the gathered group with it:
//! it leads. It writes without the lock, while others gather the next group. Then it wakes all callers whose records it wrote, and one of
//! those that gathered meanwhile, which leads next.
//!
//! Two futex words take turns: callers of the group being gathered sleep on one, those of the group being written on the other. The word
//! tells a caller that something happened, and `durable` tells it what. `tests/models.rs` runs this file through every order of its steps
//! that the memory model of C++ allows.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Instant, Mutex, MutexGuard, Padded, wait, wake_all, wake_one, yield_now};

/// A leader waits for other callers at most this fraction of the time of the last write and sync.
const PATIENCE: u32 = 8;

/// How a group is gathered and written.
pub(super) trait Work {
    /// What callers share under the lock.
    type Shared;
    /// What only the leader has.
    type Lane;
    /// Why nothing can be written any more.
    type Error: Clone;

    /// Start and end of the group being gathered, as positions.
    fn gathered(shared: &Self::Shared) -> (u64, u64);

    /// Moves the gathered group to the lane.
    fn take(&self, shared: &mut Self::Shared, lane: &mut Self::Lane);

    /// Writes the group in the lane and makes it durable. Called without the lock.
    fn write(&self, lane: &mut Self::Lane) -> Result<(), Self::Error>;

    /// Notes that the group in the lane is durable, and returns its end.
    fn written(shared: &mut Self::Shared, lane: &Self::Lane) -> u64;

    /// The error for all others when [`Work::write`] panicked.
    fn panicked(&self) -> Self::Error;
}

/// The meeting place of the callers of one log.
pub(super) struct Handshake<W: Work> {
    pub(super) work: W,
    state: Mutex<State<W>>,
    /// One futex word for the group being gathered and one for the group being written, by turns, incremented to wake its sleepers. Not a
    /// condvar: every woken caller would contend for the mutex only to find its record durable. Padded: the sleepers of one turn are woken
    /// while those of the other arrive.
    turns: [Padded<AtomicU32>; 2],
    /// A copy of `State::durable` that woken callers read without the lock. Padded: else they would wait for the core that has the lock's
    /// cache line.
    durable: Padded<AtomicU64>,
}

/// The state that callers share.
pub(super) struct State<W: Work> {
    /// What the work needs under the lock.
    pub(super) shared: W::Shared,
    /// The futex word in `turns` for the callers of the group being gathered.
    turn: usize,
    /// How many callers sleep on each word.
    sleepers: [u32; 2],
    /// The write lane: its holder is the group's leader.
    lane: Option<W::Lane>,
    /// Callers waiting for the group being gathered.
    callers: u32,
    /// Callers when the last group was written: most will soon be back.
    expected: u32,
    /// How long to wait for these.
    patience: Duration,
    /// Everything before this is durable.
    pub(super) durable: u64,
    pub(super) error: Option<W::Error>,
}

/// The lock's guard.
pub(super) type Held<'w, W> = MutexGuard<'w, State<W>>;

/// The callers to wake; none without a turn.
struct Sleepers {
    turn: Option<usize>,
    all: bool,
}

impl<W: Work> Handshake<W> {
    /// A handshake without callers. Everything before `durable` is durable.
    pub(super) fn new(work: W, shared: W::Shared, lane: W::Lane, durable: u64) -> Self {
        let state = State {
            shared,
            turn: 0,
            sleepers: [0; 2],
            lane: Some(lane),
            callers: 0,
            expected: 0,
            patience: Duration::ZERO,
            durable,
            error: None,
        };
        let turns = [Padded::new(AtomicU32::new(0)), Padded::new(AtomicU32::new(0))];
        Self { work, state: Mutex::new(state), turns, durable: Padded::new(AtomicU64::new(durable)) }
    }

    /// A panic cannot leave the state inconsistent: nothing that can panic runs under the lock.
    pub(super) fn lock(&self) -> Held<'_, W> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for more: has the gathered group written, by this caller or another.
    pub(super) fn make_room<'w>(&'w self, state: Held<'w, W>) -> Held<'w, W> {
        if state.lane.is_some() {
            return self.lead(state, false);
        }
        let written = state.turn ^ 1;
        self.sleep(state, written);
        self.lock()
    }

    /// Returns once everything before a position is durable. A position after the gathered group counts as its end.
    pub(super) fn wait_in<'w>(&'w self, mut state: Held<'w, W>, position: u64) -> Result<(), W::Error> {
        let (start, end) = W::gathered(&state.shared);
        let position = position.min(end);
        if position > start {
            state.callers += 1;
        }
        while state.durable < position {
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
            let is_gathered = position > W::gathered(&state.shared).0;
            let turn = if is_gathered { state.turn } else { state.turn ^ 1 };
            // If the lane is free, nothing is being written: lead the group being gathered.
            if state.lane.is_some() {
                state = self.lead(state, true);
                continue;
            }
            self.sleep(state, turn);
            // Acquire: pairs with the store after the write, so that all that the leader did for this record happened before this caller
            // returns. An older value is not wrong, only slower: the lock then has the newest.
            if self.durable.load(Ordering::Acquire) >= position {
                return Ok(());
            }
            state = self.lock();
        }
        Ok(())
    }

    /// Sleeps until this turn is woken.
    fn sleep(&self, mut state: Held<'_, W>, turn: usize) {
        let (Some(sleepers), Some(at)) = (state.sleepers.get_mut(turn), self.turns.get(turn)) else { return };
        *sleepers += 1;
        // Relaxed, because it is read under the lock: the caller that takes this sleeper off the count locks later, and increments after
        // that. So the value read is from before that increment, and if the increment comes before the sleep, there is no sleep.
        let seen = at.load(Ordering::Relaxed);
        drop(state);
        wait(at, seen);
    }

    /// Removes the sleepers to wake on a turn, all or one. They are woken after the lock is released.
    fn sleepers(state: &mut State<W>, turn: usize, all: bool) -> Sleepers {
        let Some(sleepers) = state.sleepers.get_mut(turn).filter(|sleepers| **sleepers > 0) else {
            return Sleepers { turn: None, all };
        };
        *sleepers = if all { 0 } else { *sleepers - 1 };
        Sleepers { turn: Some(turn), all }
    }

    fn wake(&self, sleepers: Sleepers) {
        let Some(at) = sleepers.turn.and_then(|turn| self.turns.get(turn)) else { return };
        // Relaxed: the word only says "look again". What there is to see comes through `durable` or the lock, and the kernel compares the
        // word and queues the sleeper under a lock of its own, which waking takes too.
        at.fetch_add(1, Ordering::Relaxed);
        if sleepers.all { wake_all(at) } else { wake_one(at) }
    }

    /// Waits for the callers of the group just written: they are awake but not back yet. Without them this group would be small, they would
    /// wait for the next one, and so on in turns. A single caller never waits here.
    fn let_others_join<'w>(&'w self, mut state: Held<'w, W>) -> Held<'w, W> {
        if state.callers >= state.expected {
            return state;
        }
        let (started, patience) = (Instant::now(), state.patience);
        while state.callers < state.expected && started.elapsed() < patience {
            drop(state);
            yield_now();
            state = self.lock();
        }
        state
    }

    /// Writes the gathered group, while others gather the next. With `patience`, waits for others to join first.
    fn lead<'w>(&'w self, mut state: Held<'w, W>, patience: bool) -> Held<'w, W> {
        let Some(mut lane) = state.lane.take() else { return state };
        if patience {
            state = self.let_others_join(state);
        }
        self.work.take(&mut state.shared, &mut lane);
        state.turn ^= 1;
        let callers = std::mem::take(&mut state.callers);
        // Wake the callers that found the group full.
        let turn = state.turn;
        let sleepers = Self::sleepers(&mut state, turn, true);
        drop(state);
        self.wake(sleepers);
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work.write(&mut lane)));
        let mut state = self.lock();
        state.expected = callers + state.callers;
        state.patience = started.elapsed() / PATIENCE;
        let panic = match outcome {
            Ok(Ok(())) => {
                let end = W::written(&mut state.shared, &lane);
                state.durable = end;
                // Release: a caller that reads this without the lock returns, and all that the write did must have happened before that.
                self.durable.store(end, Ordering::Release);
                None
            }
            Ok(Err(error)) => {
                state.error.get_or_insert(error);
                None
            }
            Err(panic) => {
                state.error.get_or_insert(self.work.panicked());
                Some(panic)
            }
        };
        state.lane = Some(lane);
        self.wake_up(state);
        match panic {
            None => self.lock(),
            Some(panic) => resume_unwind(panic),
        }
    }

    /// Wakes one caller of the group gathered meanwhile, which leads next, then all callers of the group just written.
    fn wake_up(&self, mut state: Held<'_, W>) {
        let (gathered, written) = (state.turn, state.turn ^ 1);
        let has_failed = state.error.is_some();
        let leaders = Self::sleepers(&mut state, gathered, has_failed);
        let done = Self::sleepers(&mut state, written, true);
        drop(state);
        self.wake(leaders);
        self.wake(done);
    }
}
