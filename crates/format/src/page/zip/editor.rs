//! Changes a packed page and the page inside together.

use super::agree::agree;
use super::directory::{put_slots, slots_of};
use super::edit_error::ZipEditError;
use super::entry;
use super::header::{Header, SLOT_ORIGIN, dense_slot};
use super::pack::{LEVEL_MAX, copy_headers};
use super::parts::{HEADER_BYTES, REFERENCE_BYTES, locate};
use super::trailer::{Extent, Places};
use super::unpacker::Unpacker;
use crate::page::space_format::SpaceFormat;
use crate::record::{Layout, RecordFields, Stored};
use crate::zip_damage::ZipDamage;

/// The page inside a compressed page, while both are changed. Change the page inside first, then report the change: the packed page is then
/// changed as the server does it. The server appends whole records to the modification log and keeps the rest in the trailer.
///
/// After an error neither page may be used, except for [`repack`](Self::repack).
#[derive(Debug)]
pub struct Editor {
    unpacker: Unpacker,
    page: Vec<u8>,
    layout: Layout,
    extent: Extent,
    leaf: bool,
    fields: RecordFields,
    entry: Vec<u8>,
    slots: Vec<u16>,
}

impl Editor {
    /// Unpacks an index page.
    ///
    /// # Errors
    /// As [`Unpacker::unpack`].
    pub fn open(packed: &[u8], format: &SpaceFormat) -> Result<Self, ZipDamage> {
        let mut unpacker = Unpacker::new();
        let mut page = vec![0; format.logical().bytes()];
        let extent = unpacker.unpack_whole(packed, format, &mut page)?;
        let header = Header::read(packed);
        let layout = unpacker.layout(&header)?;
        let (fields, entry, slots) = (RecordFields::new(), Vec::new(), Vec::new());
        Ok(Self { unpacker, page, layout, extent, leaf: header.leaf, fields, entry, slots })
    }

    /// The page inside.
    #[must_use]
    pub fn page(&mut self) -> &mut [u8] {
        &mut self.page
    }

    /// Reports that the record at `origin` was inserted into the page inside: in new heap space if `from_heap`, else in a free slot.
    ///
    /// # Errors
    /// [`ZipEditError::NoRoom`] if the packed page is full; other errors mean that the page inside is invalid.
    pub fn inserted(&mut self, packed: &mut [u8], origin: u16, from_heap: bool) -> Result<(), ZipEditError> {
        if from_heap {
            Places::of(packed, &self.layout).grow(packed, self.extent)?;
        }
        self.mirror(packed)?;
        self.append(packed, origin, true)
    }

    /// Reports that fields of the record at `origin` were changed in place.
    ///
    /// # Errors
    /// As [`inserted`](Self::inserted).
    pub fn updated(&mut self, packed: &mut [u8], origin: u16) -> Result<(), ZipEditError> {
        self.mirror(packed)?;
        self.append(packed, origin, false)
    }

    /// Reports that the record at `origin` was freed. Its bytes in the trailer are zeroed in both pages; its other bytes stay.
    ///
    /// # Errors
    /// [`ZipEditError::Damage`] if the page inside is invalid.
    pub fn removed(&mut self, packed: &mut [u8], origin: u16) -> Result<(), ZipEditError> {
        let missing = ZipDamage::Missing { origin };
        let at = usize::from(origin).checked_sub(HEADER_BYTES).ok_or(missing)?;
        *self.page.get_mut(at).ok_or(missing)? = 0;
        self.mirror(packed)?;
        let places = Places::of(packed, &self.layout);
        let count = self.locate(origin)?;
        let part = entry::stored_part(&self.layout, &self.fields, self.leaf);
        if count > 0 {
            let outside = self.fields.slots().iter().filter(|slot| slot.stored == Stored::Extern);
            for end in outside.map(|slot| (slot.start + slot.len) as usize) {
                self.page.get_mut(end - REFERENCE_BYTES..end).ok_or(missing)?.fill(0);
            }
            let before = self.references_before(packed, origin)?;
            places.remove_references(packed, &mut self.extent, before, count);
        }
        self.page.get_mut(part).ok_or(missing)?.fill(0);
        places.stored(packed, entry::heap_no(&self.page, origin)).ok_or(missing)?.fill(0);
        Ok(())
    }

    /// Reports that DB_TRX_ID and DB_ROLL_PTR of the record at `origin` were changed, or the child of a node pointer.
    ///
    /// # Errors
    /// [`ZipEditError::Damage`] if the page inside is invalid.
    pub fn stored(&mut self, packed: &mut [u8], origin: u16) -> Result<(), ZipEditError> {
        self.locate(origin)?;
        let part = entry::stored_part(&self.layout, &self.fields, self.leaf);
        entry::store(packed, &Places::of(packed, &self.layout), &self.page, origin, part)?;
        Ok(())
    }

    /// Reports that record flags or the header were changed.
    ///
    /// # Errors
    /// [`ZipEditError::Damage`] if the page inside is invalid.
    pub fn mirror(&mut self, packed: &mut [u8]) -> Result<(), ZipEditError> {
        slots_of(&self.page, &Header::read(&self.page), &mut self.slots)?;
        copy_headers(&self.page, packed);
        put_slots(packed, &self.slots);
        Ok(())
    }

    /// Compresses the page inside again. If it does not fit at `level`, tries the other levels, from the highest down: our compressor is
    /// not the server's, and its output may be longer.
    ///
    /// # Errors
    /// [`ZipEditError::TooLarge`] if it does not fit at any level; other errors mean that the page inside is invalid.
    pub fn repack(&mut self, packed: &mut [u8], level: u8) -> Result<(), ZipEditError> {
        let harder = (1..=LEVEL_MAX).rev();
        let mut result = Err(ZipEditError::TooLarge { len: packed.len() });
        for level in [level].into_iter().chain(harder) {
            result = self.unpacker.pack(&self.page, &self.layout, level, packed);
            if !matches!(result, Err(ZipEditError::TooLarge { .. })) {
                break;
            }
        }
        self.extent = result?;
        Ok(())
    }

    /// Whether the packed page unpacks to the page inside, apart from bytes that nothing reads.
    ///
    /// # Errors
    /// [`ZipEditError`]: it does not.
    pub fn check(&mut self, packed: &[u8], format: &SpaceFormat) -> Result<(), ZipEditError> {
        let mut unpacked = vec![0; self.page.len()];
        let extent = self.unpacker.unpack_whole(packed, format, &mut unpacked)?;
        let is_same = extent == self.extent && agree(&unpacked, &self.page, &self.layout, &mut self.fields)?;
        if is_same { Ok(()) } else { Err(ZipEditError::Different) }
    }

    /// Locates a record's fields. Returns how many have references.
    fn locate(&mut self, origin: u16) -> Result<usize, ZipDamage> {
        entry::references_in(&self.layout, &self.page, origin, self.leaf, &mut self.fields)
    }

    /// Number of references in the trailer for records before this one, in heap order.
    fn references_before(&mut self, packed: &[u8], origin: u16) -> Result<usize, ZipDamage> {
        let records = usize::from(Header::read(packed).records);
        let mut fields = RecordFields::new();
        let mut count = 0;
        for number in (0..records).take_while(|_| self.extent.references > 0) {
            let other = dense_slot(packed, number).unwrap_or(0) & SLOT_ORIGIN;
            if other < origin {
                locate(&self.layout, &self.page, other, self.leaf, &mut fields)?;
                count += fields.references(&self.page).count();
            }
        }
        Ok(count)
    }

    /// Appends the record to the log and stores its trailer part.
    fn append(&mut self, packed: &mut [u8], origin: u16, is_new: bool) -> Result<(), ZipEditError> {
        let missing = ZipDamage::Missing { origin };
        let places = Places::of(packed, &self.layout);
        let count = self.locate(origin)?;
        entry::write(&mut self.entry, &self.page, origin, &self.layout, self.leaf, &self.fields)?;
        let part = entry::stored_part(&self.layout, &self.fields, self.leaf);
        entry::store(packed, &places, &self.page, origin, part)?;
        if count > 0 {
            let before = self.references_before(packed, origin)?;
            if is_new {
                places.add_references(packed, &mut self.extent, before, count)?;
            }
            for (number, (_, reference)) in (before..).zip(self.fields.references(&self.page)) {
                let target = places.references(packed, number, 1).filter(|_| number < self.extent.references);
                target.ok_or(missing)?.copy_from_slice(reference);
            }
        }
        let (wanted, free) = (self.entry.len(), places.free(self.extent));
        let end = self.extent.log_end + wanted;
        let target = packed.get_mut(self.extent.log_end..end).filter(|_| wanted < free);
        target.ok_or(ZipEditError::NoRoom { wanted, free })?.copy_from_slice(&self.entry);
        self.extent.log_end = end;
        Ok(())
    }
}
