//! When requests complete: a device of a given width, and one pipe for the bytes.

use std::time::{Duration, Instant};

use super::options::{Pace, SimOptions};

/// The device's time, in nanoseconds since its creation.
#[derive(Debug)]
pub(super) struct Timing {
    now: u64,
    /// When real time started; `None` if time is only counted.
    since: Option<Instant>,
    /// When each hand becomes free.
    hands: Vec<u64>,
    /// When the pipe becomes free.
    pipe: u64,
    latency: u64,
    sync_latency: u64,
    /// Extra nanoseconds of a sync for each GiB.
    sync_per_gib: u64,
    /// Bytes written since the last sync.
    dirty: u64,
    /// Nanoseconds per byte in the pipe, in units of 2^-20.
    byte: u64,
}

impl Timing {
    pub(super) fn new(options: &SimOptions) -> Self {
        Self {
            now: 0,
            since: (options.pace == Pace::Real).then(Instant::now),
            hands: vec![0; options.parallel.max(1) as usize],
            pipe: 0,
            latency: nanos(options.latency),
            sync_latency: nanos(options.sync_latency),
            sync_per_gib: nanos(options.sync_per_gib),
            dirty: 0,
            byte: (1_000_000_000 << 20_u32) / options.bandwidth.max(1),
        }
    }

    pub(super) fn now(&mut self) -> u64 {
        if let Some(since) = self.since {
            self.now = self.now.max(nanos(since.elapsed()));
        }
        self.now
    }

    /// How long the caller must sleep until `time`. If time is only counted, it advances to `time`, and the caller need not sleep.
    pub(super) fn until(&mut self, time: u64) -> Duration {
        if self.since.is_none() {
            self.now = self.now.max(time);
        }
        Duration::from_nanos(time.saturating_sub(self.now()))
    }

    /// The completion time of a read or write of `len` bytes that starts now and takes `longer` than usual.
    pub(super) fn transfer(&mut self, len: u64, longer: u64) -> u64 {
        let started = self.now();
        let moving = ((u128::from(len) * u128::from(self.byte)) >> 20) as u64;
        let Some(hand) = self.hands.iter_mut().min() else { return started };
        // The pipe takes bytes in request order and never rests while there are some: a request that is late by chance does not delay
        // others.
        self.pipe = self.pipe.max(started) + moving;
        let done = self.pipe.max(started.max(*hand) + self.latency + longer + moving);
        *hand = done;
        done
    }

    /// The completion time of a write: like [`Timing::transfer`], and its bytes make the next sync longer.
    pub(super) fn write(&mut self, len: u64, longer: u64) -> u64 {
        self.dirty += len;
        self.transfer(len, longer)
    }

    /// The completion time of a sync that starts now.
    pub(super) fn sync(&mut self) -> u64 {
        let moving = (u128::from(std::mem::take(&mut self.dirty)) * u128::from(self.sync_per_gib)) >> 30;
        self.now() + self.sync_latency + u64::try_from(moving).unwrap_or(u64::MAX / 2)
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_requests_as_the_device_has_hands_take_as_long_as_one() {
        let mut timing = Timing::new(&SimOptions { parallel: 4, bandwidth: u64::MAX, ..SimOptions::default() });
        let done: Vec<u64> = (0..9).map(|_| timing.transfer(1 << 20, 0) / 1000).collect();
        assert_eq!(done, [500, 500, 500, 500, 1000, 1000, 1000, 1000, 1500]);
    }

    #[test]
    fn a_sync_takes_longer_the_more_was_written_since_the_last_one() {
        let mut timing = Timing::new(&SimOptions { sync_per_gib: Duration::from_secs(100), ..SimOptions::default() });
        assert_eq!(timing.sync(), 10_000_000, "nothing was written");
        for _ in 0..256 {
            timing.write(4096, 0);
        }
        timing.transfer(1 << 20, 0);
        assert_eq!(timing.sync(), 10_000_000 + 97_656_250, "a MiB, and what is read does not count");
        assert_eq!(timing.sync(), 10_000_000, "it is durable now");
    }

    #[test]
    fn bytes_queue_for_the_pipe() {
        let mut timing = Timing::new(&SimOptions { bandwidth: 1 << 30, ..SimOptions::default() });
        let done: Vec<u64> = (0..3).map(|_| timing.transfer(1 << 20, 0)).collect();
        let mib = 976_562; // a second / 1024
        assert!(
            done.iter().zip([500_000 + mib, 2 * mib, 3 * mib]).all(|(done, expected)| done.abs_diff(expected) < 100)
        );
        assert_eq!(timing.sync(), 10_000_000, "nobody has waited yet");
    }
}
