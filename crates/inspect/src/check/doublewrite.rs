//! Doublewrite files: copies of pages that a server keeps until the pages themselves are safe on the disk.
//!
//! A stale or torn copy is harmless: the server reads a copy only if the page itself is torn. So nothing here is damage; an unsound copy is
//! a notice.

use std::collections::HashMap;
use std::path::PathBuf;

use format::bytes::is_zero;
use format::checksum::crc32c;
use format::{Encryption, Family, PageId, PageNo, PageSize, Scheme, SpaceFormat, SpaceId, Verdict, verify_page};

use super::examined::{Examined, Log, StreamOutcome};
use super::file_state::{FileState, Known};
use super::judge::Judge;
use super::words::about;
use crate::report::document::{Counts, Finding, Unit};
use datadir::file_kind::FileKind;
use datadir::inventory::Candidate;
use datadir::severity::Severity;

/// Offsets of the page's own number and its space id in its header.
const PAGE_NO: usize = 4;
const SPACE_ID: usize = 34;

/// Block size of a `.bdblwr` file, which stores page numbers only. 8192 bytes: batch 4, checksum 4, data length 2, flush type 1, unused 9,
/// data. The checksum is the CRC-32C of the data.
const REDUCED_BLOCK: usize = 8192;
const REDUCED_CHECKSUM: usize = 4;
const REDUCED_LEN: usize = 8;
const REDUCED_DATA: usize = 20;
/// Tablespace 4, page 4, LSN 8.
const REDUCED_ENTRY: usize = 16;

/// A doublewrite file being read.
pub(super) struct DoublewriteCheck<'f> {
    candidate: Candidate,
    /// The tablespaces of the same datadir.
    spaces: HashMap<SpaceId, &'f Known>,
    judge: Judge,
    kind: SlotKind,
    /// A slot still incomplete.
    waiting: Vec<u8>,
    slot: u64,
    counts: Counts,
    outcome: StreamOutcome,
    stale: Stale,
}

/// Slots that hold no sound copy.
#[derive(Default)]
struct Stale {
    slots: u64,
    first: Option<u64>,
}

#[derive(Clone, Copy)]
enum SlotKind {
    /// Whole pages, of this size.
    Pages(PageSize),
    /// Numbers of pages.
    Reduced,
}

impl<'f> DoublewriteCheck<'f> {
    /// `None` if the file name does not give the slot size.
    pub fn new(candidate: &Candidate, files: &'f [FileState], findings_max: usize) -> Option<Self> {
        let name = candidate.path.file_name()?.to_str()?;
        let kind = match name.strip_suffix(".bdblwr") {
            Some(_) => SlotKind::Reduced,
            None => SlotKind::Pages(PageSize::new(name.strip_prefix("#ib_")?.split('_').next()?.parse().ok()?)?),
        };
        let dir = candidate.path.parent()?;
        let below = files.iter().filter(|file| file.candidate.path.starts_with(dir));
        let known = below.filter_map(|file| file.head.get()?.as_ref().ok());
        Some(Self {
            candidate: candidate.clone(),
            spaces: known.map(|known| (known.part.format.space(), known)).collect(),
            judge: Judge::new(false),
            kind,
            waiting: Vec::new(),
            slot: 0,
            counts: Counts::default(),
            outcome: StreamOutcome::new(findings_max),
            stale: Stale::default(),
        })
    }

    fn slot_len(&self) -> usize {
        match self.kind {
            SlotKind::Pages(size) => size.bytes(),
            SlotKind::Reduced => REDUCED_BLOCK,
        }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, mut bytes: &[u8]) {
        let len = self.slot_len();
        self.counts.bytes += bytes.len() as u64;
        if !self.waiting.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(len - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            bytes = rest;
            if self.waiting.len() < len {
                return;
            }
            let whole = std::mem::take(&mut self.waiting);
            self.slot(&whole);
        }
        let slots = bytes.chunks_exact(len);
        self.waiting.extend_from_slice(slots.remainder());
        for slot in slots {
            self.slot(slot);
        }
    }

    fn slot(&mut self, slot: &[u8]) {
        self.counts.pages += 1;
        match self.verdict(slot) {
            Some(true) => self.counts.ok += 1,
            None => self.counts.empty += 1,
            Some(false) => {
                self.counts.unverifiable += 1;
                self.stale.slots += 1;
                self.stale.first.get_or_insert(self.slot * slot.len() as u64);
            }
        }
        self.slot += 1;
    }

    /// Whether a slot is sound; `None` if it was never used.
    fn verdict(&mut self, slot: &[u8]) -> Option<bool> {
        if is_zero(slot) {
            return None;
        }
        Some(match self.kind {
            SlotKind::Reduced => reduced_is_sound(slot),
            SlotKind::Pages(size) => self.page_is_sound(slot, size).unwrap_or(false),
        })
    }

    /// Judges the page by the format of the tablespace it names, or else by every format that fits.
    fn page_is_sound(&mut self, slot: &[u8], size: PageSize) -> Option<bool> {
        let id = PageId { space: SpaceId(u32_at(slot, SPACE_ID)?), page_no: PageNo(u32_at(slot, PAGE_NO)?) };
        if let Some(known) = self.spaces.get(&id.space) {
            // A compressed page is smaller than its slot: the bytes after it are left over from earlier copies.
            let page = slot.get(..known.part.format.physical().bytes())?;
            return Some(sound(&self.judge.verdict(page, id, known)));
        }
        let whole = std::iter::once((Scheme::Classic, size));
        let compressed = PageSize::ALL.into_iter().filter(|zip| *zip <= size).map(|zip| (Scheme::Zip, zip));
        let mut formats = whole
            .chain(compressed)
            .filter_map(|(scheme, physical)| SpaceFormat::new(Family::MySql, scheme, size, physical, id.space))
            .flat_map(|format| [format, format.with_encryption(Encryption::MySql)]);
        Some(formats.any(|format| {
            let page = slot.get(..format.physical().bytes());
            page.is_some_and(|page| sound(&verify_page(page, id, &format)))
        }))
    }

    /// The end of the file.
    pub fn finish(mut self) -> StreamOutcome {
        let path: PathBuf = self.candidate.path.clone();
        if let Some(position) = self.stale.first {
            let message = format!(
                "{} of {} slots hold no sound copy of a page, the first at byte {position}: stale or torn, which does no harm",
                self.stale.slots, self.counts.pages
            );
            let finding = about(&path, "doublewrite_slot", Severity::Notice, message);
            self.outcome.findings.offer_at(0, position, Finding { position: Some(position), ..finding });
        }
        if !self.waiting.is_empty() {
            let message = format!("{} bytes follow the last whole slot: the server ignores them", self.waiting.len());
            self.outcome.findings.offer_at(0, u64::MAX, about(&path, "partial_slot", Severity::Notice, message));
        }
        let state = FileState::new(self.candidate, None);
        state.with_tally(|tally| tally.counts = self.counts);
        let log =
            Log { kind: FileKind::Doublewrite, unit: Unit::Slots, family: Some("MySQL"), algorithm: None, end: None };
        self.outcome.rows.push(Examined { log: Some(log), ..Examined::pages(state) });
        self.outcome
    }
}

/// A page that only a missing key keeps us from verifying counts as sound.
fn sound(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Ok(_) | Verdict::Unverifiable(_))
}

fn reduced_is_sound(block: &[u8]) -> bool {
    let len = block
        .get(REDUCED_LEN..REDUCED_LEN + 2)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |bytes| u16::from_be_bytes(*bytes));
    let len = usize::from(len);
    let data =
        block.get(REDUCED_DATA..REDUCED_DATA + len).filter(|data| !data.is_empty() && data.len() % REDUCED_ENTRY == 0);
    data.is_some_and(|data| u32_at(block, REDUCED_CHECKSUM) == Some(crc32c(data)))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}
