//! Numbers as they are stored.

use super::error::ValueError;

/// The bytes of a type of fixed length.
pub(super) fn exactly<const N: usize>(stored: &[u8]) -> Result<[u8; N], ValueError> {
    stored.try_into().map_err(|_| ValueError::Length { found: stored.len(), expected: N })
}

/// An unsigned big-endian number of up to eight bytes.
pub(super) fn unsigned(stored: &[u8]) -> u64 {
    stored.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number whose top bit says that it is not negative.
pub(super) fn signed(stored: &[u8]) -> i64 {
    let bits = 8 * stored.len().min(8) as u32;
    let half = 1_i128 << (bits.max(1) - 1);
    (i128::from(unsigned(stored)) - half) as i64
}
