//! Moments on the command line: `2026-11-28 07:25:00 Europe/Berlin`.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::civil::{date_of, days_of};
use super::zone::Zone;

const DAY: i64 = 86_400;
const MICROS: i64 = 1_000_000;

/// A moment as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The moment.
    pub time: SystemTime,
    /// Microseconds since 1970.
    micros: i64,
    /// The offset from UTC in seconds, and the zone's name if it has one.
    offset: i64,
    zone: Option<String>,
    /// No zone was given.
    is_assumed: bool,
}

impl Moment {
    /// Reads a date and a time, and behind them `Z`, an offset, the name of a zone, or `local`. Without one of these it is UTC.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (shown, zone) = clock(text).ok_or("an LSN, or a time such as \"2026-11-28 07:25:00 Europe/Berlin\": behind the time stands an offset (+01:00), a zone, or the word local; else it is UTC")?;
        let is_assumed = zone.is_empty();
        let fixed = match zone {
            "" | "Z" | "z" | "UTC" => Some(0),
            zone => fixed(zone)?,
        };
        let (zone, name) = match (fixed, zone) {
            (Some(offset), _) => (Zone::fixed(offset), None),
            (None, "local") => (Zone::local(), Some(zone)),
            (None, name) => (Zone::named(name)?, Some(name)),
        };
        let seconds = shown.div_euclid(MICROS);
        let offset = match zone.offsets_of(seconds).as_slice() {
            [offset] => *offset,
            [] => {
                return Err(format!(
                    "{text}: no clock of that zone showed this time, because clocks were put forward over it: give the offset instead, as in \
                     +01:00"
                ));
            }
            [first, second, ..] => {
                let (first, second) = (Offset(*first), Offset(*second));
                return Err(format!(
                    "{text}: the clocks of that zone showed this time twice, because they were put back: give the offset {second} for the first \
                     time, or {first} for the second, instead of the zone"
                ));
            }
        };
        let micros = shown - offset * MICROS;
        let since = u64::try_from(micros).map_err(|_| format!("{text}: before 1970"))?;
        let time = UNIX_EPOCH + Duration::from_micros(since);
        Ok(Self { time, micros, offset, zone: name.map(str::to_owned), is_assumed })
    }

    /// This moment in its own zone and in another: UTC, or if it is in UTC, this machine's.
    pub fn in_both(&self) -> String {
        let local = Zone::local().offset_at(self.micros.div_euclid(MICROS));
        let name = self.zone.as_ref().map(|zone| format!(" {zone}")).unwrap_or_default();
        let given = format!("{}{name}", Shown { micros: self.micros, offset: self.offset });
        let assumed = if self.is_assumed { " (no zone was given)" } else { "" };
        let other = if self.offset != 0 { 0 } else { local };
        if other == self.offset {
            return format!("{given}{assumed}");
        }
        let whose = if other == 0 { "" } else { " on this machine" };
        format!("{given}{assumed}, {}{whose}", Shown { micros: self.micros, offset: other })
    }

    /// Another moment, in microseconds since 1970, in this one's offset.
    pub fn like(&self, micros: u64) -> String {
        Shown { micros: i64::try_from(micros).unwrap_or(i64::MAX), offset: self.offset }.to_string()
    }
}

/// The time that the clocks show, in microseconds since 1970, and the text behind it.
fn clock(text: &str) -> Option<(i64, &str)> {
    let text = text.trim();
    let (date, rest) = text.split_once(['T', ' '])?;
    let end = rest.find(|letter: char| !(letter.is_ascii_digit() || ":.".contains(letter))).unwrap_or(rest.len());
    let (time, zone) = rest.split_at_checked(end)?;
    let (time, fraction) = time.split_once('.').map_or((time, Some(0)), |(time, digits)| (time, micros(digits)));
    let numbers = |text: &str, mark: char| -> Option<Vec<i64>> {
        let is_number = |part: &&str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        text.split(mark).map(|part| Some(part).filter(is_number)?.parse().ok()).collect()
    };
    let [year, month, day]: [i64; 3] = numbers(date, '-')?.try_into().ok()?;
    let (hour, minute, second) = match *numbers(time, ':')?.as_slice() {
        [hour, minute, second] => (hour, minute, second),
        [hour, minute] => (hour, minute, 0),
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second <= 60;
    let days = days_of(year, u64::try_from(month).ok()?, day);
    // A day that a month does not have comes back as another date.
    let is_date = (1970..10_000).contains(&year) && date_of(days) == (year, u64::try_from(month).ok()?, day);
    let seconds = days * DAY + hour * 3600 + minute * 60 + second;
    (is_time && is_date).then_some((seconds * MICROS + fraction?, zone.trim()))
}

/// The digits behind the point as microseconds.
fn micros(digits: &str) -> Option<i64> {
    let is_one = (1..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| format!("{digits:0<6}").parse().ok()).flatten()
}

/// `+01:00`, `+0100`, `+01` or `UTC+01:00` in seconds; `None` if it is no offset.
fn fixed(zone: &str) -> Result<Option<i64>, String> {
    let text = zone.strip_prefix("UTC").unwrap_or(zone);
    let (sign, digits) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(digits), _) => (1, digits),
        (_, Some(digits)) => (-1, digits),
        _ => return Ok(None),
    };
    let digits = digits.replacen(':', "", 1);
    let number = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i64>().ok();
    let is_one = digits.bytes().all(|byte| byte.is_ascii_digit());
    let parts = match digits.len() {
        2 => number(0..2).zip(Some(0)),
        4 => number(0..2).zip(number(2..4)),
        _ => None,
    };
    let parts = parts.filter(|(hours, minutes)| is_one && *hours < 24 && *minutes < 60);
    let (hours, minutes) = parts.ok_or_else(|| format!("{zone}: no offset from UTC, such as +01:00"))?;
    Ok(Some(sign * (hours * 3600 + minutes * 60)))
}

/// `UTC`, or `UTC+01:00`.
struct Offset(i64);

impl fmt::Display for Offset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, seconds) = (if self.0 < 0 { '-' } else { '+' }, self.0.abs());
        match seconds {
            0 => write!(out, "UTC"),
            seconds => write!(out, "UTC{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60),
        }
    }
}

/// `2026-11-28 07:25:00 UTC+01:00`, with a fraction if it is not a whole second.
struct Shown {
    micros: i64,
    offset: i64,
}

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.micros + self.offset * MICROS;
        let (seconds, micros) = (shown.div_euclid(MICROS), shown.rem_euclid(MICROS));
        let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
        let fraction = fraction.trim_end_matches('0');
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction} {}", Offset(self.offset))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use super::*;

    fn seconds(text: &str) -> Option<f64> {
        let time = Moment::parse(text).ok()?.time;
        time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        let cases = [
            ("1970-01-01T00:00:00", 0.0),
            ("2000-02-29 23:59:59", 951_868_799.0),
            ("2000-03-01T00:00:00Z", 951_868_800.0),
            ("2026-11-23T20:15:00", 1_795_464_900.0),
            ("2026-11-23T20:15", 1_795_464_900.0),
            ("2026-11-23T20:15:00.25 UTC", 1_795_464_900.25),
            ("2026-11-23T20:15:00+01:00", 1_795_461_300.0),
            ("2026-11-23 20:15:00 +0100", 1_795_461_300.0),
            ("2026-11-23 20:15:00 UTC-03:30", 1_795_477_500.0),
            ("2100-12-31T12:00:00", 4_133_937_600.0),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        let wrong = [
            "2026-11-23",
            "2026-13-01T00:00:00",
            "2026-02-29T00:00:00",
            "2026-11-23T24:00:00",
            "1969-12-31T23:59:59",
            "1970-01-01T00:00:00+01:00",
            "x",
            "2026-11-23T20",
            "2026-11-23T20:15:00 +1:00",
            "2026-11-23T20:15:00 ../UTC",
            "2026-11-23T20:15:00 Mars/Base",
        ];
        for text in wrong {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_moment_is_said_in_its_own_zone_and_in_utc() {
        let moment = Moment::parse("2026-11-28 07:25:00.5 +01:00").expect("a moment");
        assert_eq!(moment.in_both(), "2026-11-28 07:25:00.5 UTC+01:00, 2026-11-28 06:25:00.5 UTC");
        assert_eq!(moment.like(1_795_847_099_000_000), "2026-11-28 07:24:59 UTC+01:00");
        let plain = Moment::parse("2026-11-28 07:25:00").expect("a moment").in_both();
        assert!(plain.starts_with("2026-11-28 07:25:00 UTC (no zone was given)"), "{plain}");
    }
}
