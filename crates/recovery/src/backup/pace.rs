//! Limits the speed of the copy while no lock is held, and reports its progress.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use flow::priority::IoPriority;

use super::error::{BackupError, Result, failed};
use datadir::stop;

/// The longest sleep: how soon a stop is noticed.
const NAP_MAX: Duration = Duration::from_millis(100);

/// Told how many bytes of tablespaces have been copied, and how many there are, as far as that is known.
#[derive(Clone, Default)]
pub struct BackupWatcher(pub Option<Arc<dyn Fn(u64, u64) + Send + Sync>>);

impl fmt::Debug for BackupWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupWatcher({})", self.0.is_some())
    }
}

/// Paces the copy.
#[derive(Debug)]
pub(super) struct Pace<'p> {
    /// Bytes per second.
    rate: Option<u64>,
    is_idle: bool,
    /// The I/O priority that the copying thread had before it became idle.
    own_priority: Option<IoPriority>,
    watcher: BackupWatcher,
    stop: &'p AtomicBool,
    started: Instant,
    copied: u64,
    total: u64,
}

impl<'p> Pace<'p> {
    pub fn new(rate: Option<u64>, is_idle: bool, watcher: BackupWatcher, stop: &'p AtomicBool) -> Self {
        Self { rate, is_idle, own_priority: None, watcher, stop, started: Instant::now(), copied: 0, total: 0 }
    }

    /// Starts the clock, and the idle I/O class if it is wanted: from here on the copy blocks no one.
    pub fn start(&mut self, datadir: &Path) -> Result<()> {
        self.started = Instant::now();
        if !self.is_idle {
            return Ok(());
        }
        let mut become_idle = || {
            self.own_priority = Some(IoPriority::now()?);
            IoPriority::IDLE.set()
        };
        become_idle().map_err(failed(datadir, "setting the I/O class"))
    }

    /// From here on the server's locks block others: copies at full speed.
    pub fn hurry(&mut self, datadir: &Path) -> Result<()> {
        self.rate = None;
        let Some(own) = self.own_priority.take() else { return Ok(()) };
        // The real-time class takes a privilege that the thread may have given up.
        let set = own.set().or_else(|_| IoPriority::NONE.set());
        set.map_err(failed(datadir, "setting the I/O class"))
    }

    /// Adds to the bytes that are to be copied.
    pub fn expect(&mut self, bytes: u64) {
        self.total += bytes;
    }

    /// Counts copied bytes, then waits until the next are due.
    pub fn copied(&mut self, bytes: u64) -> Result<()> {
        self.copied += bytes;
        if let Some(tell) = &self.watcher.0 {
            tell(self.copied, self.total.max(self.copied));
        }
        loop {
            if stop::is_told(self.stop) {
                return Err(BackupError::Interrupted);
            }
            let Some(rate) = self.rate else { return Ok(()) };
            let due = Duration::from_secs_f64(self.copied as f64 / rate.max(1) as f64);
            let left = due.saturating_sub(self.started.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(NAP_MAX));
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "helpers of tests fail the test")]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn bytes_are_copied_no_faster_than_the_rate_until_others_wait() {
        let (told, stop) = (Arc::new(Mutex::new(Vec::new())), AtomicBool::new(false));
        let seen = Arc::clone(&told);
        let watcher = BackupWatcher(Some(Arc::new(move |done, of| seen.lock().expect("whole").push((done, of)))));
        let mut pace = Pace::new(Some(1000), false, watcher, &stop);
        pace.start(Path::new("/")).expect("started");
        pace.expect(150);
        let started = Instant::now();
        pace.copied(100).expect("copied");
        pace.copied(100).expect("copied");
        assert!(started.elapsed() >= Duration::from_millis(199), "{:?}", started.elapsed());
        assert_eq!(*told.lock().expect("whole"), [(100, 150), (200, 200)]);
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(pace.copied(1 << 40), Err(BackupError::Interrupted)));
        stop.store(false, Ordering::Relaxed);
        pace.hurry(Path::new("/")).expect("hurried");
        // At that rate it would take a year.
        pace.copied(30 << 30).expect("copied");
    }
}
