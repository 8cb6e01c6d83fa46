//! Marks: where the archive was, and when. They lead from a time to an LSN.
//!
//! Written by `flow::log_writer` into `marks/` beside the segments, each second in which something was archived, and each minute otherwise.
//! The ring keeps the newest half million.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flow::durable::sync_directory;
use flow::log_writer::{LogError, LogOptions, LogReader, LogWriter, Recycle, Space};
use format::Lsn;
use format::bytes::be;

use super::error::{Result, failed, refused};

const DIR: &str = "marks";
/// Its name until it is complete.
const UNFINISHED: &str = "marks.new";
/// Time between marks while something is archived, and while nothing is.
const BUSY: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(60);
const MARK_SIZE: usize = 24;
const VERSION: u32 = 1;

/// Where the archive was at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Microseconds since 1970.
    pub micros: u64,
    /// The archive's end: everything before it was durable in the server's log at that time.
    pub lsn: Lsn,
    /// The timeline of that LSN.
    pub timeline: u32,
}

impl Mark {
    fn encode(&self) -> [u8; MARK_SIZE] {
        let mut bytes = [0; MARK_SIZE];
        let put = |bytes: &mut [u8]| {
            be::put_u32(bytes, 0, VERSION)?;
            be::put_u32(bytes, 4, self.timeline)?;
            be::put_u64(bytes, 8, self.micros)?;
            be::put_u64(bytes, 16, self.lsn.0)
        };
        // All places are within the mark.
        put(&mut bytes).unwrap_or_default();
        bytes
    }

    /// `None` for marks of a later version.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, timeline) = (be::u32_at(bytes, 0)?, be::u32_at(bytes, 4)?);
        let (micros, lsn) = (be::u64_at(bytes, 8)?, Lsn(be::u64_at(bytes, 16)?));
        (version == VERSION).then_some(Self { micros, lsn, timeline })
    }
}

/// The marks of an archive, open for writing.
#[derive(Debug)]
pub(super) struct Marks {
    path: PathBuf,
    log: LogWriter,
    last: Option<(Instant, Mark)>,
}

fn options() -> LogOptions {
    LogOptions {
        files: 16,
        file_size: 16 << 20,
        // A year of a quiet server fits in less: files that grow cost nothing before they are needed.
        space: Space::Growing,
        recycle: Recycle::Oldest,
        group_max: 64 << 10,
        ..LogOptions::default()
    }
}

fn unusable<T>(path: &Path, error: &LogError) -> Result<T> {
    refused(format!("{}: {error}: move this directory away; times before now then lead to no LSN", path.display()))
}

impl Marks {
    /// Continues the marks of an archive, or begins them.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(DIR);
        if !path.is_dir() {
            let unfinished = dir.join(UNFINISHED);
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished).map_err(failed(&unfinished, "removing the unfinished marks"))?;
            }
            fs::create_dir(&unfinished).map_err(failed(&unfinished, "making the marks"))?;
            LogWriter::create(&unfinished, &options()).or_else(|error| unusable(&unfinished, &error))?;
            fs::rename(&unfinished, &path).map_err(failed(&path, "making the marks"))?;
            sync_directory(dir).map_err(failed(dir, "making the marks durable"))?;
        }
        let log = LogWriter::open(&path, &options()).or_else(|error| unusable(&path, &error))?;
        Ok(Self { path, log, last: None })
    }

    /// Notes where the archive is, if it is time to.
    pub fn note(&mut self, timeline: u32, lsn: Lsn) -> Result<()> {
        let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let mark = Mark { micros: u64::try_from(micros).unwrap_or(u64::MAX), lsn, timeline };
        let is_due = self.last.is_none_or(|(at, last)| {
            let every = if (last.lsn, last.timeline) == (lsn, timeline) { IDLE } else { BUSY };
            at.elapsed() >= every
        });
        if is_due {
            self.log.append(&mark.encode()).or_else(|error| unusable(&self.path, &error))?;
            self.last = Some((Instant::now(), mark));
        }
        Ok(())
    }

    /// Notes where the archive is at the end of a run.
    pub fn note_last(&mut self, timeline: u32, lsn: Lsn) -> Result<()> {
        self.last = None;
        self.note(timeline, lsn)
    }
}

/// The last mark, `None` if there is none. Read it before the segments: an archiver at work appends, then marks.
pub(crate) fn last_mark(dir: &Path) -> Result<Option<Mark>> {
    let mut last = None;
    if dir.join(DIR).is_dir() {
        each_mark(dir, &mut |mark| last = Some(mark))?;
    }
    Ok(last)
}

fn each_mark(dir: &Path, take: &mut dyn FnMut(Mark)) -> Result<()> {
    let path = dir.join(DIR);
    let mut reader = LogReader::open(&path).or_else(|error| unusable(&path, &error))?;
    while let Some(record) = reader.next() {
        let record = record.or_else(|error| unusable(&path, &error))?;
        Mark::parse(record.bytes).into_iter().for_each(&mut *take);
    }
    Ok(())
}

/// The last mark at or before a time, which must not be after the last one.
pub(crate) fn mark_at(dir: &Path, time: SystemTime) -> Result<Mark> {
    let micros = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let (mut first, mut before, mut last) = (None, None, None);
    each_mark(dir, &mut |mark| {
        first = first.or(Some(mark));
        // The clock may be set back: the last word counts.
        if u128::from(mark.micros) <= micros {
            before = Some(mark);
        }
        last = Some(mark);
    })?;
    let dir = dir.display();
    match (first, before, last) {
        (_, Some(mark), Some(last)) if mark != last || u128::from(last.micros) == micros => Ok(mark),
        (_, Some(_), Some(last)) => refused(format!(
            "{dir}: the archive does not reach that time: its last mark is {:.0} seconds before it, at LSN {}",
            (micros - u128::from(last.micros)) as f64 / 1e6,
            last.lsn
        )),
        (Some(first), ..) => refused(format!(
            "{dir}: that time is {:.0} seconds before the first mark of the archive, at LSN {}",
            (u128::from(first.micros) - micros) as f64 / 1e6,
            first.lsn
        )),
        _ => refused(format!("{dir}: the archive has no marks: give an LSN instead of a time")),
    }
}
