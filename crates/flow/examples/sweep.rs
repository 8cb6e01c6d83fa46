//! Sweeps files, or all files below directories, and throws the bytes away: what the movement of bytes alone costs.
//!
//! `sweep [--io auto|direct|buffered] [--engine auto|uring|threads] [--block-size KIB] [--depth N] [--piece KIB]
//! [--threads N] [--sum] PATH...`
//!
//! Prints bytes, seconds, processor seconds and the counters, to be compared with `cat PATH >/dev/null` and
//! `fio --rw=read --direct=1`. With `--sum` every byte is also looked at (XOR of 64-bit words), as a stand-in for work.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use innokit_flow::{Counters, Cursor, Engine, FileSet, IoMode, ReadOptions, Reader, run_workers};

struct Args {
    options: ReadOptions,
    threads: usize,
    sum: bool,
    files: Vec<(PathBuf, u64)>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = parse(std::env::args().skip(1))?;
    let files = FileSet::new(args.files);
    let cursor = Cursor::sweep(&files, args.options.block_size);
    let counters = Counters::new(args.threads);
    let started = Instant::now();
    let cpu_before = cpu_seconds();
    let results = run_workers(args.threads, |worker| {
        let mut reader = Reader::new(&files, &cursor, &args.options, counters.worker(worker))?;
        let mut sum = 0;
        while let Some(piece) = reader.next() {
            match piece {
                Ok(piece) if args.sum => sum ^= xor(piece.bytes),
                Ok(_) => {}
                Err(failure) => eprintln!("{failure}"),
            }
        }
        Ok::<_, innokit_flow::ReaderError>((sum, reader.engine_name(), reader.notes().to_vec()))
    });
    let seconds = started.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - cpu_before;
    let counts = counters.total();
    let gib = counts.bytes_read as f64 / f64::from(1 << 30);
    let mut report =
        format!("{} files, {gib:.3} GiB, {seconds:.4} s, {:.3} GiB/s, cpu {cpu:.4} s", files.len(), gib / seconds);
    writeln!(report, "\n{counts:?}")?;
    for result in results {
        let (sum, engine, notes) = result?;
        writeln!(report, "engine {engine}, sum {sum:016x}, notes {notes:?}")?;
    }
    print!("{report}");
    Ok(())
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, Box<dyn Error>> {
    let mut args = Args { options: ReadOptions::default(), threads: 1, sum: false, files: Vec::new() };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--io" => args.options.io = io_mode(&value()?)?,
            "--engine" => args.options.engine = engine(&value()?)?,
            "--block-size" => args.options.block_size = value()?.parse::<u32>()? << 10,
            "--piece" => args.options.cached_piece = value()?.parse::<u32>()? << 10,
            "--depth" => args.options.depth = value()?.parse()?,
            "--threads" => args.threads = value()?.parse()?,
            "--sum" => args.sum = true,
            path => collect(Path::new(path), &mut args.files)?,
        }
    }
    Ok(args)
}

fn io_mode(word: &str) -> Result<IoMode, String> {
    match word {
        "auto" => Ok(IoMode::Auto),
        "direct" => Ok(IoMode::Direct),
        "buffered" => Ok(IoMode::Buffered),
        _ => Err(format!("--io {word}: not auto, direct or buffered")),
    }
}

fn engine(word: &str) -> Result<Engine, String> {
    match word {
        "auto" => Ok(Engine::Auto),
        "uring" => Ok(Engine::Uring),
        "threads" => Ok(Engine::Threads),
        _ => Err(format!("--engine {word}: not auto, uring or threads")),
    }
}

fn collect(path: &Path, files: &mut Vec<(PathBuf, u64)>) -> std::io::Result<()> {
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if metadata.is_file() {
        files.push((path.to_owned(), metadata.len()));
    }
    Ok(())
}

fn xor(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<8>().0.iter().fold(0, |sum, word| sum ^ u64::from_be_bytes(*word))
}

/// User and system time of this process, in seconds.
fn cpu_seconds() -> f64 {
    [rustix::time::ClockId::ProcessCPUTime]
        .map(rustix::time::clock_gettime)
        .iter()
        .map(|time| time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
        .sum()
}
