//! Marks: where the archive was, and when. They map a time to an LSN.
//!
//! `flow::log_writer` writes them into `marks/` beside the segments: one per second while something is archived, one per minute otherwise.
//! The ring keeps the newest half million.
//!
//! | bytes | of a mark |
//! |---|---|
//! | 0 | version, 2 |
//! | 4 | timeline |
//! | 8 | microseconds since 1970 |
//! | 16 | LSN |
//! | 24 | up to when the archive is complete, in microseconds since 1970, or 0; not in version 1 |
//! | 32 | position in the binary log; this and the rest only if the server was asked |
//! | 40 | length of the binary log's name (2), the name |
//! | | length of the GTID position (2), the GTID position |

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flow::durable::{rename, sync_directory};
use flow::log_writer::{LogError, LogOptions, LogReader, LogWriter, Recycle, Space};
use format::Lsn;
use format::bytes::be;

use super::error::{ArchiveError, Result, failed, refused};
use datadir::files::AskPath;
use datadir::server::BinlogPosition;
use datadir::{Error, fault};

const DIR: &str = "marks";
/// The directory's name until it is complete.
const UNFINISHED: &str = "marks.new";
/// Time between marks while something is archived, and while nothing is.
const BUSY: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(60);
const HEAD_SIZE: usize = 32;
const VERSION: u32 = 2;
/// Version 1 did not say up to when the archive is complete.
const HEAD_SIZE_1: usize = 24;
/// Bytes of a binary log's name and GTID position together: with these a mark fits in one group of the log. A longer GTID position has a
/// thousand domains; its mark leaves the binary log out.
const TEXT_MAX: usize = 30_000;

/// Where the archive was at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Microseconds since 1970.
    pub micros: u64,
    /// The archive's end: everything before it was durable in the server's log at that time.
    pub lsn: Lsn,
    /// The timeline of that LSN.
    pub timeline: u32,
    /// Everything that the log held by this time, in microseconds since 1970, is before `lsn`. `None` if that is not known.
    pub complete: Option<u64>,
    /// The binary log position a moment later, if the server was asked: everything committed before `lsn` is in the binary log before it.
    pub binlog: Option<BinlogPosition>,
}

impl Mark {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_SIZE);
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(self.timeline.to_be_bytes());
        bytes.extend(self.micros.to_be_bytes());
        bytes.extend(self.lsn.0.to_be_bytes());
        bytes.extend(self.complete.unwrap_or(0).to_be_bytes());
        if let Some(binlog) = self.binlog.as_ref().filter(|binlog| binlog.file.len() + binlog.gtid.len() <= TEXT_MAX) {
            bytes.extend(binlog.position.to_be_bytes());
            for text in [&binlog.file, &binlog.gtid] {
                bytes.extend(u16::try_from(text.len()).unwrap_or(0).to_be_bytes());
                bytes.extend(text.as_bytes());
            }
        }
        bytes
    }

    /// `None` for a mark of another version.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, timeline) = (be::u32_at(bytes, 0)?, be::u32_at(bytes, 4)?);
        let (micros, lsn) = (be::u64_at(bytes, 8)?, Lsn(be::u64_at(bytes, 16)?));
        let (complete, head) = match version {
            1 => (None, HEAD_SIZE_1),
            VERSION => (Some(be::u64_at(bytes, HEAD_SIZE_1)?).filter(|complete| *complete > 0), HEAD_SIZE),
            _ => return None,
        };
        Some(Self { micros, lsn, timeline, complete, binlog: binlog_of(bytes, head) })
    }
}

/// The binary log position in a mark behind its head, if it has one.
fn binlog_of(mark: &[u8], head: usize) -> Option<BinlogPosition> {
    let position = be::u64_at(mark, head)?;
    let (file, end) = text_at(mark, head + 8)?;
    let (gtid, _) = text_at(mark, end)?;
    Some(BinlogPosition { file, position, gtid })
}

/// The text at an offset, and the offset at which it ends.
fn text_at(bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let start = at + 2;
    let end = start + usize::from(be::u16_at(bytes, at)?);
    Some((String::from_utf8(bytes.get(start..end)?.to_vec()).ok()?, end))
}

/// The binary log's name and GTID position in a mark, `None` if these bytes are none.
#[cfg(fuzzing)]
pub fn fuzzed_mark(bytes: &[u8]) -> Option<Option<(String, String)>> {
    let mark = Mark::parse(bytes)?;
    assert_eq!(Mark::parse(&mark.encode()).map(|again| again.lsn), Some(mark.lsn), "what is written is read");
    Some(mark.binlog.map(|binlog| (binlog.file, binlog.gtid)))
}

/// Where the archive is, and since when it is known to be complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub timeline: u32,
    pub lsn: Lsn,
    /// See [`Mark::complete`].
    pub complete: Option<u64>,
}

/// The marks of an archive, open for writing.
#[derive(Debug)]
pub(super) struct Marks {
    path: PathBuf,
    log: LogWriter,
    /// When this run wrote its last mark, and that mark's timeline and LSN.
    last: Option<(Instant, (u32, Lsn))>,
    /// Up to when the archive stayed there, and the mark that says so.
    stayed: Option<(Instant, Mark)>,
}

fn options() -> LogOptions {
    LogOptions {
        files: 16,
        file_size: 16 << 20,
        // A quiet server needs less than this in a year. A growing file takes no space before it needs it.
        space: Space::Growing,
        recycle: Recycle::Oldest,
        group_max: 64 << 10,
        ..LogOptions::default()
    }
}

fn unusable<T>(path: &Path, error: &LogError) -> Result<T> {
    if let LogError::Io { error: source, .. } | LogError::Memory(source) = error
        && fault::is_environment(source)
    {
        let source = io::Error::new(source.kind(), error.to_string());
        return Err(ArchiveError::Job(Error::Io { path: path.to_path_buf(), action: "reading the marks", source }));
    }
    refused(format!("{}: {error}: move this directory away; times before now then lead to no LSN", path.display()))
}

impl Marks {
    /// Opens the marks of an archive, or creates them.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(DIR);
        if !path.is_folder_there() {
            let unfinished = dir.join(UNFINISHED);
            if unfinished.is_there() {
                fs::remove_dir_all(&unfinished).map_err(failed(&unfinished, "removing the unfinished marks"))?;
            }
            DirBuilder::new().mode(0o700).create(&unfinished).map_err(failed(&unfinished, "making the marks"))?;
            LogWriter::create(&unfinished, &options()).or_else(|error| unusable(&unfinished, &error))?;
            rename(&unfinished, &path).map_err(failed(&path, "making the marks"))?;
            sync_directory(dir).map_err(failed(dir, "making the marks durable"))?;
        }
        let log = LogWriter::open(&path, &options()).or_else(|error| unusable(&path, &error))?;
        Ok(Self { path, log, last: None, stayed: None })
    }

    /// Appends a mark if one is due. `ask` returns the binary log position.
    pub fn note(&mut self, at: Standing, ask: &mut dyn FnMut() -> Result<Option<BinlogPosition>>) -> Result<()> {
        let place = (at.timeline, at.lsn);
        let has_stayed = self.last.is_some_and(|(_, last)| last == place);
        let every = if has_stayed { IDLE } else { BUSY };
        if self.last.is_some_and(|(since, _)| since.elapsed() < every) {
            if has_stayed {
                self.stayed = Some((Instant::now(), mark(at, None)));
            }
            return Ok(());
        }
        // The last mark may be a minute old. Without this one, nothing would say that the archive was complete since.
        let stayed = self.stayed.take().filter(|_| !has_stayed);
        if let Some((_, stayed)) = stayed.filter(|(at, _)| self.last.is_some_and(|(last, _)| *at >= last + BUSY)) {
            self.append(&stayed)?;
        }
        let binlog = ask()?;
        self.append(&mark(at, binlog))?;
        self.last = Some((Instant::now(), place));
        Ok(())
    }

    fn append(&mut self, mark: &Mark) -> Result<()> {
        self.log.append(&mark.encode()).map(drop).or_else(|error| unusable(&self.path, &error))
    }

    /// Appends a mark at the end of a run, due or not.
    pub fn note_last(&mut self, at: Standing, ask: &mut dyn FnMut() -> Result<Option<BinlogPosition>>) -> Result<()> {
        (self.last, self.stayed) = (None, None);
        self.note(at, ask)
    }
}

/// The mark of this moment.
fn mark(at: Standing, binlog: Option<BinlogPosition>) -> Mark {
    Mark { micros: now_micros(), lsn: at.lsn, timeline: at.timeline, complete: at.complete, binlog }
}

/// Microseconds since 1970.
pub(super) fn now_micros() -> u64 {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    u64::try_from(micros).unwrap_or(u64::MAX)
}

/// The LSN of each timeline's last mark. Read them before the segments: a running archiver appends to a segment first, then marks.
pub(crate) fn last_marks(dir: &Path) -> Result<BTreeMap<u32, Lsn>> {
    let mut last = BTreeMap::new();
    if dir.join(DIR).is_folder_there() {
        each_mark(dir, &mut |mark| {
            last.insert(mark.timeline, mark.lsn);
        })?;
    }
    Ok(last)
}

/// The first mark and the last one, `None` if there is none.
pub(super) fn first_and_last_mark(dir: &Path) -> Result<Option<(Mark, Mark)>> {
    let mut found = None;
    if dir.join(DIR).is_folder_there() {
        each_mark(dir, &mut |mark| {
            let first = found.take().map_or_else(|| mark.clone(), |(first, _)| first);
            found = Some((first, mark));
        })?;
    }
    Ok(found)
}

/// The GTID position at a binary log position that was reached at `lsn`. `None` unless the last mark up to that LSN, or the first one after
/// it, has exactly this position. Marks without a binary log position do not count: they come from a run that did not ask the server.
pub(crate) fn gtid_at(dir: &Path, lsn: Lsn, file: &str, position: u64) -> Result<Option<String>> {
    let mut around: BTreeMap<u32, [Option<Mark>; 2]> = BTreeMap::new();
    if dir.join(DIR).is_folder_there() {
        each_mark(dir, &mut |mark| {
            if mark.binlog.is_none() {
                return;
            }
            let [before, after] = around.entry(mark.timeline).or_default();
            if mark.lsn <= lsn {
                *before = Some(mark);
            } else if after.is_none() {
                *after = Some(mark);
            }
        })?;
    }
    let binlogs = around.into_values().flatten().flatten().filter_map(|mark| mark.binlog);
    let mut gtids = binlogs.filter(|it| (it.file.as_str(), it.position) == (file, position)).map(|it| it.gtid);
    let first = gtids.next();
    // File names and positions repeat after RESET MASTER and in another timeline: marks that disagree give no answer.
    Ok(first.filter(|first| gtids.all(|other| other == *first)))
}

/// Whether an archive has marks.
pub(super) fn has_marks(dir: &Path) -> bool {
    dir.join(DIR).is_folder_there()
}

/// Passes on the marks in the order in which they were written.
pub(super) fn each_mark(dir: &Path, take: &mut dyn FnMut(Mark)) -> Result<()> {
    let path = dir.join(DIR);
    let mut reader = LogReader::open(&path).or_else(|error| unusable(&path, &error))?;
    while let Some(record) = reader.next() {
        let record = record.or_else(|error| unusable(&path, &error))?;
        Mark::parse(record.bytes).into_iter().for_each(&mut *take);
    }
    Ok(())
}

/// The last mark at or before a time, and up to when it is complete, at most that time. The time must not be after the last mark.
pub(crate) fn mark_at(dir: &Path, time: SystemTime) -> Result<(Mark, Option<u64>)> {
    let micros = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let (mut first, mut before, mut last): (Option<Mark>, Option<Mark>, Option<Mark>) = (None, None, None);
    let mut next = None;
    each_mark(dir, &mut |mark| {
        first.get_or_insert_with(|| mark.clone());
        // The clock may have been set back: of all marks up to that time, the one written last counts.
        if u128::from(mark.micros) <= micros {
            before = Some(mark.clone());
            next = None;
        } else if next.is_none() {
            next = Some(mark.clone());
        }
        last = Some(mark);
    })?;
    let dir = dir.display();
    match (first, before, last) {
        (_, Some(mark), Some(last)) if mark != last || u128::from(last.micros) == micros => {
            // If the archive was still there at the next mark, it was complete for longer.
            let later = next.filter(|next| (next.timeline, next.lsn) == (mark.timeline, mark.lsn));
            let complete = later.and_then(|later| later.complete).max(mark.complete);
            Ok((mark, complete.map(|complete| complete.min(u64::try_from(micros).unwrap_or(u64::MAX)))))
        }
        (_, Some(_), Some(last)) => refused(format!(
            "{dir}: the archive does not reach that time: its last mark is {:.0} seconds before it, at LSN {lsn}: let the archiver run until \
             then, or restore what it has with --until {lsn}",
            (micros - u128::from(last.micros)) as f64 / 1e6,
            lsn = last.lsn
        )),
        (Some(first), ..) => refused(format!(
            "{dir}: that time is {:.0} seconds before the first mark of the archive, at LSN {}",
            (u128::from(first.micros) - micros) as f64 / 1e6,
            first.lsn
        )),
        _ => refused(format!("{dir}: the archive has no marks: give an LSN instead of a time")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use super::*;

    fn noted(marks: &mut Marks, lsn: u64, position: Option<u64>) {
        let gtid = format!("0-7-{}", position.unwrap_or_default());
        let binlog = position.map(|position| BinlogPosition { file: "bin.000001".to_owned(), position, gtid });
        let at = Standing { timeline: 1, lsn: Lsn(lsn), complete: Some(lsn) };
        marks.note_last(at, &mut || Ok(binlog.clone())).expect("noted");
    }

    #[test]
    fn a_mark_of_a_run_that_asked_nobody_hides_no_gtid() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut marks = Marks::open(dir.path()).expect("opened");
        for (lsn, position) in [(100, Some(4)), (200, Some(5)), (200, None), (300, None), (300, Some(6)), (400, None)] {
            noted(&mut marks, lsn, position);
        }
        drop(marks);
        let gtid = |lsn, position| gtid_at(dir.path(), Lsn(lsn), "bin.000001", position).expect("read");
        assert_eq!(gtid(200, 5).as_deref(), Some("0-7-5"), "at the LSN of both marks");
        assert_eq!(gtid(250, 6).as_deref(), Some("0-7-6"), "from the mark after it");
        assert_eq!(gtid(250, 4), None, "long ago");
        assert_eq!(gtid(450, 6).as_deref(), Some("0-7-6"), "nobody was asked since, and nothing was committed");
        assert_eq!(gtid(450, 5), None, "before the last that was asked");
        assert_eq!(gtid(200, 7), None, "another position");
    }

    #[test]
    fn a_time_leads_to_the_last_mark_before_it_and_says_how_complete_that_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut marks = Marks::open(dir.path()).expect("opened");
        let complete = |seconds: u64| Some(seconds * 1_000_000);
        for (at, lsn, complete) in
            [(10, 100, complete(9)), (20, 200, complete(18)), (30, 200, complete(29)), (40, 300, None)]
        {
            let mark = Mark { micros: at * 1_000_000, lsn: Lsn(lsn), timeline: 1, complete, binlog: None };
            marks.append(&mark).expect("noted");
        }
        drop(marks);
        let at = |seconds| {
            let found = mark_at(dir.path(), UNIX_EPOCH + std::time::Duration::from_secs(seconds));
            found.map(|(mark, complete)| (mark.lsn.0, complete)).map_err(|error| error.to_string())
        };
        assert_eq!(at(10), Ok((100, complete(9))));
        assert_eq!(at(15), Ok((100, complete(9))), "the next mark is elsewhere: what came in between is not there");
        assert_eq!(at(25), Ok((200, complete(25))), "the next mark is at the same LSN, so nothing came in between");
        assert_eq!(at(29), Ok((200, complete(29))));
        assert_eq!(at(35), Ok((200, complete(29))));
        assert_eq!(at(40), Ok((300, None)), "not noted");
        assert!(at(41).is_err_and(|error| error.contains("--until 300")));
        assert!(at(9).is_err_and(|error| error.contains("before the first mark")));
    }

    #[test]
    fn marks_of_the_first_version_are_read() {
        let mark = Mark { micros: 7, lsn: Lsn(8), timeline: 2, complete: Some(5), binlog: None };
        let encoded = mark.encode();
        assert_eq!(Mark::parse(&encoded), Some(mark.clone()));
        let mut old = encoded.get(..HEAD_SIZE_1).expect("longer").to_vec();
        old.splice(..4, 1_u32.to_be_bytes());
        assert_eq!(Mark::parse(&old), Some(Mark { complete: None, ..mark }));
    }
}
