//! A file that comes as bytes one after the other, with or without a name: its first bytes say what it is, and who takes the rest.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use format::keyring::KeyStore;

use super::CheckOptions;
use super::archive::Archive;
use super::binlog::BinlogCheck;
use super::desk::{FileState, Known};
use super::findings::Findings;
use super::member::PagesCheck;
use super::packed::Unpacking;
use super::redo::RedoStream;
use super::words::about;
use crate::out::report::{Finding, Severity, Unit};
use crate::source::content::{self, Content, HEAD};
use crate::source::datadir::{Candidate, Passed};
use crate::source::name::NameHint;

/// What all that is read in order shares.
#[derive(Clone)]
pub(super) struct Context {
    pub options: Arc<CheckOptions>,
    pub keys: Arc<KeyStore>,
    /// The first file of the system tablespace of the archive at hand, once it is known: later files continue it.
    pub system: Arc<OnceLock<Known>>,
    /// Tablespaces that wait for a long head at this moment.
    pub long_heads: Arc<AtomicU32>,
}

impl Context {
    pub fn new(options: CheckOptions, keys: KeyStore) -> Self {
        // Nothing that comes as a stream can be read again.
        let options = CheckOptions { live: false, ..options };
        Self { options: Arc::new(options), keys: Arc::new(keys), system: Arc::default(), long_heads: Arc::default() }
    }
}

/// What became of what was read in order.
pub(super) struct Outcome {
    /// One row of the report for each file: one, but for archives, which have one of their own and then one for each member.
    pub rows: Vec<Examined>,
    /// The findings; their file is the index of a row.
    pub findings: Findings,
    pub skipped: Vec<Passed>,
    pub failed: Vec<Passed>,
}

impl Outcome {
    pub fn new(findings_max: usize) -> Self {
        Self { rows: Vec::new(), findings: Findings::new(findings_max), skipped: Vec::new(), failed: Vec::new() }
    }
}

/// One row of the report before it is settled.
pub(super) struct Examined {
    pub state: FileState,
    /// Set where the file is no tablespace.
    pub log: Option<Log>,
    /// The bytes ended early, and a finding says so: what depends on the file's length is not to be judged.
    pub is_cut: bool,
    /// So many bytes, all zeros, are a later part of the system tablespace that nothing but its place tells.
    pub zeros: u64,
    pub member: Option<Member>,
}

impl Examined {
    pub fn pages(state: FileState) -> Self {
        Self { state, log: None, is_cut: false, zeros: 0, member: None }
    }
}

/// What a file other than a tablespace is.
pub(super) struct Log {
    pub kind: &'static str,
    /// What its counts count.
    pub unit: Unit,
    pub family: Option<&'static str>,
    pub algorithm: Option<&'static str>,
}

/// Where a member of an archive comes from.
pub(super) struct Member {
    /// The archive's path.
    pub archive: String,
    /// The work that recovery has still to do on it.
    pub pending: Option<&'static str>,
    /// Bytes of the later files of the system tablespace, for its first file.
    pub later_parts: Vec<u64>,
}

/// Why no more bytes of a file come.
pub(super) struct Break {
    pub reason: &'static str,
    pub severity: Severity,
    pub words: String,
    /// Where, in the bytes that came from the outside.
    pub position: Option<u64>,
}

impl Break {
    pub fn undecided(words: String) -> Self {
        Self { reason: "unreadable_file", severity: Severity::Undecided, words, position: None }
    }

    pub fn finding(&self, path: &Path) -> Finding {
        Finding { position: self.position, ..about(path, self.reason, self.severity, self.words.clone()) }
    }
}

/// A file on its way through.
pub(super) struct Stream {
    context: Context,
    path: PathBuf,
    hint: NameHint,
    role: Role,
    len: u64,
    state: State,
    broken: Option<Break>,
}

/// How a stream was met, which decides what is looked for in it and what it means to find nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The user named it, or it is standard input: anything may be in it, and nothing is worth saying.
    Named,
    /// A member of an archive: it may be packed, but is no archive.
    Member,
    /// What was packed in a file that the user named.
    Unpacked,
    /// What was packed in a member of an archive.
    UnpackedMember,
}

impl Role {
    fn unpacked(self) -> Option<Self> {
        match self {
            Self::Named => Some(Self::Unpacked),
            Self::Member => Some(Self::UnpackedMember),
            Self::Unpacked | Self::UnpackedMember => None,
        }
    }

    fn is_member(self) -> bool {
        matches!(self, Self::Member | Self::UnpackedMember)
    }
}

enum State {
    /// Bytes that are kept until there are enough to tell.
    Head(Vec<u8>),
    Pages(Box<PagesCheck>),
    Binlog(Box<BinlogCheck>),
    Redo(Box<RedoStream>),
    Archive(Box<Archive>),
    Packed(Unpacking),
    /// Not to be looked at, and why.
    Passed(&'static str),
}

impl Stream {
    /// `path` as the report shows it; `hint` from the name, without what packing appended to it.
    pub fn new(context: Context, path: PathBuf, hint: NameHint, role: Role) -> Self {
        Self { context, path, hint, role, len: 0, state: State::Head(Vec::new()), broken: None }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        self.len += bytes.len() as u64;
        let State::Head(head) = &mut self.state else { return self.pass_on(bytes) };
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD - head.len()));
        head.extend_from_slice(first);
        if head.len() == HEAD {
            self.decide();
            self.pass_on(rest);
        }
    }

    /// The next `len` bytes are zeros.
    pub fn skip(&mut self, mut len: u64) {
        const ZEROS: &[u8; HEAD] = &[0; HEAD];
        while len > 0 && self.broken.is_none() && !matches!(self.state, State::Passed(_)) {
            let now = usize::try_from(len).unwrap_or(HEAD).min(HEAD);
            self.take(ZEROS.get(..now).unwrap_or(ZEROS));
            len -= now as u64;
        }
    }

    /// No more bytes come, and not because it was all.
    pub fn broken(&mut self, why: Break) {
        if let State::Packed(unpacking) = &mut self.state {
            return unpacking.broken(why);
        }
        self.broken.get_or_insert(why);
    }

    /// Bytes that came so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    fn pass_on(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Pages(pages) => pages.take(bytes),
            State::Binlog(binlog) => binlog.take(bytes),
            State::Redo(redo) => redo.take(bytes),
            State::Archive(archive) => archive.take(bytes),
            State::Packed(unpacking) => unpacking.take(bytes),
            State::Head(_) | State::Passed(_) => {}
        }
    }

    /// Enough of it is here, or all: says what it is.
    fn decide(&mut self) {
        let State::Head(head) = std::mem::replace(&mut self.state, State::Passed("")) else { return };
        self.state = self.state_for(&head);
        self.pass_on(&head);
    }

    fn state_for(&self, head: &[u8]) -> State {
        let pages = || State::Pages(Box::new(PagesCheck::new(self.context.clone(), self.candidate())));
        if self.hint.promises_pages() {
            return pages();
        }
        if self.hint == NameHint::Redo
            && let Some(redo) = RedoStream::new(&self.path, head, self.context.options.findings_max)
        {
            return State::Redo(Box::new(redo));
        }
        match content::recognise(head) {
            Some(Content::Pages) => pages(),
            Some(Content::Binlog) => {
                let (findings_max, keys) = (self.context.options.findings_max, Arc::clone(&self.context.keys));
                State::Binlog(Box::new(BinlogCheck::new(&self.path, findings_max, keys)))
            }
            Some(Content::Archive) if !self.role.is_member() => {
                State::Archive(Box::new(Archive::new(self.context.clone(), self.path.clone())))
            }
            Some(Content::Packed(packing)) => match self.role.unpacked() {
                Some(role) => {
                    let hint = content::packed_name(&self.path).map_or(self.hint, |(inner, _)| NameHint::of(inner));
                    let inner = Self::new(self.context.clone(), self.path.clone(), hint, role);
                    State::Packed(Unpacking::start(packing, inner))
                }
                None => State::Passed("compressed more than once"),
            },
            _ if self.hint == NameHint::Redo => State::Passed("a redo log, which cannot be verified in a stream"),
            // Whoever named it wants to hear that it is no tablespace.
            _ if !self.role.is_member() => pages(),
            _ => State::Passed("not an InnoDB tablespace"),
        }
    }

    fn candidate(&self) -> Candidate {
        let named = !self.role.is_member();
        Candidate { path: self.path.clone(), len: 0, hint: self.hint, named, content: Content::Pages }
    }

    /// The end.
    pub fn finish(mut self) -> Outcome {
        if matches!(self.state, State::Head(_)) {
            self.decide();
        }
        let candidate = self.candidate();
        let mut outcome = match self.state {
            State::Pages(pages) => pages.finish(),
            State::Binlog(binlog) => binlog.finish(self.broken.is_some()),
            State::Redo(redo) => redo.finish(candidate, self.broken.is_some()),
            State::Archive(archive) => return archive.finish(self.len, self.broken),
            State::Packed(unpacking) => return unpacking.finish(&self.path),
            State::Head(_) => Outcome::new(0),
            State::Passed(why) => {
                let mut outcome = Outcome::new(0);
                outcome.skipped.push(Passed { path: self.path.clone(), why: why.to_owned() });
                return outcome;
            }
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
