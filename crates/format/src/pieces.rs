//! Reading a stream that arrives in pieces of any size: what the push parsers share, and little-endian getters for the
//! containers around InnoDB's files, which are not big-endian as those are.

/// Cuts up to `count` bytes off the front of `input`.
pub(crate) fn take<'i>(input: &mut &'i [u8], count: usize) -> &'i [u8] {
    let (front, rest) = input.split_at_checked(count).unwrap_or((input, &[]));
    *input = rest;
    front
}

/// Moves bytes from the front of `input` to the end of `buffer` until that holds `want`; whether it does now.
pub(crate) fn gather(buffer: &mut Vec<u8>, input: &mut &[u8], want: usize) -> bool {
    let missing = want.saturating_sub(buffer.len());
    buffer.extend_from_slice(take(input, missing));
    buffer.len() >= want
}

/// `count` as a length in memory: what does not fit is more than any piece holds.
pub(crate) fn clamp(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Little-endian integers at an offset.
#[expect(clippy::little_endian_bytes, reason = "the binary log and the xbstream container are little-endian")]
pub(crate) mod le {
    /// The 16-bit integer at `offset`.
    pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// The 32-bit integer at `offset`.
    pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// The 64-bit integer at `offset`.
    pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
    }

    /// Writes `value` at `offset`; nothing where the bytes end before it.
    pub(crate) fn put_u32(bytes: &mut [u8], offset: usize, value: u32) {
        if let Some(field) = bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
            *field = value.to_le_bytes();
        }
    }
}
