//! Shared state in every interleaving that the C++ memory model allows. It is weaker than any processor, so what holds here holds on x86-64
//! and AArch64.
//!
//! The library's sources are compiled a second time with `loom`'s atomics, locks and threads instead of the system's (`sync` below instead
//! of `src/sync.rs`). The log's leader writes memory that only the handshake orders, so a caller that returns too early sees an old value
//! in one of the interleavings. A caller that is never woken is a deadlock, which `loom` reports.

#![cfg(not(target_arch = "aarch64"))]
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "helpers of tests fail the test")]

#[path = "../src/counter.rs"]
mod counter;
#[path = "../src/log_writer/handshake.rs"]
mod handshake;
#[path = "../src/tickets.rs"]
mod tickets;

/// Instead of `src/sync.rs`.
mod sync {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use loom::sync::Condvar;
    pub(crate) use loom::sync::atomic::AtomicU64;
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    /// Padding affects only speed.
    #[derive(Debug)]
    pub(crate) struct Padded<T>(T);

    impl<T> Padded<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(value)
        }
    }

    impl<T> std::ops::Deref for Padded<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    /// No time passes here: the leader never waits for more callers, which only removes interleavings.
    pub(crate) struct Instant;

    impl Instant {
        pub(crate) fn now() -> Self {
            Self
        }

        #[expect(clippy::unused_self, reason = "as std's")]
        pub(crate) fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
    }

    /// A futex word and the kernel's list of its sleepers.
    #[derive(Debug)]
    pub(crate) struct AtomicU32 {
        word: loom::sync::atomic::AtomicU32,
        list: Mutex<()>,
        woken: Condvar,
    }

    impl AtomicU32 {
        pub(crate) fn new(value: u32) -> Self {
            Self { word: loom::sync::atomic::AtomicU32::new(value), list: Mutex::new(()), woken: Condvar::new() }
        }

        pub(crate) fn load(&self, ordering: Ordering) -> u32 {
            self.word.load(ordering)
        }

        pub(crate) fn fetch_add(&self, value: u32, ordering: Ordering) -> u32 {
            self.word.fetch_add(value, ordering)
        }
    }

    /// Compares first without the list's lock, so that a caller can see the word changed without any other write becoming visible: the
    /// system promises no more.
    pub(crate) fn wait(word: &AtomicU32, value: u32) {
        if word.load(Ordering::Relaxed) != value {
            return;
        }
        let list = word.list.lock().expect("nobody panics with it");
        if word.load(Ordering::Relaxed) == value {
            drop(word.woken.wait(list).expect("nobody panics with it"));
        }
    }

    pub(crate) fn wake_one(word: &AtomicU32) {
        let _list = word.list.lock().expect("nobody panics with it");
        word.woken.notify_one();
    }

    pub(crate) fn wake_all(word: &AtomicU32) {
        let _list = word.list.lock().expect("nobody panics with it");
        word.woken.notify_all();
    }
}

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

use handshake::{Handshake, Work};

/// Preemptions of running threads per execution of a model. Errors need few: each of the errors planted to test the models shows up with 2.
const SWITCHES: usize = 3;

/// Runs a model in all interleavings with at most `switches` preemptions. Prints and returns how many there were.
fn all_orders(switches: usize, model: impl Fn() + Sync + Send + 'static) -> u64 {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    let orders = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&orders);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    eprintln!("{} orders", orders.load(Relaxed));
    orders.load(Relaxed)
}

/// A log of numbered records. Record `n` ends at position `n + 1`.
struct Log {
    /// Whether each record was written.
    medium: Vec<AtomicBool>,
    /// Groups from this record on fail.
    fails_from: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Failed;

impl Work for Log {
    type Shared = (u64, u64);
    type Lane = (u64, u64);
    type Error = Failed;

    fn gathered(shared: &(u64, u64)) -> (u64, u64) {
        *shared
    }

    fn take(&self, shared: &mut (u64, u64), lane: &mut (u64, u64)) {
        *lane = *shared;
        shared.0 = shared.1;
    }

    fn write(&self, lane: &mut (u64, u64)) -> Result<(), Failed> {
        if lane.1 > self.fails_from {
            return Err(Failed);
        }
        for record in lane.0..lane.1 {
            // Relaxed: only the handshake makes it visible.
            self.medium[record as usize].store(true, Relaxed);
        }
        Ok(())
    }

    fn written(_: &mut (u64, u64), lane: &(u64, u64)) -> u64 {
        lane.1
    }

    fn panicked(&self) -> Failed {
        Failed
    }
}

/// A log of at most this many records, in which groups that end after `fails_from` fail.
fn log(records: usize, fails_from: u64) -> Arc<Handshake<Log>> {
    let medium = (0..records).map(|_| AtomicBool::new(false)).collect();
    Arc::new(Handshake::new(Log { medium, fails_from }, (0, 0), (0, 0), 0))
}

/// Adds a record without waiting. A group has at most `group_max`.
fn submit(log: &Handshake<Log>, group_max: u64) -> Result<u64, Failed> {
    let mut state = log.lock();
    loop {
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        if state.shared.1 - state.shared.0 < group_max {
            state.shared.1 += 1;
            return Ok(state.shared.1);
        }
        state = log.make_room(state);
    }
}

/// Adds a record, waits, and verifies that it was written.
fn append(log: &Handshake<Log>, group_max: u64) -> Result<(), Failed> {
    let end = submit(log, group_max)?;
    log.wait_in(log.lock(), end)?;
    assert!(log.work.medium[end as usize - 1].load(Relaxed), "{end} is said to be durable before it was written");
    Ok(())
}

#[test]
fn a_caller_returns_only_with_its_record_written_and_nobody_sleeps_for_ever() {
    let orders = all_orders(SWITCHES, || {
        let log = log(3, u64::MAX);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let log = Arc::clone(&log);
                thread::spawn(move || append(&log, 8))
            })
            .collect();
        append(&log, 8).expect("nothing fails");
        for other in others {
            other.join().expect("does not panic").expect("nothing fails");
        }
        assert_eq!(log.lock().durable, 3);
    });
    assert!(orders > 100, "{orders}");
}

#[test]
fn callers_that_commit_again_meet_the_sleepers_of_both_turns() {
    let orders = all_orders(SWITCHES, || {
        let log = log(4, u64::MAX);
        let other = {
            let log = Arc::clone(&log);
            thread::spawn(move || (0..2).try_for_each(|_| append(&log, 8)))
        };
        (0..2).try_for_each(|_| append(&log, 8)).expect("nothing fails");
        other.join().expect("does not panic").expect("nothing fails");
        assert_eq!(log.lock().durable, 4);
    });
    assert!(orders > 100, "{orders}");
}

#[test]
fn callers_that_find_the_group_full_are_woken_when_there_is_room() {
    let orders = all_orders(SWITCHES, || {
        let log = log(3, u64::MAX);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let log = Arc::clone(&log);
                thread::spawn(move || append(&log, 1))
            })
            .collect();
        append(&log, 1).expect("nothing fails");
        for other in others {
            other.join().expect("does not panic").expect("nothing fails");
        }
    });
    assert!(orders > 100, "{orders}");
}

#[test]
fn one_waits_for_what_another_submitted() {
    all_orders(SWITCHES, || {
        let log = log(2, u64::MAX);
        let other = {
            let log = Arc::clone(&log);
            thread::spawn(move || submit(&log, 8).expect("nothing fails"))
        };
        append(&log, 8).expect("nothing fails");
        let end = other.join().expect("does not panic");
        log.wait_in(log.lock(), end).expect("nothing fails");
        assert!(log.work.medium.iter().all(|written| written.load(Relaxed)));
    });
}

#[test]
fn after_a_failure_everyone_whose_record_is_not_durable_gets_the_error() {
    all_orders(SWITCHES, || {
        let log = log(3, 1);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let log = Arc::clone(&log);
                thread::spawn(move || append(&log, 8))
            })
            .collect();
        let mine = append(&log, 8);
        let outcomes: Vec<_> =
            others.into_iter().map(|other| other.join().expect("does not panic")).chain([mine]).collect();
        let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        assert_eq!(log.lock().durable, done, "{outcomes:?}");
        assert!(done <= 1, "the group that ends after record 1 fails");
    });
}

#[test]
fn each_number_is_given_once_and_after_a_stop_no_small_ones() {
    all_orders(SWITCHES, || {
        let tickets = Arc::new(tickets::Tickets::new());
        let other = {
            let tickets = Arc::clone(&tickets);
            thread::spawn(move || [tickets.take(), tickets.take()])
        };
        let third = {
            let tickets = Arc::clone(&tickets);
            thread::spawn(move || {
                let taken = tickets.take();
                tickets.stop();
                [taken, tickets.take()]
            })
        };
        let mine = [tickets.take()];
        let (other, third) = (other.join().expect("does not panic"), third.join().expect("does not panic"));
        let mut all = [&mine[..], &other, &third].concat();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
        assert!(third[1] >= u64::MAX / 2, "{third:?}");
        assert!(tickets.taken() >= u64::MAX / 2, "nothing is left");
        assert!(tickets.take() >= u64::MAX / 2);
        assert!(
            all.iter().enumerate().all(|(at, &one)| one == at as u64 || one >= u64::MAX / 2),
            "none is left out: {all:?}"
        );
    });
}

#[test]
fn counters_are_exact_after_a_join_and_never_fall_before() {
    all_orders(SWITCHES, || {
        let (sum, most) = (Arc::new(counter::Counter::default()), Arc::new(counter::Counter::default()));
        let workers: Vec<_> = [3, 5]
            .into_iter()
            .map(|value| {
                let (sum, most) = (Arc::clone(&sum), Arc::clone(&most));
                thread::spawn(move || {
                    sum.add(value);
                    most.raise(value);
                })
            })
            .collect();
        let (before, after) = (sum.get(), sum.get());
        assert!(before <= after, "{before} then {after}");
        for worker in workers {
            worker.join().expect("does not panic");
        }
        assert_eq!((sum.get(), most.get()), (8, 5));
    });
}
