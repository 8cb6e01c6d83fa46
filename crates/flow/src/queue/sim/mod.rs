//! A simulated device in memory, with time and faults: slow storage, torn writes and lost syncs in a test that runs at once.
//!
//! [`SimDevice`] keeps files in memory and serves them as an engine of the I/O queue ([`OpenQueue`](super::OpenQueue)) or by blocking calls
//! ([`SimDevice::read_at`], [`SimDevice::write_at`], [`SimDevice::sync`]). With one thread, the requests and the seed alone decide what
//! happens.
//!
//! ```text
//! request --crash point? error?--> in flight (latency, hands, pipe) --done--> what reads see
//!                                                                              |  sync: what was done when it started
//!                                                                              v
//! power off --> each unsynced write of each 512-byte sector is kept or not --> medium, as reopen() finds it
//! ```
//!
//! **Time.** A request waits for one of `parallel` hands and takes the latency; its bytes wait for the pipe. Time is counted, not spent,
//! except with [`Pace::Real`]: [`SimDevice::elapsed`] tells what the requests would have cost. Counted time excludes the processor's work,
//! and is reproducible only with one thread; to compare programs with several threads, or ones that compute while they wait, use real time.
//!
//! **Durability.** Reads see a write once it is done. It is durable once a sync that started after that is done. A failed sync leaves its
//! writes readable and never durable, as on Linux. A file's length is as durable as its bytes.
//!
//! **Crash.** Writes and syncs count as operations, from 1. With [`SimDevice::crash_at`] the power goes off in the middle of one:
//! everything in flight fails, and everything after it. [`SimDevice::reopen`] returns the device after the power is back, in one of the
//! many states that the crash could leave, chosen by its seed. So a test counts the operations of a first run and then crashes at each:
//!
//! ```
//! use innokit_flow::queue::sim::{SimDevice, SimOptions};
//!
//! let device = SimDevice::new(SimOptions::default());
//! let file = device.add_file(vec![0; 4096]);
//! device.write_at(file, 0, &[1; 1024])?;
//! device.sync(file)?;
//! device.write_at(file, 1024, &[2; 1024])?;
//! device.crash_at(device.operations() + 1);
//! assert!(device.sync(file).is_err());
//!
//! let left = device.reopen(7).contents(file);
//! assert_eq!(left[..1024], [1; 1024], "was synced");
//! assert!(left[1024..1536] == [0; 512] || left[1024..1536] == [2; 512], "a sector is kept whole or not at all");
//! # Ok::<_, std::io::Error>(())
//! ```

mod device;
mod engine;
mod file;
mod options;
mod over;
mod random;
mod timing;

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use self::device::State;
pub use self::file::SECTOR_SIZE;
pub use self::options::{Pace, SimCounts, SimOptions};
pub use self::over::SimTime;
#[doc(hidden)]
pub use self::random::Random;
use super::Operation;
use crate::{FileId, FileSet};

/// The simulated device. Clones are the same device.
#[derive(Debug, Clone)]
pub struct SimDevice {
    state: Arc<Mutex<State>>,
}

impl SimDevice {
    /// A device without files.
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        Self::of(State::new(options, Vec::new()))
    }

    fn of(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// After a panic elsewhere the device may be in the middle of a request, as after a crash.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a file whose bytes are durable. The first is `FileId(0)`, and so on.
    pub fn add_file(&self, bytes: Vec<u8>) -> FileId {
        self.lock().add_file(bytes)
    }

    /// All files, for a [`Reader`](crate::Reader) with this device as its engine.
    #[must_use]
    pub fn file_set(&self) -> FileSet {
        let lens = self.lock().lens();
        FileSet::of_engine(lens.into_iter().enumerate().map(|(index, len)| (format!("simulated.{index}").into(), len)))
    }

    /// The bytes of a file as reads see them; empty if there is no such file.
    #[must_use]
    pub fn contents(&self, file: FileId) -> Vec<u8> {
        self.lock().contents(file)
    }

    /// The length of a file in bytes.
    ///
    /// # Errors
    /// `ENOENT` if there is no such file; any error if the power is off.
    pub fn len(&self, file: FileId) -> io::Result<u64> {
        let state = self.lock();
        if state.is_off() {
            return Err(device::power_is_off());
        }
        state.lens().get(file.0 as usize).copied().ok_or(Errno::NOENT.into())
    }

    /// Reads, and waits for it. Returns fewer bytes than requested at the end of the file, and elsewhere according to
    /// [`SimOptions::short_one_in`].
    ///
    /// # Errors
    /// `EIO` after [`SimDevice::fail`]; any error if the power is off.
    pub fn read_at(&self, file: FileId, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let flight = self.lock().start(Operation::Read, file, offset, bytes.len() as u64);
        self.sleep_until(flight.done);
        self.lock().finish_read(&flight, bytes)
    }

    /// Writes, and waits for it; not durable before a sync.
    ///
    /// # Errors
    /// `EIO` after [`SimDevice::fail`] or [`SimDevice::fail_at`]; any error if the power is off or goes off. Any of the sectors may have
    /// been written.
    pub fn write_at(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let flight = state.start(Operation::Write, file, offset, bytes.len() as u64);
        if state.is_off() {
            return state.finish_write(&flight, bytes);
        }
        drop(state);
        self.sleep_until(flight.done);
        self.lock().finish_write(&flight, bytes)
    }

    /// Makes durable what was written to the file, and waits for it.
    ///
    /// # Errors
    /// `EIO` after [`SimDevice::fail`] or [`SimDevice::fail_at`]; any error if the power is off or goes off.
    pub fn sync(&self, file: FileId) -> io::Result<()> {
        let flight = self.lock().start(Operation::Sync, file, 0, 0);
        self.sleep_until(flight.done);
        self.lock().finish_sync(&flight)
    }

    /// Lets time pass until `time`, and finishes the requests that are due.
    fn sleep_until(&self, time: u64) {
        loop {
            let left = self.lock().until(time);
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left);
        }
    }

    /// The writes and syncs so far, including failed ones.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations()
    }

    /// The power goes off in the middle of the `number`-th write or sync, counted from 1.
    pub fn crash_at(&self, number: u64) {
        self.lock().crash_at(number);
    }

    /// The power goes off now.
    pub fn crash(&self) {
        self.lock().power_off();
    }

    /// Whether the power is off.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.lock().is_off()
    }

    /// The device after the power is back, with a new `seed`: synced writes are there; for each sector written since, the seed chooses what
    /// is left. Faults are gone; counters and time start at zero. The power of this device is off.
    #[must_use]
    pub fn reopen(&self, seed: u64) -> Self {
        let mut state = self.lock();
        state.power_off();
        Self::of(state.after_crash(seed))
    }

    /// The `number`-th write or sync, counted from 1, fails with `EIO`.
    pub fn fail_at(&self, number: u64) {
        self.lock().fail_at(number);
    }

    /// From now on, requests of this kind that touch the range of the file fail with `EIO`; syncs whatever the range.
    pub fn fail(&self, operation: Operation, file: FileId, range: Range<u64>) {
        self.lock().fail(operation, file, range);
    }

    /// Removes the faults set by [`SimDevice::fail`] and [`SimDevice::fail_at`].
    pub fn heal(&self) {
        self.lock().heal();
    }

    /// Flips the bits of `mask` in one byte of the medium.
    pub fn rot(&self, file: FileId, offset: u64, mask: u8) {
        self.lock().rot(file, offset, mask);
    }

    /// Flips one bit, chosen by the seed, and returns the offset of its byte; `None` if the file is empty.
    pub fn rot_somewhere(&self, file: FileId) -> Option<u64> {
        self.lock().rot_somewhere(file)
    }

    /// Empties the cache of [`SimOptions::cache_block`].
    pub fn drop_cache(&self) {
        self.lock().drop_cache();
    }

    /// The requests so far.
    #[must_use]
    pub fn counts(&self) -> SimCounts {
        self.lock().counts()
    }

    /// The time on the device's clock, which starts at 0.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.lock().now())
    }
}
