//! A file that arrives as a stream, with or without a name: its first bytes decide what it is and who checks the rest.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};

use logs::delta::Meta;

use super::archive::Archive;
use super::binlog::BinlogCheck;
use super::delta::DeltaCheck;
use super::examined::{Break, Context, Role, StreamOutcome};
use super::inner::{Inner, InnerName};
use super::innodb_binlog::InnodbBinlogCheck;
use super::member::PagesCheck;
use super::packed::Unpacking;
use super::redo::RedoStream;
use datadir::content::{self, Content, HEAD};
use datadir::inventory::{Candidate, Passed};
use datadir::name::NameHint;

/// Why most other members are skipped.
const NO_TABLESPACE: &str = "not an InnoDB tablespace";

/// Holes are examined as the zeros that they read as, but their bytes are not in the archive: a hundred bytes of a stream may make 8 TiB of
/// them. Tools leave out pages that were never used and the ends of compressed ones.
const SKIPPED_MAX: u64 = 64 << 30;

/// A file being read.
pub(super) struct Stream {
    context: Context,
    /// What the report shows.
    path: PathBuf,
    /// Its own name, without the suffix of its compression.
    name: PathBuf,
    hint: NameHint,
    role: Role,
    len: u64,
    /// Bytes of holes.
    skipped: u64,
    state: StreamState,
    broken: Option<Break>,
}

enum StreamState {
    /// Bytes held back until there are enough to tell.
    Head(Vec<u8>),
    Pages(Box<PagesCheck>),
    Binlog(Box<BinlogCheck>),
    InnodbBinlog(Box<InnodbBinlogCheck>),
    Redo(Box<RedoStream>),
    Delta(Box<DeltaCheck>),
    /// The note about a delta.
    DeltaNote(Vec<u8>),
    Archive(Box<Archive>),
    Packed(Unpacking),
    /// Skipped, with the reason.
    Passed(&'static str),
}

impl Stream {
    pub fn new(context: Context, name: InnerName, role: Role) -> Self {
        let (path, hint, state) = (name.shown, NameHint::of(&name.own), StreamState::Head(Vec::new()));
        Self { context, path, name: name.own, hint, role, len: 0, skipped: 0, state, broken: None }
    }

    /// Creates the check of a file inside an archive.
    fn boxed(context: Context, name: InnerName, role: Role) -> Box<dyn Inner> {
        Box::new(Self::new(context, name, role))
    }

    fn pass_on(&mut self, bytes: &[u8]) {
        match &mut self.state {
            StreamState::Pages(pages) => pages.take(bytes),
            StreamState::Binlog(binlog) => binlog.take(bytes),
            StreamState::InnodbBinlog(binlog) => binlog.take(bytes),
            StreamState::Redo(redo) => redo.take(bytes),
            StreamState::Delta(delta) => delta.take(bytes),
            StreamState::DeltaNote(note) => {
                let room = content::DELTA_NOTE_MAX.saturating_sub(note.len());
                note.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            }
            StreamState::Archive(archive) => archive.take(bytes),
            StreamState::Packed(unpacking) => unpacking.take(bytes),
            StreamState::Head(_) | StreamState::Passed(_) => {}
        }
    }

    /// Enough bytes are here, or all there are: decides what the file is.
    fn decide(&mut self) {
        let StreamState::Head(head) = std::mem::replace(&mut self.state, StreamState::Passed("")) else { return };
        self.state = self.state_for(&head);
        self.pass_on(&head);
    }

    fn state_for(&self, head: &[u8]) -> StreamState {
        let pages = || StreamState::Pages(Box::new(PagesCheck::new(self.context.clone(), self.candidate())));
        if self.hint.promises_pages() {
            return pages();
        }
        if let Some(of_increment) = self.of_increment() {
            return of_increment;
        }
        if self.hint == NameHint::Redo
            && let Some(redo) = RedoStream::new(&self.path, head, self.context.options.findings_max)
        {
            return StreamState::Redo(Box::new(redo));
        }
        match content::recognise(head) {
            Some(Content::Pages) => pages(),
            _ if self.hint == NameHint::InnodbBinlog => self.innodb_binlog(),
            Some(Content::InnodbBinlog) => self.innodb_binlog(),
            Some(Content::Binlog) => {
                let (findings_max, keys) = (self.context.options.findings_max, Arc::clone(&self.context.keys));
                StreamState::Binlog(Box::new(BinlogCheck::new(&self.path, findings_max, keys)))
            }
            Some(content @ (Content::Archive | Content::Tar)) if !self.role.is_member() => {
                let is_tar = content == Content::Tar;
                StreamState::Archive(Box::new(Archive::new(
                    self.context.clone(),
                    self.path.clone(),
                    is_tar,
                    Self::boxed,
                )))
            }
            Some(Content::Redo) => match RedoStream::new(&self.path, head, self.context.options.findings_max) {
                Some(redo) => StreamState::Redo(Box::new(redo)),
                None => StreamState::Passed("a redo log, which cannot be verified in a stream"),
            },
            Some(Content::Packed(packing)) => match self.role.unpacked() {
                Some(role) => {
                    let own =
                        content::packed_name(&self.name).map_or(self.name.as_path(), |(inner, _)| inner).to_path_buf();
                    let inner = Self::new(self.context.clone(), InnerName { shown: self.path.clone(), own }, role);
                    StreamState::Packed(Unpacking::start(packing, Box::new(inner)))
                }
                None => StreamState::Passed("compressed more than once"),
            },
            _ if self.hint == NameHint::Redo => StreamState::Passed("a redo log, which cannot be verified in a stream"),
            // The user named this file, so say that it is not a tablespace.
            _ if !self.role.is_member() => pages(),
            _ => StreamState::Passed(NO_TABLESPACE),
        }
    }

    fn innodb_binlog(&self) -> StreamState {
        StreamState::InnodbBinlog(Box::new(InnodbBinlogCheck::new(&self.path, self.context.options.findings_max)))
    }

    /// For a member with changed pages of an incremental backup, or the note about them, which the tools send before.
    fn of_increment(&self) -> Option<StreamState> {
        if !self.role.is_member() || content::packed_name(&self.name).is_some() {
            return None;
        }
        if content::is_delta_note(&self.name) {
            return Some(StreamState::DeltaNote(Vec::new()));
        }
        if !content::is_delta(&self.name) {
            return None;
        }
        let meta = self.delta_notes().get(&content::delta_note(&self.name)).copied();
        let findings_max = self.context.options.findings_max;
        let delta = meta.and_then(|meta| DeltaCheck::of(&self.candidate(), &self.name, meta, findings_max));
        delta.map(|delta| StreamState::Delta(Box::new(delta)))
    }

    fn delta_notes(&self) -> MutexGuard<'_, HashMap<PathBuf, Meta>> {
        self.context.delta_notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn passed(&self, why: &str) -> StreamOutcome {
        let mut outcome = StreamOutcome::new(0);
        let passed = Passed { path: self.path.clone(), why: why.to_owned() };
        // Asked for but not done is a failure, not a skip.
        let list = if self.role.is_member() { &mut outcome.skipped } else { &mut outcome.failed };
        list.push(passed);
        outcome
    }

    fn candidate(&self) -> Candidate {
        let named = !self.role.is_member();
        Candidate { path: self.path.clone(), home: None, len: 0, hint: self.hint, named, content: Content::Pages }
    }
}

impl Inner for Stream {
    fn take(&mut self, bytes: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        self.len += bytes.len() as u64;
        let StreamState::Head(head) = &mut self.state else { return self.pass_on(bytes) };
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD - head.len()));
        head.extend_from_slice(first);
        if head.len() == HEAD {
            self.decide();
            self.pass_on(rest);
        }
    }

    fn skip(&mut self, mut len: u64) {
        const ZEROS: &[u8; HEAD] = &[0; HEAD];
        self.skipped = self.skipped.saturating_add(len);
        if self.skipped > SKIPPED_MAX {
            let words = format!("a file with holes of {} bytes, which were not examined: unpack it", self.skipped);
            return self.broken(Break::undecided(words));
        }
        while len > 0 && self.broken.is_none() && !matches!(self.state, StreamState::Passed(_)) {
            let now = usize::try_from(len).unwrap_or(HEAD).min(HEAD);
            self.take(ZEROS.get(..now).unwrap_or(ZEROS));
            len -= now as u64;
        }
    }

    fn broken(&mut self, why: Break) {
        if let StreamState::Packed(unpacking) = &mut self.state {
            return unpacking.broken(why);
        }
        self.broken.get_or_insert(why);
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn finish(mut self: Box<Self>) -> StreamOutcome {
        if matches!(self.state, StreamState::Head(_)) {
            self.decide();
        }
        let candidate = self.candidate();
        let state = std::mem::replace(&mut self.state, StreamState::Passed(""));
        let mut outcome = match state {
            StreamState::Pages(pages) => pages.finish(),
            StreamState::Binlog(binlog) => binlog.finish(self.broken.is_some()),
            StreamState::InnodbBinlog(binlog) => binlog.finish(self.broken.is_some()),
            StreamState::Redo(redo) => redo.finish(candidate, self.broken.is_some()),
            StreamState::Delta(delta) => delta.finish(self.broken.is_none()),
            StreamState::DeltaNote(note) => {
                if let Some(meta) = Meta::parse(&note).filter(|_| self.broken.is_none()) {
                    self.delta_notes().insert(self.name.clone(), meta);
                }
                return self.passed(NO_TABLESPACE);
            }
            StreamState::Archive(archive) => return archive.finish(self.len, self.broken),
            StreamState::Packed(unpacking) => return unpacking.finish(&self.path),
            StreamState::Head(_) => StreamOutcome::new(0),
            StreamState::Passed(why) => return self.passed(why),
        };
        if let (Some(why), Some(row)) = (self.broken, outcome.rows.first_mut()) {
            let finding = why.finding(&self.path);
            outcome.findings.offer_at(0, u64::MAX, finding);
            row.is_cut = true;
            row.state.with_tally(|tally| tally.failure = Some(why.words));
        }
        outcome
    }
}
