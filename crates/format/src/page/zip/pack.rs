//! Compresses a page from scratch.
//!
//! The field descriptions are those of the last unpacked page: it is the same page, and its index does not change. The deflate output
//! differs from that of the server's library, but unpacks to the same page.

use std::ops::Range;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::directory::{put_slots, slots_of};
use super::edit_error::ZipEditError;
use super::entry;
use super::header::{Header, SLOT_ORIGIN};
use super::parts::{HEADER_BYTES, REFERENCE_BYTES, locate, packed_parts};
use super::trailer::{Extent, Places};
use super::unpacker::Unpacker;
use crate::fil::{FIL_PAGE_DATA, FIL_PAGE_LSN, FIL_PAGE_PREV, FIL_PAGE_TYPE};
use crate::page::index::PAGE_DATA;
use crate::record::{Layout, RecordStyle};
use crate::zip_damage::ZipDamage;

/// The highest level of zlib.
pub(super) const LEVEL_MAX: u8 = 9;

/// Header fields that both pages have at the same offsets: all but checksum, number, LSN and space id.
pub(super) const HEADERS: [Range<usize>; 3] =
    [FIL_PAGE_PREV..FIL_PAGE_LSN, FIL_PAGE_TYPE..FIL_PAGE_TYPE + 2, FIL_PAGE_DATA..PAGE_DATA];

/// Copies [`HEADERS`].
pub(super) fn copy_headers(page: &[u8], packed: &mut [u8]) {
    for range in HEADERS {
        if let (Some(from), Some(to)) = (page.get(range.clone()), packed.get_mut(range)) {
            to.copy_from_slice(from);
        }
    }
}

impl Unpacker {
    /// Compresses `page` into `packed`, whose checksum, number, LSN and space id are left alone.
    pub(super) fn pack(
        &mut self,
        page: &[u8],
        layout: &Layout,
        level: u8,
        packed: &mut [u8],
    ) -> Result<Extent, ZipEditError> {
        let header = Header::read(page);
        let mut slots = Vec::new();
        slots_of(page, &header, &mut slots)?;
        self.origins.clear();
        self.origins.extend(slots.iter().map(|slot| slot & SLOT_ORIGIN));
        self.origins.sort_unstable();
        self.gather(page, &header, layout)?;
        let too_large = ZipEditError::TooLarge { len: packed.len() };
        copy_headers(page, packed);
        packed.get_mut(PAGE_DATA..).ok_or(too_large)?.fill(0);
        let places = Places::of(packed, layout);
        let references = self.store(page, &header, layout, &places, &slots, packed)?;
        // After the stream, a byte marks the end of the log.
        let room = packed.get_mut(PAGE_DATA..places.start(references).saturating_sub(1)).ok_or(too_large)?;
        let window_bits = page.len().ilog2() as u8;
        let used = deflate(&self.described, &self.data, level, window_bits, room).ok_or(too_large)?;
        put_slots(packed, &slots);
        Ok(Extent { log_end: PAGE_DATA + used, references })
    }

    /// Collects the input of the stream: everything in the heap except fixed headers and the trailer's part.
    fn gather(&mut self, page: &[u8], header: &Header, layout: &Layout) -> Result<(), ZipDamage> {
        let Self { data, origins, fields, .. } = self;
        data.clear();
        let mut at = usize::from(RecordStyle::Compact.heap_start());
        for &origin in origins.iter() {
            let damaged = ZipDamage::Directory { origin: u32::from(origin) };
            let origin_at = usize::from(origin);
            data.extend_from_slice(page.get(at..origin_at - HEADER_BYTES).ok_or(damaged)?);
            locate(layout, page, origin, header.leaf, fields)?;
            for (start, end) in packed_parts(layout, fields, origin_at, header.leaf) {
                data.extend_from_slice(page.get(start..end).ok_or(damaged)?);
            }
            at = fields.end();
        }
        let rest = page.get(at..usize::from(header.heap_top).max(at)).ok_or(ZipDamage::Stream)?;
        data.extend_from_slice(rest);
        Ok(())
    }

    /// Fills the trailer. Returns the number of references in it.
    fn store(
        &mut self,
        page: &[u8],
        header: &Header,
        layout: &Layout,
        places: &Places,
        slots: &[u16],
        packed: &mut [u8],
    ) -> Result<usize, ZipDamage> {
        let mut free: Vec<u16> = slots.iter().skip(header.records.into()).copied().collect();
        free.sort_unstable();
        let Self { origins, fields, .. } = self;
        let mut references = 0;
        if header.leaf && !layout.is_clustered() {
            return Ok(0);
        }
        for &origin in origins.iter() {
            locate(layout, page, origin, header.leaf, fields)?;
            entry::store(packed, places, page, origin, entry::stored_part(layout, fields, header.leaf))?;
            if free.binary_search(&origin).is_ok() {
                continue;
            }
            for (_, reference) in fields.references(page) {
                let target = places.references(packed, references, 1).filter(|to| to.len() == REFERENCE_BYTES);
                target.ok_or(ZipDamage::Missing { origin })?.copy_from_slice(reference);
                references += 1;
            }
        }
        Ok(references)
    }
}

/// Compresses descriptions and records into one stream. Returns its length, if it fits.
fn deflate(described: &[u8], data: &[u8], level: u8, window_bits: u8, out: &mut [u8]) -> Option<usize> {
    let level = Compression::new(u32::from(level.min(LEVEL_MAX)));
    let mut zlib = Compress::new_with_window_bits(level, true, window_bits);
    let first = zlib.compress(described, out, FlushCompress::Full).ok()?;
    let used = usize::try_from(zlib.total_out()).ok()?;
    let is_whole = first == Status::Ok && zlib.total_in() == described.len() as u64 && used < out.len();
    let rest = out.get_mut(used..).filter(|_| is_whole)?;
    let last = zlib.compress(data, rest, FlushCompress::Finish).ok()?;
    let used = usize::try_from(zlib.total_out()).ok()?;
    (last == Status::StreamEnd).then_some(used)
}
