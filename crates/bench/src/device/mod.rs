//! `bench device`: `random bytes -> file -> patterns -> climb -> limits`
//!
//! A device has no single speed. For each order and way, the search (`search.rs`) varies engine, block size, depth and threads until no
//! change gains more than noise; that is the limit. It is reported with the patterns of databases and tools, each with its share.

mod engines;
mod options;
mod report;
mod run;
mod typical;
mod writes;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use super::machine::{Machine, Storage};
use super::pattern::{Carrier, Random};
use super::scratch::{Nameless, Scratch};
use super::target::BenchFile;
use super::{BenchStep, Watch, failed};
use datadir::Error;
pub use options::DeviceOptions;
pub use report::{DeviceReport, EngineRow, Limit, Tried, Typical, Write, WriteKind};
use run::Bench;
use typical::TYPICAL;

/// Reads and writes, in order and at random, direct and buffered.
const LIMITS_MAX: usize = 8;

/// Measures the file system of `dir`, on a file of its own.
///
/// # Errors
/// If there is no room, if the file cannot be created, if the device fails, or if the run was interrupted.
pub fn device(dir: &Path, options: &DeviceOptions, watch: Watch<'_>) -> Result<DeviceReport, Error> {
    validate(options)?;
    let scratch = Scratch::new(dir, options.size + writes::space(options))?;
    let storage = Storage::below(dir).map_err(failed(dir, "asking about the file system"))?;
    let file = scratch.file("data")?;
    fill(&file, options.size, watch)?;
    let target =
        BenchFile::open(&file.again(), options.size, true).map_err(failed(dir, "opening the file of the bench"))?;
    let others = ((TYPICAL.len() + LIMITS_MAX * Carrier::ALL.len() + writes::EXPECTED) * options.rounds) as u64;
    let mut bench = Bench::new(dir, options, &target, watch, others);
    if bench.engines.is_empty() {
        return Err(Error::Usage(bench.notes.join("; ")));
    }
    bench.limits()?;
    if bench.is_searched() {
        bench.engines()?;
        bench.typical()?;
        bench.writes(&scratch, &storage)?;
    }
    Ok(DeviceReport {
        machine: Machine::here(),
        storage,
        size: options.size,
        rounds: options.rounds,
        seconds_each: options.time.as_secs_f64(),
        cache: bench.cache,
        limits: bench.limits,
        engines: bench.by_engine,
        patterns: bench.patterns,
        writes: bench.writes,
        notes: bench.notes,
    })
}

fn validate(options: &DeviceOptions) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    if options.block_size.is_some_and(|size| size == 0 || !size.is_multiple_of(4096)) {
        return usage("the block size must be a multiple of 4K");
    }
    if options.size < 1 << 20 || options.block_size.is_some_and(|block| u64::from(block) > options.size) {
        return usage("the size must be at least 1M, and at least a block");
    }
    if options.depth == Some(0) || options.threads == Some(0) || options.time.is_zero() || options.rounds == 0 {
        return usage("depth, threads, seconds and rounds must be more than 0");
    }
    Ok(())
}

/// Writes random bytes, which no device can compress or deduplicate, and syncs them.
fn fill(file: &Nameless, size: u64, watch: Watch<'_>) -> Result<(), Error> {
    const CHUNK: u64 = 4 << 20;
    let mut random = Random::default();
    let mut chunk = vec![0; CHUNK as usize];
    let mut out: &File = &file.file;
    for start in (0..size).step_by(CHUNK as usize) {
        watch.go_on()?;
        (watch.step)(&BenchStep {
            what: "writing the file".to_owned(),
            done: start / CHUNK,
            expected: size.div_ceil(CHUNK),
        });
        random.fill(&mut chunk);
        let len = (size - start).min(CHUNK) as usize;
        out.write_all(chunk.get(..len).unwrap_or(&chunk))
            .map_err(failed(&file.path, "writing the file of the bench"))?;
    }
    file.file.sync_all().map_err(failed(&file.path, "syncing the file of the bench"))
}
