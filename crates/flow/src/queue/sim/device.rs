//! The state of a simulated device: its files, its clock, the requests in flight, and the faults to come.

use std::io;
use std::ops::Range;
use std::time::Duration;

use rustix::io::Errno;

use super::file::{NEVER, SECTOR_SIZE, SimFile};
use super::options::{SimCounts, SimOptions};
use super::random::Random;
use super::timing::{Timing, nanos};
use crate::FileId;
use crate::queue::{Completion, Operation, Request};

#[derive(Debug)]
pub(super) struct State {
    options: SimOptions,
    files: Vec<SimFile>,
    timing: Timing,
    random: Random,
    /// Requests of queues in flight.
    flying: Vec<Queued>,
    /// Requests of queues that are done but not fetched, in the order of completion.
    landed: Vec<(u64, Completion)>,
    queues: u64,
    in_flight: u64,
    operations: u64,
    crash_at: Option<u64>,
    fail_at: Vec<u64>,
    bad: Vec<BadRange>,
    is_off: bool,
    counts: SimCounts,
}

/// Bytes that the device was told not to read or write.
#[derive(Debug)]
struct BadRange {
    operation: Operation,
    file: FileId,
    range: Range<u64>,
}

/// A request that the device is working on.
#[derive(Debug)]
pub(super) struct Flight {
    operation: Operation,
    file: FileId,
    offset: u64,
    /// Bytes that it will transfer.
    len: u64,
    started: u64,
    pub(super) done: u64,
    /// Why it will fail.
    fails: Option<Errno>,
    /// The power was already off.
    too_late: bool,
}

/// A queue's request that the device is working on.
#[derive(Debug)]
struct Queued {
    queue: u64,
    request: Request,
    flight: Flight,
}

pub(super) fn power_is_off() -> io::Error {
    io::Error::other("the power of the simulated device is off")
}

impl State {
    pub(super) fn new(options: SimOptions, files: Vec<SimFile>) -> Self {
        Self {
            timing: Timing::new(&options),
            random: Random::new(options.seed),
            options,
            files,
            flying: Vec::new(),
            landed: Vec::new(),
            queues: 0,
            in_flight: 0,
            operations: 0,
            crash_at: None,
            fail_at: Vec::new(),
            bad: Vec::new(),
            is_off: false,
            counts: SimCounts::default(),
        }
    }

    pub(super) fn add_file(&mut self, bytes: Vec<u8>) -> FileId {
        self.files.push(SimFile::new(bytes));
        FileId(u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX))
    }

    pub(super) fn lens(&self) -> Vec<u64> {
        self.files.iter().map(SimFile::len).collect()
    }

    pub(super) fn contents(&self, file: FileId) -> Vec<u8> {
        self.files.get(file.0 as usize).map_or_else(Vec::new, |file| file.bytes().to_vec())
    }

    fn file(&mut self, file: FileId) -> Option<&mut SimFile> {
        self.files.get_mut(file.0 as usize)
    }

    /// Starts a request: counts it, and decides its outcome and when it is done.
    pub(super) fn start(&mut self, operation: Operation, file: FileId, offset: u64, len: u64) -> Flight {
        self.in_flight += 1;
        self.counts.in_flight_max = self.counts.in_flight_max.max(self.in_flight);
        let too_late = self.is_off;
        let mut fails = self.verdict(operation, file, &(offset..offset + len));
        if operation != Operation::Read && !too_late {
            self.operations += 1;
            if self.fail_at.contains(&self.operations) {
                fails = Some(Errno::IO);
            }
            if self.crash_at.is_some_and(|crash_at| self.operations >= crash_at) {
                self.power_off();
            }
        }
        let len = self.carried(operation, len);
        let (longer, started) = (self.extra_latency(operation, file, offset..offset + len), self.timing.now());
        match operation {
            Operation::Read => self.counts.reads += 1,
            Operation::Write => self.counts.writes += 1,
            Operation::Sync => self.counts.syncs += 1,
        }
        let done = match operation {
            Operation::Sync => self.timing.sync(),
            Operation::Read => self.timing.transfer(len, longer),
            Operation::Write => self.timing.write(len, longer),
        };
        Flight { operation, file, offset, len, started, done, fails, too_late }
    }

    fn verdict(&self, operation: Operation, file: FileId, range: &Range<u64>) -> Option<Errno> {
        if file.0 as usize >= self.files.len() {
            return Some(Errno::NOENT);
        }
        let hits = |bad: &BadRange| {
            let touches = bad.range.start < range.end && range.start < bad.range.end;
            bad.operation == operation && bad.file == file && (touches || operation == Operation::Sync)
        };
        self.bad.iter().any(hits).then_some(Errno::IO)
    }

    /// How many bytes a request for `len` bytes transfers.
    fn carried(&mut self, operation: Operation, len: u64) -> u64 {
        let one_in = u64::from(self.options.short_one_in);
        let sectors = len.div_ceil(SECTOR_SIZE);
        if operation == Operation::Sync || one_in == 0 || sectors < 2 || !self.random.chance(1, one_in) {
            return len;
        }
        (1 + self.random.below(sectors - 1)) * SECTOR_SIZE
    }

    /// Extra time of a request: random jitter, and hidden reads.
    fn extra_latency(&mut self, operation: Operation, file: FileId, range: Range<u64>) -> u64 {
        let block = u64::from(self.options.cache_block);
        if operation == Operation::Sync {
            return 0;
        }
        let mut longer = self.random.below(nanos(self.options.jitter));
        if block != 0 {
            let is_write = operation == Operation::Write;
            let hidden = self.file(file).map_or(0, |file| file.touch(&range, block, is_write));
            self.counts.reads_on_write += hidden;
            longer += if hidden > 0 { nanos(self.options.latency) } else { 0 };
        }
        longer
    }

    fn land(&mut self, flight: &Flight) -> io::Result<()> {
        self.in_flight = self.in_flight.saturating_sub(1);
        match flight.fails {
            _ if self.is_off => Err(power_is_off()),
            Some(errno) => Err(errno.into()),
            None => Ok(()),
        }
    }

    pub(super) fn finish_read(&mut self, flight: &Flight, bytes: &mut [u8]) -> io::Result<usize> {
        self.land(flight)?;
        let len = (flight.len as usize).min(bytes.len());
        let bytes = bytes.get_mut(..len).unwrap_or_default();
        let got = self.file(flight.file).map_or(0, |file| file.read(flight.offset, bytes));
        self.counts.bytes_read += got as u64;
        Ok(got)
    }

    pub(super) fn finish_write(&mut self, flight: &Flight, bytes: &[u8]) -> io::Result<usize> {
        let bytes = bytes.get(..flight.len as usize).unwrap_or(bytes);
        let outcome = self.land(flight);
        if flight.too_late {
            return outcome.map(|()| 0);
        }
        let (done, forgets) = (if self.is_off { NEVER } else { flight.done }, self.options.forgets);
        match (&outcome, flight.fails) {
            (Ok(()), _) | (Err(_), None) => match self.file(flight.file) {
                Some(file) if forgets => file.write(flight.offset, bytes, done),
                Some(file) => file.write_for_good(flight.offset, bytes),
                None => {}
            },
            (Err(_), Some(_)) => self.write_some(flight, bytes, done),
        }
        outcome?;
        self.counts.bytes_written += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// A failed write may still have written some of its sectors.
    fn write_some(&mut self, flight: &Flight, bytes: &[u8], done: u64) {
        let mut offset = flight.offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (sector, others) = rest.split_at((SECTOR_SIZE - offset % SECTOR_SIZE).min(rest.len() as u64) as usize);
            if self.random.chance(1, 2)
                && let Some(file) = self.file(flight.file)
            {
                file.write(offset, sector, done);
            }
            offset += sector.len() as u64;
            rest = others;
        }
    }

    pub(super) fn finish_sync(&mut self, flight: &Flight) -> io::Result<()> {
        let outcome = self.land(flight);
        let is_off = self.is_off;
        if let Some(file) = self.file(flight.file) {
            match outcome {
                Ok(()) => file.sync(flight.started),
                Err(_) if !is_off => file.forget(),
                Err(_) => {}
            }
        }
        outcome
    }

    /// Finishes what is due, in time order. Returns how long the caller must sleep until `time`.
    pub(super) fn until(&mut self, time: u64) -> Duration {
        let time = if self.is_off { 0 } else { time };
        let left = self.timing.until(time);
        self.settle();
        left
    }

    fn settle(&mut self) {
        let now = self.timing.now();
        let mut due: Vec<Queued> = self.flying.extract_if(.., |queued| queued.flight.done <= now).collect();
        due.sort_by_key(|queued| queued.flight.done);
        due.into_iter().for_each(|queued| self.finish(queued));
    }

    fn finish(&mut self, queued: Queued) {
        let Queued { queue, mut request, flight } = queued;
        let range = request.start..request.start.saturating_add(request.len);
        let result = match flight.operation {
            Operation::Read => self.finish_read(&flight, request.buffer.range_mut(range)),
            Operation::Write => self.finish_write(&flight, request.buffer.range(range)),
            Operation::Sync => self.finish_sync(&flight).map(|()| 0),
        };
        let result = result.map(|len| u32::try_from(len).unwrap_or(u32::MAX));
        self.landed.push((queue, Completion { token: request.token, buffer: request.buffer, result }));
    }

    pub(super) fn now(&mut self) -> u64 {
        self.timing.now()
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn counts(&self) -> SimCounts {
        self.counts
    }

    pub(super) fn is_off(&self) -> bool {
        self.is_off
    }

    pub(super) fn crash_at(&mut self, number: u64) {
        self.crash_at = Some(number);
    }

    /// Everything in flight fails; its writes may be on the medium or not.
    pub(super) fn power_off(&mut self) {
        self.is_off = true;
        let flying = std::mem::take(&mut self.flying);
        flying.into_iter().for_each(|queued| self.finish(queued));
    }

    pub(super) fn after_crash(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Keep nothing, everything, or anything between, the same for all files: real disks behave in each of these ways.
        let kept = [0, 1, 4, 7, 8].get(random.below(5) as usize).copied().unwrap_or(4);
        let files = self.files.iter().map(|file| file.after_crash(&mut random, kept)).collect();
        Self::new(SimOptions { seed: random.number(), ..self.options.clone() }, files)
    }

    pub(super) fn fail_at(&mut self, number: u64) {
        self.fail_at.push(number);
    }

    pub(super) fn fail(&mut self, operation: Operation, file: FileId, range: Range<u64>) {
        self.bad.push(BadRange { operation, file, range });
    }

    pub(super) fn heal(&mut self) {
        self.bad.clear();
        self.fail_at.clear();
    }

    pub(super) fn rot(&mut self, file: FileId, offset: u64, mask: u8) {
        if let Some(file) = self.file(file) {
            file.rot(offset, mask);
        }
    }

    pub(super) fn rot_somewhere(&mut self, file: FileId) -> Option<u64> {
        let len = self.file(file)?.len();
        let (offset, bit) = (self.random.below(len), self.random.below(8));
        self.rot(file, offset, 1 << bit);
        (len > 0).then_some(offset)
    }

    pub(super) fn drop_cache(&mut self) {
        self.files.iter_mut().for_each(SimFile::drop_cache);
    }

    /// The number of a new queue.
    pub(super) fn new_queue(&mut self) -> u64 {
        self.queues += 1;
        self.queues
    }

    /// Starts a queue's request.
    pub(super) fn take_off(&mut self, queue: u64, request: Request) {
        let flight = self.start(request.operation, request.file, request.offset, u64::from(request.len));
        let queued = Queued { queue, request, flight };
        if self.is_off { self.finish(queued) } else { self.flying.push(queued) }
    }

    /// Fetches the finished requests of a queue.
    pub(super) fn fetch(&mut self, queue: u64, done: &mut Vec<Completion>) {
        done.extend(self.landed.extract_if(.., |landed| landed.0 == queue).map(|landed| landed.1));
    }

    /// When the next request of a queue will be done; `None` if none is in flight.
    pub(super) fn next_landing(&self, queue: u64) -> Option<u64> {
        self.flying.iter().filter(|queued| queued.queue == queue).map(|queued| queued.flight.done).min()
    }
}
