//! Dates and times in every format that the servers have used.

use super::digits::{pair, write_padded, write_uint};
use super::error::ValueError;
use super::stored::{exactly, signed, unsigned};
use crate::calendar::day_of;

/// SQL's type number of DATE, in an opaque value.
pub(super) const TYPE_DATE: u8 = 10;
/// SQL's type number of TIME.
pub(super) const TYPE_TIME: u8 = 11;

/// A date; any part may be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 0 to 12.
    pub month: u8,
    /// 0 to 31.
    pub day: u8,
}

/// A time of day, or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    /// Whether it is below zero.
    pub negative: bool,
    /// 0 to 838.
    pub hour: u16,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// Microseconds.
    pub micros: u32,
}

/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateTime {
    /// The date.
    pub date: Date,
    /// The time of day.
    pub time: Time,
}

/// Number of fraction digits, at most six. A damaged definition may have more; refusing them here spares every decoder the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digits(u8);

impl Digits {
    /// Whole seconds.
    pub const NONE: Self = Self(0);
    /// Microseconds.
    pub const MOST: Self = Self(6);

    /// `None` for more than six.
    #[must_use]
    pub const fn new(digits: u8) -> Option<Self> {
        if digits <= Self::MOST.0 { Some(Self(digits)) } else { None }
    }

    /// The number of digits.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Bytes of a fraction in the current format: two digits per byte.
    pub(super) const fn bytes(self) -> usize {
        self.0.div_ceil(2) as usize
    }

    /// Units per second for this many digits.
    const fn a_second(self) -> u32 {
        10_u32.pow(self.0 as u32)
    }

    /// Microseconds per unit.
    const fn micros(self) -> u32 {
        10_u32.pow((Self::MOST.0 - self.0) as u32)
    }

    /// Microseconds per unit in the current format.
    pub(super) const fn stored_micros(self) -> u32 {
        10_u32.pow(6 - 2 * self.bytes() as u32)
    }
}

const SECONDS_A_DAY: u64 = 86_400;
/// MariaDB adds this to a TIME with a fraction to keep it positive: one second more than 838:59:59, in seconds.
const HIRES_TIME_SHIFT: i64 = 3_020_400;

impl Date {
    /// Decodes its three bytes.
    ///
    /// # Errors
    /// A month 13 to 15, or a date before the year 0.
    pub fn decode(stored: [u8; 3]) -> Result<Self, ValueError> {
        let number = u64::try_from(signed(&stored)).map_err(|_| ValueError::Temporal)?;
        Self::new(number >> 9, number >> 5 & 15, number & 31)
    }

    fn new(year: u64, month: u64, day: u64) -> Result<Self, ValueError> {
        if year > 9999 || month > 12 || day > 31 {
            return Err(ValueError::Temporal);
        }
        Ok(Self { year: year as u16, month: month as u8, day: day as u8 })
    }

    /// The date `days` days after 1970-01-01.
    #[must_use]
    pub fn from_days(days: u32) -> Self {
        let (year, month, day) = day_of(days);
        Self { year, month, day }
    }

    /// Days after 1970-01-01; `None` if a part is zero or there is no such day.
    #[must_use]
    pub fn days(self) -> Option<i32> {
        let leap = self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        let last = match self.month {
            2 => 28 + u8::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if self.day == 0 || self.day > last {
            return None;
        }
        let (year, month) = (i32::from(self.year) - i32::from(self.month <= 2), i32::from(self.month));
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + i32::from(self.day) - 1;
        Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
    }

    /// `2020-02-29`.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.text());
    }

    /// Its ten characters: years have at most four digits.
    #[inline]
    fn text(self) -> [u8; 10] {
        let ([a, b], [c, d]) = (pair((self.year / 100) as u8), pair((self.year % 100) as u8));
        let ([e, f], [g, h]) = (pair(self.month), pair(self.day));
        [a, b, c, d, b'-', e, f, b'-', g, h]
    }
}

/// A fraction in the current format, in microseconds. At most three bytes, so it cannot overflow.
fn micros(stored: &[u8], digits: Digits) -> Result<u32, ValueError> {
    check_length(stored, digits.bytes())?;
    Ok(unsigned(stored) as u32 * digits.stored_micros())
}

fn check_length(stored: &[u8], expected: usize) -> Result<(), ValueError> {
    if stored.len() == expected { Ok(()) } else { Err(ValueError::Length { found: stored.len(), expected }) }
}

impl Time {
    fn new(negative: bool, hour: u64, minute: u64, second: u64, micros: u64) -> Result<Self, ValueError> {
        if hour > 838 || minute > 59 || second > 59 || micros > 999_999 {
            return Err(ValueError::Temporal);
        }
        Ok(Self { negative, hour: hour as u16, minute: minute as u8, second: second as u8, micros: micros as u32 })
    }

    /// Decodes the format since MySQL 5.6, with `digits` fraction digits.
    ///
    /// # Errors
    /// Minutes or seconds above 59, or a wrong length.
    pub fn decode(stored: &[u8], digits: Digits) -> Result<Self, ValueError> {
        let fraction = digits.bytes();
        check_length(stored, 3 + fraction)?;
        let number = signed(stored);
        let (whole, part) =
            (number.unsigned_abs() >> (8 * fraction), number.unsigned_abs() & ((1 << (8 * fraction)) - 1));
        let part = part * u64::from(digits.stored_micros());
        Self::new(number < 0, whole >> 12 & 0x3FF, whole >> 6 & 0x3F, whole & 0x3F, part)
    }

    /// Decodes the format before MySQL 5.6.
    ///
    /// # Errors
    /// Minutes or seconds above 59.
    pub fn decode_old(stored: [u8; 3]) -> Result<Self, ValueError> {
        let number = signed(&stored);
        let time = number.unsigned_abs();
        Self::new(number < 0, time / 10_000, time / 100 % 100, time % 100, 0)
    }

    /// Decodes MariaDB's own format with a fraction.
    ///
    /// # Errors
    /// More than 838 hours, or a wrong length.
    pub fn decode_hires(stored: &[u8], digits: Digits) -> Result<Self, ValueError> {
        if stored.len() > 6 {
            return Err(ValueError::Length { found: stored.len(), expected: 6 });
        }
        let unit = i64::from(digits.a_second());
        let number = unsigned(stored) as i64 - HIRES_TIME_SHIFT * unit;
        let (whole, part) = (number.unsigned_abs() / unit as u64, number.unsigned_abs() % unit as u64);
        let micros = part * u64::from(digits.micros());
        Self::new(number < 0, whole / 3600, whole / 60 % 60, whole % 60, micros)
    }

    /// As microseconds.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        let seconds = self.hour as i64 * 3600 + self.minute as i64 * 60 + self.second as i64;
        let micros = seconds * 1_000_000 + self.micros as i64;
        if self.negative { -micros } else { micros }
    }

    /// `-12:34:56.789`, with `digits` fraction digits.
    pub fn write(self, digits: Digits, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        write_padded(self.hour.into(), 2, out);
        let ([a, b], [c, d]) = (pair(self.minute), pair(self.second));
        out.extend_from_slice(&[b':', a, b, b':', c, d]);
        write_fraction(self.micros, digits, out);
    }
}

fn write_fraction(micros: u32, digits: Digits, out: &mut Vec<u8>) {
    if digits != Digits::NONE {
        out.push(b'.');
        write_padded(u64::from(micros / digits.micros()), usize::from(digits.0), out);
    }
}

impl DateTime {
    /// Decodes the format since MySQL 5.6, with `digits` fraction digits.
    ///
    /// # Errors
    /// Impossible hours, minutes or seconds, or a wrong length.
    pub fn decode(stored: &[u8], digits: Digits) -> Result<Self, ValueError> {
        check_length(stored, 5 + digits.bytes())?;
        let (whole, part) = stored.split_at(5);
        Self::unpack(signed(whole), micros(part, digits)?)
    }

    /// Decodes the integer part of the current format. JSON uses the same encoding.
    ///
    /// # Errors
    /// Impossible hours, minutes or seconds.
    pub fn unpack(whole: i64, micros: u32) -> Result<Self, ValueError> {
        let whole = u64::try_from(whole).map_err(|_| ValueError::Temporal)?;
        let months = whole >> 22;
        let date = Date::new(months / 13, months % 13, whole >> 17 & 31)?;
        Self::new(date, Time::new(false, whole >> 12 & 31, whole >> 6 & 63, whole & 63, micros.into())?)
    }

    /// A time of day; [`Time`] itself goes up to 838 hours.
    fn new(date: Date, time: Time) -> Result<Self, ValueError> {
        if time.hour > 23 { Err(ValueError::Temporal) } else { Ok(Self { date, time }) }
    }

    /// Decodes the format before MySQL 5.6.
    ///
    /// # Errors
    /// Impossible parts of a date or time.
    pub fn decode_old(stored: [u8; 8]) -> Result<Self, ValueError> {
        let number = u64::try_from(signed(&stored)).map_err(|_| ValueError::Temporal)?;
        let (date, time) = (number / 1_000_000, number % 1_000_000);
        let date = Date::new(date / 10_000, date / 100 % 100, date % 100)?;
        Self::new(date, Time::new(false, time / 10_000, time / 100 % 100, time % 100, 0)?)
    }

    /// Decodes MariaDB's own format with a fraction.
    ///
    /// # Errors
    /// Impossible parts of a date or time, or a wrong length.
    pub fn decode_hires(stored: &[u8], digits: Digits) -> Result<Self, ValueError> {
        if stored.len() > 8 {
            return Err(ValueError::Length { found: stored.len(), expected: 8 });
        }
        let unit = u64::from(digits.a_second());
        let number = unsigned(stored);
        let micros = number % unit * u64::from(digits.micros());
        let whole = number / unit;
        let days = whole / SECONDS_A_DAY;
        let date = Date::new(days / 32 / 13, days / 32 % 13, days % 32)?;
        Self::new(date, Time::new(false, whole / 3600 % 24, whole / 60 % 60, whole % 60, micros)?)
    }

    /// The moment `seconds` seconds after 1970-01-01 UTC.
    #[must_use]
    pub fn from_seconds(seconds: u32, micros: u32) -> Self {
        let (days, of_day) = (seconds / SECONDS_A_DAY as u32, seconds % SECONDS_A_DAY as u32);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let time = Time { negative: false, hour: hour as u16, minute: minute as u8, second: second as u8, micros };
        Self { date: Date::from_days(days), time }
    }

    /// Microseconds after 1970-01-01 00:00:00; `None` if there is no such date.
    #[must_use]
    pub fn as_micros(self) -> Option<i64> {
        Some(i64::from(self.date.days()?) * SECONDS_A_DAY as i64 * 1_000_000 + self.time.as_micros())
    }

    /// `2020-02-29 12:34:56.789`, with `digits` fraction digits.
    pub fn write(self, digits: Digits, out: &mut Vec<u8>) {
        if self.time.negative || self.time.hour > 99 {
            // No server writes this, but each part can be printed.
            self.date.write(out);
            out.push(b' ');
            return self.time.write(digits, out);
        }
        let (hour, minute, second) = (pair(self.time.hour as u8), pair(self.time.minute), pair(self.time.second));
        let ([a, b], [c, d], [e, f]) = (hour, minute, second);
        let mut text = [0; 19];
        let (date, time) = text.split_at_mut(10);
        date.copy_from_slice(&self.date.text());
        time.copy_from_slice(&[b' ', a, b, b':', c, d, b':', e, f]);
        out.extend_from_slice(&text);
        write_fraction(self.time.micros, digits, out);
    }
}

/// Seconds since 1970 UTC and microseconds; `None` for the zero timestamp.
pub type Timestamp = Option<(u32, u32)>;

fn moment(seconds: &[u8], micros: u32) -> Result<Timestamp, ValueError> {
    let seconds = unsigned(seconds) as u32;
    if micros > 999_999 {
        return Err(ValueError::Temporal);
    }
    Ok((seconds > 0 || micros > 0).then_some((seconds, micros)))
}

/// Decodes a TIMESTAMP in the current or the old format.
///
/// # Errors
/// A wrong length, or a fraction of a second or more.
pub fn timestamp(stored: &[u8], digits: Digits) -> Result<Timestamp, ValueError> {
    check_length(stored, 4 + digits.bytes())?;
    let (whole, part) = stored.split_at(4);
    moment(whole, micros(part, digits)?)
}

/// Decodes a TIMESTAMP in MariaDB's own format with a fraction.
///
/// # Errors
/// A wrong length, or a fraction of a second or more.
pub fn hires_timestamp(stored: &[u8], digits: Digits) -> Result<Timestamp, ValueError> {
    check_length(stored, 4 + digits.bytes())?;
    let (whole, part) = stored.split_at(4);
    // At most three bytes, times 100,000 if there is one.
    moment(whole, (unsigned(part) as u32).saturating_mul(digits.micros()))
}

/// Writes a TIMESTAMP in UTC; the zero timestamp as zeros.
pub fn write_timestamp(timestamp: Timestamp, digits: Digits, out: &mut Vec<u8>) {
    match timestamp {
        Some((seconds, micros)) => DateTime::from_seconds(seconds, micros).write(digits, out),
        None => {
            let date = Date { year: 0, month: 0, day: 0 };
            let time = Time { negative: false, hour: 0, minute: 0, second: 0, micros: 0 };
            DateTime { date, time }.write(digits, out);
        }
    }
}

/// Writes a temporal value from JSON: integer part and microseconds in eight bytes, little-endian. Six fraction digits, and a date without
/// a time.
pub(super) fn write_packed(code: u8, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut bytes: [u8; 8] = exactly(stored)?;
    bytes.reverse();
    let packed = i64::from_be_bytes(bytes);
    let (magnitude, micros) = (packed.unsigned_abs() >> 24, (packed.unsigned_abs() & 0xFF_FFFF) as u32);
    if code == TYPE_TIME {
        let (hour, minute, second) = (magnitude >> 12 & 0x3FF, magnitude >> 6 & 63, magnitude & 63);
        Time::new(packed < 0, hour, minute, second, micros.into())?.write(Digits::MOST, out);
        return Ok(());
    }
    let whole = i64::try_from(magnitude).map_err(|_| ValueError::Temporal)?;
    let moment = DateTime::unpack(if packed < 0 { -1 } else { whole }, micros)?;
    if code == TYPE_DATE {
        moment.date.write(out)
    } else {
        moment.write(Digits::MOST, out)
    }
    Ok(())
}

/// YEAR: four digits.
pub(super) fn write_year(year: u16, out: &mut Vec<u8>) {
    if year == 0 { out.extend_from_slice(b"0000") } else { write_uint(year.into(), out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn digits(number: u8) -> Digits {
        Digits::new(number).expect("at most six")
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn dates_and_times_are_those_that_the_servers_stored() {
        let date = |bytes| Date::decode(bytes).map(|date| text(|out| date.write(out)));
        assert_eq!(date([0x87, 0xd0, 0x21]).as_deref(), Ok("1000-01-01"));
        assert_eq!(date([0xce, 0x1f, 0x9f]).as_deref(), Ok("9999-12-31"));
        let time = |bytes: &[u8], number| {
            Time::decode(bytes, digits(number)).map(|time| text(|out| time.write(digits(number), out)))
        };
        assert_eq!(time(&[0x4b, 0x91, 0x05], 0).as_deref(), Ok("-838:59:59"));
        assert_eq!(time(&[0xb4, 0x6e, 0xfb], 0).as_deref(), Ok("838:59:59"));
        assert_eq!(time(&[0x4b, 0x91, 0x05, 0xa6], 1).as_deref(), Ok("-838:59:58.9"));
        assert_eq!(time(&[0xb4, 0x6e, 0xfa, 0x0f, 0x42, 0x3f], 6).as_deref(), Ok("838:59:58.999999"));
        let moment = |bytes: &[u8], number| {
            DateTime::decode(bytes, digits(number)).map(|it| text(|out| it.write(digits(number), out)))
        };
        assert_eq!(moment(&[0x99, 0x63, 0xff, 0x7e, 0xfb], 0).as_deref(), Ok("1999-12-31 23:59:59"));
        let millis = [0x8c, 0xb2, 0x42, 0, 0, 0x04, 0xce];
        assert_eq!(moment(&millis, 3).as_deref(), Ok("1000-01-01 00:00:00.123"));
        let stamp = |bytes: &[u8], number| {
            let stamp = timestamp(bytes, digits(number)).expect("a timestamp");
            text(|out| write_timestamp(stamp, digits(number), out))
        };
        assert_eq!(stamp(&[0x4c, 0xb1, 0x91, 0x02], 0), "2010-10-10 10:10:10");
        assert_eq!(stamp(&[0, 0, 0, 1, 1, 0xe2, 0x40], 6), "1970-01-01 00:00:01.123456");
        assert_eq!(stamp(&[0; 4], 0), "0000-00-00 00:00:00");
    }

    #[test]
    fn forms_of_older_servers_are_read_too() {
        let old = Time::decode_old([0x7e, 0x1d, 0xc0]).map(|time| text(|out| time.write(digits(0), out)));
        assert_eq!(old.as_deref(), Ok("-12:34:56"));
        let old = DateTime::decode_old([0x80, 0, 0x12, 0x5f, 0x3b, 0x7b, 0x35, 0x80]);
        assert_eq!(old.map(|it| text(|out| it.write(digits(0), out))).as_deref(), Ok("2020-02-29 12:34:56"));
        let hires = Time::decode_hires(&[0x00, 0xb1, 0x54, 0x78, 0xeb], digits(3));
        assert_eq!(hires.map(|it| text(|out| it.write(digits(3), out))).as_deref(), Ok("-12:34:56.789"));
        let hires = DateTime::decode_hires(&[0x01, 0x01, 0xf7, 0xfb, 0x7b, 0x94, 0x06, 0x83], digits(6));
        assert_eq!(hires.map(|it| text(|out| it.write(digits(6), out))).as_deref(), Ok("2020-02-29 12:34:56.789123"));
        assert_eq!(hires_timestamp(&[0x5e, 0x5a, 0x5a, 0x70, 0x03, 0x15], digits(3)), Ok(Some((0x5e5a_5a70, 789_000))));
    }

    #[test]
    fn days_count_both_ways() {
        for days in [0, 58, 59, 60, 11_016, 18_321, 18_322, 24_855, 49_710] {
            assert_eq!(Date::from_days(days).days(), Some(days as i32));
        }
        assert_eq!(Date { year: 2023, month: 2, day: 29 }.days(), None);
        assert_eq!(Date { year: 1000, month: 1, day: 1 }.days(), Some(-354_285));
    }

    #[test]
    fn what_no_clock_shows_is_refused() {
        assert_eq!(Date::decode([0xff; 3]), Err(ValueError::Temporal));
        assert_eq!(Time::decode(&[0xff; 3], digits(0)), Err(ValueError::Temporal));
        assert_eq!(DateTime::decode(&[0xff; 5], digits(0)), Err(ValueError::Temporal));
        assert!(DateTime::decode(&[0xff; 4], digits(0)).is_err());
        // More microseconds than a second has, which a one-byte fraction can encode.
        assert_eq!(timestamp(&[0, 0, 0, 1, 0xff], digits(1)), Err(ValueError::Temporal));
        assert_eq!(hires_timestamp(&[0, 0, 0, 1, 0xff], digits(1)), Err(ValueError::Temporal));
        assert_eq!((timestamp(&[0, 0, 0, 1, 9], digits(0)).is_err(), Digits::new(7)), (true, None));
    }
}
