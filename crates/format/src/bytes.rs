//! Checked access to bytes: getters that return `None` past the end, and a test for zeros.

/// Big-endian integers at an offset.
pub mod be {
    /// The 16-bit integer at `offset`.
    #[inline]
    #[must_use]
    pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
        Some(u16::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// The 32-bit integer at `offset`.
    #[inline]
    #[must_use]
    pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
        Some(u32::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// The 64-bit integer at `offset`.
    #[inline]
    #[must_use]
    pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
        Some(u64::from_be_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// Writes `value` at `offset`; `None`, with nothing written, if it does not fit.
    #[must_use]
    pub fn put_u16(bytes: &mut [u8], offset: usize, value: u16) -> Option<()> {
        *bytes.get_mut(offset..)?.first_chunk_mut()? = value.to_be_bytes();
        Some(())
    }

    /// Writes `value` at `offset`; `None`, with nothing written, if it does not fit.
    #[must_use]
    pub fn put_u32(bytes: &mut [u8], offset: usize, value: u32) -> Option<()> {
        *bytes.get_mut(offset..)?.first_chunk_mut()? = value.to_be_bytes();
        Some(())
    }

    /// Writes `value` at `offset`; `None`, with nothing written, if it does not fit.
    #[must_use]
    pub fn put_u64(bytes: &mut [u8], offset: usize, value: u64) -> Option<()> {
        *bytes.get_mut(offset..)?.first_chunk_mut()? = value.to_be_bytes();
        Some(())
    }
}

/// Little-endian integers at an offset.
#[expect(clippy::little_endian_bytes, reason = "the servers' own files around InnoDB's are little-endian")]
pub mod le {
    /// The 16-bit integer at `offset`.
    pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// The 32-bit integer at `offset`.
    pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// The 64-bit integer at `offset`.
    pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// Writes `value` at `offset`; does nothing if it does not fit.
    pub fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
        if let Some(field) = bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
            *field = value.to_le_bytes();
        }
    }
}

/// Whether every byte is zero.
///
/// ORs blocks of 256 bytes without a branch inside, which compiles to vector instructions: memory bounds the test of a 64 KiB page of
/// zeros, and a page with content is done at its first non-zero block.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<256>();
    blocks.iter().all(|block| or_all(block) == 0) && or_all(rest) == 0
}

#[inline]
fn or_all(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |all, byte| all | byte)
}
