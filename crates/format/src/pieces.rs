//! Reading a stream that arrives in pieces of any size: what the push parsers share.

/// Cuts up to `count` bytes off the front of `input`.
pub fn take<'i>(input: &mut &'i [u8], count: usize) -> &'i [u8] {
    let (front, rest) = input.split_at_checked(count).unwrap_or((input, &[]));
    *input = rest;
    front
}

/// Moves bytes from the front of `input` to the end of `buffer` until that holds `want`; whether it does now.
pub fn gather(buffer: &mut Vec<u8>, input: &mut &[u8], want: usize) -> bool {
    let missing = want.saturating_sub(buffer.len());
    buffer.extend_from_slice(take(input, missing));
    buffer.len() >= want
}

/// `count` as a length in memory: what does not fit is more than any piece holds.
pub fn clamp(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
