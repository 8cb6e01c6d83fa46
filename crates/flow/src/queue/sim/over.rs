//! Real files with simulated latency: how long the same requests would have taken on another device.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::options::{Pace, SimCounts, SimOptions};
use super::timing::Timing;
use crate::queue::{Completion, OpenQueue, Operation, Queue, Request};
use crate::{Buffer, FileSet};

/// An engine that reads real files through the page cache, and counts on its own clock the time that a device would have taken: latency,
/// hands, pipe and syncs of [`SimOptions`]; other options are ignored. For files that do not fit in memory. Writes take their time and are
/// dropped, so the files do not change. Clones share the clock.
#[derive(Debug, Clone)]
pub struct SimTime {
    state: Arc<Mutex<State>>,
    files: Arc<[(File, u64)]>,
}

#[derive(Debug)]
struct State {
    timing: Timing,
    counts: SimCounts,
    in_flight: u64,
}

impl SimTime {
    /// A clock at 0, for files with their lengths in bytes: `FileId(0)` and on. Time is counted, whatever [`SimOptions::pace`] says.
    #[must_use]
    pub fn new(options: &SimOptions, files: impl IntoIterator<Item = (File, u64)>) -> Self {
        let timing = Timing::new(&SimOptions { pace: Pace::Counted, ..options.clone() });
        let state = State { timing, counts: SimCounts::default(), in_flight: 0 };
        Self { state: Arc::new(Mutex::new(state)), files: files.into_iter().collect() }
    }

    /// All files, for a [`Reader`](crate::Reader) with this as its engine and [direct](crate::IoMode::Direct) reads.
    #[must_use]
    pub fn file_set(&self) -> FileSet {
        let name = |(number, (_, len)): (usize, &(File, u64))| (format!("timed.{number}").into(), *len);
        FileSet::of_engine(self.files.iter().enumerate().map(name))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time on the clock.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.lock().timing.now())
    }

    /// The requests so far.
    #[must_use]
    pub fn counts(&self) -> SimCounts {
        self.lock().counts
    }
}

impl OpenQueue for SimTime {
    fn name(&self) -> &'static str {
        "simulated latency"
    }

    fn open(&self, _depth: u32, _buffers: &[Buffer]) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(TimedQueue { clock: self.clone(), taken: Vec::new(), started: VecDeque::new() }))
    }
}

struct TimedQueue {
    clock: SimTime,
    /// Requests not started yet.
    taken: Vec<Request>,
    /// The requests, each with the time at which it is done.
    started: VecDeque<(u64, Request)>,
}

impl Drop for TimedQueue {
    /// Requests that were never waited for are no longer in flight.
    fn drop(&mut self) {
        let left = self.started.len() as u64;
        self.clock.lock().in_flight -= left;
    }
}

impl Queue for TimedQueue {
    fn submit(&mut self, request: Request) {
        self.taken.push(request);
    }

    fn kick(&mut self) -> io::Result<()> {
        let mut state = self.clock.lock();
        for request in self.taken.drain(..) {
            let done = match request.operation {
                Operation::Sync => state.timing.sync(),
                Operation::Read => state.timing.transfer(u64::from(request.len), 0),
                Operation::Write => state.timing.write(u64::from(request.len), 0),
            };
            state.in_flight += 1;
            state.counts.in_flight_max = state.counts.in_flight_max.max(state.in_flight);
            self.started.push_back((done, request));
        }
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        self.kick()?;
        let Some(next) = self.started.iter().map(|(done, _)| *done).min() else { return Ok(()) };
        let mut state = self.clock.lock();
        state.timing.until(next);
        let now = state.timing.now();
        let mut left = VecDeque::with_capacity(self.started.len());
        for (due, mut request) in self.started.drain(..) {
            if due > now {
                left.push_back((due, request));
                continue;
            }
            let result = serve(&self.clock.files, &mut request);
            state.in_flight -= 1;
            let (bytes, counts) = (u64::from(*result.as_ref().unwrap_or(&0)), &mut state.counts);
            match request.operation {
                Operation::Read => (counts.reads, counts.bytes_read) = (counts.reads + 1, counts.bytes_read + bytes),
                Operation::Write => {
                    (counts.writes, counts.bytes_written) = (counts.writes + 1, counts.bytes_written + bytes)
                }
                Operation::Sync => counts.syncs += 1,
            }
            done.push(Completion { token: request.token, buffer: request.buffer, result });
        }
        self.started = left;
        Ok(())
    }
}

fn serve(files: &[(File, u64)], request: &mut Request) -> io::Result<u32> {
    match request.operation {
        Operation::Write => return Ok(request.len),
        Operation::Sync => return Ok(0),
        Operation::Read => {}
    }
    let (file, _) = files.get(request.file.0 as usize).ok_or(io::ErrorKind::NotFound)?;
    let target = request.buffer.range_mut(request.start..request.start + request.len);
    Ok(rustix::io::pread(file, target, request.offset)? as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counters, FileId, Gather, GatherPlan, IoMode, ReadAhead, ReadOptions, Want};

    #[test]
    fn the_clock_counts_the_latency_and_the_bytes_are_the_files() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("file");
        let bytes: Vec<u8> = (0..64 * 4096_u32).map(|at| (at / 4096) as u8).collect();
        std::fs::write(&path, &bytes).expect("write");
        let file = (File::open(&path).expect("opens"), bytes.len() as u64);
        let clock = SimTime::new(&SimOptions { bandwidth: u64::MAX, ..SimOptions::default() }, [file]);
        let (files, plan, counters) = (clock.file_set(), GatherPlan::new(1 << 16), Counters::new(1));
        let options = ReadOptions { io: IoMode::Direct, block_size: 1 << 16, depth: 4, ..ReadOptions::default() };
        let engines: [&dyn OpenQueue; 1] = [&clock];
        let mut gather = Gather::with_engines(&files, &plan, &options, ReadAhead::None, counters.worker(0), &engines)
            .expect("sizes");
        for page in [9, 3, 60, 3] {
            gather.ask(Want { file: FileId(0), offset: page * 4096, len: 4096, tag: page });
            let got = gather.next().expect("asked for");
            assert_eq!(got.bytes, [page as u8; 4096]);
        }
        assert_eq!(clock.elapsed(), Duration::from_micros(2000));
        let counts = clock.counts();
        assert_eq!((counts.reads, counts.bytes_read, counts.in_flight_max), (4, 4 * 4096, 1));
    }
}
