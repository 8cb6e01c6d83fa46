//! Index pages: the header and the record chain.

use super::error::ApplyError;
use super::image::{Image, Result, field};
use crate::record::RowStyle;
use format::fil::{FIL_PAGE_TYPE, PageType};
use format::page::index::PAGE_DATA;
pub(super) use format::page::index::{
    N_HEAP_COMPACT as HEAP_COMPACT, PAGE_DIR_SLOT_MAX_N_OWNED as N_OWNED_MAX, PAGE_DIR_SLOT_SIZE, PAGE_DIRECTION,
    PAGE_FREE, PAGE_GARBAGE, PAGE_HEAP_TOP, PAGE_LAST_INSERT, PAGE_LEVEL, PAGE_MAX_TRX_ID, PAGE_N_DIR_SLOTS,
    PAGE_N_DIRECTION, PAGE_N_HEAP, PAGE_N_RECS,
};

/// The low 3 bits hold the insert direction; the others belong to the number of instant columns.
pub(super) const PAGE_DIRECTION_B: usize = PAGE_DIRECTION + 1;
/// Length of the header fields that every new page resets. The rest belongs to the index.
const PAGE_HEADER_RESET: usize = 26;
/// Bytes after the page directory.
pub(super) const PAGE_DIR: usize = 8;
/// No direction.
pub(super) const PAGE_NO_DIRECTION: u8 = 5;
/// Infimum and supremum on an empty page, from [`PAGE_DATA`] on.
const COMPACT_BOUNDS: &[u8] = b"\x01\x00\x02\x00\x0dinfimum\0\x01\x00\x0b\x00\x00supremum";
const REDUNDANT_BOUNDS: &[u8] = b"\x08\x01\x00\x00\x03\x00\x74infimum\0\x09\x01\x00\x08\x03\x00\x00supremum\0";

/// How the two formats differ on a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub infimum: usize,
    pub supremum: usize,
    /// Start of the heap.
    pub heap: usize,
    /// Length of the fixed part of a record header.
    pub header: usize,
}

const COMPACT: Layout = Layout { infimum: 99, supremum: 112, heap: 120, header: 5 };
const REDUNDANT: Layout = Layout { infimum: 101, supremum: 116, heap: 125, header: 6 };
const _: () = assert!(PAGE_DATA + COMPACT_BOUNDS.len() == COMPACT.heap);
const _: () = assert!(PAGE_DATA + REDUNDANT_BOUNDS.len() == REDUNDANT.heap);

const fn layout(style: RowStyle) -> Layout {
    match style {
        RowStyle::Redundant => REDUNDANT,
        RowStyle::Dynamic => COMPACT,
    }
}

/// Creates an index page without records. Other log records write its place, its neighbours and the fields of its index.
pub(super) fn init(image: &mut Image<'_>, style: RowStyle) -> Result<()> {
    let layout = layout(style);
    let (bounds, compact) = match style {
        RowStyle::Redundant => (REDUNDANT_BOUNDS, 0),
        RowStyle::Dynamic => (COMPACT_BOUNDS, HEAP_COMPACT),
    };
    let directory = image.size().saturating_sub(PAGE_DIR + 2 * PAGE_DIR_SLOT_SIZE);
    image.put_u16(FIL_PAGE_TYPE, PageType::INDEX.0)?;
    image.fill(PAGE_N_DIR_SLOTS, PAGE_HEADER_RESET, 0)?;
    image.put_u16(PAGE_N_DIR_SLOTS, 2)?;
    image.put_u8(PAGE_DIRECTION_B, PAGE_NO_DIRECTION)?;
    image.put_u16(PAGE_N_HEAP, compact | 2)?;
    image.put_u16(PAGE_HEAP_TOP, field(layout.heap)?)?;
    image.put(PAGE_DATA, bounds)?;
    image.fill(layout.heap, directory.saturating_sub(layout.heap), 0)?;
    image.put_u16(directory, field(layout.supremum)?)?;
    image.put_u16(directory + PAGE_DIR_SLOT_SIZE, field(layout.infimum)?)
}

/// Like [`init`], and sets the page type.
pub(super) fn create(image: &mut Image<'_>, page_type: PageType, style: RowStyle) -> Result<()> {
    init(image, style)?;
    image.put_u16(FIL_PAGE_TYPE, page_type.0)
}

/// Resets the insert direction.
pub(super) fn no_direction(page: &mut Index<'_>) -> Result<()> {
    page.put_header(PAGE_LAST_INSERT, 0)?;
    page.image.put_u16(PAGE_DIRECTION, PAGE_NO_DIRECTION.into())?;
    page.put_header(PAGE_N_DIRECTION, 0)
}

/// An index page whose records have the requested format.
pub(super) struct Index<'p> {
    pub image: Image<'p>,
    pub layout: Layout,
    pub style: RowStyle,
}

impl<'p> Index<'p> {
    pub(super) fn open(image: Image<'p>, style: RowStyle) -> Result<Self> {
        let is_compact = image.u16(PAGE_N_HEAP)? & HEAP_COMPACT != 0;
        if is_compact != (style == RowStyle::Dynamic) {
            return Err(ApplyError::RowStyle(style));
        }
        Ok(Self { image, layout: layout(style), style })
    }

    pub(super) fn header(&self, field: usize) -> Result<usize> {
        self.image.u16(field).map(usize::from)
    }

    pub(super) fn put_header(&mut self, at: usize, value: usize) -> Result<()> {
        self.image.put_u16(at, field(value)?)
    }

    /// Adds `more` to a header field, in 16-bit arithmetic.
    pub(super) fn add_to_header(&mut self, at: usize, more: usize) -> Result<()> {
        let value = self.image.u16(at)?.wrapping_add(field(more)?);
        self.image.put_u16(at, value)
    }

    pub(super) fn subtract_from_header(&mut self, at: usize, less: usize) -> Result<()> {
        let value = self.image.u16(at)?.wrapping_sub(field(less)?);
        self.image.put_u16(at, value)
    }

    /// Checks that `origin` may be a user record, the infimum or the supremum.
    pub(super) fn record(&self, origin: usize) -> Result<usize> {
        let heap_top = self.header(PAGE_HEAP_TOP)?;
        let Layout { infimum, supremum, heap, header } = self.layout;
        let is_user = origin >= heap + header && origin <= heap_top;
        let found = is_user || origin == infimum || origin == supremum;
        if found { Ok(origin) } else { Err(ApplyError::RecordPointer { offset: origin }) }
    }

    /// The next pointer of a record; 0 if there is none.
    pub(super) fn next_pointer(&self, origin: usize) -> Result<usize> {
        let before = origin.checked_sub(2).ok_or(ApplyError::RecordPointer { offset: origin })?;
        let stored = self.image.u16(before)?;
        Ok(match self.style {
            RowStyle::Redundant => stored.into(),
            RowStyle::Dynamic if stored == 0 => 0,
            RowStyle::Dynamic => usize::from(stored.wrapping_add(field(origin)?)),
        })
    }

    /// The record after `origin`, which must not be the last.
    pub(super) fn next(&self, origin: usize) -> Result<usize> {
        match self.record(self.next_pointer(origin)?) {
            Ok(next) if next != self.layout.infimum => Ok(next),
            _ => Err(ApplyError::RecordPointer { offset: self.next_pointer(origin)? }),
        }
    }

    /// Links `next` after `origin`; 0 ends the list.
    pub(super) fn link(&mut self, origin: usize, next: usize) -> Result<()> {
        let (next, here) = (field(next)?, field(origin)?);
        let stored = match self.style {
            RowStyle::Dynamic if next != 0 => next.wrapping_sub(here),
            _ => next,
        };
        self.image.put_u16(origin.saturating_sub(2), stored)
    }

    /// The record `prev` bytes after the infimum, where a change starts.
    pub(super) fn prev(&self, prev: usize) -> Result<usize> {
        match self.record(self.layout.infimum.saturating_add(prev))? {
            last if last == self.layout.supremum => Err(ApplyError::RecordPointer { offset: last }),
            origin => Ok(origin),
        }
    }

    /// Number of records owned by the record at `origin`, including itself; 0 if it is not an owner.
    pub(super) fn n_owned(&self, origin: usize) -> Result<u8> {
        Ok(self.image.u8(self.info(origin)?)? & 0x0F)
    }

    pub(super) fn put_n_owned(&mut self, origin: usize, n_owned: u8) -> Result<()> {
        let at = self.info(origin)?;
        let flags = self.image.u8(at)? & 0xF0;
        self.image.put_u8(at, flags | n_owned & 0x0F)
    }

    /// Offset of the header byte with the flags and [`Index::n_owned`].
    pub(super) fn info(&self, origin: usize) -> Result<usize> {
        origin.checked_sub(self.layout.header).ok_or(ApplyError::RecordPointer { offset: origin })
    }

    /// The record's number in allocation order.
    pub(super) fn heap_no(&self, origin: usize) -> Result<usize> {
        Ok(usize::from(self.image.u16(self.info(origin)? + 1)? >> 3))
    }

    /// Records in the heap.
    pub(super) fn n_heap(&self) -> Result<usize> {
        Ok(usize::from(self.image.u16(PAGE_N_HEAP)? & !HEAP_COMPACT))
    }

    /// The record that owns the one at `origin`.
    pub(super) fn owner(&self, origin: usize) -> Result<usize> {
        let mut at = origin;
        for _ in 0..=N_OWNED_MAX {
            if self.n_owned(at)? != 0 {
                return Ok(at);
            }
            at = self.next(at)?;
        }
        Err(ApplyError::NoOwner { offset: origin })
    }
}

/// Sizes of a REDUNDANT record, as its own header states them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RedundantSizes {
    /// Header, bytes.
    pub header: usize,
    /// Payload, bytes.
    pub data: usize,
}

impl RedundantSizes {
    pub(super) fn read(index: &Index<'_>, origin: usize) -> Result<Self> {
        let info = index.info(origin)?;
        let fields = index.image.u16(info + 2)?;
        let (n_fields, is_short) = (usize::from(fields >> 1 & 0x3FF), fields & 1 != 0);
        let size = if is_short { n_fields } else { 2 * n_fields };
        let ends = info.checked_sub(size).ok_or(ApplyError::RecordPointer { offset: origin })?;
        // End offsets are stored in reverse order: the first is that of the last field.
        let data = match (n_fields, is_short) {
            (0, _) => return Err(ApplyError::RecordLength),
            (_, true) => usize::from(index.image.u8(ends)? & 0x7F),
            (_, false) => usize::from(index.image.u16(ends)? & 0x3FFF),
        };
        Ok(Self { header: index.layout.header + size, data })
    }
}
