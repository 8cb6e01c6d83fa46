//! Numbers as they are stored.

use super::error::ValueError;

/// The bytes of a fixed-length type.
pub(super) fn exactly<const N: usize>(stored: &[u8]) -> Result<[u8; N], ValueError> {
    stored.try_into().map_err(|_| ValueError::Length { found: stored.len(), expected: N })
}

/// An unsigned big-endian number of up to eight bytes.
#[inline]
pub(super) fn unsigned(stored: &[u8]) -> u64 {
    // One case per integer length, none with a loop.
    match *stored {
        [a] => a.into(),
        [a, b] => u16::from_be_bytes([a, b]).into(),
        [a, b, c] => u32::from_be_bytes([0, a, b, c]).into(),
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
        [a, b, c, d, e] => u64::from_be_bytes([0, 0, 0, a, b, c, d, e]),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => stored.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

/// A number whose top bit is set if it is not negative.
#[inline]
pub(super) fn signed(stored: &[u8]) -> i64 {
    let bits = 8 * stored.len().clamp(1, 8) as u32;
    let number = unsigned(stored) ^ 1 << (bits - 1);
    // Move the sign bit to the top of the register and back.
    (number << (u64::BITS - bits)) as i64 >> (u64::BITS - bits)
}

#[cfg(test)]
mod tests {
    use super::{signed, unsigned};

    #[test]
    fn numbers_of_every_length_are_big_endian_with_the_sign_turned_over() {
        for len in 1..=8_usize {
            for first in [0, 1, 0x7F, 0x80, 0x81, 0xFF] {
                let stored: Vec<u8> = (0..len as u8).map(|at| if at == 0 { first } else { 7 * at + 200 }).collect();
                let number = stored.iter().fold(0_i128, |number, byte| number << 8 | i128::from(*byte));
                assert_eq!(i128::from(unsigned(&stored)), number);
                assert_eq!(i128::from(signed(&stored)), number - (1 << (8 * len - 1)), "{stored:?}");
            }
        }
    }
}
