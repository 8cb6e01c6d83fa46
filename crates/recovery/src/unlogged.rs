//! Finds what MySQL wrote into indexes without redo.
//!
//! The server fills a new index in bulk: it writes the pages itself and logs none of them. Only *online* builds leave a note
//! (`INDEX_LOAD`). Under `LOCK=SHARED` or `EXCLUSIVE`, which virtual columns, functional and multi-valued indexes force, and in the hidden
//! tables of full-text indexes, there is none. But the allocation of the pages is always logged, in mini-transactions without the pages:
//!
//! ```text
//! logged:    segments made, root made, index id      one mini-transaction: `btr_create`
//!            slot of the segment := page, page made  one mini-transaction: a page split
//! in bulk:   slot of the segment := page             and nothing ever makes the page
//! ```
//!
//! The first pages of a segment are entered in the slots of its inode one by one, so the first page of any build is seen there. Empty new
//! indexes, into which rows are inserted later, do not look like this, nor do spatial indexes, nor tables that are being created.
//!
//! A build that began before the log has its segments made before it, and may have filled their slots. It is seen by the bitmaps of extents:
//! to give away a page sets one bit, to free a page sets two.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use format::fil::PAGE_INDEX_ID;
use format::{Lsn, PageId, SpaceId};
use redo::mysql::undo_number;
use redo::record::mysql::change::{Change as MySqlChange, ZipWrite};
use redo::record::{Change, FileRecord, Mtr, RedoRecord};

/// The mark of a segment's inode in use, and where it is in there. The slots for single pages follow.
const INODE_MAGIC: u64 = 97_937_874;
const INODE_SLOTS: usize = 4;
/// A slot without a page.
const NO_PAGE: u64 = 0xFFFF_FFFF;
/// Bytes of a slot.
const SLOT_SIZE: usize = 4;
/// Where descriptors of extents begin on their pages. Nothing before them is written byte by byte.
const DESCRIPTORS: usize = 150;
/// The number of every page with descriptors of extents is a multiple of this, whatever the size of pages.
const DESCRIBED: u32 = 4096;

/// An index with pages that were written without redo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Load {
    /// Start of the mini-transaction that says so.
    pub lsn: Lsn,
    pub space: SpaceId,
    pub index: u64,
}

/// What a mini-transaction shows of definitions and of pages without redo.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Indexes that get pages without redo, or whose builds are noted.
    pub loads: Vec<Load>,
    /// Tablespaces that get pages and not their content, in whatever way.
    pub given: BTreeSet<SpaceId>,
    /// The tablespace that gets a new index.
    pub indexed: Option<SpaceId>,
}

/// Names each index once.
#[derive(Debug, Default)]
pub(crate) struct Once(HashSet<(SpaceId, u64)>);

impl Once {
    pub fn is_first(&mut self, load: &Load) -> bool {
        self.0.insert((load.space, load.index))
    }
}

/// A segment of an index that was made in this log.
#[derive(Debug, Clone)]
struct Segment {
    /// Where its slots are in the page.
    slots: Range<usize>,
    index: u64,
}

/// Follows a log from mini-transaction to mini-transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnloggedPages {
    /// By the page with their inodes.
    segments: HashMap<PageId, Vec<Segment>>,
}

/// What a mini-transaction does that matters here.
#[derive(Debug, Default)]
struct Seen {
    /// Pages made.
    made: Vec<PageId>,
    /// Writes of single bytes to descriptors of extents.
    bits: Vec<(PageId, usize)>,
    /// Writes of four bytes.
    words: Vec<(PageId, usize, u64)>,
    /// The index whose root was made, or another of its pages.
    index: Option<u64>,
    /// INDEX_LOAD.
    loads: Vec<Load>,
    dropped: Vec<SpaceId>,
}

impl Seen {
    fn of(mtr: &Mtr<'_>) -> Self {
        let mut seen = Self::default();
        for record in mtr.records().flatten() {
            match record {
                RedoRecord::File(FileRecord::Load { space, index }) => {
                    seen.loads.push(Load { lsn: mtr.start, space, index });
                }
                RedoRecord::File(FileRecord::Delete { space, .. }) => seen.dropped.push(space),
                RedoRecord::File(_) => {}
                RedoRecord::Page(record) => {
                    if let Change::MySql(change) = record.change {
                        seen.add(record.id, &change);
                    }
                }
            }
        }
        seen
    }

    fn add(&mut self, id: PageId, change: &MySqlChange<'_>) {
        match *change {
            MySqlChange::InitPage => self.made.push(id),
            MySqlChange::Write { offset, len: 1, .. }
                if offset >= DESCRIPTORS && id.page_no.0.is_multiple_of(DESCRIBED) =>
            {
                self.bits.push((id, offset));
            }
            MySqlChange::Write { offset, len: 4, value } => self.words.push((id, offset, value)),
            MySqlChange::Write { offset: PAGE_INDEX_ID, len: 8, value } => self.index = Some(value),
            MySqlChange::ZipWrite { offset: PAGE_INDEX_ID, data, kind: ZipWrite::Header, .. } => {
                self.index = data.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)).or(self.index);
            }
            _ => {}
        }
    }
}

impl UnloggedPages {
    /// The indexes of which this mini-transaction says that they have pages without redo: it notes it, or gives them such a page. An index
    /// is returned again and again while it is filled.
    pub fn add(&mut self, mtr: &Mtr<'_>) -> Vec<Load> {
        self.take(mtr.start, Seen::of(mtr))
    }

    fn take(&mut self, lsn: Lsn, seen: Seen) -> Vec<Load> {
        let mut loads = self.given(lsn, &seen);
        self.learn(&seen);
        for space in &seen.dropped {
            self.segments.retain(|page, _| page.space != *space);
        }
        loads.extend(seen.loads);
        loads
    }

    /// Like [`Self::add`]. Also finds the tablespaces of builds that began before the log, and perhaps others.
    pub fn show(&mut self, mtr: &Mtr<'_>) -> Shown {
        let seen = Seen::of(mtr);
        let is_given = |byte: &(PageId, usize)| {
            // No index is in an undo tablespace, where pages are made in other ways.
            if undo_number(byte.0.space).is_some() {
                return false;
            }
            // Freeing a page writes the same byte once more.
            let is_freed = seen.bits.iter().filter(|other| *other == byte).count().is_multiple_of(2);
            !is_freed && !seen.made.iter().any(|made| made.space == byte.0.space)
        };
        let given = seen.bits.iter().filter(|byte| is_given(byte)).map(|(page, _)| page.space).collect();
        let made = seen.words.iter().find(|(_, _, value)| *value == INODE_MAGIC).map(|(page, _, _)| page.space);
        let indexed = made.filter(|_| seen.index.is_some());
        let loads = self.take(mtr.start, seen);
        Shown { loads, given, indexed }
    }

    /// Pages that are given to known segments and not made.
    fn given(&self, lsn: Lsn, seen: &Seen) -> Vec<Load> {
        let mut loads = Vec::new();
        for &(id, offset, page) in seen.words.iter().filter(|(_, _, page)| *page != NO_PAGE) {
            let segments = self.segments.get(&id).map(Vec::as_slice).unwrap_or_default();
            let Some(segment) = segments.iter().find(|segment| segment.slots.contains(&offset)) else { continue };
            if !seen.made.iter().any(|made| made.space == id.space && u64::from(made.page_no.0) == page) {
                loads.push(Load { lsn, space: id.space, index: segment.index });
            }
        }
        loads
    }

    /// Notes the segments that a mini-transaction makes, and those whose inodes it gives to others.
    fn learn(&mut self, seen: &Seen) {
        let mut words = seen.words.iter().peekable();
        while let Some(&(id, offset, value)) = words.next() {
            if value != INODE_MAGIC {
                continue;
            }
            // All slots of a new segment are emptied one by one. Their number depends on the size of pages, which the log does not tell.
            let start = offset + INODE_SLOTS;
            let mut end = start;
            while words.next_if(|next| **next == (id, end, NO_PAGE)).is_some() {
                end += SLOT_SIZE;
            }
            let slots = start..end;
            let segments = self.segments.entry(id).or_default();
            segments.retain(|other| other.slots.end <= slots.start || slots.end <= other.slots.start);
            // Segments of undo logs belong to no index.
            segments.extend(seen.index.map(|index| Segment { slots, index }));
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "helpers of tests fail the test")]
mod tests {
    use redo::record::Grammar;

    use super::*;

    const ROOT: u64 = 21;
    /// Where the inode of the first segment begins.
    const INODE: u32 = 818;

    /// A number as the log has it: short if it fits, else all four bytes.
    fn number(value: u32) -> Vec<u8> {
        match value {
            0..=0x7F => vec![u8::try_from(value).expect("small")],
            0x80..=0x3FFF => (0x8000 | u16::try_from(value).expect("small")).to_be_bytes().to_vec(),
            _ => [vec![0xF0], value.to_be_bytes().to_vec()].concat(),
        }
    }

    fn head(kind: u8, space: u32, page: u32) -> Vec<u8> {
        [vec![kind], number(space), number(page)].concat()
    }

    fn word(space: u32, page: u32, offset: u32, value: u32) -> Vec<u8> {
        let offset = u16::try_from(offset).expect("within a page").to_be_bytes().to_vec();
        [head(4, space, page), offset, number(value)].concat()
    }

    fn index_id(space: u32, page: u32, index: u32) -> Vec<u8> {
        [head(8, space, page), 66_u16.to_be_bytes().to_vec(), vec![0], index.to_be_bytes().to_vec()].concat()
    }

    fn zip_index_id(space: u32, page: u32, index: u32) -> Vec<u8> {
        [head(50, space, page), vec![66, 8, 0, 0, 0, 0], index.to_be_bytes().to_vec()].concat()
    }

    fn made(space: u32, page: u32) -> Vec<u8> {
        head(59, space, page)
    }

    /// A segment with this many slots, as MySQL makes one.
    fn segment(space: u32, inode: u32, slots: u32) -> Vec<u8> {
        let emptied = (0..slots).flat_map(|slot| word(space, 2, inode + 64 + 4 * slot, u32::MAX));
        word(space, 2, inode + 60, 97_937_874).into_iter().chain(emptied).collect()
    }

    /// An index as `btr_create` makes it: two segments, and a root in the first.
    fn created(space: u32, slots: u32, id: Vec<u8>) -> Vec<u8> {
        let root = u32::try_from(ROOT).expect("small");
        [
            segment(space, INODE, slots),
            word(space, 2, INODE + 64, root),
            made(space, root),
            segment(space, INODE + 64 + 4 * slots, slots),
            id,
        ]
        .concat()
    }

    fn told(mtrs: &[Vec<u8>]) -> Vec<(u64, u32, u64)> {
        let (mut pages, mut lsn, mut told) = (UnloggedPages::default(), 1000, Vec::new());
        for bytes in mtrs {
            let mtr = Mtr { start: Lsn(lsn), end: Lsn(lsn + 100), bytes, grammar: Grammar::MySql };
            assert!(mtr.records().all(|record| record.is_ok()), "records that a server could write");
            told.extend(pages.add(&mtr).into_iter().map(|load| (load.lsn.0, load.space.0, load.index)));
            lsn += 100;
        }
        told
    }

    #[test]
    fn a_page_that_is_given_to_a_new_index_and_never_made_is_told() {
        for slots in [32, 64, 128] {
            let leaf = INODE + 64 + 4 * slots;
            for id in [index_id(2, 21, 170), zip_index_id(2, 21, 170)] {
                let build = [
                    created(2, slots, id),
                    word(2, 2, leaf + 64, 22),
                    word(2, 2, leaf + 68, 23),
                    word(2, 2, INODE + 68, 24),
                ];
                assert_eq!(told(&build), [(1100, 2, 170), (1200, 2, 170), (1300, 2, 170)], "{slots} slots");
            }
        }
    }

    #[test]
    fn logged_pages_and_freed_slots_are_not_told() {
        let leaf = INODE + 64 + 4 * 32;
        let split = [word(2, 2, leaf + 64, 22), made(2, 22), index_id(2, 22, 170)].concat();
        let freed = word(2, 2, leaf + 64, u32::MAX);
        let other = word(3, 2, leaf + 64, 22);
        let beside = word(2, 2, leaf + 64 + 4 * 32, 22);
        let full = word(2, 2, leaf + 8, 40);
        assert_eq!(told(&[created(2, 32, index_id(2, 21, 170)), split, freed, other, beside, full]), []);
    }

    #[test]
    fn the_page_that_is_made_must_be_of_the_same_tablespace() {
        let leaf = INODE + 64 + 4 * 32;
        let given = [word(2, 2, leaf + 64, 22), made(3, 22)].concat();
        assert_eq!(told(&[created(2, 32, index_id(2, 21, 170)), given]), [(1100, 2, 170)]);
    }

    #[test]
    fn a_segment_is_forgotten_when_its_inode_or_its_tablespace_goes_to_another() {
        let leaf = INODE + 64 + 4 * 32;
        let build = word(2, 2, leaf + 64, 22);
        let first = created(2, 32, index_id(2, 21, 170));
        assert_eq!(told(&[first.clone(), created(2, 32, index_id(2, 21, 171)), build.clone()]), [(1200, 2, 171)]);
        assert_eq!(told(&[first.clone(), segment(2, leaf, 32), build.clone()]), [], "an undo log has the inode now");
        let dropped = [head(35, 2, 0), 6_u16.to_be_bytes().to_vec(), b"a.ibd\0".to_vec()].concat();
        assert_eq!(told(&[first, dropped, build]), []);
    }

    #[test]
    fn each_index_is_named_once() {
        let (mut once, load) = (Once::default(), |index| Load { lsn: Lsn(index), space: SpaceId(2), index });
        assert_eq!([1, 2, 1, 2, 3].map(|index| once.is_first(&load(index))), [true, true, false, false, true]);
    }

    fn byte(space: u32, page: u32, offset: u16, value: u32) -> Vec<u8> {
        [head(1, space, page), offset.to_be_bytes().to_vec(), number(value)].concat()
    }

    const NONE: [u32; 0] = [];

    fn spaces(bytes: &[u8]) -> Vec<u32> {
        let mtr = Mtr { start: Lsn(1000), end: Lsn(1100), bytes, grammar: Grammar::MySql };
        assert!(mtr.records().all(|record| record.is_ok()), "records that a server could write");
        UnloggedPages::default().show(&mtr).given.into_iter().map(|space| space.0).collect()
    }

    #[test]
    fn a_build_that_began_before_the_log_is_seen_by_the_bits_of_its_pages() {
        let used = word(2, 2, INODE + 8, 7);
        let given = [byte(2, 0, 180, 250), used.clone()].concat();
        assert_eq!(spaces(&given), [2]);
        assert_eq!(spaces(&[byte(2, 16384, 5000, 250), used].concat()), [2]);
        assert_eq!(spaces(&[given.clone(), made(2, 40)].concat()), NONE, "a page split");
        assert_eq!(spaces(&[given, made(3, 40)].concat()), [2]);
        assert_eq!(spaces(&[byte(2, 0, 180, 251), byte(2, 0, 180, 251)].concat()), NONE, "a page freed");
        assert_eq!(spaces(&byte(2, 5, 180, 251)), NONE, "no page of descriptors");
        assert_eq!(spaces(&byte(4_294_967_277, 0, 180, 251)), NONE, "an undo tablespace");
    }

    #[test]
    fn the_note_of_an_online_build_is_told_too() {
        let note = [head(61, 7, 0), 9_u64.to_be_bytes().to_vec()].concat();
        assert_eq!(told(&[note]), [(1000, 7, 9)]);
    }
}
