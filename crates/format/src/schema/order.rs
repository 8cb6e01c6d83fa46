//! The order of values, where it is known without the servers' collation tables.

use std::cmp::Ordering;

/// How the stored bytes of a field compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyOrder {
    /// Byte by byte, shorter first: integers, decimals, times, binary strings.
    Bytes,
    /// Byte by byte; the shorter value is treated as padded with spaces.
    PaddedBytes,
    /// FLOAT: a number, stored little-endian.
    Float,
    /// DOUBLE: a number, stored little-endian.
    Double,
    /// ASCII letters, ignoring case; the shorter value is treated as padded with spaces. Values with a non-ASCII byte before or at the
    /// first difference cannot be ordered.
    AsciiNoCase,
    /// Space, digits and ASCII letters, ignoring case, shorter first. Other values cannot be ordered.
    Uca0900Letters,
    /// Unknown rules.
    Unknown,
}

impl KeyOrder {
    /// Whether the order of all values is known.
    #[must_use]
    pub const fn is_total(self) -> bool {
        !matches!(self, Self::AsciiNoCase | Self::Uca0900Letters | Self::Unknown)
    }

    /// Compares two values; `None` if their order is unknown.
    #[must_use]
    pub fn compare(self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        match self {
            Self::Bytes => Some(a.cmp(b)),
            Self::PaddedBytes => Some(compare_padded(a, b, |byte| byte)),
            Self::AsciiNoCase => compare_ascii(a, b),
            Self::Uca0900Letters => compare_letters(a, b),
            Self::Float => compare_numbers(float(a)?, float(b)?),
            Self::Double => compare_numbers(double(a)?, double(b)?),
            // Equal bytes are equal values in any collation.
            Self::Unknown => (a == b).then_some(Ordering::Equal),
        }
    }
}

fn compare_padded(a: &[u8], b: &[u8], weight: impl Fn(u8) -> u8) -> Ordering {
    let len = a.len().max(b.len());
    let padded = |bytes: &[u8], at: usize| weight(bytes.get(at).copied().unwrap_or(b' '));
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common..len).map(|at| padded(a, at).cmp(&padded(b, at))).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Compares text up to the first non-ASCII character. From there on the order is unknown: that character may compare like ASCII ones.
fn compare_ascii(a: &[u8], b: &[u8]) -> Option<Ordering> {
    if a == b {
        return Some(Ordering::Equal);
    }
    let ascii = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii()).count();
    let upper = |byte: u8| byte.to_ascii_uppercase();
    let (a_ascii, b_ascii) = (ascii(a), ascii(b));
    if a_ascii == a.len() && b_ascii == b.len() {
        return Some(compare_padded(a, b, upper));
    }
    let known = a_ascii.min(b_ascii);
    let pairs = a.iter().zip(b).take(known);
    pairs.map(|(a, b)| upper(*a).cmp(&upper(*b))).find(|order| order.is_ne())
}

/// Primary weights of the root collation of UCA 9.0.0: space, then digits, then letters.
fn letter_weight(byte: u8) -> Option<u8> {
    matches!(byte, b' ' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z').then_some(byte.to_ascii_uppercase())
}

fn compare_letters(a: &[u8], b: &[u8]) -> Option<Ordering> {
    if a == b {
        return Some(Ordering::Equal);
    }
    // An unknown character may be part of a longer one, or be ignored by the collation.
    if !a.iter().chain(b).all(|byte| letter_weight(*byte).is_some()) {
        return None;
    }
    Some(a.iter().map(u8::to_ascii_uppercase).cmp(b.iter().map(u8::to_ascii_uppercase)))
}

#[expect(clippy::little_endian_bytes, reason = "FLOAT is stored little-endian")]
fn float(bytes: &[u8]) -> Option<f64> {
    bytes.first_chunk().map(|bytes| f64::from(f32::from_le_bytes(*bytes)))
}

#[expect(clippy::little_endian_bytes, reason = "DOUBLE is stored little-endian")]
fn double(bytes: &[u8]) -> Option<f64> {
    bytes.first_chunk().map(|bytes| f64::from_le_bytes(*bytes))
}

/// Servers never store NaN.
fn compare_numbers(a: f64, b: f64) -> Option<Ordering> {
    a.partial_cmp(&b)
}
