//! An `xbstream`, `mbstream` or `tar` archive: members are checked as they stream by, interleaved or not, and each gets its own row.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use logs::tar;
use logs::xbstream::{Error, Event, MemberId, Parser};

use super::examined::{Break, Context, Examined, Log, Member, Role, StreamOutcome};
use super::file_state::FileState;
use super::findings::Findings;
use super::inner::{Inner, InnerName, OpenInner};
use super::member::place_zeros;
use super::words::{about, shown};
use crate::report::document::{Counts, Finding, Unit};
use datadir::backup_notes::MANIFEST;
use datadir::content::{self, Content};
use datadir::file_kind::FileKind;
use datadir::inventory::{Candidate, Passed};
use datadir::name::NameHint;
use datadir::redo_log::UNPREPARED;
use datadir::severity::Severity;

/// Members in which a backup tool describes its backup.
const CHECKPOINTS: [&str; 3] = ["xtrabackup_checkpoints", "mariadb_backup_checkpoints", MANIFEST];
/// Bytes kept of such a member; the rest is dropped.
const CHECKPOINTS_MAX: usize = 16 * 1024;
/// No backup tool copies this many members at once. Each open one buffers data, so the limit bounds memory.
const OPEN_MAX: usize = 256;

/// An archive being read.
pub(super) struct Archive {
    context: Context,
    /// Creates the check for a member.
    open_inner: OpenInner,
    path: PathBuf,
    parser: Container,
    open: HashMap<MemberId, Open>,
    /// Finished members, in the order in which they began.
    ended: BTreeMap<u32, Ended>,
    /// The archive's own findings are filed under 0, those of member N under N + 1.
    findings: Findings,
    skipped: Vec<Passed>,
    failed: Vec<Passed>,
    checkpoints: Option<Vec<u8>>,
    /// Damage beyond which nothing can be read.
    dead: bool,
    damaged: bool,
}

/// The kind of archive, with its parser.
enum Container {
    Xbstream(Parser),
    /// With the number of the member that is open, or of the next one.
    Tar(tar::Parser, u64),
}

/// A member between its first chunk and its last.
struct Open {
    name: Box<[u8]>,
    stream: Box<dyn Inner>,
}

struct Ended {
    name: Box<[u8]>,
    rows: Vec<Examined>,
}

impl Archive {
    pub fn new(context: Context, path: PathBuf, is_tar: bool, open_inner: OpenInner) -> Self {
        let findings = Findings::new(context.options.findings_max).told_to(&context.options.watcher);
        let context = Context { system: Arc::new(OnceLock::new()), delta_notes: Arc::default(), ..context };
        Self {
            context,
            open_inner,
            path,
            parser: if is_tar { Container::Tar(tar::Parser::new(), 0) } else { Container::Xbstream(Parser::new()) },
            open: HashMap::new(),
            ended: BTreeMap::new(),
            findings,
            skipped: Vec::new(),
            failed: Vec::new(),
            checkpoints: None,
            dead: false,
            damaged: false,
        }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        while !self.dead {
            match &mut self.parser {
                Container::Xbstream(parser) => match parser.next_event(&mut input) {
                    Ok(Some(event)) => self.event(event),
                    Ok(None) => return,
                    Err(error) => self.stop(&error),
                },
                Container::Tar(parser, _) => match parser.next_event(&mut input) {
                    Ok(Some(event)) => self.tar_event(event),
                    Ok(None) => return,
                    Err(error) => self.stop_tar(&error),
                },
            }
        }
    }

    /// A tar archive has one member open at a time.
    fn tar_event(&mut self, event: tar::Event<'_>) {
        let Container::Tar(_, number) = &mut self.parser else { return };
        match event {
            tar::Event::Member { path, is_sparse } => {
                let (id, name) = (MemberId(*number), path.strip_prefix(b"./").unwrap_or(&path));
                self.begin(id, name.into());
                if let Some(open) = self.open.get_mut(&id).filter(|_| is_sparse) {
                    let words = "a sparse file, whose holes tar left out: not examined (unpack it, or use tar without --sparse)";
                    open.stream.broken(Break::undecided(words.to_owned()));
                }
            }
            tar::Event::Data(bytes) => {
                let id = MemberId(*number);
                self.data(id, bytes);
            }
            tar::Event::Directory { .. } | tar::Event::Other { .. } => {}
            tar::Event::End => {
                let id = MemberId(*number);
                *number += 1;
                self.end(id);
            }
        }
    }

    fn stop_tar(&mut self, error: &tar::Error) {
        let (reason, position) = match *error {
            tar::Error::CutShort { position } => ("archive_cut", position),
            tar::Error::NoHeader { position } | tar::Error::TooLong { position, .. } => ("archive_damaged", position),
        };
        self.dead = true;
        let finding = self.about(reason, position, error.to_string());
        self.found(position, finding);
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Data { id, bytes, .. } => self.data(id, bytes),
            Event::Skip { id, len, .. } => {
                if let Some(open) = self.open.get_mut(&id) {
                    open.stream.skip(len);
                }
            }
            Event::Member { id, path, .. } => self.begin(id, path),
            Event::End { id, .. } => self.end(id),
            Event::Misplaced { id, position, expected, found } => self.misplaced(id, position, expected, found),
            Event::BadChunk { id, position, offset, len, stored, computed } => {
                let message = format!(
                    "the chunk at byte {position} of the archive ({}, {len} bytes from byte {offset} on) has the checksum {stored:08x}, but its content gives {computed:08x}",
                    self.name(id)
                );
                let finding = self.about("chunk_checksum", position, message);
                let (stored, computed) = (Some(u64::from(stored)), Some(u64::from(computed)));
                self.found(position, Finding { stored, computed, ..finding });
            }
            Event::Rename { from, to } => self.rename(&from, to),
            Event::Remove { path } => self.remove(&path),
        }
    }

    fn about(&self, reason: &'static str, position: u64, message: String) -> Finding {
        Finding { position: Some(position), ..about(&self.path, reason, Severity::Damage, message) }
    }

    fn found(&mut self, position: u64, finding: Finding) {
        self.damaged = true;
        self.findings.offer_at(0, position, finding);
    }

    fn name(&self, id: MemberId) -> String {
        self.open.get(&id).map_or_else(String::new, |open| text(&open.name))
    }

    fn begin(&mut self, id: MemberId, name: Box<[u8]>) {
        // A file sent again replaces the earlier copy.
        self.remove(&name);
        let path = PathBuf::from(text(&name));
        if is_checkpoints(&path) {
            self.checkpoints = Some(Vec::new());
        }
        let inner = InnerName { shown: self.shown(&name), own: path };
        let mut stream = (self.open_inner)(self.context.clone(), inner, Role::Member);
        if self.open.len() >= OPEN_MAX {
            stream.broken(Break::undecided("too many files are open in the archive at a time".to_owned()));
        }
        self.open.insert(id, Open { name, stream });
    }

    fn shown(&self, name: &[u8]) -> PathBuf {
        PathBuf::from(format!("{}: {}", shown(&self.path), text(name)))
    }

    fn data(&mut self, id: MemberId, bytes: &[u8]) {
        let Some(open) = self.open.get_mut(&id) else { return };
        if let Some(kept) = self.checkpoints.as_mut().filter(|_| is_checkpoints(Path::new(&text(&open.name)))) {
            let room = CHECKPOINTS_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        open.stream.take(bytes);
    }

    fn end(&mut self, id: MemberId) {
        let Some(Open { name, stream }) = self.open.remove(&id) else { return };
        let number = u32::try_from(id.0).unwrap_or(u32::MAX - 1);
        let unread = content::unread(Path::new(&text(&name)));
        let outcome = stream.finish();
        match unread {
            Some(why) if outcome.rows.is_empty() => {
                self.failed.push(Passed { path: self.shown(&name), why: why.to_owned() });
            }
            _ => self.skipped.extend(outcome.skipped),
        }
        self.failed.extend(outcome.failed);
        self.findings.merge(outcome.findings.renumbered(|_| number + 1));
        if !outcome.rows.is_empty() {
            self.ended.insert(number, Ended { name, rows: outcome.rows });
        }
    }

    fn misplaced(&mut self, id: MemberId, position: u64, expected: u64, found: u64) {
        let message = format!(
            "the chunk at byte {position} of the archive continues {} at byte {found} instead of byte {expected}: chunks are missing or out of order",
            self.name(id)
        );
        let finding = self.about("misplaced_chunk", position, message);
        self.found(position, finding);
        if let Some(open) = self.open.get_mut(&id) {
            let words = format!("a chunk is missing from the archive: bytes from {expected} on were not examined");
            open.stream.broken(Break::undecided(words));
        }
    }

    /// Gives up: nothing after this error can be read.
    fn stop(&mut self, error: &Error) {
        self.dead = true;
        let position = position_of(error);
        let reason = if matches!(error, Error::CutShort { .. }) { "archive_cut" } else { "archive_damaged" };
        let finding = self.about(reason, position, error.to_string());
        self.found(position, finding);
    }

    /// Renames every member of that name, open or finished.
    fn rename(&mut self, from: &[u8], to: Box<[u8]>) {
        self.remove(&to);
        for open in self.open.values_mut().filter(|open| *open.name == *from) {
            open.name.clone_from(&to);
        }
        for ended in self.ended.values_mut().filter(|ended| *ended.name == *from) {
            ended.name.clone_from(&to);
        }
    }

    /// A member that is removed or sent again is not in the backup, so drop its findings.
    fn remove(&mut self, name: &[u8]) {
        let gone: Vec<u32> =
            self.ended.iter().filter(|(_, ended)| *ended.name == *name).map(|(number, _)| *number).collect();
        for number in gone {
            self.ended.remove(&number);
            self.findings.forget(number + 1);
        }
    }

    /// The archive has ended, or no more of it will come.
    pub fn finish(mut self, len: u64, broken: Option<Break>) -> StreamOutcome {
        if !self.dead && broken.is_none() {
            self.check_end();
        }
        if let Some(why) = &broken {
            self.damaged = true;
            self.findings.offer_at(0, u64::MAX, why.finding(&self.path));
        }
        let mut left: Vec<MemberId> = self.open.keys().copied().collect();
        left.sort_unstable();
        for id in left {
            if let Some(open) = self.open.get_mut(&id) {
                let words = format!("the archive ends within it: {} bytes were examined", open.stream.len());
                open.stream.broken(Break::undecided(words));
            }
            self.end(id);
        }
        self.outcome(len, broken)
    }

    /// Checks that every member was finished and that the file that ends a backup is present.
    fn check_end(&mut self) {
        let parser = match &mut self.parser {
            Container::Xbstream(parser) => std::mem::take(parser),
            Container::Tar(parser, _) => {
                return match parser.finish() {
                    Ok(true) => {}
                    Ok(false) => {
                        let message = "the tar archive has no end mark: it may be cut between two members";
                        let finding = about(&self.path, "archive_cut", Severity::Undecided, message.to_owned());
                        self.findings.offer_at(0, u64::MAX, finding);
                    }
                    Err(error) => self.stop_tar(&error),
                };
            }
        };
        let unfinished = match parser.finish() {
            Ok(unfinished) => unfinished,
            Err(error) => return self.stop(&error),
        };
        let end = u64::MAX;
        for member in unfinished {
            let message =
                format!("the archive ends without the end of {}, after {} bytes of it", text(&member.path), member.len);
            let finding = about(&self.path, "archive_cut", Severity::Damage, message);
            self.found(end, finding);
        }
        if !self.damaged && self.checkpoints.is_none() && self.context.system.get().is_some() {
            let message = format!(
                "the archive holds a system tablespace, but neither xtrabackup_checkpoints nor {MANIFEST}, which backup tools write last: it \
                 may be cut"
            );
            let finding = about(&self.path, "archive_cut", Severity::Undecided, message);
            self.findings.offer_at(0, end, finding);
        }
    }

    /// The recovery still to be done on this backup.
    fn pending(&self) -> Option<&'static str> {
        match &self.checkpoints {
            Some(said) => said_to_be_unprepared(said).then_some(UNPREPARED),
            None => Some("the archive does not say whether this backup was prepared"),
        }
    }

    fn outcome(self, len: u64, broken: Option<Break>) -> StreamOutcome {
        let pending = self.pending();
        let archive = shown(&self.path);
        let mut order: Vec<(u32, Ended)> = self.ended.into_iter().collect();
        join_system(&mut order);
        let order = place_system(&self.context, order);
        let parts: Vec<u64> = order
            .iter()
            .flat_map(|(_, ended)| &ended.rows)
            .filter(|row| matches!(row.state.candidate.hint, NameHint::System(2..)))
            .map(|row| row.state.candidate.len)
            .collect();
        let mut outcome = StreamOutcome {
            rows: vec![own_row(self.path, len, broken)],
            findings: self.findings,
            skipped: self.skipped,
            failed: self.failed,
        };
        let mut places = HashMap::from([(0, (0, archive.clone()))]);
        for (number, Ended { name, rows }) in order {
            for mut row in rows {
                let path = format!("{archive}: {}", text(&name));
                row.state.candidate.path = PathBuf::from(&path);
                let is_first = row.state.candidate.hint == NameHint::System(1);
                let later_parts = if is_first { parts.clone() } else { Vec::new() };
                row.member = Some(Member { archive: archive.clone(), pending, later_parts });
                places.insert(number + 1, (outcome.rows.len() as u32, path));
                outcome.rows.push(row);
            }
        }
        outcome.findings = outcome.findings.moved(&places);
        outcome
    }
}

/// Moves the later files of the system tablespace right behind the first one: together they are one tablespace.
fn join_system(order: &mut [(u32, Ended)]) {
    let ordinal = |ended: &Ended| match ended.rows.first().map(|row| row.state.candidate.hint) {
        Some(NameHint::System(ordinal)) => Some(ordinal),
        _ => None,
    };
    let Some(first) = order.iter().find(|(_, ended)| ordinal(ended) == Some(1)).map(|(number, _)| *number) else {
        return;
    };
    order.sort_by_key(|(number, ended)| ordinal(ended).map_or((*number, 0), |ordinal| (first, ordinal)));
}

/// An all-zero part of the system tablespace has no page to say where it belongs: its place follows from the parts before it.
fn place_system(context: &Context, order: Vec<(u32, Ended)>) -> Vec<(u32, Ended)> {
    let Some(first) = context.system.get() else { return order };
    let mut pages = 0;
    let mut placed = |row: Examined| {
        let NameHint::System(_) = row.state.candidate.hint else { return row };
        let before = u32::try_from(pages).unwrap_or(u32::MAX);
        pages += first.part.pages_in(row.state.candidate.len);
        if row.zeros > 0 { place_zeros(context, row, before) } else { row }
    };
    let all = order.into_iter().map(|(number, Ended { name, rows })| {
        let rows = rows.into_iter().map(&mut placed).collect();
        (number, Ended { name, rows })
    });
    all.collect()
}

fn own_row(path: PathBuf, len: u64, broken: Option<Break>) -> Examined {
    let candidate =
        Candidate { path, home: None, len, hint: NameHint::Unknown, named: true, content: Content::Archive };
    let state = FileState::new(candidate, None);
    state.with_tally(|tally| {
        tally.counts = Counts { bytes: len, ..Counts::default() };
        tally.failure = broken.map(|why| why.words);
    });
    let log = Log { kind: FileKind::BackupArchive, unit: Unit::Members, family: None, algorithm: None, end: None };
    Examined { log: Some(log), is_cut: true, ..Examined::pages(state) }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn is_checkpoints(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| CHECKPOINTS.contains(&name))
}

/// `backup_type = full-backuped`; `full-prepared` once its log was applied. A backup of innokit is `complete` until then.
fn said_to_be_unprepared(checkpoints: &[u8]) -> bool {
    let said = String::from_utf8_lossy(checkpoints);
    let is_complete = said.lines().any(|line| line.trim() == "\"state\": \"complete\",");
    is_complete
        || said.lines().find_map(|line| line.strip_prefix("backup_type")).is_some_and(|kind| kind.contains("backuped"))
}

fn position_of(error: &Error) -> u64 {
    match *error {
        Error::NoMagic { position }
        | Error::UnknownType { position, .. }
        | Error::PathTooLong { position, .. }
        | Error::MapTooLong { position, .. }
        | Error::MapMismatch { position, .. }
        | Error::TooLarge { position }
        | Error::TooManyOpen { position }
        | Error::CutShort { position, .. } => position,
    }
}
