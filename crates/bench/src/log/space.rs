//! The files of a row's log: created, cold, and without a name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flow::log_writer::{LogOptions, LogWriter, Recycle};

use super::super::cold::{self, Emptied};
use super::super::failed;
use super::super::pattern::Random;
use super::super::scratch::Scratch;
use super::super::target::BenchFile;
use super::plan::{Ground, LogBenchOptions, LogPlan};
use datadir::Error;

/// Files in the ring.
const FILES: u32 = 2;
/// Maximum length of a group, bytes.
pub(super) const GROUP_MAX: u32 = 128 << 10;

/// Whether the file system accepts direct I/O, or why not.
pub(super) fn takes_direct(scratch: &Scratch) -> Result<Result<(), String>, Error> {
    let file = scratch.file("direct")?;
    let target = BenchFile::open(&file.again(), 0, true).map_err(failed(&file.path, "opening"))?;
    Ok(target.handle(true).map(drop).map_err(str::to_owned))
}

/// A log that is ready for its first commit.
pub(super) fn log(scratch: &Scratch, plan: LogPlan, options: &LogBenchOptions) -> Result<(LogWriter, Emptied), Error> {
    let log_options = LogOptions {
        files: FILES,
        file_size: file_size(options),
        space: plan.ground.space(),
        fill: plan.method.fill(),
        direct: plan.method.direct(),
        sync: plan.method.sync(),
        recycle: Recycle::Oldest,
        group_max: GROUP_MAX,
        ..LogOptions::default()
    };
    let dir = scratch.path();
    if plan.ground == Ground::Recycled {
        for index in 0..FILES {
            old(&dir.join(format!("log.{index:03}")), log_options.file_size)?;
        }
    }
    let log =
        LogWriter::create(dir, &log_options).map_err(|error| Error::Usage(format!("the log cannot be made: {error}")));
    let emptied = nameless(dir, log_options.file_size).map_err(failed(dir, "making the log cold"))?;
    Ok((log?, emptied))
}

/// Size of one file of the ring, bytes.
pub(super) fn file_size(options: &LogBenchOptions) -> u64 {
    options.size / u64::from(FILES)
}

/// A new file with random bytes instead of a log, synced to the device.
pub(super) fn old(path: &Path, len: u64) -> Result<File, Error> {
    const CHUNK: usize = 64 << 10;
    let fill = || {
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let mut chunk = vec![0; CHUNK];
        Random::default().fill(&mut chunk);
        for _ in 0..len / CHUNK as u64 {
            file.write_all(&chunk)?;
        }
        file.sync_all()?;
        Ok(file)
    };
    fill().map_err(failed(path, "writing a file to be recycled"))
}

/// Drops all files of the directory from the page cache, and removes their names: open files stay.
fn nameless(dir: &Path, len: u64) -> io::Result<Emptied> {
    let mut emptied = Emptied::default();
    let paths: Vec<PathBuf> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    for path in paths {
        emptied = emptied.max(cold::empty(&File::open(&path)?, len)?);
        fs::remove_file(path)?;
    }
    Ok(emptied)
}
