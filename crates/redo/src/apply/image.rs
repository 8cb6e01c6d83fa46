//! Checked access to the bytes of a page being changed.

use super::error::ApplyError;
use format::bytes::be;

pub(super) type Result<T> = std::result::Result<T, ApplyError>;

/// A page. Every access checks its bounds.
pub(super) struct Image<'p>(&'p mut [u8]);

impl<'p> Image<'p> {
    pub(super) const fn new(bytes: &'p mut [u8]) -> Self {
        Self(bytes)
    }

    /// Page size, bytes.
    pub(super) const fn size(&self) -> usize {
        self.0.len()
    }

    const fn outside(&self, offset: usize, len: usize) -> ApplyError {
        ApplyError::OutsidePage { offset, len, size: self.0.len() }
    }

    pub(super) fn bytes(&self, offset: usize, len: usize) -> Result<&[u8]> {
        let end = offset.checked_add(len);
        end.and_then(|end| self.0.get(offset..end)).ok_or(self.outside(offset, len))
    }

    pub(super) fn bytes_mut(&mut self, offset: usize, len: usize) -> Result<&mut [u8]> {
        let outside = self.outside(offset, len);
        let end = offset.checked_add(len);
        end.and_then(|end| self.0.get_mut(offset..end)).ok_or(outside)
    }

    pub(super) fn u8(&self, offset: usize) -> Result<u8> {
        self.0.get(offset).copied().ok_or(self.outside(offset, 1))
    }

    pub(super) fn u16(&self, offset: usize) -> Result<u16> {
        be::u16_at(self.0, offset).ok_or(self.outside(offset, 2))
    }

    pub(super) fn put_u8(&mut self, offset: usize, value: u8) -> Result<()> {
        self.put(offset, &[value])
    }

    pub(super) fn put_u16(&mut self, offset: usize, value: u16) -> Result<()> {
        self.put(offset, &value.to_be_bytes())
    }

    /// Writes `data` at `offset`.
    pub(super) fn put(&mut self, offset: usize, data: &[u8]) -> Result<()> {
        self.bytes_mut(offset, data.len())?.copy_from_slice(data);
        Ok(())
    }

    /// Fills `len` bytes with `value`.
    pub(super) fn fill(&mut self, offset: usize, len: usize, value: u8) -> Result<()> {
        self.bytes_mut(offset, len)?.fill(value);
        Ok(())
    }

    /// Moves bytes; source and target may overlap.
    pub(super) fn shift(&mut self, from: usize, to: usize, len: usize) -> Result<()> {
        self.bytes(from, len)?;
        self.bytes(to, len)?;
        // Both ranges were checked above.
        self.0.copy_within(from..from + len, to);
        Ok(())
    }
}

/// `value` as a 16-bit field of the page; a larger value is beyond any page.
pub(super) fn field(value: usize) -> Result<u16> {
    u16::try_from(value).map_err(|_| ApplyError::RecordPointer { offset: value })
}
