//! Encodes text into stored bytes, for the types of keys: the bounds of a key range.

use std::cmp::Ordering;

use super::temporal::Digits;
use super::{ValueKind, ValueType};
use crate::charset::Charset;

/// A value as near as the type can store it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The stored bytes.
    pub stored: Vec<u8>,
    /// Where the value lies from there: `Equal` if it can be stored, `Greater` for 300 in a TINYINT, which holds 127 at most.
    pub beyond: Ordering,
}

impl Encoded {
    const fn exact(stored: Vec<u8>) -> Self {
        Self { stored, beyond: Ordering::Equal }
    }
}

impl ValueType {
    /// The stored bytes of a value written as the server shows it. `None` if it is not a value of the type, or if ranges of that type are
    /// not supported.
    #[must_use]
    pub fn encode(&self, text: &str) -> Option<Encoded> {
        match self.kind {
            ValueKind::Int { bytes, unsigned } => integer(text, bytes, unsigned),
            ValueKind::DateTime(digits) => moment(text, digits),
            _ => self.encode_exactly(text).map(Encoded::exact),
        }
    }

    fn encode_exactly(&self, text: &str) -> Option<Vec<u8>> {
        match self.kind {
            ValueKind::Year => match text.parse::<u16>().ok()? {
                0 => Some(vec![0]),
                year => Some(vec![u8::try_from(year.checked_sub(1900)?).ok()?]),
            },
            ValueKind::Date => date(text).map(|number| flipped(number, 3)),
            ValueKind::Binary { bytes } => {
                let mut stored = raw(text)?;
                stored.resize(stored.len().max(bytes as usize), 0);
                Some(stored)
            }
            ValueKind::Bytes => raw(text),
            ValueKind::Char { .. } | ValueKind::Text
                if self.charset == Charset::Utf8 || text.is_ascii() && is_ascii_based(self.charset) =>
            {
                Some(unquoted(text).as_bytes().to_vec())
            }
            _ => None,
        }
    }
}

const fn is_ascii_based(charset: Charset) -> bool {
    matches!(charset, Charset::Single(_) | Charset::Ascii | Charset::Multi(_))
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text)
}

/// `0x0102`, or the bytes of the text.
fn raw(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("0x") else { return Some(unquoted(text).as_bytes().to_vec()) };
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// The low `bytes` bytes of a number with its sign bit flipped, big-endian.
fn flipped(number: i64, bytes: usize) -> Vec<u8> {
    let half = 1_i128 << (8 * bytes - 1);
    let all = (i128::from(number) + half).to_be_bytes();
    all.get(16 - bytes..).unwrap_or(&all).to_vec()
}

fn integer(text: &str, bytes: u8, unsigned: bool) -> Option<Encoded> {
    let bytes = usize::from(bytes.clamp(1, 8));
    let number: i128 = text.parse().ok()?;
    let (low, high) = match unsigned {
        true => (0, (1_i128 << (8 * bytes)) - 1),
        false => (-(1_i128 << (8 * bytes - 1)), (1_i128 << (8 * bytes - 1)) - 1),
    };
    let nearest = number.clamp(low, high);
    let stored = (nearest - low).to_be_bytes().get(16 - bytes..)?.to_vec();
    Some(Encoded { stored, beyond: number.cmp(&nearest) })
}

fn date(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let is_date = (0..=9999).contains(&year) && (0..=12).contains(&month) && (0..=31).contains(&day);
    is_date.then_some(year << 9 | month << 5 | day)
}

fn moment(text: &str, digits: Digits) -> Option<Encoded> {
    let (day, time) = text.split_once([' ', 'T']).unwrap_or((text, "0:0:0"));
    let day = date(day)?;
    let (year, month, day) = (day >> 9, day >> 5 & 15, day & 31);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let second = parts.next().unwrap_or(Ok(0)).ok()?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return None;
    }
    let number = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second;
    let mut stored = flipped(number, 5);
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let micros: u64 = format!("{fraction:0<6.6}").parse().ok()?;
    let unit = u64::from(digits.stored_micros());
    stored.extend_from_slice((micros / unit).to_be_bytes().get(8 - digits.bytes()..)?);
    let is_cut = !micros.is_multiple_of(unit) || fraction.bytes().skip(6).any(|digit| digit != b'0');
    Some(Encoded { stored, beyond: if is_cut { Ordering::Greater } else { Ordering::Equal } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_read_back() {
        let types = [
            (ValueKind::Int { bytes: 4, unsigned: false }, 4, "-5"),
            (ValueKind::Int { bytes: 8, unsigned: true }, 8, "18446744073709551615"),
            (ValueKind::Date, 3, "2024-02-29"),
            (ValueKind::DateTime(Digits::NONE), 5, "1999-12-31 23:59:59"),
            (ValueKind::DateTime(Digits::new(3).expect("three")), 7, "2020-02-29 12:34:56.789"),
            (ValueKind::Year, 1, "2155"),
        ];
        for (kind, bytes, text) in types {
            let value = ValueType::new(kind, Charset::Binary, Some(bytes));
            let encoded = value.encode(text).expect(text);
            let mut out = Vec::new();
            assert_eq!(value.write_text(&encoded.stored, &mut out), Ok(()), "{text}");
            assert_eq!((out.as_slice(), encoded.beyond), (text.as_bytes(), Ordering::Equal));
        }
    }

    #[test]
    fn what_the_type_cannot_store_lies_beyond_the_nearest_value() {
        let int = ValueType::new(ValueKind::Int { bytes: 1, unsigned: false }, Charset::Binary, Some(1));
        assert_eq!(int.encode("1000"), Some(Encoded { stored: vec![0xff], beyond: Ordering::Greater }));
        assert_eq!(int.encode("-1000"), Some(Encoded { stored: vec![0], beyond: Ordering::Less }));
        assert_eq!(int.encode("x"), None);
        let moment = |digits, text| {
            let value =
                ValueType::new(ValueKind::DateTime(Digits::new(digits).expect("at most six")), Charset::Binary, None);
            value.encode(text).map(|encoded| encoded.beyond)
        };
        assert_eq!(moment(0, "2020-02-29 12:34:56.5"), Some(Ordering::Greater));
        assert_eq!(moment(0, "2020-02-29 12:34:56.000000"), Some(Ordering::Equal));
        assert_eq!(moment(6, "2020-02-29 12:34:56.1234567"), Some(Ordering::Greater));
        assert_eq!(moment(6, "2020-02-29 12:34:56.1234567x"), None);
    }
}
