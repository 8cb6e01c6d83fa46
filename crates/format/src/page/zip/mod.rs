#![doc = include_str!("../../../docs/zip.md")]

mod agree;
mod directory;
pub mod edit_error;
mod editor;
mod entry;
mod header;
mod log;
mod pack;
mod parts;
mod rebuild;
mod stream;
mod trailer;
mod unpacker;

pub use crate::zip_damage::ZipDamage;
pub use edit_error::ZipEditError;
pub use editor::Editor;
pub use unpacker::Unpacker;

use crate::page::space_format::SpaceFormat;
use crate::record::RecordStyle;
use header::{Header, SLOT_ORIGIN, Trailer, dense_slot};
use parts::HEADER_BYTES;
use trailer::Extent;

impl Unpacker {
    /// Unpacks `page`, an index page of a ROW_FORMAT=COMPRESSED tablespace, into `out`: the page as the server works on it.
    ///
    /// `page` is a physical page, `out` as long as a logical one. No schema is needed, because the page describes its own fields. Checksum
    /// and trailer of the result are meaningless.
    ///
    /// # Errors
    /// [`ZipDamage`]: what is impossible about the page. The content of `out` is then undefined.
    pub fn unpack(&mut self, page: &[u8], format: &SpaceFormat, out: &mut [u8]) -> Result<(), ZipDamage> {
        self.unpack_whole(page, format, out).map(|_| ())
    }

    /// [`Self::unpack`]. Also returns the extent of the packed page's log and references.
    fn unpack_whole(&mut self, page: &[u8], format: &SpaceFormat, out: &mut [u8]) -> Result<Extent, ZipDamage> {
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
        let packed = page.get(..trailer.end).unwrap_or(&[]);
        let log_end = log::apply(self, packed, log_at, &header, &layout, out)?;
        let references = rebuild::restore(self, page, &header, &layout, &trailer, out)?;
        Ok(Extent { log_end, references })
    }

    /// Checks that each record's origin occurs once and is inside the heap.
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
