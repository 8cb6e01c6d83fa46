//! Helpers for push parsers, which read a stream in pieces of any size.

/// Cuts up to `count` bytes off the front of `input`.
pub fn take<'i>(input: &mut &'i [u8], count: usize) -> &'i [u8] {
    let (front, rest) = input.split_at_checked(count).unwrap_or((input, &[]));
    *input = rest;
    front
}

/// Moves bytes from the front of `input` to the end of `buffer` until that holds `want` bytes. Returns whether it does.
pub fn gather(buffer: &mut Vec<u8>, input: &mut &[u8], want: usize) -> bool {
    let missing = want.saturating_sub(buffer.len());
    buffer.extend_from_slice(take(input, missing));
    buffer.len() >= want
}

/// `count` as a length in memory. A count that does not fit becomes the maximum, which is more than any piece holds.
pub fn clamp(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
