//! The page directory: every fourth to eighth record has a slot; slots grow downwards from the end of the page.

use super::error::ApplyError;
use super::image::{Result, field};
use super::index::{Index, N_OWNED_MAX, PAGE_DIR, PAGE_DIR_SLOT_SIZE, PAGE_HEAP_TOP, PAGE_N_DIR_SLOTS};

/// The least number of records that an owner in the middle of the page owns.
pub(super) const N_OWNED_MIN: u8 = 4;
/// Infimum and supremum always have a slot.
const SLOTS_MIN: usize = 2;

impl Index<'_> {
    /// The number of slots. Fails if they do not fit on the page.
    fn slots(&self) -> Result<usize> {
        let slots = self.header(PAGE_N_DIR_SLOTS)?;
        let fits = self.image.size().saturating_sub(PAGE_DIR) / PAGE_DIR_SLOT_SIZE;
        if (SLOTS_MIN..=fits).contains(&slots) { Ok(slots) } else { Err(ApplyError::Directory { slots }) }
    }

    /// Offset of slot `slot`.
    fn slot_at(&self, slot: usize) -> Result<usize> {
        let before_end = PAGE_DIR + PAGE_DIR_SLOT_SIZE * (slot + 1);
        self.image.size().checked_sub(before_end).ok_or(ApplyError::Directory { slots: slot })
    }

    /// Start of the directory, which nothing else may cross.
    pub(super) fn directory_start(&self) -> Result<usize> {
        self.slot_at(self.slots()? - 1)
    }

    pub(super) fn slot_record(&self, slot: usize) -> Result<usize> {
        self.record(usize::from(self.image.u16(self.slot_at(slot)?)?))
    }

    pub(super) fn put_slot(&mut self, slot: usize, origin: usize) -> Result<()> {
        let at = self.slot_at(slot)?;
        self.image.put_u16(at, field(origin)?)
    }

    /// The slot that points to `owner`.
    pub(super) fn slot_of(&self, owner: usize) -> Result<usize> {
        let (start, size) = (self.directory_start()?, self.slots()? * PAGE_DIR_SLOT_SIZE);
        let wanted = field(owner)?.to_be_bytes();
        let (slots, _) = self.image.bytes(start, size)?.as_chunks::<PAGE_DIR_SLOT_SIZE>();
        slots.iter().rev().position(|slot| *slot == wanted).ok_or(ApplyError::NoSlot { offset: owner })
    }

    /// The owner in `slot` has one record too many: splits its group, with a new owner and slot for the first half.
    pub(super) fn split_slot(&mut self, slot: usize) -> Result<()> {
        let slots = self.slots()?;
        let before = slot.checked_sub(1).ok_or(ApplyError::Directory { slots })?;
        let owner = self.slot_record(slot)?;
        let mut middle = self.slot_record(before)?;
        for _ in 0..N_OWNED_MIN {
            middle = self.next(middle)?;
        }
        let start = self.directory_start()?;
        let new_start = start.saturating_sub(PAGE_DIR_SLOT_SIZE);
        if new_start < self.header(PAGE_HEAP_TOP)? {
            return Err(ApplyError::NoRoom { offset: new_start, len: PAGE_DIR_SLOT_SIZE });
        }
        self.image.shift(start, new_start, (slots - slot) * PAGE_DIR_SLOT_SIZE)?;
        self.put_header(PAGE_N_DIR_SLOTS, slots + 1)?;
        self.put_slot(slot, middle)?;
        self.put_n_owned(middle, N_OWNED_MIN)?;
        self.put_n_owned(owner, N_OWNED_MAX + 1 - N_OWNED_MIN)
    }

    /// The owner in `slot` has one record too few: merges its group with the next, or moves a record over.
    pub(super) fn balance_slot(&mut self, slot: usize) -> Result<()> {
        let slots = self.slots()?;
        if slot + 1 >= slots {
            return Ok(());
        }
        let (owner, above) = (self.slot_record(slot)?, self.slot_record(slot + 1)?);
        let above_owns = self.n_owned(above)?;
        if above_owns > N_OWNED_MIN {
            let next = self.next(owner)?;
            self.put_n_owned(owner, 0)?;
            self.put_n_owned(next, N_OWNED_MIN)?;
            self.put_slot(slot, next)?;
            return self.put_n_owned(above, above_owns - 1);
        }
        self.put_n_owned(owner, 0)?;
        self.put_n_owned(above, above_owns + N_OWNED_MIN - 1)?;
        // Move up the slots behind it; the lowest bytes become free.
        let start = self.directory_start()?;
        self.image.shift(start, start + PAGE_DIR_SLOT_SIZE, (slots - slot - 1) * PAGE_DIR_SLOT_SIZE)?;
        self.image.put_u16(start, 0)?;
        self.put_header(PAGE_N_DIR_SLOTS, slots - 1)
    }
}
