//! Loads that run until they are stopped, and that a test can pause.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Server;
use super::session::Session;

/// Between the rounds of a loop. Without it a load takes all of the processor for as long as the test lasts, and its replica the same again.
/// `INNOKIT_SOAK` (`make soak`) does without.
const PAUSE: Duration = Duration::from_millis(50);

/// A gate that statements pass through unless it is closed.
#[derive(Default)]
pub struct Gate {
    /// Whether it is closed, and how many statements that passed are still running.
    state: Mutex<(bool, u32)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self, act: impl FnOnce()) {
        let mut state = self.state.lock().expect("whole");
        while state.0 {
            state = self.changed.wait(state).expect("whole");
        }
        state.1 += 1;
        drop(state);
        act();
        self.state.lock().expect("whole").1 -= 1;
        self.changed.notify_all();
    }

    /// Closes it, and returns once no statement is running.
    pub fn close(&self) {
        let mut state = self.state.lock().expect("whole");
        state.0 = true;
        while state.1 > 0 {
            state = self.changed.wait(state).expect("whole");
        }
    }

    pub fn open(&self) {
        self.state.lock().expect("whole").0 = false;
        self.changed.notify_all();
    }
}

/// Loops of statements, each on a connection of its own, until it is dropped.
#[derive(Default)]
pub struct Load {
    pub stop: Arc<AtomicBool>,
    /// Statements that change rows pass through it.
    pub gate: Arc<Gate>,
    /// Rounds of all loops together.
    pub rounds: Arc<AtomicU32>,
    /// Rounds of each loop.
    loops: Vec<Arc<AtomicU32>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Runs `act` in a loop. Rounds are numbered from `first` on.
    pub fn add(&mut self, server: &Server, first: u32, mut act: impl FnMut(&mut Session, u32) + Send + 'static) {
        let (stop, all, own) = (Arc::clone(&self.stop), Arc::clone(&self.rounds), Arc::new(AtomicU32::new(0)));
        let mut session = Session::of(server);
        let pause = if std::env::var_os("INNOKIT_SOAK").is_some() { Duration::ZERO } else { PAUSE };
        self.loops.push(Arc::clone(&own));
        self.threads.push(thread::spawn(move || {
            for round in first.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                act(&mut session, round);
                thread::sleep(pause);
                own.fetch_add(1, Ordering::Relaxed);
                all.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }

    /// Runs these statements in a loop. If `is_gated`, they wait while rows must not change.
    pub fn add_statements(
        &mut self,
        server: &Server,
        is_gated: bool,
        statements: impl Fn(u32) -> String + Send + 'static,
    ) {
        let gate = Arc::clone(&self.gate);
        self.add(server, 0, move |session, round| {
            for statement in statements(round).split(';') {
                if is_gated {
                    gate.pass(|| drop(session.ask(statement)));
                } else {
                    session.ask(statement);
                }
            }
        });
    }

    /// Returns once each loop has done this many more rounds.
    pub fn go_on(&self, rounds: u32) {
        let until: Vec<u32> = self.loops.iter().map(|own| own.load(Ordering::Relaxed) + rounds).collect();
        while self.loops.iter().zip(&until).any(|(own, until)| own.load(Ordering::Relaxed) < *until) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns once every loop has ended.
    pub fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("ended"));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.gate.open();
        self.stop.store(true, Ordering::Relaxed);
        // A second panic, while the test already fails, would hide why it fails.
        self.threads.drain(..).for_each(|ended| assert!(ended.join().is_ok() || thread::panicking()));
    }
}
