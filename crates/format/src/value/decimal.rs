//! DECIMAL: nine digits in four bytes, sign in the top bit.

use std::cmp::Ordering;

use super::Encoded;
use super::digits::{GROUP, GROUP_END, write_padded, write_point};
use super::error::ValueError;
use crate::schema::types::decimal_bytes;

/// Bytes for fewer than nine decimal digits, by their number.
const LEFTOVER_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
/// A column has at most 65 digits. Within JSON the digits before the point are counted in whole groups, so there may be more: nine groups.
const DIGITS_MAX: u8 = 81;
const SCALE_MAX: u8 = 38;

/// Digits of a DECIMAL, without the sign.
struct Digits {
    digits: [u8; 2 * DIGITS_MAX as usize],
    len: usize,
}

/// The sign and the digits of a stored value: first those before the point, then those after it.
fn digits(stored: &[u8], precision: u8, scale: u8) -> Result<(bool, Digits), ValueError> {
    let expected = decimal_bytes(precision, scale) as usize;
    if stored.len() != expected || precision > DIGITS_MAX || scale > SCALE_MAX.min(precision) {
        return Err(ValueError::Length { found: stored.len(), expected });
    }
    let negative = stored.first().is_none_or(|first| first & 0x80 == 0);
    let flip = if negative { 0xFF } else { 0 };
    let mut out = Digits { digits: [0; 2 * DIGITS_MAX as usize], len: 0 };
    let mut at = 0;
    let whole = usize::from(precision - scale);
    let groups = [whole % 9].into_iter().chain(std::iter::repeat_n(9, whole / 9));
    let behind = std::iter::repeat_n(9, usize::from(scale / 9)).chain([usize::from(scale % 9)]);
    for count in groups.chain(behind) {
        let bytes = LEFTOVER_BYTES.get(count).copied().unwrap_or(4);
        let group = stored.get(at..at + bytes).unwrap_or(&[]);
        let mut number = 0_u32;
        for (offset, byte) in group.iter().enumerate() {
            let top = if at + offset == 0 { 0x80 } else { 0 };
            number = number << 8 | u32::from(byte ^ flip ^ top);
        }
        at += bytes;
        out.push(number, count)?;
    }
    Ok((negative, out))
}

impl Digits {
    fn push(&mut self, mut number: u32, count: usize) -> Result<(), ValueError> {
        let room = self.digits.get_mut(self.len..self.len + count).ok_or(ValueError::Decimal)?;
        for digit in room.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.len += count;
        if number == 0 { Ok(()) } else { Err(ValueError::Decimal) }
    }

    fn get(&self) -> &[u8] {
        self.digits.get(..self.len).unwrap_or(&[])
    }
}

/// Writes a stored DECIMAL as the server does, with leading zeros until digits and point take `zerofill` characters.
///
/// # Errors
/// The bytes are not a DECIMAL with that precision and scale.
pub fn write(stored: &[u8], precision: u8, scale: u8, zerofill: u16, out: &mut Vec<u8>) -> Result<(), ValueError> {
    // The slow way: long values, zero-filled ones and invalid ones.
    let Some((negative, whole, fraction)) = parts(stored, precision, scale).filter(|_| zerofill == 0) else {
        return write_digits(stored, (precision, scale), zerofill, out);
    };
    if negative {
        out.push(b'-');
    }
    match usize::from(scale) {
        0 => write_padded(whole, 1, out),
        scale @ 1..=GROUP if whole < GROUP_END => write_point(whole, fraction, scale, out),
        scale => {
            write_padded(whole, 1, out);
            out.push(b'.');
            write_padded(fraction, scale, out);
        }
    }
    Ok(())
}

/// Upper limit of digits on each side of the point for the fast way: two groups fit in a `u64`.
const SHORT: u8 = 18;

/// The sign and the parts before and after the point of a value with at most [`SHORT`] digits on either side; `None` for others and for
/// invalid values.
#[inline]
fn parts(stored: &[u8], precision: u8, scale: u8) -> Option<(bool, u64, u64)> {
    let whole = precision.checked_sub(scale).filter(|whole| *whole <= SHORT && scale <= SHORT)?;
    let (first, _) = stored.split_first()?;
    let negative = first & 0x80 == 0;
    let (whole_bytes, fraction_bytes) = (bytes(whole)?, bytes(scale)?);
    let (before, behind) =
        stored.split_at_checked(whole_bytes).filter(|_| stored.len() == whole_bytes + fraction_bytes)?;
    let (lead, rest) = before.split_at_checked(LEFTOVER_BYTES.get(usize::from(whole % 9)).copied()?)?;
    let (nines, trail) = behind.split_at_checked(4 * usize::from(scale / 9))?;
    // The top bit of the first byte, which gives the sign, is flipped.
    let top = 0x80;
    let is_lead = !lead.is_empty();
    let mut number = group(lead, negative, if is_lead { top } else { 0 }, whole % 9)?;
    for (at, nine) in rest.chunks_exact(4).enumerate() {
        let is_first = !is_lead && at == 0;
        number = number * 1_000_000_000 + group(nine, negative, if is_first { top } else { 0 }, 9)?;
    }
    let mut fraction = 0;
    for (at, nine) in nines.chunks_exact(4).enumerate() {
        let is_first = whole == 0 && at == 0;
        fraction = fraction * 1_000_000_000 + group(nine, negative, if is_first { top } else { 0 }, 9)?;
    }
    let is_first = whole == 0 && nines.is_empty();
    let last = group(trail, negative, if is_first { top } else { 0 }, scale % 9)?;
    Some((negative, number, fraction * power(scale % 9) + last))
}

/// Bytes for this many digits.
#[inline]
fn bytes(digits: u8) -> Option<usize> {
    Some(4 * usize::from(digits / 9) + LEFTOVER_BYTES.get(usize::from(digits % 9)).copied()?)
}

/// Up to nine digits from up to four bytes; `None` if there are more digits.
#[inline]
fn group(stored: &[u8], negative: bool, top: u8, digits: u8) -> Option<u64> {
    let number = match *stored {
        [] => return Some(0),
        [a] => u32::from_be_bytes([0, 0, 0, a ^ top]),
        [a, b] => u32::from_be_bytes([0, 0, a ^ top, b]),
        [a, b, c] => u32::from_be_bytes([0, a ^ top, b, c]),
        [a, b, c, d] => u32::from_be_bytes([a ^ top, b, c, d]),
        _ => return None,
    };
    let flip = if negative { u32::MAX >> (32 - 8 * stored.len() as u32) } else { 0 };
    let number = u64::from(number ^ flip);
    (number < power(digits)).then_some(number)
}

/// Powers of ten up to that of a group.
const POWERS: [u64; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Ten to the power of `digits`, up to nine. From a table: `pow` loops unless the exponent is known at compile time.
#[inline]
fn power(digits: u8) -> u64 {
    POWERS.get(usize::from(digits)).copied().unwrap_or(0)
}

fn write_digits(
    stored: &[u8],
    (precision, scale): (u8, u8),
    zerofill: u16,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let (negative, digits) = digits(stored, precision, scale)?;
    let (whole, fraction) = digits.get().split_at(usize::from(precision - scale).min(digits.len));
    let zeros = whole.iter().take_while(|digit| **digit == b'0').count();
    let whole = whole.get(zeros..).unwrap_or(&[]);
    if negative {
        out.push(b'-');
    }
    let len = whole.len().max(1) + fraction.len() + usize::from(scale > 0);
    out.extend(std::iter::repeat_n(b'0', usize::from(zerofill).saturating_sub(len)));
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
    Ok(())
}

/// A stored DECIMAL times ten to the power of its scale; `None` if that has more than 38 digits.
///
/// # Errors
/// The bytes are not a DECIMAL with that precision and scale.
pub fn unscaled(stored: &[u8], precision: u8, scale: u8) -> Result<Option<i128>, ValueError> {
    if let Some((negative, whole, fraction)) = parts(stored, precision, scale) {
        let unit = power(scale.min(9)) * power(scale.saturating_sub(9));
        let number = i128::from(whole) * i128::from(unit) + i128::from(fraction);
        return Ok(Some(if negative { -number } else { number }));
    }
    let (negative, digits) = digits(stored, precision, scale)?;
    if precision > 38 {
        return Ok(None);
    }
    let number = digits.get().iter().fold(0_i128, |number, digit| number * 10 + i128::from(digit - b'0'));
    Ok(Some(if negative { -number } else { number }))
}

/// The stored form of digits such as `-12.50`, as near as the column can hold it; `None` if the text has another form.
#[must_use]
pub(super) fn encode(text: &str, precision: u8, scale: u8) -> Option<Encoded> {
    let (negative, text) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = (text.get(..point)?, text.get(point + 1..).unwrap_or(&[]));
    let is_number = whole.len() + fraction.len() > 0 && whole.iter().chain(fraction).all(u8::is_ascii_digit);
    let (room, scale) = (usize::from(precision.checked_sub(scale)?), usize::from(scale));
    let whole: Vec<u8> = whole.iter().copied().skip_while(|digit| *digit == b'0').collect();
    let is_too_large = whole.len() > room;
    let is_cut = is_too_large || fraction.iter().skip(scale).any(|digit| *digit != b'0');
    let mut digits = vec![b'0'; room.saturating_sub(whole.len())];
    digits.extend(whole.iter().chain(fraction.iter().take(scale)));
    digits.resize(room + scale, b'0');
    if is_too_large {
        digits = vec![b'9'; room + scale];
    }
    let beyond = match (is_cut, negative) {
        (false, _) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (true, true) => Ordering::Less,
    };
    // There is no negative zero.
    let negative = negative && digits.iter().any(|digit| *digit != b'0');
    is_number.then(|| Encoded { stored: packed(&digits, room, negative), beyond })
}

/// Digits in groups of nine, `room` of them before the point.
fn packed(digits: &[u8], room: usize, negative: bool) -> Vec<u8> {
    let (whole, fraction) = digits.split_at(room.min(digits.len()));
    let (lead, nines) = whole.split_at(whole.len() % 9);
    let groups = [lead].into_iter().chain(nines.chunks(9)).chain(fraction.chunks(9));
    let mut stored = Vec::new();
    for group in groups {
        let number = group.iter().fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'));
        let bytes = LEFTOVER_BYTES.get(group.len()).copied().unwrap_or(4);
        stored.extend_from_slice(number.to_be_bytes().get(4 - bytes..).unwrap_or(&[]));
    }
    if let Some(first) = stored.first_mut() {
        *first ^= 0x80;
    }
    if negative {
        stored.iter_mut().for_each(|byte| *byte ^= 0xFF);
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(stored: &[u8], precision: u8, scale: u8) -> Result<String, ValueError> {
        let mut out = Vec::new();
        write(stored, precision, scale, 0, &mut out)?;
        Ok(String::from_utf8(out).expect("ASCII"))
    }

    #[test]
    fn digits_are_those_that_the_servers_stored() {
        assert_eq!(text(&[0x80, 0xbc, 0x61, 0x4e, 0x5a], 10, 2).as_deref(), Ok("12345678.90"));
        assert_eq!(text(&[0x7f, 0xff, 0xff, 0xff, 0xfe], 10, 2).as_deref(), Ok("-0.01"));
        assert_eq!(
            text(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0x3c, 0xaf], 20, 5).as_deref(),
            Ok("-1.50000")
        );
        assert_eq!(text(&[0x8c, 0x01, 0x59], 5, 3).as_deref(), Ok("12.345"));
        assert_eq!(text(&[0xbb, 0x9a, 0xc9, 0xff], 9, 9).as_deref(), Ok("0.999999999"));
        assert_eq!(text(&[0x76], 1, 0).as_deref(), Ok("-9"));
        assert_eq!(unscaled(&[0x7f, 0xff, 0xff, 0xff, 0xfe], 10, 2), Ok(Some(-1)));
    }

    #[test]
    fn short_values_are_written_as_long_ones_are() {
        let mut number = 1_u64;
        for precision in 1..=36_u8 {
            for scale in 0..=precision.min(SCALE_MAX) {
                let expected = decimal_bytes(precision, scale) as usize;
                for round in 0..40 {
                    let byte = |_| {
                        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        // Mostly small groups: otherwise hardly any would be valid.
                        let byte = (number >> 33) as u8 & (number >> 41) as u8 & (number >> 49) as u8;
                        if round % 2 == 0 { byte } else { !byte }
                    };
                    let mut stored: Vec<u8> = (0..expected).map(byte).collect();
                    if let Some(first) = stored.first_mut() {
                        *first ^= 0x80;
                    }
                    let (mut short, mut long) = (Vec::new(), Vec::new());
                    let written = write(&stored, precision, scale, 0, &mut short);
                    assert_eq!(written, write_digits(&stored, (precision, scale), 0, &mut long));
                    if written.is_ok() {
                        assert_eq!(short, long, "DECIMAL({precision},{scale}) {stored:02x?}");
                        let digits = String::from_utf8(long).expect("ASCII").replace('.', "");
                        assert_eq!(unscaled(&stored, precision, scale), Ok(digits.parse().ok()), "{digits}");
                    }
                }
            }
        }
    }

    #[test]
    fn more_digits_than_there_is_room_for_are_no_decimal() {
        assert_eq!(text(&[0x8a], 1, 0), Err(ValueError::Decimal));
        assert_eq!(text(&[0xff; 4], 9, 9), Err(ValueError::Decimal));
        assert!(text(&[0x80], 10, 2).is_err());
        assert!(text(&[], 0, 0).is_ok_and(|text| text == "-0" || text == "0"));
    }
}
