//! Reading the fields of a record.

use crate::record::RecordFault;
use format::bytes::be;

/// The unread bytes of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    pub(crate) const fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], RecordFault> {
        let end = self.at.checked_add(len).ok_or(RecordFault::Length)?;
        let taken = self.bytes.get(self.at..end).ok_or(RecordFault::Length)?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, RecordFault> {
        let byte = *self.bytes.get(self.at).ok_or(RecordFault::Length)?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, RecordFault> {
        be::u16_at(self.take(2)?, 0).ok_or(RecordFault::Length)
    }

    /// A 16-bit offset or length.
    pub(crate) fn size(&mut self) -> Result<usize, RecordFault> {
        self.u16().map(usize::from)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RecordFault> {
        be::u32_at(self.take(4)?, 0).ok_or(RecordFault::Length)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, RecordFault> {
        be::u64_at(self.take(8)?, 0).ok_or(RecordFault::Length)
    }

    /// A compressed 32-bit number. Its first byte gives the length; since 8.0.19 large numbers have short forms that no older server
    /// writes.
    pub(crate) fn cint(&mut self) -> Result<u32, RecordFault> {
        let first = u32::from(self.byte()?);
        let (base, more) = match first {
            0..=0x7F => return Ok(first),
            0x80..=0xBF => (first & 0x3F, 1),
            0xC0..=0xDF => (first & 0x1F, 2),
            0xE0..=0xEF => (first & 0x0F, 3),
            0xF0 => (0, 4),
            // All bits above the stored ones are set.
            0xF8..=0xFB => (0xFF_FFFC | first & 3, 1),
            0xFC | 0xFD => (0xFFFE | first & 1, 2),
            0xFE => (0xFF, 3),
            _ => return Err(RecordFault::Fields),
        };
        (0..more).try_fold(base, |value, _| Ok(value << 8 | u32::from(self.byte()?)))
    }

    /// Like [`cint`](Self::cint), as a length.
    pub(crate) fn cint_size(&mut self) -> Result<usize, RecordFault> {
        usize::try_from(self.cint()?).map_err(|_| RecordFault::Fields)
    }

    /// A 64-bit number with a compressed high half.
    pub(crate) fn c64(&mut self) -> Result<u64, RecordFault> {
        let high = self.cint()?;
        Ok(u64::from(high) << 32 | u64::from(self.u32()?))
    }

    /// A 64-bit number, compressed like a 32-bit one if it fits.
    pub(crate) fn mc64(&mut self) -> Result<u64, RecordFault> {
        const LONG: u8 = 0xFF;
        if self.bytes.get(self.at) != Some(&LONG) {
            return self.cint().map(u64::from);
        }
        self.at += 1;
        let high = self.cint()?;
        Ok(u64::from(high) << 32 | u64::from(self.cint()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_numbers_are_read_as_the_server_writes_them() {
        let cases: [(&[u8], u32); 15] = [
            (&[0], 0),
            (&[0x7F], 0x7F),
            (&[0x80, 0x80], 0x80),
            (&[0xBF, 0xFF], 0x3FFF),
            (&[0xC0, 0x40, 0], 0x4000),
            (&[0xDF, 0xFF, 0xFF], 0x1F_FFFF),
            (&[0xE0, 0x20, 0, 0], 0x20_0000),
            (&[0xEF, 0xFF, 0xFF, 0xFF], 0xFFF_FFFF),
            (&[0xF0, 0x10, 0, 0, 0], 0x1000_0000),
            (&[0xF0, 0xFE, 0xFF, 0xFF, 0xFF], 0xFEFF_FFFF),
            (&[0xFE, 0, 0, 0], 0xFF00_0000),
            (&[0xFC, 0, 0], 0xFFFE_0000),
            (&[0xFD, 0xFB, 0xFF], 0xFFFF_FBFF),
            (&[0xF8, 0], 0xFFFF_FC00),
            (&[0xFB, 0xFE], 0xFFFF_FFFE),
        ];
        for (bytes, value) in cases {
            let mut cursor = Cursor::new(bytes);
            assert_eq!((cursor.cint(), cursor.is_at_end()), (Ok(value), true), "{value:x}");
            let short = bytes.len() - 1;
            assert_eq!(Cursor::new(&bytes[..short]).cint(), Err(RecordFault::Length), "{value:x}");
        }
        assert_eq!(Cursor::new(&[0xFF, 1, 2]).mc64(), Ok(1 << 32 | 2));
        assert_eq!(Cursor::new(&[0xC0, 0x57, 0x48]).mc64(), Ok(22344));
        assert_eq!(Cursor::new(&[0, 0, 0, 0, 9]).c64(), Ok(9));
        assert_eq!(Cursor::new(&[0xF4, 0]).cint(), Err(RecordFault::Fields));
    }
}
