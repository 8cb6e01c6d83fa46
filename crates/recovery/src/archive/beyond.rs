//! `beyond.jsonl`: what the server's binary log holds and no redo does. The archiver reads the binary log beside the redo log, and notes here,
//! one JSON object a line, what a recovery to a later moment will lack: rows of tables of other engines (Aria, MyISAM), and statements that
//! change files beside InnoDB's (on MariaDB every DDL, because definitions are files there).
//!
//! A line is durable before the mark that claims the binary log up to its position. So the notes are complete from a `watching` line up to
//! the last mark with a binary log position, or up to a line that says otherwise.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use format::Lsn;
use serde::{Deserialize, Serialize};

use super::error::{Result, failed};
use super::marks::{Mark, each_mark, has_marks};
use crate::door;
use datadir::server::{BinlogEvent, BinlogPosition, LogServer, ServerError};

const FILE: &str = "beyond.jsonl";
/// Events asked for at once.
const EVENTS_MAX: u32 = 2000;
/// Files of the binary log read before the archiver gives up finding the position that it knows.
const FILES_MAX: u32 = 10_000;
/// Characters of a statement that are kept.
const WORDS_MAX: usize = 120;

/// A kind of note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeyondKind {
    /// The binary log is read from here on. What came before is not known.
    Watching,
    /// The binary log is not read from here on.
    Blind,
    /// Rows of tables without redo.
    Rows,
    /// A statement.
    Statement,
}

/// A note about something that no redo holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Beyond {
    /// The binary log file.
    pub file: String,
    /// The position behind it in that file.
    pub position: u64,
    /// It was committed after the archive had reached this LSN,
    pub after_lsn: u64,
    /// after this time in microseconds since 1970,
    pub after_us: u64,
    /// and before the archive had noted this LSN.
    pub lsn: u64,
    /// The timeline of both.
    pub timeline: u32,
    /// What kind of note it is.
    pub kind: BeyondKind,
    /// The tables, or the statement.
    pub what: String,
}

/// Reads the server's binary log as it grows.
#[derive(Debug)]
pub(super) struct Watch {
    path: PathBuf,
    /// Up to where it was read, and the archive's LSN and the time then. `None` while it is not read.
    at: Option<(BinlogPosition, Lsn, u64)>,
    has_begun: bool,
}

impl Watch {
    /// Continues where the last mark of this timeline says that the notes end.
    pub fn open(dir: &Path, timeline: u32) -> Result<Self> {
        let notes = read(dir)?;
        let is_on = notes.last().is_some_and(|note| note.kind != BeyondKind::Blind);
        let mut at = None;
        if is_on {
            // The binary log was asked before the mark was written, and after its look began.
            let known = |mark: Mark| {
                let asked = mark.complete.unwrap_or(mark.micros);
                mark.binlog.map(|binlog| (mark.timeline, binlog, mark.lsn, asked))
            };
            each_mark(dir, &mut |mark| at = known(mark).or(at.take()))?;
        }
        let at = at.filter(|(of, ..)| *of == timeline).map(|(_, binlog, lsn, asked)| (binlog, lsn, asked));
        Ok(Self { path: dir.join(FILE), at, has_begun: is_on })
    }

    /// The archive starts over, so what was read before says nothing about what comes.
    pub fn forget(&mut self) {
        self.at = None;
    }

    /// Reads the binary log up to `now`, its position when the archive was at `lsn` and the time was `asked`, and notes what is in no redo.
    pub fn look(
        &mut self,
        server: &mut dyn LogServer,
        now: &BinlogPosition,
        (timeline, lsn, asked): (u32, Lsn, u64),
    ) -> Result<()> {
        let note = |kind, what: &str| Beyond {
            file: now.file.clone(),
            position: now.position,
            after_lsn: lsn.0,
            after_us: asked,
            lsn: lsn.0,
            timeline,
            kind,
            what: what.to_owned(),
        };
        let Some((from, after, after_us)) = self.at.take() else {
            // Whether this account may read the binary log at all shows before the notes promise it.
            return match server.binlog_events(&now.file, now.position, 1) {
                Ok(Some(_)) => {
                    self.append(&[note(BeyondKind::Watching, "")])?;
                    (self.at, self.has_begun) = (Some((now.clone(), lsn, asked)), true);
                    Ok(())
                }
                Ok(None) | Err(ServerError::Privilege { .. } | ServerError::Refused { .. }) => self.stop(note),
                Err(error) => Err(error.into()),
            };
        };
        match groups(server, &from, now) {
            Ok(groups) => {
                let found = groups.into_iter().map(|Group { file, position, kind, what }| Beyond {
                    file,
                    position,
                    after_lsn: after.0,
                    after_us,
                    ..note(kind, &what)
                });
                self.append(&found.collect::<Vec<_>>())?;
                self.at = Some((now.clone(), lsn, asked));
                Ok(())
            }
            // The binary log was purged or reset, or the account may no longer read it.
            Err(ServerError::Privilege { .. } | ServerError::Refused { .. }) => {
                self.look(server, now, (timeline, lsn, asked))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says that the notes end, if there are any.
    fn stop(&mut self, note: impl FnOnce(BeyondKind, &str) -> Beyond) -> Result<()> {
        if std::mem::take(&mut self.has_begun) {
            self.append(&[note(BeyondKind::Blind, "")])?;
        }
        Ok(())
    }

    fn append(&self, notes: &[Beyond]) -> Result<()> {
        if notes.is_empty() {
            return Ok(());
        }
        let appended = || -> std::io::Result<()> {
            // A line that a power failure cut off stays a line.
            let mut text = if ends_a_line(&self.path)? { Vec::new() } else { vec![b'\n'] };
            for note in notes {
                serde_json::to_writer(&mut text, note)?;
                text.push(b'\n');
            }
            let mut file = door::append(&self.path)?;
            file.write_all(&text)?;
            file.sync_data()
        };
        appended().map_err(failed(&self.path, "noting what is in no redo"))
    }
}

fn ends_a_line(path: &Path) -> std::io::Result<bool> {
    match fs::read(path) {
        Ok(text) => Ok(text.last().is_none_or(|last| *last == b'\n')),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// The notes of an archive, in the order in which they were written.
pub(super) fn read(dir: &Path) -> Result<Vec<Beyond>> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(&path, "reading what is in no redo")(error)),
    };
    // Only the line that was being written at a power failure can be cut off, and no mark relies on it.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// What happened beside the redo between two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Besides {
    /// The notes, in the binary log's order.
    pub notes: Vec<Beyond>,
    /// Whether there is a note of everything.
    pub is_complete: bool,
}

/// Where a recovery ends: at an LSN, and if that was found by a time, in microseconds since 1970, before everything later.
pub(crate) type End = (Lsn, Option<u64>);

/// What happened beside the redo after a base copy of LSN `base`, taken at `from` in the binary log if that is known, and before `end`;
/// `None` is the archive's end.
pub(crate) fn besides(dir: &Path, (base, from): (Lsn, Option<&BinlogPosition>), end: Option<End>) -> Result<Besides> {
    let (mut newest, mut asked): (Option<Mark>, Option<Mark>) = (None, None);
    if !has_marks(dir) {
        return Ok(Besides::default());
    }
    each_mark(dir, &mut |mark| {
        if mark.binlog.is_some() {
            asked = Some(mark.clone());
        }
        newest = Some(mark);
    })?;
    let Some(newest) = newest else { return Ok(Besides::default()) };
    let is_before = |note: &Beyond| match end {
        None => true,
        // The LSN may have stayed the same for long, while tables without redo were written to.
        Some((lsn, Some(time))) => note.after_lsn <= lsn.0 && note.after_us < time,
        Some((lsn, None)) => note.after_lsn < lsn.0,
    };
    let end = end.map_or(newest.lsn, |(lsn, _)| lsn);
    let all = read(dir)?;
    let of_now = all.into_iter().filter(|note| note.timeline == newest.timeline);
    let (turns, found): (Vec<Beyond>, Vec<Beyond>) =
        of_now.partition(|note| matches!(note.kind, BeyondKind::Watching | BeyondKind::Blind));
    let begun = turns.iter().rfind(|turn| turn.lsn <= base.0).is_some_and(|turn| turn.kind == BeyondKind::Watching);
    let is_unbroken = !turns.iter().any(|turn| turn.lsn > base.0 && turn.lsn <= end.0);
    let reaches = asked.is_some_and(|mark| mark.timeline == newest.timeline && mark.lsn >= end);
    let is_later = |note: &Beyond| match from {
        Some(from) => (&note.file, note.position) > (&from.file, from.position),
        None => note.lsn > base.0,
    };
    let notes: BTreeSet<Beyond> = found.into_iter().filter(|note| is_later(note) && is_before(note)).collect();
    Ok(Besides { notes: notes.into_iter().collect(), is_complete: begun && is_unbroken && reaches })
}

/// A group of events that is in no redo.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    file: String,
    position: u64,
    kind: BeyondKind,
    what: String,
}

/// The groups between two positions that are in no redo.
fn groups(
    server: &mut dyn LogServer,
    from: &BinlogPosition,
    to: &BinlogPosition,
) -> std::result::Result<Vec<Group>, ServerError> {
    let (mut file, mut position) = (from.file.clone(), from.position);
    let (mut found, mut open) = (Vec::new(), Open::default());
    let lost = |file: &str| ServerError::Refused {
        statement: "SHOW BINLOG EVENTS".to_owned(),
        says: format!("nothing that leads from {file} to {}", to.file),
    };
    for _ in 0..FILES_MAX {
        let is_last = file == to.file;
        while !is_last || position < to.position {
            let Some(events) = server.binlog_events(&file, position, EVENTS_MAX)? else { return Err(lost(&file)) };
            let Some(last) = events.last().map(|event| event.end) else { break };
            for event in events.iter().filter(|event| !is_last || event.end <= to.position) {
                found.extend(open.take(event).map(|(kind, what)| Group {
                    file: file.clone(),
                    position: event.end,
                    kind,
                    what,
                }));
            }
            if last <= position {
                break;
            }
            position = last;
        }
        if is_last {
            return Ok(found);
        }
        (file, position) = (next_file(&file).ok_or_else(|| lost(&file))?, 4);
        open = Open::default();
    }
    Err(lost(&file))
}

/// `bin.000010` after `bin.000009`.
fn next_file(name: &str) -> Option<String> {
    let (base, number) = name.rsplit_once('.')?;
    let next = number.parse::<u64>().ok()? + 1;
    Some(format!("{base}.{next:0width$}", width = number.len()))
}

/// The group of events that is being read.
#[derive(Debug, Default)]
struct Open {
    is_group: bool,
    is_transaction: bool,
    tables: BTreeSet<String>,
    statement: Option<String>,
}

impl Open {
    /// Takes the next event. Returns what its group changed, if the group ends here and is in no redo.
    fn take(&mut self, event: &BinlogEvent) -> Option<(BeyondKind, String)> {
        let info = event.info.as_str();
        match event.kind.as_str() {
            // MariaDB writes `BEGIN GTID 0-7-12` for a transaction, and `GTID 0-7-12` for a statement by itself.
            "Gtid" | "Anonymous_Gtid" | "Gtid_tagged" => {
                *self = Self { is_group: true, is_transaction: info.starts_with("BEGIN"), ..Self::default() };
            }
            "Table_map" => self.tables.extend(between(info, '(', ')').map(str::to_owned)),
            "Xid" | "XA_prepare" => *self = Self::default(),
            "Query" | "Query_compressed" => return self.query(info),
            _ => {}
        }
        None
    }

    fn query(&mut self, info: &str) -> Option<(BeyondKind, String)> {
        let words = without_use(info);
        let first = words.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        match first.as_str() {
            "BEGIN" => self.is_transaction = true,
            // A transaction that ends in these words instead of with the engine's number has no engine with redo.
            "COMMIT" | "ROLLBACK" => {
                let group = std::mem::take(self);
                let tables: Vec<&str> = group.tables.iter().map(String::as_str).collect();
                let what = if tables.is_empty() { group.statement } else { Some(tables.join(", ")) };
                return what.map(|what| (BeyondKind::Rows, what));
            }
            _ if self.is_transaction => {
                self.statement.get_or_insert_with(|| shortened(words));
            }
            _ => {
                let is_group = std::mem::take(self).is_group;
                // MySQL writes the number of the engine's transaction behind a statement whose changes are in the dictionary, and so in the
                // redo. The others are about statistics, or what a server holds in memory.
                let is_in_redo = words.contains("/* xid=");
                let is_idle = matches!(first.as_str(), "ANALYZE" | "OPTIMIZE" | "FLUSH" | "REPAIR" | "CHECK");
                return (is_group && !is_in_redo && !is_idle).then(|| (BeyondKind::Statement, shortened(words)));
            }
        }
        None
    }
}

fn between(text: &str, from: char, to: char) -> Option<&str> {
    let (_, rest) = text.split_once(from)?;
    rest.rsplit_once(to).map(|(inside, _)| inside)
}

/// A statement without the "use `shop`; " that the server writes before it.
fn without_use(info: &str) -> &str {
    let rest = info.strip_prefix("use `").and_then(|rest| rest.split_once("`; "));
    rest.map_or(info, |(_, statement)| statement)
}

/// The beginning of a statement, in one line. A statement that names a password keeps only its first two words.
fn shortened(statement: &str) -> String {
    let has_secret =
        statement.to_ascii_uppercase().contains("IDENTIFIED") || statement.to_ascii_uppercase().contains("PASSWORD");
    let words = statement.split_whitespace().take(if has_secret { 2 } else { usize::MAX });
    words.collect::<Vec<_>>().join(" ").chars().take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use super::super::marks::{Marks, Standing};
    use super::*;

    fn found(events: &[(&str, &str)]) -> Vec<(BeyondKind, String)> {
        let mut open = Open::default();
        let event =
            |(kind, info): &(&str, &str)| BinlogEvent { kind: (*kind).to_owned(), end: 0, info: (*info).to_owned() };
        events.iter().filter_map(|of| open.take(&event(of))).collect()
    }

    #[test]
    fn groups_without_an_engines_number_are_noted() {
        let of_mariadb = [
            ("Gtid_list", "[0-7-1]"),
            ("Gtid", "BEGIN GTID 0-7-2"),
            ("Table_map", "table_id: 31 (shop.a)"),
            ("Write_rows_v1", "table_id: 31 flags: STMT_END_F"),
            ("Xid", "COMMIT /* xid=31 */"),
            ("Gtid", "BEGIN GTID 0-7-3"),
            ("Annotate_rows", "INSERT INTO aria VALUES (1)"),
            ("Table_map", "table_id: 32 (shop.aria)"),
            ("Write_rows_v1", "table_id: 32 flags: STMT_END_F"),
            ("Query", "COMMIT"),
            ("Gtid", "GTID 0-7-4"),
            ("Query", "use `shop`; ALTER TABLE a ADD COLUMN\n x INT"),
            ("Gtid", "GTID 0-7-5"),
            ("Query", "CREATE USER x IDENTIFIED BY PASSWORD '*1234'"),
            ("Gtid", "GTID 0-7-6"),
            ("Query", "use `shop`; ANALYZE TABLE a"),
            ("Gtid", "BEGIN GTID 0-7-7"),
            ("Query", "use `shop`; INSERT INTO aria VALUES (2)"),
            ("Query", "COMMIT"),
        ];
        let expected = [
            (BeyondKind::Rows, "shop.aria"),
            (BeyondKind::Statement, "ALTER TABLE a ADD COLUMN x INT"),
            (BeyondKind::Statement, "CREATE USER"),
            (BeyondKind::Rows, "INSERT INTO aria VALUES (2)"),
        ];
        assert_eq!(found(&of_mariadb), expected.map(|(kind, what)| (kind, what.to_owned())));
        let of_mysql = [
            ("Gtid", "SET @@SESSION.GTID_NEXT= '3e11fa47:1'"),
            ("Query", "use `shop`; CREATE TABLE m (id INT) ENGINE=MyISAM /* xid=12 */"),
            ("Gtid", "SET @@SESSION.GTID_NEXT= '3e11fa47:2'"),
            ("Query", "BEGIN"),
            ("Table_map", "table_id: 90 (shop.m)"),
            ("Write_rows", "table_id: 90 flags: STMT_END_F"),
            ("Query", "COMMIT"),
            ("Anonymous_Gtid", "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'"),
            ("Query", "BEGIN"),
            ("Table_map", "table_id: 91 (shop.a)"),
            ("Xid", "COMMIT /* xid=14 */"),
            ("Gtid", "SET @@SESSION.GTID_NEXT= '3e11fa47:3'"),
            ("Query", "use `shop`; OPTIMIZE TABLE a"),
        ];
        assert_eq!(found(&of_mysql), [(BeyondKind::Rows, "shop.m".to_owned())]);
    }

    #[test]
    fn files_of_a_binary_log_follow_each_other() {
        assert_eq!(next_file("bin.000009").as_deref(), Some("bin.000010"));
        assert_eq!(next_file("db1.log.999999").as_deref(), Some("db1.log.1000000"));
        assert_eq!(next_file("bin"), None);
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let dir = tempfile::tempdir().expect("a folder");
        let note = |lsn, kind| Beyond {
            file: "bin.000001".to_owned(),
            position: lsn,
            after_lsn: lsn,
            after_us: lsn,
            lsn,
            timeline: 1,
            kind,
            what: String::new(),
        };
        let watch = Watch { path: dir.path().join(FILE), at: None, has_begun: false };
        watch.append(&[note(1, BeyondKind::Watching)]).expect("written");
        let text = fs::read(&watch.path).expect("read");
        fs::write(&watch.path, [text.as_slice(), b"{\"file\":\"bi"].concat()).expect("written");
        watch.append(&[note(2, BeyondKind::Rows)]).expect("written");
        assert_eq!(read(dir.path()).expect("read"), [note(1, BeyondKind::Watching), note(2, BeyondKind::Rows)]);
    }

    #[test]
    fn notes_count_from_the_backup_to_the_moment() {
        let dir = tempfile::tempdir().expect("a folder");
        let note = |at: u64, kind| Beyond {
            file: "bin.000001".to_owned(),
            position: at,
            after_lsn: at,
            after_us: at,
            lsn: at + 10,
            timeline: 1,
            kind,
            what: at.to_string(),
        };
        let watch = Watch { path: dir.path().join(FILE), at: None, has_begun: false };
        let begun = Beyond { lsn: 50, ..note(50, BeyondKind::Watching) };
        watch
            .append(&[begun, note(90, BeyondKind::Rows), note(100, BeyondKind::Rows), note(120, BeyondKind::Statement)])
            .expect("written");
        let mut marks = Marks::open(dir.path()).expect("opened");
        let binlog = BinlogPosition { file: "bin.000001".to_owned(), position: 130, gtid: String::new() };
        let at = Standing { timeline: 1, lsn: Lsn(130), complete: None };
        marks.note_last(at, &mut || Ok(Some(binlog.clone()))).expect("noted");
        marks.note_last(Standing { lsn: Lsn(150), ..at }, &mut || Ok(None)).expect("noted");
        drop(marks);
        let backup = BinlogPosition { position: 95, ..binlog };
        let found = |base, from: Option<&BinlogPosition>, end| {
            let between = besides(dir.path(), (Lsn(base), from), end).expect("read");
            (between.notes.into_iter().map(|note| note.position).collect::<Vec<_>>(), between.is_complete)
        };
        assert_eq!(found(60, Some(&backup), Some((Lsn(130), None))), (vec![100, 120], true));
        assert_eq!(found(60, Some(&backup), Some((Lsn(120), None))), (vec![100], true), "the last is not before");
        assert_eq!(found(60, Some(&backup), Some((Lsn(120), Some(121)))), (vec![100, 120], true), "the LSN stayed");
        assert_eq!(found(60, Some(&backup), Some((Lsn(120), Some(120)))), (vec![100], true));
        assert_eq!(found(105, None, Some((Lsn(130), None))), (vec![100, 120], true), "by the LSN");
        assert_eq!(found(60, Some(&backup), None), (vec![100, 120], false), "no server was asked at the end");
        assert_eq!(found(40, Some(&backup), Some((Lsn(130), None))), (vec![100, 120], false), "not watched at first");
    }
}
