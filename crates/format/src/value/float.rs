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

impl Digits {
    fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
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
    let (digits, point) = match significant {
        Some(digits) => split(&scientific(format_args!("{number:.*e}", digits - 1))),
        None => shortest(number),
    };
    write_digits(digits.get(), point, out);
}

fn scientific(number: std::fmt::Arguments<'_>) -> Digits {
    let mut text = Digits { bytes: [0; 40], len: 0 };
    let written = text.write_fmt(number);
    debug_assert!(written.is_ok(), "17 digits and an exponent fit");
    text
}

/// As few digits as distinguish a positive number from its neighbours.
fn shortest(number: f64) -> (Digits, i32) {
    let (mut digits, point) = split(&scientific(format_args!("{number:e}")));
    round_half_even(number, &mut digits, point);
    (digits, point)
}

/// Fraction bits of the numbers that can lie halfway between two shortest forms. More bits make more decimals than those forms have.
const HALFWAY_BITS: i32 = 25;

/// If the number lies exactly halfway between its shortest form and the one below, chooses the even one, as the servers do; Rust rounds up.
/// Widened FLOATs are such numbers: 2.52188873291015625.
fn round_half_even(number: f64, digits: &mut Digits, point: i32) {
    let is_odd = digits.get().last().is_some_and(|last| last % 2 == 1);
    if is_odd
        && is_halfway_below(number, digits.get(), point)
        && let Some(last) = digits.bytes.get_mut(digits.len - 1)
    {
        *last -= 1;
    }
}

/// Whether the number is exactly half a unit of its last digit below the number that the digits name.
fn is_halfway_below(number: f64, digits: &[u8], point: i32) -> bool {
    let bits = number.to_bits();
    // number = mantissa / 2^fraction_bits, in lowest terms; subnormal numbers have too many bits anyway.
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    let unused = mantissa.trailing_zeros() as i32;
    let fraction_bits = 1075 - (bits >> 52) as i32 - unused;
    let decimals = digits.len() as i32 - point;
    if !(1..=HALFWAY_BITS).contains(&fraction_bits) || decimals < 0 {
        return false;
    }
    let named = digits.iter().fold(0_u128, |named, digit| named * 10 + u128::from(digit - b'0'));
    let power = 10_u128.checked_pow(decimals.unsigned_abs());
    let twice = power.and_then(|power| power.checked_mul(2 * u128::from(mantissa >> unused)));
    twice.is_some() && twice == (2 * named - 1).checked_mul(1 << fraction_bits)
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
    } else {
        write_plain(digits, point, out);
    }
}

/// Without an exponent.
fn write_plain(digits: &[u8], point: i32, out: &mut Vec<u8>) {
    let count = digits.len() as i32;
    if point <= 0 {
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
    let (digits, point) = split(&scientific(format_args!("{:e}", number.abs())));
    write_digits(digits.get(), point, out);
}

/// Writes a DOUBLE as the servers show it: enough digits to distinguish it from its neighbours, or as many decimals as declared.
pub fn write_double(number: f64, decimals: Option<u8>, out: &mut Vec<u8>) {
    match decimals {
        Some(decimals) => write_fixed(number, decimals, out),
        None => write_general(number, None, out),
    }
}

/// Writes a number with that many decimals. Those that do not help to distinguish it from its neighbours are zeros: 0.1 with thirty decimals
/// has one digit, not the thirty of its binary value.
fn write_fixed(number: f64, decimals: u8, out: &mut Vec<u8>) {
    let decimals = usize::from(decimals);
    let (digits, point) = shortest(number.abs());
    let used = usize::try_from(digits.len as i32 - point).unwrap_or(0);
    if used > decimals || !number.is_finite() {
        let written = write!(out, "{number:.decimals$}");
        debug_assert!(written.is_ok(), "writing to a Vec cannot fail");
        return;
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    write_plain(digits.get(), point, out);
    if used == 0 && decimals > 0 {
        out.push(b'.');
    }
    out.extend(std::iter::repeat_n(b'0', decimals - used));
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
            // Halfway between two forms of sixteen digits.
            (2.521_888_732_910_156_2, "2.5218887329101562"),
            (-0.762_367_248_535_156_2, "-0.7623672485351562"),
            (0.775_596_618_652_343_8, "0.7755966186523438"),
            (1_360_389_172_727.031_2, "1360389172727.0312"),
            (0.000_000_029_802_322_387_695_312, "0.000000029802322387695312"),
            (0.000_003_814_697_265_625, "0.000003814697265625"),
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
                let ((digits, point), mut expected) = (shortest(double), Vec::new());
                write_digits(digits.get(), point, &mut expected);
                assert_eq!(out, expected, "{double:e}");
            }
        }
        assert!(short > 5000, "{short}");
    }

    #[test]
    fn declared_decimals_add_zeros_and_not_the_digits_of_the_binary_value() {
        let expected = [
            (3.207_164_314_985_055_5, 30, "3.207164314985055500000000000000"),
            (-0.1, 20, "-0.10000000000000000000"),
            (1234.5678, 2, "1234.57"),
            (7.0, 3, "7.000"),
            (7.0, 0, "7"),
            (1e22, 0, "10000000000000000000000"),
            (1.5e-7, 5, "0.00000"),
        ];
        for (number, decimals, text) in expected {
            let mut out = b"before ".to_vec();
            write_double(number, Some(decimals), &mut out);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(format!("before {text}").as_str()));
        }
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
