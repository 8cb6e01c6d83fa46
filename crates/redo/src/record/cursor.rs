//! Reading the fields of a record.

use super::fault::RecordFault;
use format::bytes::be;

/// Each longer form's range of numbers starts where the shorter one's ends: every number has exactly one form.
const MIN_2: u32 = 0x80;
const MIN_3: u32 = MIN_2 + (1 << 14);
const MIN_4: u32 = MIN_3 + (1 << 21);
const MIN_5: u32 = MIN_4 + (1 << 28);
/// Lengths and offsets take at most three bytes.
const SIZE_END: u32 = MIN_4;

/// The unread bytes of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Number of unread bytes.
    pub(super) const fn left(&self) -> usize {
        self.0.len()
    }

    pub(super) fn byte(&mut self) -> Result<u8, RecordFault> {
        let (&byte, rest) = self.0.split_first().ok_or(RecordFault::Fields)?;
        self.0 = rest;
        Ok(byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, RecordFault> {
        let value = be::u32_at(self.0, 0).ok_or(RecordFault::Fields)?;
        self.0 = self.0.get(4..).unwrap_or_default();
        Ok(value)
    }

    pub(super) fn u64(&mut self) -> Result<u64, RecordFault> {
        let value = be::u64_at(self.0, 0).ok_or(RecordFault::Fields)?;
        self.0 = self.0.get(8..).unwrap_or_default();
        Ok(value)
    }

    /// A variable-length number.
    pub(super) fn varint(&mut self) -> Result<u32, RecordFault> {
        let first = u32::from(self.byte()?);
        let (base, mut value, more) = match first {
            0..=0x7F => return Ok(first),
            0x80..=0xBF => (MIN_2, first & 0x3F, 1),
            0xC0..=0xDF => (MIN_3, first & 0x1F, 2),
            0xE0..=0xEF => (MIN_4, first & 0x0F, 3),
            0xF0 => (MIN_5, 0, 4),
            _ => return Err(RecordFault::Fields),
        };
        for _ in 0..more {
            value = value << 8 | u32::from(self.byte()?);
        }
        // The largest 32-bit number means "none" everywhere and is never written.
        base.checked_add(value).filter(|&value| value != u32::MAX).ok_or(RecordFault::Fields)
    }

    /// A length or an offset.
    pub(super) fn size(&mut self) -> Result<usize, RecordFault> {
        let value = self.varint()?;
        if value < SIZE_END {
            usize::try_from(value).map_err(|_| RecordFault::Fields)
        } else {
            Err(RecordFault::Fields)
        }
    }

    /// All unread bytes: at least one.
    pub(super) fn rest(&mut self) -> Result<&'a [u8], RecordFault> {
        let rest = std::mem::take(&mut self.0);
        if rest.is_empty() { Err(RecordFault::Fields) } else { Ok(rest) }
    }

    /// Returns `value` if nothing is left.
    pub(super) fn ended<T>(&self, value: T) -> Result<T, RecordFault> {
        if self.0.is_empty() { Ok(value) } else { Err(RecordFault::Fields) }
    }
}
