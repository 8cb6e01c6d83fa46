//! A tablespace whose bytes come one after the other: cut into pieces like those of a file, and judged by the same desk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flow::{FileId, Piece};

use super::examined::{Context, Examined, StreamOutcome};
use super::file_state::{FileState, Known};
use super::usage::UsageMap;
use super::worker::CheckWorker;
use crate::source::datadir::Candidate;
use crate::source::name::NameHint;
use crate::source::space::{self, SpacePart};

/// Pieces are multiples of the largest page.
const PIECE_ALIGN: usize = space::HEAD;
/// How many tablespaces with damaged first pages may wait for 4 MiB of their pages at a time.
const LONG_HEADS_MAX: u32 = 8;

/// A tablespace while it passes.
pub(super) struct PagesCheck {
    context: Context,
    state: FileState,
    outcome: StreamOutcome,
    /// Bytes that wait for the rest of their piece.
    waiting: Vec<u8>,
    /// How many are wanted before the first piece goes to the desk.
    first_piece: usize,
    /// Of the next byte to be judged.
    offset: u64,
    /// A later part of the system tablespace has no header: the zeros it began with, before its place was known.
    zeros: u64,
}

impl PagesCheck {
    pub fn new(context: Context, candidate: Candidate) -> Self {
        let outcome = StreamOutcome::new(context.options.findings_max);
        let state = FileState::new(candidate, None);
        Self { context, state, outcome, waiting: Vec::new(), first_piece: PIECE_ALIGN, offset: 0, zeros: 0 }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while self.offset == 0 || !self.waiting.is_empty() {
            let want = if self.offset == 0 { self.first_piece } else { PIECE_ALIGN };
            let (now, rest) = bytes.split_at(bytes.len().min(want - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            bytes = rest;
            if self.waiting.len() < want {
                return;
            }
            if !self.needs_longer_head() {
                self.waited();
            }
        }
        let whole = bytes.len() - bytes.len() % PIECE_ALIGN;
        let (whole, rest) = bytes.split_at(whole);
        self.judge(whole);
        self.waiting.extend_from_slice(rest);
    }

    /// Without a sound page 0 the pages behind it must tell the format: the more of them the better, and as many as of a file, unless
    /// too many tablespaces ask for it at a time.
    fn needs_longer_head(&mut self) -> bool {
        let is_short = self.offset == 0 && self.first_piece == PIECE_ALIGN;
        if !is_short || self.is_later_part() {
            return false;
        }
        if space::by_page0(&self.waiting, self.context.options.page_size).is_some() {
            return false;
        }
        let has_room = |now: u32| (now < LONG_HEADS_MAX).then_some(now + 1);
        if self.context.long_heads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).is_err() {
            return false;
        }
        self.first_piece = space::LONG_HEAD;
        true
    }

    /// Judges what has waited.
    fn waited(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if self.offset > 0 || self.is_placed(&waiting) {
            self.judge(&waiting);
        }
        if std::mem::replace(&mut self.first_piece, PIECE_ALIGN) > PIECE_ALIGN {
            self.context.long_heads.fetch_sub(1, Ordering::Relaxed);
        }
        // The memory of a long head is given back; that of a piece is needed again.
        if waiting.capacity() <= 2 * PIECE_ALIGN {
            waiting.clear();
            self.waiting = waiting;
        }
    }

    /// Whether the file should continue the system tablespace.
    fn is_later_part(&self) -> bool {
        matches!(self.state.candidate.hint, NameHint::System(2..))
    }

    /// Whether the file's place in its tablespace is settled: at once, but for later files of the system tablespace. Their pages say
    /// where they go on, so that zero pages wait for the first page that is not.
    fn is_placed(&mut self, head: &[u8]) -> bool {
        if !self.is_later_part() {
            return true;
        }
        if head.iter().all(|byte| *byte == 0) {
            self.zeros += head.len() as u64;
            return false;
        }
        if let Some(known) = self.known_by_pages(head) {
            self.state.head.get_or_init(|| Ok(known));
        }
        self.judge_zeros();
        true
    }

    /// What `head`, the first bytes that are not zero, tell of the file.
    fn known_by_pages(&self, head: &[u8]) -> Option<Known> {
        let before = |part: &SpacePart| u32::try_from(part.pages_in(self.zeros)).unwrap_or(u32::MAX);
        if let Some(first) = self.context.system.get() {
            let part = space::by_pages(head, self.context.options.page_size, Some((&first.part, 0))).ok()?;
            let first_page = part.first_page.checked_sub(before(&part)).filter(|page| *page > 0)?;
            // The first file says which pages of this one are in use.
            return Some(Known { part: SpacePart { first_page, ..part }, ..first.clone() });
        }
        let probe = FileState::new(self.state.candidate.clone(), None);
        let mut desk = CheckWorker::new(std::slice::from_ref(&probe), &self.context.keys, &self.context.options);
        let asked = u32::try_from(head.len()).unwrap_or(u32::MAX);
        desk.piece(&Piece { file: FileId(0), offset: 0, bytes: head, asked, gaps: &[], last: true });
        let known = probe.head.into_inner()?.ok()?;
        let usage = Arc::new(UsageMap::new(known.part.format, None));
        let first_page = known.part.first_page.saturating_sub(before(&known.part));
        Some(Known { part: SpacePart { first_page, ..known.part }, usage, ..known })
    }

    fn judge_zeros(&mut self) {
        const ZEROS: &[u8; PIECE_ALIGN] = &[0; PIECE_ALIGN];
        let mut left = std::mem::take(&mut self.zeros);
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(PIECE_ALIGN).min(PIECE_ALIGN);
            self.judge(ZEROS.get(..now).unwrap_or(ZEROS));
            left -= now as u64;
        }
    }

    fn judge(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let files = std::slice::from_ref(&self.state);
        let mut desk = CheckWorker::new(files, &self.context.keys, &self.context.options);
        let asked = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        desk.piece(&Piece { file: FileId(0), offset: self.offset, bytes, asked, gaps: &[], last: true });
        self.outcome.findings.merge(desk.findings);
        if self.offset == 0 && self.state.candidate.hint == NameHint::System(1) {
            self.share_system();
        }
        self.offset += bytes.len() as u64;
    }

    fn share_system(&self) {
        if let Some(Ok(known)) = self.state.head.get() {
            // One archive has one system tablespace; a second one continues nobody.
            self.context.system.get_or_init(|| known.clone());
        }
    }

    /// The end of the file, or of what there is of it.
    pub fn finish(mut self) -> StreamOutcome {
        self.waited();
        let len = self.offset + self.zeros;
        self.state.candidate.len = len;
        if len == 0 {
            self.state.head.get_or_init(|| Err("the file is empty".to_owned()));
        }
        self.outcome.rows.push(Examined { zeros: self.zeros, ..Examined::pages(self.state) });
        self.outcome
    }
}

/// Judges a part of the system tablespace that is nothing but zeros, now that its place is known: behind `before` pages.
pub(super) fn place_zeros(context: &Context, row: Examined, before: u32) -> Examined {
    let Some(first) = context.system.get() else { return row };
    let known = Known { part: SpacePart { first_page: before, ..first.part.clone() }, ..first.clone() };
    row.state.head.get_or_init(|| Ok(known));
    let mut check = PagesCheck::new(context.clone(), row.state.candidate.clone());
    check.zeros = row.zeros;
    check.state = row.state;
    check.judge_zeros();
    Examined { state: check.state, zeros: 0, ..row }
}
