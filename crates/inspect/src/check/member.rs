//! A tablespace that arrives as a stream: cut into pieces like a file and judged by the same `CheckWorker`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flow::{FileId, Piece};

use super::examined::{Context, Examined, StreamOutcome};
use super::file_state::{FileState, Known};
use super::usage::UsageMap;
use super::worker::CheckWorker;
use datadir::inventory::Candidate;
use datadir::name::NameHint;
use datadir::space::{self, SpacePart};

/// Pieces are multiples of the largest page.
const PIECE_ALIGN: usize = space::HEAD;
/// Tablespaces with a damaged page 0 that may buffer 4 MiB at the same time.
const LONG_HEADS_MAX: u32 = 8;

/// A tablespace being read.
pub(super) struct PagesCheck {
    context: Context,
    state: FileState,
    outcome: StreamOutcome,
    /// Bytes waiting for the rest of their piece.
    waiting: Vec<u8>,
    /// Bytes to collect before the first piece is judged.
    first_piece: usize,
    /// Offset of the next byte to judge.
    offset: u64,
    /// Length of the leading zeros of a later system tablespace file, until its place is known.
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

    /// If page 0 is unsound, the pages after it must reveal the format, and more of them give a better answer. Wait for as many as for a
    /// file, unless too many tablespaces are waiting already.
    fn needs_longer_head(&mut self) -> bool {
        let is_short = self.offset == 0 && self.first_piece == PIECE_ALIGN;
        if !is_short || self.is_later_part() {
            return false;
        }
        if space::by_page0(&self.waiting, self.context.options.page_size).is_some() {
            return false;
        }
        let has_room = |now: u32| (now < LONG_HEADS_MAX).then_some(now + 1);
        // Relaxed, here and where it is given back: a count of permits, which guards no other memory.
        if self.context.long_heads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).is_err() {
            return false;
        }
        self.first_piece = space::LONG_HEAD;
        true
    }

    /// Judges the buffered bytes.
    fn waited(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if self.offset > 0 || self.is_placed(&waiting) {
            self.judge(&waiting);
        }
        if std::mem::replace(&mut self.first_piece, PIECE_ALIGN) > PIECE_ALIGN {
            // Relaxed: see above.
            self.context.long_heads.fetch_sub(1, Ordering::Relaxed);
        }
        // Free the memory of a long head; a piece's buffer is used again.
        if waiting.capacity() <= 2 * PIECE_ALIGN {
            waiting.clear();
            self.waiting = waiting;
        }
    }

    /// Whether the name makes it a continuation of the system tablespace.
    fn is_later_part(&self) -> bool {
        matches!(self.state.candidate.hint, NameHint::System(2..))
    }

    /// Whether the file's place in its tablespace is known. Only later system tablespace files must find theirs: their pages tell it, so
    /// leading zero pages wait for the first page with data.
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

    /// Derives the format from `head`, the first bytes that are not zero.
    fn known_by_pages(&self, head: &[u8]) -> Option<Known> {
        let before = |part: &SpacePart| u32::try_from(part.pages_in(self.zeros)).unwrap_or(u32::MAX);
        if let Some(first) = self.context.system.get() {
            let part = space::by_pages(head, self.context.options.page_size, Some((&first.part, 0))).ok()?;
            let first_page = part.first_page.checked_sub(before(&part)).filter(|page| *page > 0)?;
            // Page usage is recorded in the first file.
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
            // An archive has one system tablespace; a second one is not continued by any file.
            self.context.system.get_or_init(|| known.clone());
        }
    }

    /// The file has ended, or no more of it will come.
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

/// Judges an all-zero part of the system tablespace, now known to start after `before` pages.
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
