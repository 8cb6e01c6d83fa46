//! `innokit redo archive` and `innokit redo verify`: options in, the state of the archive out.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use datadir::server::{LogServer, ServerError};
use recovery::{ArchiveEvent, ArchiveMark, ArchiveOptions, ArchiveReport, ArchiveStatus, ArchiveUntil, Unlogged};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{RedoArchiveArgs, RedoVerifyArgs};
use crate::monitor::metrics;
use crate::print::{grouped, human, position, written};
use crate::terminal::{self, shown};
use crate::{document, notify, server};

/// The log could not be followed without a gap.
const GAP: u8 = 1;
const SEGMENT_SIZE: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 30;
/// Time between two updates of the metrics file and of the status that systemd shows.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// The operator is warned once the archive lags by this share of the log's capacity.
const LAG_WARNED: f64 = 0.5;

/// Archives the log until a signal or an option stops it. Returns the exit status.
pub fn run(args: &RedoArchiveArgs) -> Result<u8, Box<dyn Error>> {
    if !SEGMENT_SIZE.contains(&args.segment_size) {
        return Err("--segment-size takes 1M to 1G".into());
    }
    let started = SystemTime::now();
    let access = args.server.is_named().then(|| server::access(&args.server)).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let until = match (args.once, args.until_caught_up) {
        (true, _) => ArchiveUntil::Once,
        (_, true) => ArchiveUntil::CaughtUp,
        _ => ArchiveUntil::Stopped,
    };
    let (to, poll, segment_size) = (args.to.clone(), Duration::from_millis(args.poll), args.segment_size);
    let options = ArchiveOptions { to, until, poll, segment_size, definitions: true, ..ArchiveOptions::default() };
    let mut told = Told { metrics: args.metrics.as_deref(), told: None, is_behind: false };
    let mut connection = access.map(|access| server::log_server(&access, &stop)).transpose()?;
    if let Some(Err(error @ ServerError::Privilege { .. })) = connection.as_deref_mut().map(LogServer::binlog) {
        terminal::say(&format!(
            "{error}: the archive's marks will hold no binary log position (GRANT BINLOG MONITOR; on MySQL GRANT REPLICATION CLIENT)"
        ));
    }
    let beside = connection.as_deref_mut().map(|server| server as &mut dyn LogServer);
    let done = recovery::archive_beside(beside, &args.datadir, &options, &stop, &mut |event| told.tell(event))?;
    notify::tell("STOPPING=1");
    let metrics_written = args
        .metrics
        .as_deref()
        .map_or(Ok(()), |file| metrics::write_archive(file, &done).map_err(|error| metrics::not_written(file, &error)));
    let status = metrics::status_after(metrics_written, if done.gaps > 0 { GAP } else { 0 });
    written(print(&done, args.json.then_some((started, status))), status)
}

/// What the operator has been told so far.
struct Told<'a> {
    metrics: Option<&'a Path>,
    /// When systemd and the metrics file were last updated.
    told: Option<Instant>,
    is_behind: bool,
}

impl Told<'_> {
    fn tell(&mut self, event: &ArchiveEvent<'_>) {
        match event {
            ArchiveEvent::Gap(why) => {
                terminal::say(&format!(
                    "GAP: {why}; take a new base copy: none from before can be recovered beyond it"
                ));
            }
            ArchiveEvent::Unlogged(index) => {
                let index = unlogged(index);
                terminal::say(&format!("{index}; take a new base copy: none from before can be recovered beyond it"));
            }
            ArchiveEvent::Status(status) => self.status(status),
        }
    }

    fn status(&mut self, status: &ArchiveStatus) {
        let is_behind = status.lag() >= LAG_WARNED;
        if is_behind && !self.is_behind {
            terminal::say(&format!(
                "the archive is {} behind, {:.0}% of the redo log's capacity: at 100% the server overwrites what is missing",
                human(status.lag_bytes as f64),
                status.lag() * 100.0
            ));
        }
        self.is_behind = is_behind;
        if self.told.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
            return;
        }
        // After the first look the archive holds the newest checkpoint, so a base copy may be taken from now on.
        let ready = if self.told.is_none() { "READY=1\n" } else { "" };
        self.told = Some(Instant::now());
        let (lsn, lag) = (status.lsn, status.lag() * 100.0);
        notify::tell(&format!("{ready}STATUS=archived to LSN {lsn}, behind by {lag:.0}% of the redo log's capacity"));
        let Some(file) = self.metrics else { return };
        if let Err(error) = metrics::write_archive(file, status) {
            terminal::say(&metrics::not_written(file, &error));
        }
    }
}

fn print(done: &ArchiveStatus, json: Option<(SystemTime, u8)>) -> io::Result<()> {
    let mut out = terminal::out();
    if let Some(head) = json {
        return document::write(head, false, done, &mut out);
    }
    let (bytes, mtrs) = (human(done.bytes as f64), grouped(done.mtrs));
    writeln!(out, "archived  {bytes} in {mtrs} mini-transactions, to LSN {}", done.lsn)?;
    if done.gaps > 0 {
        writeln!(out, "gaps      {}", done.gaps)?;
    }
    out.flush()
}

/// Verifies an archive. Returns the exit status.
pub fn verify(args: &RedoVerifyArgs) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    let report = recovery::verify_archive(&args.archive)?;
    let status = report.exit_status();
    written(print_report(&report, args.json.then_some((started, status))), status)
}

fn print_report(report: &ArchiveReport, json: Option<(SystemTime, u8)>) -> io::Result<()> {
    let mut out = terminal::out();
    if let Some(head) = json {
        return document::write(head, false, report, &mut out);
    }
    for range in &report.ranges {
        if let Some(gap) = &range.gap {
            writeln!(out, "GAP       {}", shown(gap))?;
        }
        let timeline = if range.timeline > 1 { format!(", timeline {}", range.timeline) } else { String::new() };
        let segments = if range.segments == 1 { "segment" } else { "segments" };
        let (from, to, count) = (range.start_lsn, range.end_lsn, grouped(range.segments));
        writeln!(out, "archive   LSN {from} to {to}, {count} {segments}{timeline}")?;
    }
    for index in &report.unlogged {
        writeln!(out, "NO REDO   {}", shown(&unlogged(index)))?;
    }
    if let (Some(first), Some(last)) = (&report.first_mark, &report.last_mark) {
        writeln!(out, "marks     {} to {}", time_of(first), time_of(last))?;
        if let Some(binlog) = &last.binlog {
            writeln!(out, "binlog    {} by the last mark, at LSN {}", position(binlog), last.lsn)?;
        }
    }
    for damage in &report.damage {
        writeln!(out, "DAMAGED   {}", shown(damage))?;
    }
    let (bytes, mtrs) = (human(report.bytes as f64), grouped(report.mtrs));
    writeln!(out, "read      {bytes} of log in {mtrs} mini-transactions")?;
    out.flush()
}

fn unlogged(index: &Unlogged) -> String {
    let file = index.file.as_ref().map(|file| format!(" ({file})")).unwrap_or_default();
    format!("LSN {}: an index of tablespace {}{file} was built without redo", index.lsn, index.space)
}

fn time_of(mark: &ArchiveMark) -> String {
    document::utc(UNIX_EPOCH + Duration::from_micros(mark.at_us))
}
