//! Follows the redo log beside the copy: from before the first file is opened until the moment to restore has passed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use flow::for_this_job;
use format::Lsn;

use super::error::{BackupError, Result};

/// Pause between two looks at the follower.
const PAUSE: Duration = Duration::from_millis(2);
/// The server flushes its log every second. A backup that waits longer than this fails.
const FLUSHED_WITHIN: Duration = Duration::from_secs(60);

/// What the follower reports, and the flag that stops it.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The log has been followed up to this LSN; 0 until it has begun.
    at: AtomicU64,
    stop: AtomicBool,
}

impl Followed {
    /// Notes that the log has been followed up to `lsn`.
    pub fn reached(&self, lsn: Lsn) {
        // Release, paired with the Acquire of the waiting thread: the log's copy holds everything up to this LSN before the LSN is seen.
        self.at.store(lsn.0, Ordering::Release);
    }

    pub fn stop(&self) {
        // Relaxed: the follower only ends, and it is joined afterwards.
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Set when there is nothing more to follow.
    pub const fn stopped(&self) -> &AtomicBool {
        &self.stop
    }
}

/// A running follower. Dropping it stops the thread.
#[derive(Debug)]
pub(super) struct Follower<'s> {
    followed: &'s Followed,
    thread: Option<ScopedJoinHandle<'s, Result<()>>>,
}

impl<'s> Follower<'s> {
    /// Starts to follow a log. On return, the followed log includes the newest checkpoint.
    pub fn start<'e>(
        scope: &'s Scope<'s, 'e>,
        followed: &'s Followed,
        follow: impl FnOnce() -> Result<()> + Send + 's,
    ) -> Result<Self> {
        let started = thread::Builder::new().spawn_scoped(scope, for_this_job(follow));
        let started =
            started.map_err(|error| BackupError::Log(format!("no thread starts that would follow it: {error}")))?;
        let mut follower = Self { followed, thread: Some(started) };
        // Acquire: see `Followed::reached`.
        while followed.at.load(Ordering::Acquire) == 0 {
            follower.check()?;
            thread::sleep(PAUSE);
        }
        Ok(follower)
    }

    /// Fails if the follower has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => {
                outcome(thread)?;
                Err(BackupError::Log("it was no longer followed".to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Waits until the log is followed up to `lsn`, which the server has reached. Returns how far it is followed by then.
    pub fn reach(&mut self, lsn: Lsn) -> Result<Lsn> {
        let started = Instant::now();
        loop {
            // Acquire: see `Followed::reached`.
            let at = Lsn(self.followed.at.load(Ordering::Acquire));
            if at >= lsn {
                return Ok(at);
            }
            self.check()?;
            if started.elapsed() > FLUSHED_WITHIN {
                return Err(BackupError::Log(format!("the server does not write it up to LSN {lsn}")));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Waits as `reach` does, then stops the follower.
    pub fn finish(mut self, lsn: Lsn) -> Result<()> {
        self.reach(lsn)?;
        self.followed.stop();
        self.thread.take().map_or(Ok(()), outcome)
    }
}

fn outcome(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(BackupError::Log("it was given up".to_owned())))
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.followed.stop();
    }
}
