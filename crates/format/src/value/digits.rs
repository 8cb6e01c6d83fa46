//! Decimal numbers without the overhead of `format!`: most values of an export are written here.

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

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Number of digits; 1 for zero.
#[inline]
const fn count(number: u64) -> usize {
    match number.checked_ilog10() {
        Some(power) => power as usize + 1,
        None => 1,
    }
}

/// Writes a number in decimal, padded with zeros to `width` digits.
#[inline]
pub(super) fn write_padded(mut number: u64, width: usize, out: &mut Vec<u8>) {
    let digits = count(number).max(width);
    if digits > DIGITS_MAX {
        out.extend(std::iter::repeat_n(b'0', digits - DIGITS_MAX));
    }
    let (start, digits) = (out.len(), digits.min(DIGITS_MAX));
    // Append the maximum and truncate: a copy of constant length needs no call.
    out.extend_from_slice(&[b'0'; DIGITS_MAX]);
    out.truncate(start + digits);
    let mut rest = out.get_mut(start..).unwrap_or(&mut []);
    while number >= 10 {
        let two = pair((number % 100) as u8);
        number /= 100;
        let Some((before, last)) = rest.split_last_chunk_mut::<2>() else { return };
        *last = two;
        rest = before;
    }
    if let (1.., Some(last)) = (number, rest.last_mut()) {
        *last = b'0' + number as u8;
    }
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
    use super::write_padded;

    #[test]
    fn numbers_have_the_digits_that_format_gives_them() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let numbers = powers.flat_map(|power| [power - 1, power, power + 1, 9 * (power / 10)]).chain([0, u64::MAX]);
        for number in numbers {
            for width in [0, 1, 2, 4, 19, 20, 21, 30] {
                let mut out = b"x".to_vec();
                write_padded(number, width, &mut out);
                assert_eq!(String::from_utf8(out).expect("ASCII"), format!("x{number:0width$}"));
            }
        }
    }
}
