#![doc = include_str!("../../../docs/zip.md")]

mod log;
mod rebuild;
mod stream;

use flate2::Decompress;
use thiserror::Error;

use crate::bytes::be;
use crate::page::fil::FIL_PAGE_PREV;
use crate::page::index::{
    IndexFinding, PAGE_DATA, PAGE_FREE, PAGE_HEAP_TOP, PAGE_LEVEL, PAGE_N_DIR_SLOTS, PAGE_N_HEAP, PAGE_N_RECS,
};
use crate::page::space_format::SpaceFormat;
use crate::record::{Layout, Record, RecordFields, RecordStyle};
use crate::types::PageNo;

/// In a slot of the dense directory: the record is marked as deleted.
const SLOT_DELETED: u16 = 0x8000;
/// In a slot of the dense directory: a slot of the unpacked page's directory is the record's.
const SLOT_OWNER: u16 = 0x4000;
/// In a slot of the dense directory: the record's origin.
const SLOT_ORIGIN: u16 = 0x3FFF;
const SLOT_BYTES: usize = 2;
/// Bytes of the trailer for each record: the child page above the leaves, DB_TRX_ID and DB_ROLL_PTR in the leaves of a clustered index.
const CHILD_BYTES: usize = 4;
const SYSTEM_BYTES: usize = 13;
const REFERENCE_BYTES: usize = 20;
/// Bytes of the fixed header of a record.
const HEADER_BYTES: usize = 5;

/// Why a page of ROW_FORMAT=COMPRESSED cannot be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum ZipDamage {
    /// The sizes of the page and the buffer are not those of the tablespace.
    #[error("{len} bytes cannot be unpacked as a compressed page into {out}")]
    Size {
        /// Bytes of the page.
        len: u32,
        /// Bytes of the buffer.
        out: u32,
    },
    /// Its directory cannot be one.
    #[error("the dense directory of the compressed page names byte {origin} as a record, which cannot be one")]
    Directory {
        /// The origin in the slot, or where there is no room for the slot.
        origin: u32,
    },
    /// The page header counts more records than the page has room for.
    #[error("the compressed page counts {records} records, {heap} are in its heap")]
    Counts {
        /// Records in the chain.
        records: u16,
        /// Records in the heap.
        heap: u16,
    },
    /// Its zlib stream is damaged.
    #[error("the zlib stream of the compressed page is damaged")]
    Stream,
    /// What the stream says about the index's fields cannot be.
    #[error("the compressed page describes fields that cannot be")]
    Fields,
    /// The stream holds more than the page.
    #[error("the zlib stream of the compressed page holds {more} bytes more than the page")]
    TooLong {
        /// Bytes that no record has room for.
        more: u32,
    },
    /// An entry of the modification log cannot be one.
    #[error("the modification log of the compressed page breaks off at byte {at}")]
    Log {
        /// Where the entry begins.
        at: u32,
    },
    /// A record that neither the stream nor the log holds.
    #[error("neither the stream nor the log of the compressed page holds the record at byte {origin}")]
    Missing {
        /// Its origin in the unpacked page.
        origin: u16,
    },
    /// A record that is not one.
    #[error("the compressed page cannot be unpacked: {0}")]
    Record(IndexFinding),
    /// The directory of the unpacked page would have another size than its header says.
    #[error("the compressed page marks {found} directory slots, its header counts {expected}")]
    Slots {
        /// Slots marked, those of infimum and supremum among them.
        found: u32,
        /// Slots counted.
        expected: u32,
    },
}

/// Unpacks pages; owns the memory that this takes: about three logical pages.
pub struct Unpacker {
    zlib: Decompress,
    /// What came out of the stream: descriptions of the fields, then of the records.
    described: Vec<u8>,
    data: Vec<u8>,
    /// Origins of all records in the heap, ascending: the order of their heap numbers.
    origins: Vec<u16>,
    /// Where a record of the log is put together before its length is known.
    draft: Vec<u8>,
    fields: RecordFields,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Default for Unpacker {
    fn default() -> Self {
        Self::new()
    }
}

impl Unpacker {
    /// One that has unpacked nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            zlib: Decompress::new(true),
            described: Vec::new(),
            data: Vec::new(),
            origins: Vec::new(),
            draft: Vec::new(),
            fields: RecordFields::new(),
        }
    }

    /// Unpacks `page`, an index page of a tablespace of ROW_FORMAT=COMPRESSED, into `out`: the page as the server works on it.
    ///
    /// `page` is one physical page, `out` as long as a logical one. No schema is needed: the page describes its fields itself. Checksum
    /// and trailer of the result mean nothing.
    ///
    /// # Errors
    /// Says what about the page cannot be. `out` holds anything then.
    pub fn unpack(&mut self, page: &[u8], format: &SpaceFormat, out: &mut [u8]) -> Result<(), ZipDamage> {
        let fits = page.len() == format.physical().bytes() && out.len() == format.logical().bytes();
        let size = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        if !fits || out.len() > usize::from(SLOT_ORIGIN) + 1 {
            return Err(ZipDamage::Size { len: size(page.len()), out: size(out.len()) });
        }
        let header = Header::read(page);
        self.read_directory(page, &header)?;
        let trailer = Trailer::of(page, &header)?;
        let log_at = self.inflate(page, trailer.end, &header, out)?;
        let layout = self.layout(&header)?;
        rebuild::records(self, &header, &layout, out)?;
        log::apply(self, page.get(..trailer.end).unwrap_or(&[]), log_at, &header, &layout, out)?;
        rebuild::restore(self, page, &header, &layout, &trailer, out)
    }

    /// The origins of all records, each once and inside the heap.
    fn read_directory(&mut self, page: &[u8], header: &Header) -> Result<(), ZipDamage> {
        if header.records > header.heap {
            return Err(ZipDamage::Counts { records: header.records, heap: header.heap });
        }
        self.origins.clear();
        for number in 0..header.heap {
            let slot = dense_slot(page, usize::from(number)).ok_or(ZipDamage::Directory { origin: 0 })?;
            self.origins.push(slot & SLOT_ORIGIN);
        }
        self.origins.sort_unstable();
        let first = RecordStyle::Compact.heap_start() + HEADER_BYTES as u16;
        let mut before = first - 1;
        for origin in &self.origins {
            if *origin <= before || *origin > header.heap_top {
                return Err(ZipDamage::Directory { origin: u32::from(*origin) });
            }
            before = *origin;
        }
        Ok(())
    }
}

/// Slot `number` of the dense directory; slot 0 lies at the end of the page. `None` where it would lie among the headers.
fn dense_slot(page: &[u8], number: usize) -> Option<u16> {
    let at = page.len().checked_sub(SLOT_BYTES * (number + 1)).filter(|at| *at >= PAGE_DATA)?;
    be::u16_at(page, at)
}

/// What the page header says, as far as unpacking goes.
struct Header {
    /// Records in the heap, but for infimum and supremum.
    heap: u16,
    /// Records in the chain.
    records: u16,
    slots: u16,
    heap_top: u16,
    free: u16,
    leaf: bool,
    leftmost: bool,
}

impl Header {
    fn read(page: &[u8]) -> Self {
        let u16 = |offset| be::u16_at(page, offset).unwrap_or(0);
        Self {
            heap: (u16(PAGE_N_HEAP) & 0x7FFF).saturating_sub(2),
            records: u16(PAGE_N_RECS),
            slots: u16(PAGE_N_DIR_SLOTS),
            heap_top: u16(PAGE_HEAP_TOP),
            free: u16(PAGE_FREE),
            leaf: u16(PAGE_LEVEL) == 0,
            leftmost: be::u32_at(page, FIL_PAGE_PREV) == Some(PageNo::NONE.0),
        }
    }
}

/// The part of the page that is not compressed, below the dense directory.
struct Trailer {
    /// Where it ends, and the dense directory begins.
    end: usize,
}

impl Trailer {
    fn of(page: &[u8], header: &Header) -> Result<Self, ZipDamage> {
        let end = page.len().checked_sub(SLOT_BYTES * usize::from(header.heap)).filter(|end| *end > PAGE_DATA);
        Ok(Self { end: end.ok_or(ZipDamage::Directory { origin: 0 })? })
    }

    /// The `size` bytes of record `number`, in the order of heap numbers.
    fn of_record<'p>(&self, page: &'p [u8], number: usize, size: usize) -> Option<&'p [u8]> {
        let end = self.end.checked_sub(size * number)?;
        page.get(end.checked_sub(size)?..end)
    }

    /// Reference `number` of those below the parts of `records` records of a clustered leaf.
    fn reference<'p>(&self, page: &'p [u8], records: usize, number: usize) -> Option<&'p [u8]> {
        let end = self.end.checked_sub(SYSTEM_BYTES * records + REFERENCE_BYTES * number)?;
        page.get(end.checked_sub(REFERENCE_BYTES)?..end)
    }
}

/// The fields of the record at `origin`.
fn locate(layout: &Layout, page: &[u8], origin: u16, leaf: bool, fields: &mut RecordFields) -> Result<(), ZipDamage> {
    let record = Record::new(page, origin, RecordStyle::Compact, leaf).ok_or(ZipDamage::Missing { origin })?;
    layout.locate(&record, fields).map_err(ZipDamage::Record)
}

/// The parts of a record's data that the stream and the log hold: all but what the trailer has. Each as start and end, ascending.
fn packed_parts(
    layout: &Layout,
    fields: &RecordFields,
    origin: usize,
    leaf: bool,
) -> impl Iterator<Item = (usize, usize)> {
    let mut holes: Vec<(usize, usize)> = Vec::new();
    if !leaf {
        holes.push((fields.end() - CHILD_BYTES, fields.end()));
    } else if let Some(trx_id) = layout.trx_id() {
        let slots = fields.slots().iter().enumerate();
        for (number, slot) in slots {
            let (start, end) = (slot.start as usize, (slot.start + slot.len) as usize);
            if number == trx_id {
                holes.push((start, start + SYSTEM_BYTES));
            } else if slot.stored == crate::record::Stored::Extern {
                holes.push((end - REFERENCE_BYTES, end));
            }
        }
    }
    holes.push((fields.end(), fields.end()));
    let mut at = origin;
    holes.into_iter().map(move |(start, end)| (std::mem::replace(&mut at, end), start))
}
