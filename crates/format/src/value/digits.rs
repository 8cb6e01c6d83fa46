//! Numbers in decimal digits, without the machinery of `format!`: most values of an export are written here.

use std::io::Write;

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// A number in decimal.
#[inline]
pub fn write_uint(number: u64, out: &mut Vec<u8>) {
    write_padded(number, 1, out);
}

/// A number in decimal.
#[inline]
pub fn write_int(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    write_padded(number.unsigned_abs(), 1, out);
}

/// A number in decimal, with zeros before it up to `width` digits (at most 20; more are pushed one by one).
#[inline]
pub(super) fn write_padded(mut number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number >= 100 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        at -= 2;
        if let (Some(place), Some(pair)) = (digits.get_mut(at..at + 2), PAIRS.get(pair..pair + 2)) {
            place.copy_from_slice(pair);
        }
    }
    while number > 0 {
        at -= 1;
        if let Some(place) = digits.get_mut(at) {
            *place = b'0' + (number % 10) as u8;
        }
        number /= 10;
    }
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(digits.len())));
    at = at.min(digits.len() - width.min(digits.len()));
    out.extend_from_slice(digits.get(at..).unwrap_or(&[]));
}

pub(super) fn write_display(value: &impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let written = write!(out, "{value}");
    debug_assert!(written.is_ok());
}
