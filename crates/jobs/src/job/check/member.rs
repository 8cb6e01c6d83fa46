//! A tablespace whose bytes come one after the other: cut into pieces like those of a file, and judged by the same desk.

use flow::{FileId, Piece};

use super::desk::{Desk, FileState, Known};
use super::stream::{Context, Examined, Outcome};
use crate::source::datadir::Candidate;
use crate::source::name::NameHint;
use crate::source::space;

/// Pieces are multiples of the largest page.
const PIECE_ALIGN: usize = space::HEAD;

/// A tablespace while it passes.
pub(super) struct PagesCheck {
    context: Context,
    state: FileState,
    outcome: Outcome,
    /// Bytes that wait for the rest of their piece.
    waiting: Vec<u8>,
    /// So many are wanted before the first piece goes to the desk.
    first_piece: usize,
    /// Of the next byte to be judged.
    offset: u64,
}

impl PagesCheck {
    pub fn new(context: Context, candidate: Candidate) -> Self {
        let outcome = Outcome::new(context.options.findings_max);
        let state = FileState::new(candidate, None);
        Self { context, state, outcome, waiting: Vec::new(), first_piece: PIECE_ALIGN, offset: 0 }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, mut bytes: &[u8]) {
        if self.offset == 0 || !self.waiting.is_empty() {
            let want = if self.offset == 0 { self.first_piece } else { PIECE_ALIGN };
            let (now, rest) = bytes.split_at(bytes.len().min(want - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            bytes = rest;
            if self.waiting.len() < want {
                return;
            }
            if self.needs_longer_head() {
                return self.take(bytes);
            }
            self.waited();
        }
        let whole = bytes.len() - bytes.len() % PIECE_ALIGN;
        let (whole, rest) = bytes.split_at(whole);
        self.judge(whole);
        self.waiting.extend_from_slice(rest);
    }

    /// Without a sound page 0 the pages behind it must tell the format: the more of them the better, and as many as of a file.
    fn needs_longer_head(&mut self) -> bool {
        let short = self.offset == 0 && self.first_piece == PIECE_ALIGN;
        if !short || space::by_page0(&self.waiting, self.context.options.page_size).is_some() {
            return false;
        }
        self.first_piece = space::LONG_HEAD;
        true
    }

    /// Judges what has waited.
    fn waited(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if self.offset == 0 {
            self.continue_system(&waiting);
        }
        self.judge(&waiting);
        // The memory of a long head is given back; that of a piece is needed again.
        if waiting.capacity() <= 2 * PIECE_ALIGN {
            waiting.clear();
            self.waiting = waiting;
        }
    }

    fn judge(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let files = std::slice::from_ref(&self.state);
        let mut desk = Desk::new(files, &self.context.keys, &self.context.options);
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

    /// A later file of the system tablespace has no header: its pages say where it goes on, the first file says the rest.
    fn continue_system(&self, head: &[u8]) {
        let NameHint::System(2..) = self.state.candidate.hint else { return };
        let Some(first) = self.context.system.get() else { return };
        if let Ok(part) = space::by_pages(head, self.context.options.page_size, Some((&first.part, 0)))
            && part.first_page > 0
        {
            self.state.head.get_or_init(|| Ok(Known { part, ..first.clone() }));
        }
    }

    /// The end of the file, or of what there is of it.
    pub fn finish(mut self) -> Outcome {
        self.waited();
        self.state.candidate.len = self.offset;
        if self.offset == 0 {
            self.state.head.get_or_init(|| Err("the file is empty".to_owned()));
        }
        self.outcome.rows.push(Examined::pages(self.state));
        self.outcome
    }
}
