//! The redo log, followed into segments beside the copy: from before the first file is opened until the moment to restore has passed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use format::Lsn;

use super::error::{BackupError, Result};
use crate::archive::{ArchiveError, ArchiveEvent, ArchiveOptions, ArchiveStatus, archive_beside};
use crate::server::LogServer;

/// Time between two looks at the log.
const POLL: Duration = Duration::from_millis(20);
/// Bytes of a segment: zeros are written first.
const SEGMENT_SIZE: u64 = 16 << 20;
/// Time between two looks at the follower.
const PAUSE: Duration = Duration::from_millis(2);
/// The server flushes its log every second: it is broken if that takes longer than this.
const FLUSHED_WITHIN: Duration = Duration::from_secs(60);

/// What the follower reports.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Where the archive ends; 0 until it has begun.
    at: AtomicU64,
    stop: AtomicBool,
    gap: Mutex<Option<String>>,
}

impl Followed {
    fn tell(&self, event: &ArchiveEvent<'_>) {
        match event {
            ArchiveEvent::Status(status) => self.at.store(status.lsn, Ordering::Release),
            ArchiveEvent::Gap(why) => {
                *self.gap.lock().unwrap_or_else(PoisonError::into_inner) = Some((*why).to_owned());
                self.stop.store(true, Ordering::Release);
            }
        }
    }
}

/// A running follower. Dropping it stops the thread.
#[derive(Debug)]
pub(super) struct Follower<'s> {
    followed: &'s Followed,
    thread: Option<ScopedJoinHandle<'s, std::result::Result<ArchiveStatus, ArchiveError>>>,
}

impl<'s> Follower<'s> {
    /// Starts to follow the log of `datadir` into the directory `to`. When this returns, the newest checkpoint is part of it.
    pub fn start<'e>(
        scope: &'s Scope<'s, 'e>,
        followed: &'s Followed,
        server: &'s mut dyn LogServer,
        datadir: &Path,
        to: PathBuf,
    ) -> Result<Self> {
        let datadir = datadir.to_path_buf();
        let options = ArchiveOptions { to, poll: POLL, segment_size: SEGMENT_SIZE, ..ArchiveOptions::default() };
        let thread = scope.spawn(move || {
            archive_beside(Some(server), &datadir, &options, &followed.stop, &mut |event| followed.tell(event))
        });
        let mut follower = Self { followed, thread: Some(thread) };
        while followed.at.load(Ordering::Acquire) == 0 {
            follower.check()?;
            thread::sleep(PAUSE);
        }
        Ok(follower)
    }

    /// Fails if it has come to an end by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => {
                self.outcome(thread)?;
                Err(BackupError::Log("it was no longer followed".to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Waits until the log is followed up to an LSN that the server has reached, then stops.
    pub fn finish(mut self, lsn: Lsn) -> Result<()> {
        let started = Instant::now();
        while self.followed.at.load(Ordering::Acquire) < lsn.0 {
            self.check()?;
            if started.elapsed() > FLUSHED_WITHIN {
                return Err(BackupError::Log(format!("the server does not write it up to LSN {lsn}")));
            }
            thread::sleep(PAUSE);
        }
        self.followed.stop.store(true, Ordering::Release);
        let thread = self.thread.take();
        thread.map_or(Ok(()), |thread| self.outcome(thread))
    }

    fn outcome(&self, thread: ScopedJoinHandle<'s, std::result::Result<ArchiveStatus, ArchiveError>>) -> Result<()> {
        let ended = thread.join().unwrap_or_else(|_| Err(ArchiveError::Refused("it was given up".to_owned())));
        if let Some(why) = self.followed.gap.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(BackupError::Log(why));
        }
        ended?;
        Ok(())
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.followed.stop.store(true, Ordering::Release);
    }
}
