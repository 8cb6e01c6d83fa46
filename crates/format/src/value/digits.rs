//! Writes decimal numbers without the overhead of `format!`: most values of an export pass through here.

use std::io::Write;

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Writes a number in decimal.
#[inline]
pub fn write_uint(number: u64, out: &mut Vec<u8>) {
    write_padded(number, 1, out);
}

/// Writes a number in decimal.
#[inline]
pub fn write_int(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    write_padded(number.unsigned_abs(), 1, out);
}

/// Digits written together, and the least number with more digits.
pub(super) const GROUP: usize = 8;
pub(super) const GROUP_END: u64 = 100_000_000;

/// Writes a number in decimal, padded with zeros to `width` digits.
#[inline]
pub(super) fn write_padded(number: u64, width: usize, out: &mut Vec<u8>) {
    if number < GROUP_END && width <= GROUP {
        return write_group(number, width, out);
    }
    write_long(number, width, out);
}

/// A number of more than one group.
fn write_long(number: u64, width: usize, out: &mut Vec<u8>) {
    let (before, last) = (number / GROUP_END, number % GROUP_END);
    let width = width.saturating_sub(GROUP);
    if before < GROUP_END {
        out.extend(std::iter::repeat_n(b'0', width.saturating_sub(GROUP)));
        write_group(before, width, out);
    } else {
        write_long(before, width, out);
    }
    write_group(last, GROUP, out);
}

/// A number below [`GROUP_END`] with at least `width` digits, at most [`GROUP`]; zero has one.
#[inline]
fn write_group(number: u64, width: usize, out: &mut Vec<u8>) {
    let (text, len) = group(number, width);
    // Append all bytes, then truncate: a copy of constant length needs no call to `memcpy`.
    let end = out.len() + len;
    out.extend_from_slice(&text);
    out.truncate(end);
}

/// Writes a number with `scale` decimals, at most [`GROUP`]. `whole` is below [`GROUP_END`], and `fraction` has at most `scale` digits.
#[inline]
pub(super) fn write_point(whole: u64, fraction: u64, scale: usize, out: &mut Vec<u8>) {
    let ((before, point), (behind, decimals)) = (group(whole, 1), group(fraction, scale));
    // Assembled in place, and appended once.
    let mut text = [b'.'; 2 * GROUP + 1];
    if let Some(room) = text.first_chunk_mut() {
        *room = before;
    }
    if let Some([sign, digits @ ..]) = text.get_mut(point..).and_then(|rest| rest.first_chunk_mut::<{ GROUP + 1 }>()) {
        (*sign, *digits) = (b'.', behind);
    }
    let end = out.len() + point + 1 + decimals;
    out.extend_from_slice(&text);
    out.truncate(end);
}

/// The digits of a number below [`GROUP_END`], at least `width` and at most [`GROUP`] of them, and their number. The bytes after them have
/// no meaning.
#[inline]
fn group(number: u64, width: usize) -> ([u8; GROUP], usize) {
    let digits = eight_digits(number);
    let zeros = digits.trailing_zeros() as usize / 8;
    let left_out = zeros.min(GROUP - width.clamp(1, GROUP));
    let text = (digits | 0x3030_3030_3030_3030) >> (8 * left_out);
    (text.swap_bytes().to_be_bytes(), GROUP - left_out)
}

/// The digits of a number below [`GROUP_END`], the first in the lowest byte. Each step splits all parts of the number in half at once: into
/// fours, pairs, digits. It multiplies by the reciprocals of 100 and 10, which is exact for numbers this small.
#[inline]
const fn eight_digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7F_0000_007F;
    let pairs = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | ((pairs - 10 * tens) << 8)
}

/// The two digits of a number below 100; two zeros for a larger one.
#[inline]
pub(super) fn pair(number: u8) -> [u8; 2] {
    let at = 2 * usize::from(number);
    PAIRS.get(at..at + 2).and_then(|pair| pair.try_into().ok()).unwrap_or(*b"00")
}

pub(super) fn write_display(value: &impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let written = write!(out, "{value}");
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::{GROUP, GROUP_END, eight_digits, write_padded, write_point};

    #[test]
    fn numbers_with_a_point_have_all_their_decimals() {
        for scale in 1..=GROUP {
            let end = 10_u64.pow(scale as u32);
            for fraction in [0, 1, end / 7, end / 2, end - 1] {
                for whole in [0, 1, 9, 10, 1234, GROUP_END / 3, GROUP_END - 1] {
                    let mut out = b"x".to_vec();
                    write_point(whole, fraction, scale, &mut out);
                    assert_eq!(String::from_utf8_lossy(&out), format!("x{whole}.{fraction:0scale$}"));
                }
            }
        }
    }

    #[test]
    fn eight_digits_are_those_of_each_number() {
        // Every number of four digits in each half: the halves are independent.
        for number in (0..10_000).flat_map(|four| [four, four * 10_000, four * 10_001, GROUP_END - 1 - four]) {
            let digits = (eight_digits(number) | 0x3030_3030_3030_3030).swap_bytes().to_be_bytes();
            assert_eq!(String::from_utf8_lossy(&digits), format!("{number:08}"));
        }
    }

    #[test]
    fn numbers_have_the_digits_that_format_gives_them() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let numbers = powers.flat_map(|power| [power - 1, power, power + 1, 9 * (power / 10)]).chain([0, u64::MAX]);
        for number in numbers {
            for width in [0, 1, 2, 4, 7, 8, 9, 15, 16, 17, 19, 20, 21, 30] {
                let mut out = b"x".to_vec();
                write_padded(number, width, &mut out);
                assert_eq!(String::from_utf8(out).expect("ASCII"), format!("x{number:0width$}"));
            }
        }
    }
}
