//! Pages of a tablespace, field by field. Byte maps: `format::page`.

use format::fil::{FIL_PAGE_NEXT, FIL_PAGE_OFFSET, FIL_PAGE_PREV, FIL_PAGE_SPACE_ID, FIL_PAGE_TYPE, PageType};
use format::page::index::{
    N_HEAP_COMPACT, PAGE_BTR_SEG_LEAF, PAGE_BTR_SEG_TOP, PAGE_DIRECTION, PAGE_HEAP_TOP, PAGE_INDEX_ID, PAGE_LEVEL,
    PAGE_N_DIR_SLOTS, PAGE_N_HEAP, PAGE_N_RECS,
};
use format::record::RecordStyle;
use format::{Algorithm, Lsn, PageNo, SealError, SpaceFormat, seal_page};

/// Bytes of a page.
pub(super) const SIZE: usize = 16384;
/// Bytes after the records of a page: checksum and LSN.
const TRAILER: usize = 8;
/// Origins of the records before and after all others, and the start of the heap.
const INFIMUM: usize = RecordStyle::Compact.infimum() as usize;
const SUPREMUM: usize = RecordStyle::Compact.supremum() as usize;
const HEAP: usize = RecordStyle::Compact.heap_start() as usize;
/// Bytes of a record's header before its origin, without lengths of fields.
const HEADER: usize = 5;
/// Records of one directory slot.
const OWNED: usize = 4;
/// The first record of a level.
const MIN_REC: u8 = 0x10;
/// `PAGE_DIRECTION` without ascending or descending inserts.
const NO_DIRECTION: u16 = 5;
/// All pages were last written at this moment.
const LSN: Lsn = Lsn(20_000_000);

/// A record in the compact style, without nullable fields.
pub(super) struct Record<'r> {
    /// Lengths of its fields of variable length, as stored before its header.
    pub lengths: &'r [u8],
    /// Its fields.
    pub fields: &'r [u8],
    pub is_first_of_level: bool,
}

/// The stored length of a field that may be longer than 255 bytes.
pub(super) fn length(bytes: usize) -> Vec<u8> {
    if bytes < 128 {
        vec![bytes as u8]
    } else {
        // The byte next to the header says that there is another.
        vec![bytes as u8, 0x80 | (bytes >> 8) as u8]
    }
}

/// The place of an index page in its tree.
pub(super) struct Place {
    pub kind: PageType,
    pub index_id: u64,
    pub level: u16,
    pub prev: Option<u32>,
    pub next: Option<u32>,
}

/// A page being made.
pub(super) struct Page {
    bytes: Vec<u8>,
}

impl Page {
    /// A page of this type, else empty.
    pub(super) fn new(page_no: u32, kind: PageType, space: u32) -> Self {
        let mut page = Self { bytes: vec![0; SIZE] };
        page.u32(FIL_PAGE_OFFSET, page_no);
        page.u16(FIL_PAGE_TYPE, kind.0);
        page.u32(FIL_PAGE_SPACE_ID, space);
        page
    }

    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(target) = self.bytes.get_mut(at..at + bytes.len()) {
            target.copy_from_slice(bytes);
        }
    }

    pub(super) fn u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_be_bytes());
    }

    /// The address of a list node, or of none.
    pub(super) fn address(&mut self, at: usize, address: Option<(u32, u16)>) {
        let (page_no, offset) = address.unwrap_or((PageNo::NONE.0, 0));
        self.u32(at, page_no);
        self.u16(at + 4, offset);
    }

    /// A list of this length and with these ends.
    pub(super) fn list(&mut self, at: usize, len: usize, ends: Option<[(u32, u16); 2]>) {
        self.u32(at, len as u32);
        self.address(at + 4, ends.map(|[first, _]| first));
        self.address(at + 10, ends.map(|[_, last]| last));
    }

    /// Makes it a page of a tree.
    pub(super) fn place(&mut self, place: &Place) {
        self.u32(FIL_PAGE_PREV, place.prev.unwrap_or(PageNo::NONE.0));
        self.u32(FIL_PAGE_NEXT, place.next.unwrap_or(PageNo::NONE.0));
        self.u16(FIL_PAGE_TYPE, place.kind.0);
        self.u16(PAGE_LEVEL, place.level);
        self.u64(PAGE_INDEX_ID, place.index_id);
        self.u16(PAGE_DIRECTION, NO_DIRECTION);
        self.put(INFIMUM - HEADER, &[1, 0, 2]);
        self.put(INFIMUM, b"infimum\0");
        self.put(SUPREMUM - HEADER, &[1, 0, 0x0b]);
        self.put(SUPREMUM, b"supremum");
    }

    /// Makes it the root: inodes of its leaves and of its other pages.
    pub(super) fn root(&mut self, space: u32, leaves: (u32, u16), top: (u32, u16)) {
        for (at, inode) in [(PAGE_BTR_SEG_LEAF, leaves), (PAGE_BTR_SEG_TOP, top)] {
            self.u32(at, space);
            self.address(at + 4, Some(inode));
        }
    }

    /// Fills it with records, which fit, in key order.
    pub(super) fn records<'r>(&mut self, level: u16, records: impl Iterator<Item = Record<'r>>) {
        let (mut heap, mut before, mut count, mut slots) = (HEAP, INFIMUM, 0_usize, 1_usize);
        self.slot(0, INFIMUM);
        for record in records {
            let origin = heap + record.lengths.len() + HEADER;
            count += 1;
            // The last record of four has a slot and owns them.
            let owns = if count.is_multiple_of(OWNED) { OWNED as u8 } else { 0 };
            self.put(heap, record.lengths);
            self.put(origin - HEADER, &[if record.is_first_of_level { MIN_REC } else { 0 } | owns]);
            self.u16(origin - 4, ((count + 1) << 3) as u16 | u16::from(level > 0));
            self.put(origin, record.fields);
            self.link(before, origin);
            if owns > 0 {
                self.slot(slots, origin);
                slots += 1;
            }
            before = origin;
            heap = origin + record.fields.len();
        }
        self.link(before, SUPREMUM);
        self.put(SUPREMUM - HEADER, &[(count % OWNED) as u8 + 1]);
        self.slot(slots, SUPREMUM);
        self.u16(PAGE_N_DIR_SLOTS, slots as u16 + 1);
        self.u16(PAGE_HEAP_TOP, heap as u16);
        self.u16(PAGE_N_HEAP, N_HEAP_COMPACT | (count as u16 + 2));
        self.u16(PAGE_N_RECS, count as u16);
    }

    /// Links a record to the next one, by their distance.
    fn link(&mut self, from: usize, to: usize) {
        self.u16(from - 2, (to as u16).wrapping_sub(from as u16));
    }

    fn slot(&mut self, number: usize, origin: usize) {
        self.u16(SIZE - TRAILER - 2 * (number + 1), origin as u16);
    }

    /// The bytes with LSN and checksum.
    pub(super) fn sealed(mut self, format: &SpaceFormat) -> Result<Vec<u8>, SealError> {
        seal_page(&mut self.bytes, LSN, Algorithm::Crc32, format)?;
        Ok(self.bytes)
    }
}
