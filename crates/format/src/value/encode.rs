//! Encodes text into stored bytes, for the types of keys: the bounds of a key range.

use std::cmp::Ordering;

use super::temporal::{Date, Digits};
use super::{ValueKind, ValueType, decimal};
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
            ValueKind::DateTime(digits) => Some(moment(text)?.stored(digits)),
            ValueKind::Timestamp(digits) => timestamp(text, digits),
            ValueKind::OldTimestamp => timestamp(text, Digits::NONE),
            ValueKind::Decimal { precision, scale } => decimal::encode(text, precision, scale),
            _ => self.encode_exactly(text).map(Encoded::exact),
        }
    }

    /// Whether [`ValueType::encode`] knows the type.
    #[must_use]
    pub const fn has_ranges(&self) -> bool {
        matches!(
            self.kind,
            ValueKind::Int { .. }
                | ValueKind::DateTime(_)
                | ValueKind::Timestamp(_)
                | ValueKind::OldTimestamp
                | ValueKind::Decimal { .. }
                | ValueKind::Year
                | ValueKind::Date
                | ValueKind::Binary { .. }
                | ValueKind::Bytes
                | ValueKind::Char { .. }
                | ValueKind::Text
        )
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

/// A date and a time of day.
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: u64,
    /// Whether there are digits below the microsecond.
    is_cut: bool,
}

impl Moment {
    fn stored(&self, digits: Digits) -> Encoded {
        let number =
            (self.year * 13 + self.month) << 22 | self.day << 17 | self.hour << 12 | self.minute << 6 | self.second;
        self.with_fraction(flipped(number, 5), digits)
    }

    /// Appends the fraction of a second, as far as `digits` hold it.
    fn with_fraction(&self, mut stored: Vec<u8>, digits: Digits) -> Encoded {
        let unit = u64::from(digits.stored_micros());
        let fraction = (self.micros / unit).to_be_bytes();
        stored.extend_from_slice(fraction.get(8 - digits.bytes()..).unwrap_or(&[]));
        let is_cut = self.is_cut || !self.micros.is_multiple_of(unit);
        Encoded { stored, beyond: if is_cut { Ordering::Greater } else { Ordering::Equal } }
    }
}

fn moment(text: &str) -> Option<Moment> {
    let (day, time) = text.split_once([' ', 'T']).unwrap_or((text, "0:0:0"));
    let day = date(day)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let second = parts.next().unwrap_or(Ok(0)).ok()?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return None;
    }
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let micros = format!("{fraction:0<6.6}").parse().ok()?;
    let is_cut = fraction.bytes().skip(6).any(|digit| digit != b'0');
    Some(Moment { year: day >> 9, month: day >> 5 & 15, day: day & 31, hour, minute, second, micros, is_cut })
}

/// In UTC, as export writes it, unless the text ends with an offset: `2024-03-31 02:30:00+02:00`.
fn timestamp(text: &str, digits: Digits) -> Option<Encoded> {
    let (text, east) = without_offset(text)?;
    let moment = moment(text)?;
    let clock = moment.hour * 3600 + moment.minute * 60 + moment.second;
    // The server stores zeros for the zero timestamp, before all others.
    if (moment.year, moment.month, moment.day, clock, moment.micros) == (0, 0, 0, 0, 0) {
        return Some(moment.with_fraction(vec![0; 4], digits));
    }
    let day = Date { year: moment.year as u16, month: moment.month as u8, day: moment.day as u8 };
    let seconds = i64::from(day.days()?) * 86_400 + clock - east;
    match u32::try_from(seconds) {
        Ok(seconds) => Some(moment.with_fraction(seconds.to_be_bytes().to_vec(), digits)),
        Err(_) => {
            let (end, beyond) = if seconds < 0 { (0, Ordering::Less) } else { (0xFF, Ordering::Greater) };
            let stored = vec![end; 4 + digits.bytes()];
            Some(Encoded { stored, beyond })
        }
    }
}

/// The text before `Z`, `+hh:mm` or `-hh:mm`, and how many seconds that is east of UTC.
fn without_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(text) = text.strip_suffix('Z') {
        return Some((text, 0));
    }
    let Some((rest, offset)) = text.split_at_checked(text.len().saturating_sub(6)) else { return Some((text, 0)) };
    let (sign, clock) = match offset.split_at_checked(1) {
        Some(("+", clock)) => (1, clock),
        // A date ends with such characters too, but not after a time of day.
        Some(("-", clock)) if rest.contains(':') => (-1, clock),
        _ => return Some((text, 0)),
    };
    let (hours, minutes) = clock.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..=15).contains(&hours) && (0..60).contains(&minutes)).then_some((rest, sign * (hours * 3600 + minutes * 60)))
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
            (ValueKind::Timestamp(Digits::NONE), 4, "2024-02-29 23:59:59"),
            (ValueKind::Timestamp(Digits::new(3).expect("three")), 6, "2020-02-29 12:34:56.789"),
            (ValueKind::OldTimestamp, 4, "1970-01-01 00:00:01"),
            (ValueKind::Timestamp(Digits::NONE), 4, "0000-00-00 00:00:00"),
            (ValueKind::Decimal { precision: 10, scale: 2 }, 5, "-12345678.90"),
            (ValueKind::Decimal { precision: 10, scale: 2 }, 5, "0.00"),
            (ValueKind::Decimal { precision: 3, scale: 3 }, 2, "-0.125"),
            (ValueKind::Decimal { precision: 40, scale: 20 }, 18, "98765432109876543210.01234567890123456789"),
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

    #[test]
    fn a_timestamp_is_in_utc_unless_it_says_otherwise() {
        let timestamp = ValueType::new(ValueKind::Timestamp(Digits::NONE), Charset::Binary, None);
        let seconds = |text: &str| {
            let encoded = timestamp.encode(text)?;
            Some((u32::from_be_bytes(encoded.stored.try_into().ok()?), encoded.beyond))
        };
        let exactly = |seconds| Some((seconds, Ordering::Equal));
        assert_eq!(seconds("2024-03-31 01:30:00"), exactly(1_711_848_600));
        for text in ["2024-03-31T01:30:00Z", "2024-03-31 03:30:00+02:00", "2024-03-30 20:30:00-05:00"] {
            assert_eq!(seconds(text), exactly(1_711_848_600), "{text}");
        }
        assert_eq!(seconds("2024-03-31"), exactly(1_711_843_200));
        assert_eq!(seconds("1969-12-31 00:00:00"), Some((0, Ordering::Less)));
        assert_eq!(seconds("2200-01-01 00:00:00"), Some((u32::MAX, Ordering::Greater)));
        assert_eq!((seconds("2024-02-31"), seconds("2024-03-31 01:30:00+99:00")), (None, None));
    }

    #[test]
    fn a_decimal_lies_beyond_what_its_column_holds() {
        let decimal = ValueType::new(ValueKind::Decimal { precision: 5, scale: 2 }, Charset::Binary, None);
        let shown = |text: &str| {
            let Encoded { stored, beyond } = decimal.encode(text)?;
            let mut out = Vec::new();
            decimal.write_text(&stored, &mut out).ok()?;
            Some((String::from_utf8(out).expect("digits"), beyond))
        };
        let is = |text: &str, beyond| Some((text.to_owned(), beyond));
        assert_eq!(shown("12.5"), is("12.50", Ordering::Equal));
        assert_eq!(shown("+0012"), is("12.00", Ordering::Equal));
        assert_eq!(shown(".5"), is("0.50", Ordering::Equal));
        assert_eq!(shown("-0"), is("0.00", Ordering::Equal));
        assert_eq!(shown("1.239"), is("1.23", Ordering::Greater));
        assert_eq!(shown("-1.239"), is("-1.23", Ordering::Less));
        assert_eq!(shown("-0.001"), is("0.00", Ordering::Less));
        assert_eq!(shown("1.230"), is("1.23", Ordering::Equal));
        assert_eq!(shown("1000"), is("999.99", Ordering::Greater));
        assert_eq!(shown("-123456789012345678901234567890"), is("-999.99", Ordering::Less));
        assert_eq!(["", "-", ".", "1e5", "1.2.3", "x"].map(|text| shown(text).is_some()), [false; 6]);
    }
}
