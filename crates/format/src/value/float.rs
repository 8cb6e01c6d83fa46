//! FLOAT and DOUBLE, and how the servers write them.

use std::io::Write;

use super::digits::{GROUP_END, write_padded, write_point, write_uint};

/// Digits shown for a FLOAT unless declared otherwise.
const FLOAT_DIGITS: usize = 6;
/// Positions of the point between which numbers are written without an exponent.
const PLAIN: std::ops::RangeInclusive<i32> = -14..=15;

/// Decodes four stored bytes.
#[expect(clippy::little_endian_bytes, reason = "FLOAT is stored little-endian")]
#[must_use]
pub const fn single(stored: [u8; 4]) -> f32 {
    f32::from_le_bytes(stored)
}

/// Decodes eight stored bytes.
#[expect(clippy::little_endian_bytes, reason = "DOUBLE is stored little-endian")]
#[must_use]
pub const fn double(stored: [u8; 8]) -> f64 {
    f64::from_le_bytes(stored)
}

/// A small stack buffer, large enough for the digits of any number.
struct Digits {
    bytes: [u8; 40],
    len: usize,
}

impl Write for Digits {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        let Some(room) = self.bytes.get_mut(self.len..self.len + more.len()) else { return Ok(0) };
        room.copy_from_slice(more);
        self.len += more.len();
        Ok(more.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The digits without the point, and the point's position: the value is 0.digits times ten to that power.
fn split(scientific: &Digits) -> (Digits, i32) {
    let text = scientific.bytes.get(..scientific.len).unwrap_or(&[]);
    let exponent = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
    let (mantissa, power) = text.split_at(exponent);
    let power = std::str::from_utf8(power.get(1..).unwrap_or(&[])).ok().and_then(|power| power.parse::<i32>().ok());
    let mut digits = Digits { bytes: [0; 40], len: 0 };
    for digit in mantissa.iter().filter(|byte| byte.is_ascii_digit()) {
        if let Some(place) = digits.bytes.get_mut(digits.len) {
            *place = *digit;
            digits.len += 1;
        }
    }
    let zeros = digits.bytes.iter().take(digits.len).rev().take_while(|digit| **digit == b'0').count();
    digits.len = digits.len.saturating_sub(zeros).max(1);
    (digits, power.unwrap_or(0) + 1)
}

/// Writes a number as the servers do, with `significant` digits (at most 17), or as many as distinguish it from its neighbours.
fn write_general(number: f64, significant: Option<usize>, out: &mut Vec<u8>) {
    if number.is_sign_negative() {
        out.push(b'-');
    }
    let number = number.abs();
    if number == 0.0 || !number.is_finite() {
        // Servers never store infinities or NaN.
        return out.push(b'0');
    }
    if significant.is_none() && write_short(number, out) {
        return;
    }
    let mut scientific = Digits { bytes: [0; 40], len: 0 };
    let written = match significant {
        Some(digits) => write!(scientific, "{number:.*e}", digits - 1),
        None => write!(scientific, "{number:e}"),
    };
    debug_assert!(written.is_ok(), "17 digits and an exponent fit");
    let (digits, point) = split(&scientific);
    let digits = digits.bytes.get(..digits.len).unwrap_or(&[]);
    write_digits(digits, point, out);
}

/// Numbers of decimals to try.
const SHORT_DECIMALS: [(usize, f64, u64); 2] = [(0, 1.0, 1), (4, 1e4, 10_000)];
/// Numbers below this have at most 15 digits.
const SHORT_LIMIT: f64 = 1e15;

/// Writes a positive multiple of 1/10000 with at most 15 digits, as most columns hold. Returns `false`, with nothing written, for any other
/// number. Dividing two exact numbers rounds once, so the digits are right if the division gives the number again. And no two numbers of 15
/// digits are the same DOUBLE, so fewer digits would not distinguish it.
fn write_short(number: f64, out: &mut Vec<u8>) -> bool {
    for (decimals, factor, unit) in SHORT_DECIMALS {
        let scaled = number * factor + 0.5;
        // Skip numbers so small that the format without an exponent may have too many zeros.
        if !(1.0..SHORT_LIMIT).contains(&scaled) {
            continue;
        }
        // Rounds by converting to an integer: `round` is a library call where the target may lack the instruction.
        let digits = scaled as u64;
        if digits as f64 / factor != number {
            continue;
        }
        let (whole, fraction) = (digits / unit, digits % unit);
        match decimals {
            0 => write_uint(whole, out),
            decimals if whole < GROUP_END => write_point(whole, fraction, decimals, out),
            decimals => {
                write_uint(whole, out);
                out.push(b'.');
                write_padded(fraction, decimals, out);
            }
        }
        while decimals > 0 && out.last() == Some(&b'0') {
            out.pop();
        }
        return true;
    }
    false
}

fn write_digits(digits: &[u8], point: i32, out: &mut Vec<u8>) {
    let count = digits.len() as i32;
    if !(PLAIN.contains(&point) || point > 0 && count > point) {
        let (first, rest) = digits.split_at(1);
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        out.push(b'e');
        super::digits::write_int(i64::from(point - 1), out);
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
        out.extend_from_slice(digits);
    } else if count <= point {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', (point - count) as usize));
    } else {
        let (whole, fraction) = digits.split_at(point as usize);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
}

/// Writes a FLOAT as the servers show it: six digits, or as many decimals as declared.
pub fn write_float(number: f32, decimals: Option<u8>, out: &mut Vec<u8>) {
    match decimals {
        Some(decimals) => write_fixed(f64::from(number), decimals, out),
        None => write_general(f64::from(number), Some(FLOAT_DIGITS), out),
    }
}

/// Writes a FLOAT with enough digits to restore the same FLOAT.
pub fn write_float_exact(number: f32, out: &mut Vec<u8>) {
    if number == 0.0 || !number.is_finite() {
        return write_general(f64::from(number), None, out);
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    let mut scientific = Digits { bytes: [0; 40], len: 0 };
    let written = write!(scientific, "{:e}", number.abs());
    debug_assert!(written.is_ok(), "9 digits and an exponent fit");
    let (digits, point) = split(&scientific);
    write_digits(digits.bytes.get(..digits.len).unwrap_or(&[]), point, out);
}

/// Writes a DOUBLE as the servers show it: enough digits to distinguish it from its neighbours, or as many decimals as declared.
pub fn write_double(number: f64, decimals: Option<u8>, out: &mut Vec<u8>) {
    match decimals {
        Some(decimals) => write_fixed(number, decimals, out),
        None => write_general(number, None, out),
    }
}

fn write_fixed(number: f64, decimals: u8, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let written = write!(out, "{number:.*}", usize::from(decimals));
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double_text(number: f64) -> String {
        let mut out = Vec::new();
        write_double(number, None, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn doubles_are_written_as_the_servers_write_them() {
        let expected = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e15"),
            (1e14, "100000000000000"),
            (1e-16, "1e-16"),
            (1e-15, "0.000000000000001"),
            (1_234_567_890_123_456.7, "1234567890123456.8"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e308"),
            (-2.5e-20, "-2.5e-20"),
        ];
        for (number, text) in expected {
            assert_eq!(double_text(number), text);
        }
    }

    #[test]
    fn short_doubles_are_written_as_the_long_way_writes_them() {
        let mut number = 1_u64;
        let mut short = 0;
        for round in 0..20_000_u32 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let digits = (number >> 12) % 10_u64.pow(1 + round % 17);
            let double = digits as f64 / [1.0, 10.0, 1e2, 1e3, 1e4, 1e5, 3.0, 0.1][(number >> 5) as usize % 8];
            if double == 0.0 {
                continue;
            }
            let mut out = Vec::new();
            if write_short(double, &mut out) {
                short += 1;
                let mut scientific = Digits { bytes: [0; 40], len: 0 };
                write!(scientific, "{double:e}").expect("it fits");
                let ((digits, point), mut expected) = (split(&scientific), Vec::new());
                write_digits(&digits.bytes[..digits.len], point, &mut expected);
                assert_eq!(out, expected, "{double:e}");
            }
        }
        assert!(short > 5000, "{short}");
    }

    #[test]
    fn floats_show_six_digits_and_exact_ones_come_back() {
        let mut out = Vec::new();
        write_float(3.402_823_5e38, None, &mut out);
        assert_eq!(out, b"3.40282e38");
        out.clear();
        write_float(1.0 / 3.0, Some(3), &mut out);
        assert_eq!(out, b"0.333");
        for number in [0.1_f32, 16_777_217.0, 1.175_494_4e-38, -3.402_823_5e38, 1e-30] {
            out.clear();
            write_float_exact(number, &mut out);
            assert_eq!(std::str::from_utf8(&out).expect("ASCII").parse(), Ok(number));
        }
    }
}
