//! From chunk to chunk, across pages.

use format::bytes::{is_zero, le};

use super::records::{KEPT_MAX, Records};
use super::{Corruption, Kind, Verdict};

/// Flags of a chunk's type: `FSP_BINLOG_FLAG_CONT` and `FSP_BINLOG_FLAG_LAST`.
const CONTINUES: u8 = 0x80;
const LAST: u8 = 0x40;
/// Bytes before a chunk's content.
const HEAD: usize = 3;
/// Less than this is not used at the end of a page: `page_remain < 4`.
const SMALLEST: usize = HEAD + 1;
/// What stands there: `FSP_BINLOG_TYPE_FILLER`.
const FILLER: u8 = 0xff;

/// A record that has begun.
#[derive(Debug)]
struct Open {
    kind: Kind,
    page: u32,
    /// Its offset in the file.
    offset: u64,
    content: Vec<u8>,
    /// Its beginning is in the file before, or on a damaged page: its content is not looked at.
    is_partial: bool,
}

/// One chunk of a page.
#[derive(Clone, Copy)]
struct Chunk<'p> {
    kind: Kind,
    flags: u8,
    /// Offset in its page, bytes.
    offset: usize,
    content: &'p [u8],
}

/// The state between pages.
#[derive(Debug)]
pub(super) struct Chunks {
    open: Option<Open>,
    /// A record of a kind that may stand within another one.
    nested: Option<Open>,
    /// A record may go on here whose beginning was not seen.
    is_midway: bool,
    /// Where the log ended.
    pub end: Option<(u32, usize)>,
    pub records: Records,
    /// From the header: after so many pages, a power of two, the GTID state comes again.
    pub state_interval: Option<u64>,
    /// Records that ended, of each kind.
    pub counts: [u64; 6],
}

impl Chunks {
    pub(super) fn new(file: Option<u64>) -> Self {
        let records = Records::new(file);
        Self { open: None, nested: None, is_midway: true, end: None, records, state_interval: None, counts: [0; 6] }
    }

    /// The kind of the record that has not ended.
    pub(super) fn open(&self) -> Option<Kind> {
        self.open.as_ref().map(|open| open.kind)
    }

    /// A page that cannot be read: whatever was open may have ended on it, and another one begun.
    pub(super) fn skip(&mut self) {
        self.open = None;
        self.nested = None;
        self.is_midway = true;
        self.end = None;
        self.records.missed_page();
    }

    /// A page with the right checksum, the checksum left out.
    pub(super) fn page(&mut self, number: u32, start: u64, data: &[u8]) -> Verdict {
        match self.walk(number, start, data) {
            Ok(None) => Verdict::Ok,
            Ok(Some(unknown)) => {
                self.skip();
                Verdict::Unknown { number: unknown }
            }
            Err(corruption) => {
                self.skip();
                Verdict::Corrupt(corruption)
            }
        }
    }

    /// The number of a type that is not known, if there is one.
    fn walk(&mut self, number: u32, start: u64, data: &[u8]) -> Result<Option<u8>, Corruption> {
        if let Some((end, _)) = self.end {
            return Err(Corruption::AfterEnd { offset: 0, end });
        }
        let mut at = 0;
        while data.len() - at >= SMALLEST {
            let Some([tag, _, _, rest @ ..]) = data.get(at..) else { break };
            if *tag == 0 {
                return self.ends(number, at, data).map(|()| None);
            }
            if data.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == FILLER)) {
                return Ok(None);
            }
            let len = usize::from(le::u16_at(data, at + 1).unwrap_or(0));
            let code = tag & !(CONTINUES | LAST);
            let Some(kind) = Kind::of(code) else {
                return if code == 0 { Err(Corruption::Type { offset: at, number: code }) } else { Ok(Some(code)) };
            };
            let fills = len == rest.len();
            // Only a record's last chunk ends before its page does.
            let content = rest.get(..len).filter(|_| len > 0 && (fills || tag & LAST != 0));
            let content = content.ok_or(Corruption::Length { offset: at, len })?;
            self.chunk(number, start, Chunk { kind, flags: tag & (CONTINUES | LAST), offset: at, content })?;
            at += HEAD + len;
        }
        let rest = data.get(at..).unwrap_or_default();
        match rest {
            _ if !rest.is_empty() && is_zero(rest) => self.ends(number, at, data).map(|()| None),
            _ if rest.iter().all(|byte| *byte == FILLER) => Ok(None),
            _ => Err(Corruption::Type { offset: at, number: rest.first().copied().unwrap_or(0) }),
        }
    }

    /// The log ends at `at`: zeros follow.
    fn ends(&mut self, number: u32, at: usize, data: &[u8]) -> Result<(), Corruption> {
        let rest = data.get(at..).unwrap_or_default();
        if let Some(first) = rest.iter().position(|byte| *byte != 0) {
            return Err(Corruption::AfterEnd { offset: at + first, end: number });
        }
        self.end = Some((number, at));
        Ok(())
    }

    /// Whether a GTID state may begin here: `page_no == 1 || 0 == (page_no & (current_binlog_state_interval - 1))`.
    fn is_place_of_state(&self, page: u32, offset: usize) -> bool {
        let masked = |interval: u64| u64::from(page) & interval.wrapping_sub(1);
        offset == 0 && (page == 1 || self.state_interval.is_none_or(|interval| masked(interval) == 0))
    }

    fn chunk(&mut self, page: u32, start: u64, chunk: Chunk) -> Result<(), Corruption> {
        let Chunk { kind, flags, offset, content } = chunk;
        let continues = flags & CONTINUES != 0;
        if kind == Kind::GtidState && !continues && !self.is_place_of_state(page, offset) {
            return Err(Corruption::Misplaced { offset });
        }
        let is_nested = kind.is_nested() && self.open.as_ref().is_some_and(|open| open.kind != kind);
        let midway = self.is_midway;
        // These may stand before the rest of a record.
        self.is_midway &= kind.is_nested();
        let slot = if is_nested { &mut self.nested } else { &mut self.open };
        match (&mut *slot, continues) {
            (Some(open), true) if open.kind == kind => {
                let room = KEPT_MAX.saturating_sub(open.content.len());
                open.content.extend_from_slice(content.get(..room).unwrap_or(content));
            }
            (Some(open), _) => {
                return Err(Corruption::NotEnded { offset, kind, open: open.kind, page: open.page });
            }
            (None, true) if midway => {
                *slot = Some(Open { kind, page, offset: 0, content: Vec::new(), is_partial: true });
            }
            (None, true) => return Err(Corruption::NotBegun { offset, kind }),
            (None, false) => {
                let offset = start + offset as u64;
                *slot = Some(Open { kind, page, offset, content: content.to_vec(), is_partial: false });
            }
        }
        if flags & LAST == 0 {
            return Ok(());
        }
        let Some(open) = slot.take() else { return Ok(()) };
        if let Some(count) = self.counts.get_mut(kind as usize - 1) {
            *count += 1;
        }
        if open.is_partial {
            return Ok(());
        }
        let end = offset + HEAD + content.len();
        self.records.take(kind, open.offset, &open.content).map_err(|why| Corruption::Record { offset: end, kind, why })
    }
}
