//! What filling gains, without a log writer around it: two plain loops take turns on cold recycled space, one naive, one that fills.
//!
//! They take turns many times in one measurement, so that a slow moment of the machine or the disk meets both. Rows that are measured one
//! after another cannot show a gain of a few percent: the disk changes more than that from one to the next.
//!
//! A hidden read costs the naive loop one commit in eight. So the gain is 1 + r / 8, if a hidden read takes r times as long as a commit
//! without one, and the report has both times.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::super::cold::{self, Emptied};
use super::super::machine::{DeviceCounts, Storage, process_read_bytes};
use super::super::scratch::Scratch;
use super::super::stats::{Repeated, median};
use super::super::{Watch, failed};
use super::plan::LogBenchOptions;
use super::space;
use datadir::Error;

/// Bytes of a commit.
const COMMIT: usize = 512;
/// Turns of each loop in one measurement.
const TURNS: u32 = 8;

/// How bytes are handed to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// `pwrite`.
    Pwrite,
    /// `write`, after `lseek` where the place is not where the last write ended.
    Write,
}

/// How they are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// `fdatasync`.
    Fdatasync,
    /// `fsync`.
    Fsync,
}

/// What is written besides the 512 bytes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// On the first touch of a stretch of this many bytes, zeros to its end; 512 is nothing, so the same loop as the naive one.
    Ahead(u32),
    /// Each time, the whole block of the file system.
    WholeBlock,
}

/// A loop, held against the naive one with the same calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// How bytes are handed to the system.
    pub call: Call,
    /// How they are made durable.
    pub sync: Sync,
    /// What is written besides.
    pub padding: Padding,
}

/// One comparison.
#[derive(Clone, Debug, Serialize)]
pub struct PairRow {
    /// The loop.
    #[serde(flatten)]
    pub of: Loop,
    /// Its commits a second over those of the naive loop, of each round.
    pub gain: Repeated,
    /// The gain that the naive loop's two times allow: what is left of it if no commit waits for a read. Null without commits of both kinds.
    pub gain_expected: Option<f64>,
    /// The naive loop.
    pub naive: SideFigures,
    /// The loop.
    pub filled: SideFigures,
}

/// One of the two loops; medians of the rounds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SideFigures {
    /// Commits a second.
    pub commits_per_second: f64,
    /// Median time of a commit that is the first in its file system block, microseconds.
    pub first_us: f64,
    /// Median time of the others.
    pub other_us: f64,
    /// Bytes that this process had the system read, in file system blocks a commit; null if they are not counted.
    pub own_reads: Option<f64>,
    /// Reads of the device a commit, for everybody.
    pub device_reads: Option<f64>,
    /// Writes of the device a commit, for everybody.
    pub device_writes: Option<f64>,
}

/// The loops to measure.
pub(super) fn loops(options: &LogBenchOptions, block: u32) -> Vec<Loop> {
    let (call, sync) = (Call::Pwrite, Sync::Fdatasync);
    let mut sizes = vec![COMMIT as u32, block];
    sizes.extend(options.write_ahead.iter().copied());
    sizes.sort_unstable();
    sizes.dedup();
    let mut all: Vec<Loop> = sizes.iter().map(|size| Loop { call, sync, padding: Padding::Ahead(*size) }).collect();
    all.push(Loop { call, sync, padding: Padding::WholeBlock });
    for (call, sync) in [(Call::Write, Sync::Fdatasync), (Call::Pwrite, Sync::Fsync), (Call::Write, Sync::Fsync)] {
        all.push(Loop { call, sync, padding: Padding::Ahead(block) });
    }
    all
}

/// The two files, old bytes on space that was written before.
pub(super) struct Pairs {
    naive: File,
    filled: File,
    len: u64,
    block: u64,
}

/// One round of one row.
pub(super) struct PairOutcome {
    pub(super) naive: Side,
    pub(super) filled: Side,
    pub(super) emptied: Emptied,
}

/// What one loop did.
#[derive(Default)]
pub(super) struct Side {
    position: u64,
    /// Where the next `write` goes.
    cursor: u64,
    first: Vec<f64>,
    other: Vec<f64>,
    busy: Duration,
    own_read_bytes: Option<u64>,
    device_reads: Option<u64>,
    device_writes: Option<u64>,
}

impl Pairs {
    /// Writes the two files, each of the options' size.
    pub(super) fn new(scratch: &Scratch, options: &LogBenchOptions, block: u32) -> Result<Self, Error> {
        let old = |name: &str| {
            let path = scratch.path().join(name);
            let file = space::old(&path, options.size)?;
            std::fs::remove_file(&path).map_err(failed(&path, "removing its name"))?;
            Ok::<_, Error>(file)
        };
        Ok(Self { naive: old("naive")?, filled: old("filled")?, len: options.size, block: block.into() })
    }

    /// Makes both files cold, and lets the loops take turns.
    pub(super) fn run(
        &self,
        of: Loop,
        storage: &Storage,
        options: &LogBenchOptions,
        watch: Watch<'_>,
    ) -> Result<PairOutcome, Error> {
        let path = Path::new("a recycled file");
        let mut emptied = Emptied::default();
        for file in [&self.naive, &self.filled] {
            emptied = emptied.max(cold::empty(file, self.len).map_err(failed(path, "making it cold"))?);
        }
        let mut outcome = PairOutcome { naive: Side::default(), filled: Side::default(), emptied };
        let naive = Loop { padding: Padding::Ahead(COMMIT as u32), ..of };
        for turn in 0..TURNS * 2 {
            // Who goes first changes, so that neither is always the one after the other's last sync.
            let is_naive = (turn % 2 == 0) == (turn / 2 % 2 == 0);
            let (file, how, side) = if is_naive {
                (&self.naive, naive, &mut outcome.naive)
            } else {
                (&self.filled, of, &mut outcome.filled)
            };
            let slice = options.time / (TURNS * 2);
            self.turn(file, how, side, storage, slice, watch).map_err(failed(path, "writing"))?;
            watch.go_on()?;
        }
        Ok(outcome)
    }

    fn turn(
        &self,
        mut file: &File,
        how: Loop,
        side: &mut Side,
        storage: &Storage,
        slice: Duration,
        watch: Watch<'_>,
    ) -> io::Result<()> {
        let (own, device) = (process_read_bytes(), storage.counters());
        let start = Instant::now();
        let mut now = start;
        let mut bytes = vec![0; (64 << 10).max(self.block as usize)];
        while (now == start || now.duration_since(start) < slice) && side.position + bytes.len() as u64 <= self.len {
            // Relaxed: a flag that only says "end soon".
            if watch.stop.load(Ordering::Relaxed) {
                break;
            }
            let (from, to) = how.range(side.position, self.block);
            // Not zeros: what a commit brings must differ from what pads it.
            let at = (side.position - from) as usize;
            bytes.get_mut(at..at + COMMIT).unwrap_or_default().fill(0x5a);
            let out = bytes.get(..(to - from) as usize).unwrap_or_default();
            match how.call {
                Call::Pwrite => file.write_all_at(out, from)?,
                Call::Write => {
                    if side.cursor != from || side.cursor == 0 {
                        file.seek(SeekFrom::Start(from))?;
                    }
                    file.write_all(out)?;
                    side.cursor = to;
                }
            }
            match how.sync {
                Sync::Fdatasync => file.sync_data()?,
                Sync::Fsync => file.sync_all()?,
            }
            let after = Instant::now();
            let times = if side.position.is_multiple_of(self.block) { &mut side.first } else { &mut side.other };
            times.push(after.duration_since(now).as_secs_f64() * 1e6);
            now = after;
            bytes.get_mut(at..at + COMMIT).unwrap_or_default().fill(0);
            side.position += COMMIT as u64;
        }
        side.busy += now.duration_since(start);
        side.count(own, device, storage);
        Ok(())
    }
}

impl Loop {
    /// The bytes that a commit at `position` writes.
    fn range(self, position: u64, block: u64) -> (u64, u64) {
        match self.padding {
            Padding::WholeBlock => {
                let from = position - position % block;
                (from, from + block)
            }
            Padding::Ahead(ahead) if position.is_multiple_of(u64::from(ahead)) => {
                (position, position + u64::from(ahead).max(COMMIT as u64))
            }
            Padding::Ahead(_) => (position, position + COMMIT as u64),
        }
    }
}

fn added(sum: &mut Option<u64>, more: Option<u64>, is_first: bool) {
    *sum = if is_first { more } else { sum.zip(more).map(|(sum, more)| sum + more) };
}

impl Side {
    fn count(&mut self, own: Option<u64>, device: Option<DeviceCounts>, storage: &Storage) {
        let is_first = self.own_read_bytes.is_none() && self.device_reads.is_none();
        let read = process_read_bytes().zip(own).map(|(after, before)| after.saturating_sub(before));
        let device = storage.counters().zip(device).map(|(after, before)| after.since(&before));
        added(&mut self.own_read_bytes, read, is_first);
        added(&mut self.device_reads, device.as_ref().map(|counts| counts.reads), is_first);
        added(&mut self.device_writes, device.as_ref().map(|counts| counts.writes), is_first);
    }

    fn commits(&self) -> f64 {
        (self.first.len() + self.other.len()).max(1) as f64
    }

    fn rate(&self) -> f64 {
        self.commits() / self.busy.as_secs_f64().max(1e-9)
    }

    fn mean(times: &[f64]) -> Option<f64> {
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }

    /// What would be gained if the first commit in a block took no longer than the others.
    fn gain_expected(&self) -> Option<f64> {
        let (first, other) = (Self::mean(&self.first)?, Self::mean(&self.other)?);
        let share = self.first.len() as f64 / self.commits();
        Some((first * share + other * (1.0 - share)) / other.max(1e-9))
    }
}

/// The row of the report.
pub(super) fn row(of: Loop, rounds: &[PairOutcome], block: f64) -> PairRow {
    let gains: Vec<f64> = rounds.iter().map(|round| round.filled.rate() / round.naive.rate().max(1e-9)).collect();
    let expected: Vec<f64> = rounds.iter().filter_map(|round| round.naive.gain_expected()).collect();
    let figures = |side: fn(&PairOutcome) -> &Side| {
        let sides: Vec<&Side> = rounds.iter().map(side).collect();
        let over = |figure: &dyn Fn(&Side) -> f64| median(&sides.iter().map(|side| figure(side)).collect::<Vec<_>>());
        let counted = |figure: fn(&Side) -> Option<u64>| {
            let all: Option<Vec<f64>> = sides.iter().map(|side| Some(figure(side)? as f64 / side.commits())).collect();
            all.map(|all| median(&all))
        };
        SideFigures {
            commits_per_second: over(&|side| side.rate()),
            first_us: over(&|side| median(&side.first)),
            other_us: over(&|side| median(&side.other)),
            own_reads: counted(|side| side.own_read_bytes).map(|bytes| bytes / block.max(1.0)),
            device_reads: counted(|side| side.device_reads),
            device_writes: counted(|side| side.device_writes),
        }
    };
    PairRow {
        of,
        gain: Repeated::of(&gains),
        gain_expected: (!expected.is_empty()).then(|| median(&expected)),
        naive: figures(|round| &round.naive),
        filled: figures(|round| &round.filled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_filled_when_it_is_first_touched_and_not_again() {
        let of = |padding| Loop { call: Call::Pwrite, sync: Sync::Fdatasync, padding };
        let ranges = |padding| [0, 512, 3584, 4096, 8192].map(|at| of(padding).range(at, 4096));
        assert_eq!(
            ranges(Padding::Ahead(512)),
            [(0, 512), (512, 1024), (3584, 4096), (4096, 4608), (8192, 8704)],
            "nothing is filled"
        );
        assert_eq!(ranges(Padding::Ahead(8192)), [(0, 8192), (512, 1024), (3584, 4096), (4096, 4608), (8192, 16_384)]);
        assert_eq!(ranges(Padding::WholeBlock), [(0, 4096), (0, 4096), (0, 4096), (4096, 8192), (8192, 12_288)]);
    }

    #[test]
    fn one_read_in_eight_commits_that_takes_as_long_as_four_gains_a_half() {
        let side = Side { first: vec![500.0; 2], other: vec![100.0; 14], ..Side::default() };
        assert!((side.gain_expected().expect("both kinds") - 1.5).abs() < 1e-9);
        assert_eq!(Side::default().gain_expected(), None);
    }
}
