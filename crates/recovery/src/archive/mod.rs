//! `redo archive`: follows a live server's redo log into segments that any log reader can read.
//!
//! ```text
//! live log -> fence -> segment writer; marks -> LogWriter; gap -> note beside the next segment
//! ```
//!
//! Each look reads from the end of the archive, takes the mini-transactions that are certain to stay (`redo::follow`), reads them a second
//! time, checks that the server has not come around meanwhile, and appends them with one write and one sync. Archived bytes never change: a
//! later look that finds something else in the log starts a new timeline (`history`).
//!
//! Sketch: a busy server writes 10 MB/s. Ten looks a second take 1 MB each: two reads from the page cache, a walk of 5,000
//! mini-transactions (1 ms), one write and one sync.

mod beyond;
mod definitions;
mod error;
mod follow;
mod gap;
mod history;
mod live;
mod marks;
mod mysql;
mod name;
mod options;
mod status;
mod stored;
mod verify;
mod writer;

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{io, thread};

use flow::durable::remove_file;
use flow::lock::{Sharing, lock_soon};
use format::Lsn;

use self::beyond::Watch;
pub(crate) use self::beyond::{Besides, besides};
pub use self::beyond::{Beyond, BeyondKind};
use self::definitions::Definitions;
pub(crate) use self::definitions::{DefinitionFile, History};
pub use self::error::ArchiveError;
use self::error::{Result, failed};
use self::follow::{Follow, Follower, Look, begin};
use self::gap::Gap;
use self::live::LiveLog;
#[cfg(fuzzing)]
pub use self::marks::fuzzed_mark;
use self::marks::{Marks, Standing, now_micros};
pub(crate) use self::marks::{gtid_at, last_marks, mark_at};
pub(crate) use self::mysql::StoredBlocks;
use self::name::list;
pub(crate) use self::name::{SegmentName, list as segments};
pub use self::options::{ArchiveOptions, ArchiveUntil};
pub use self::status::{ArchiveEvent, ArchiveStatus, Unlogged};
pub(crate) use self::stored::{Stored, closed_at};
pub use self::verify::{ArchiveMark, ArchiveReport, ArchivedRange, verify_archive};
use self::writer::SegmentWriter;
use crate::door;
use crate::server_home::ServerHome;
use datadir::files::AskPath;
use datadir::server::{BinlogPosition, LogServer, ServerError};
use datadir::stop;

/// The lock file, held by the one archiver of a directory.
const LOCK: &str = "archive.lock";
/// Bytes of the first read.
const READ_FIRST: usize = 64 << 10;
/// The longest sleep before a stop is noticed.
const NAP_MAX: Duration = Duration::from_millis(100);

/// Archives the redo log of a server, running or stopped: MariaDB 10.8 or later, or MySQL 8.0.30 or later. Returns where the archive ended.
///
/// # Errors
/// [`ArchiveError`]. What was archived before stays valid.
pub fn archive(
    datadir: &Path,
    options: &ArchiveOptions,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&ArchiveEvent<'_>),
) -> Result<ArchiveStatus> {
    archive_beside(None, datadir, options, stop, tell)
}

/// Like [`archive`], but asks the `server`, if one is given, how far its log is durable, and takes everything up to there at once.
///
/// # Errors
/// [`ArchiveError`]; also if the server runs on another datadir, or does not answer.
pub fn archive_beside(
    mut server: Option<&mut dyn LogServer>,
    datadir: &Path,
    options: &ArchiveOptions,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&ArchiveEvent<'_>),
) -> Result<ArchiveStatus> {
    if let Some(server) = server.as_deref_mut() {
        ServerHome::of(server)?.other(server, datadir)?.map_or(Ok(()), error::refused)?;
    }
    let is_mysql = mysql::is_mysql(datadir)?;
    let live = if is_mysql { None } else { Some(LiveLog::open(datadir)?) };
    let dir = &options.to;
    // Its segments have the rows of every table.
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed(dir, "making the archive"))?;
    door::target_made();
    let _lock = lock(dir)?;
    remove_unfinished(dir)?;
    let mut marks = Marks::open(dir)?;
    let mut follower: Box<dyn Follow> = match live {
        Some(live) => Box::new(start(datadir, live, options, tell)?),
        None => mysql::start(datadir, options, tell)?,
    };
    let follower = &mut *follower;
    let mut run = Run { options, status: ArchiveStatus::default(), tell };
    run.tell_status(follower);
    let mut watch = Watch::open(dir, run.status.timeline)?;
    if run.status.gaps > 0 {
        watch.forget();
    }
    let mut target = None;
    let mut ends = Ends::default();
    // MySQL keeps definitions in its dictionary, which the redo covers.
    let mut definitions = (options.definitions && !is_mysql).then(|| Definitions::open(dir, datadir)).transpose()?;
    while !stop::is_told(stop) {
        let begun = now_micros();
        // Ask before reading the log: then everything up to this LSN is in the log by the time it is read.
        let flushed = server.as_deref_mut().map(LogServer::flushed_lsn).transpose()?;
        let after_look = look_at(&mut definitions, &mut server, run.standing(follower, &ends), flushed)?;
        let look = follower.look(flushed)?;
        if look == Look::Gap {
            run.tell_gap(follower);
            target = None;
            ends = Ends::default();
            watch.forget();
        }
        run.tell_status(follower);
        ends.note(
            begun,
            flushed.or_else(|| follower.seen().filter(|_| look != Look::More && follower.has_seen_end())),
            follower,
        );
        let at = run.standing(follower, &ends);
        let seen = [after_look, follower.seen()].into_iter().flatten().max().unwrap_or(at.lsn);
        let has_found = definitions.as_ref().is_some_and(Definitions::has_found);
        definitions.as_mut().map_or(Ok(()), |looks| looks.note(seen))?;
        marks.note(at, &mut || watched(&mut server, &mut watch, at))?;
        // The server may have written more than it has flushed. A definition that this look found is certain from `seen` on only: an archive that
        // ended before it could not be restored to its own end.
        let durable = flushed.map(|flushed| if has_found { flushed.max(seen) } else { flushed });
        target = target.or(durable).or(follower.seen());
        let is_done = match options.until {
            ArchiveUntil::Stopped => false,
            ArchiveUntil::Once => look != Look::More,
            ArchiveUntil::CaughtUp => target.is_some_and(|target| follower.has_reached(target)),
        };
        if is_done {
            break;
        }
        if look == Look::End {
            nap(options.poll, stop);
        }
    }
    definitions.as_ref().map_or(Ok(()), Definitions::end)?;
    let at = run.standing(follower, &ends);
    marks.note_last(at, &mut || watched(&mut server, &mut watch, at))?;
    Ok(run.status)
}

/// Looks for changed definitions, and asks the server for the end of its log afterwards if there are any: what was committed before they changed
/// is durable by then, and so is what InnoDB did for the statement.
fn look_at(
    definitions: &mut Option<Definitions>,
    server: &mut Option<&mut dyn LogServer>,
    at: Standing,
    flushed: Option<Lsn>,
) -> Result<Option<Lsn>> {
    let Some(looks) = definitions else { return Ok(None) };
    looks.look(Standing { lsn: at.lsn.max(flushed.unwrap_or(at.lsn)), ..at })?;
    if !looks.has_found() {
        return Ok(None);
    }
    Ok(server.as_deref_mut().map(LogServer::flushed_lsn).transpose()?)
}

/// Where the binary log is now, after everything up to there that is in no redo was noted.
fn watched(server: &mut Option<&mut dyn LogServer>, watch: &mut Watch, at: Standing) -> Result<Option<BinlogPosition>> {
    let asked = now_micros();
    let binlog = binlog_of(server)?;
    if let (Some(server), Some(binlog)) = (server.as_deref_mut(), &binlog) {
        watch.look(server, binlog, (at.timeline, at.lsn, asked))?;
    }
    Ok(binlog)
}

/// Where the binary log is now. Asked after the log is read, so that everything archived is before this position. An account without the
/// privilege to ask is no reason to stop archiving.
fn binlog_of(server: &mut Option<&mut dyn LogServer>) -> Result<Option<BinlogPosition>> {
    match server.as_deref_mut().map(LogServer::binlog) {
        None | Some(Err(ServerError::Privilege { .. })) => Ok(None),
        Some(asked) => Ok(asked?),
    }
}

/// Ends of the log that the archive has yet to reach, each with the time at which its look began, oldest first.
#[derive(Debug, Default)]
struct Ends {
    ahead: VecDeque<(u64, Lsn)>,
    /// The log's end at this time, in microseconds since 1970, is archived.
    complete: Option<u64>,
}

impl Ends {
    /// Looks a second, times the seconds that an archiver may be behind. Without the oldest ones, less is known, but nothing wrong.
    const AHEAD_MAX: usize = 10_000;

    /// `end`: the log's end, if this look has seen it.
    fn note(&mut self, begun: u64, end: Option<Lsn>, follower: &dyn Follow) {
        self.ahead.extend(end.map(|end| (begun, end)));
        // A follower that has not seen the log's end this time may judge by the end that it saw before.
        let has_reached = |end: Lsn| follower.has_reached(end) && (follower.has_seen_end() || follower.at() >= end);
        while let Some((begun, _)) = self.ahead.front().filter(|(_, end)| has_reached(*end)) {
            self.complete = Some(*begun);
            self.ahead.pop_front();
        }
        if self.ahead.len() > Self::AHEAD_MAX {
            self.ahead.pop_front();
        }
    }
}

/// The reports of one run.
struct Run<'r> {
    options: &'r ArchiveOptions,
    status: ArchiveStatus,
    tell: &'r mut dyn FnMut(&ArchiveEvent<'_>),
}

impl Run<'_> {
    fn standing(&self, follower: &dyn Follow, ends: &Ends) -> Standing {
        Standing { timeline: self.status.timeline, lsn: follower.at(), complete: ends.complete }
    }

    fn tell_status(&mut self, follower: &mut dyn Follow) {
        for unlogged in follower.take_unlogged() {
            (self.tell)(&ArchiveEvent::Unlogged(&unlogged));
        }
        self.status = follower.status();
        (self.tell)(&ArchiveEvent::Status(self.status));
    }

    fn tell_gap(&mut self, follower: &dyn Follow) {
        let why = gap::noted(&self.options.to, follower.segment()).unwrap_or_default();
        (self.tell)(&ArchiveEvent::Gap(&why));
    }
}

/// Continues an archive, or starts one at the log's newest checkpoint.
fn start(
    datadir: &Path,
    live: LiveLog,
    options: &ArchiveOptions,
    tell: &mut dyn FnMut(&ArchiveEvent<'_>),
) -> Result<Follower> {
    let dir = options.to.clone();
    let newest = list(&dir)?.pop().map(|name| Stored::read(&dir, name)).transpose()?;
    let segment = match &newest {
        None => begin(&dir, &live, SegmentName { timeline: 1, start: Lsn(0) }, None, options.segment_size)?,
        Some(stored) => continued(&dir, &live, stored, options)?,
    };
    let mut follower = Follower {
        dir,
        datadir: datadir.to_path_buf(),
        live,
        segment,
        segment_size: options.segment_size,
        settle: options.settle,
        read_size: READ_FIRST,
        bytes: 0,
        mtrs: 0,
        gaps: 0,
        seen: None,
        was_cut: true,
        rest: None,
        unproven: None,
    };
    let Some(_) = newest else { return Ok(follower) };
    let gap: Option<Gap> = match follower.lost_now() {
        Some(gap) => Some(gap),
        None => history::compare(&follower.dir, &follower.live, follower.at())?,
    };
    if let Some(gap) = gap {
        follower.start_over(&gap)?;
        let why = gap::noted(&follower.dir, follower.segment.name()).unwrap_or_default();
        tell(&ArchiveEvent::Gap(&why));
    }
    Ok(follower)
}

/// Continues in the newest segment, or after it if it is closed, or if its key or format differs from the log's.
fn continued(dir: &Path, live: &LiveLog, stored: &Stored, options: &ArchiveOptions) -> Result<SegmentWriter> {
    let is_closed = stored.name.end_path(dir).is_there();
    let has_same_key = stored.key() == live.key() && stored.header.format == live.parsed.format;
    if has_same_key && !is_closed {
        return SegmentWriter::resume(stored);
    }
    if !is_closed {
        SegmentWriter::resume(stored)?.close(dir)?;
    }
    let name = SegmentName { start: stored.end(), ..stored.name };
    SegmentWriter::create(dir, name, live, None, options.segment_size)
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let opened = match door::change(dir, LOCK) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => door::create(dir, LOCK),
        opened => opened,
    };
    let file = opened.map_err(failed(&path, "locking the archive"))?;
    match lock_soon(&file, Sharing::Exclusive).map_err(failed(&path, "locking the archive"))? {
        true => Ok(file),
        false => Err(ArchiveError::Busy(dir.to_path_buf())),
    }
}

/// Removes files that a killed run left unfinished.
fn remove_unfinished(dir: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).map_err(failed(dir, "reading the archive"))?;
    for entry in entries {
        let path = entry.map_err(failed(dir, "reading the archive"))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("redo.") && name.ends_with(".new") {
            remove_file(&path).map_err(failed(&path, "removing the unfinished file"))?;
        }
    }
    Ok(())
}

/// Sleeps for `poll`, or until told to stop.
fn nap(poll: Duration, stop: &AtomicBool) {
    let end = Instant::now() + poll;
    while !stop::is_told(stop) {
        let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else { return };
        thread::sleep(left.min(NAP_MAX));
    }
}
