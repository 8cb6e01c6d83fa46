//! The rule at the end of a zone's file, in the words of POSIX's `TZ`: `CET-1CEST,M3.5.0,M10.5.0/3`.

use super::civil::{days_of, year_of};

const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

/// Which offset from UTC is in force when, every year alike. Offsets are in seconds, east is positive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    standard: i64,
    summer: Option<Summer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Summer {
    offset: i64,
    /// By the clocks before the change.
    start: Change,
    end: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    day: Day,
    /// Seconds after that day's midnight.
    time: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Day {
    /// From 1, and 29 February is not counted.
    Julian(i64),
    /// From 0, and 29 February is counted.
    OfYear(i64),
    /// The `week`th of this weekday (0 is Sunday) in a month; the fifth is the last.
    Weekday { month: u64, week: i64, weekday: i64 },
}

impl Rule {
    pub fn parse(text: &str) -> Option<Self> {
        let (standard, rest) = after_name(text).and_then(seconds)?;
        let standard = -standard;
        if rest.is_empty() {
            return Some(Self { standard, summer: None });
        }
        let (names, days) = rest.split_once(',')?;
        let offset = after_name(names)?;
        let offset = if offset.is_empty() { standard + HOUR } else { -whole(offset)? };
        let (start, end) = days.split_once(',')?;
        let summer = Summer { offset, start: Change::parse(start)?, end: Change::parse(end)? };
        Some(Self { standard, summer: Some(summer) })
    }

    pub fn offset_at(&self, utc: i64) -> i64 {
        let Some(summer) = &self.summer else { return self.standard };
        let year = year_of((utc + self.standard).div_euclid(DAY));
        let (start, end) = (summer.start.in_year(year) - self.standard, summer.end.in_year(year) - summer.offset);
        // South of the equator summer begins in one year and ends in the next.
        let is_summer = if start < end { (start..end).contains(&utc) } else { !(end..start).contains(&utc) };
        if is_summer { summer.offset } else { self.standard }
    }
}

impl Change {
    fn parse(text: &str) -> Option<Self> {
        let (day, time) = text.split_once('/').map_or((text, Some(2 * HOUR)), |(day, time)| (day, whole(time)));
        let day = match day.strip_prefix('M') {
            Some(day) => {
                let mut parts = day.split('.');
                let (month, week) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let weekday = parts.next()?.parse().ok()?;
                let is_one = (1..=12).contains(&month) && (1..=5).contains(&week) && (0..=6).contains(&weekday);
                is_one.then_some(Day::Weekday { month, week, weekday })?
            }
            None => match day.strip_prefix('J') {
                Some(day) => Day::Julian(day.parse().ok().filter(|day| (1..=365).contains(day))?),
                None => Day::OfYear(day.parse().ok().filter(|day| (0..=365).contains(day))?),
            },
        };
        Some(Self { day, time: time? })
    }

    /// Seconds since 1970 by the clocks of the zone.
    fn in_year(&self, year: i64) -> i64 {
        let first = days_of(year, 1, 1);
        let day = match self.day {
            Day::OfYear(day) => first + day,
            // 1 March is the 60th, whether or not there is a 29 February.
            Day::Julian(day) if day >= 60 => days_of(year, 3, 1) + day - 60,
            Day::Julian(day) => first + day - 1,
            Day::Weekday { month, week, weekday } => {
                let (first, next) = (days_of(year, month, 1), days_of(year, month + 1, 1));
                // 1 January 1970 was a Thursday.
                let day = first + (weekday - (first + 4)).rem_euclid(7) + (week - 1) * 7;
                if day >= next { day - 7 } else { day }
            }
        };
        day * DAY + self.time
    }
}

/// What stands behind a name: letters, or anything within `<>`.
fn after_name(text: &str) -> Option<&str> {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>').map(|(_, rest)| rest),
        None => {
            let rest = text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
            (text.len() - rest.len() >= 3).then_some(rest)
        }
    }
}

/// `-5`, `+05:30` or `167:00:00` in seconds, and what stands behind it.
fn seconds(text: &str) -> Option<(i64, &str)> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let rest = unsigned.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ':');
    let digits = unsigned.strip_suffix(rest)?;
    let mut parts = digits.split(':').map(|part| part.parse::<i64>().ok().filter(|number| *number < 1000));
    let hours = parts.next()??;
    let (minutes, seconds) = (parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
    parts.next().is_none().then_some((sign * (hours * HOUR + minutes * 60 + seconds), rest))
}

fn whole(text: &str) -> Option<i64> {
    seconds(text).filter(|(_, rest)| rest.is_empty()).map(|(seconds, _)| seconds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test")]

    use super::*;

    #[test]
    fn rules_of_both_hemispheres_and_without_summer_are_followed() {
        let cases = [
            ("UTC0", 1_795_847_100, 0),
            ("<+0530>-5:30", 1_795_847_100, 19_800),
            ("<-03>3", 1_795_847_100, -10_800),
            ("EST5EDT,M3.2.0,M11.1.0", 1_772_953_199, -18_000),
            ("EST5EDT,M3.2.0,M11.1.0", 1_772_953_200, -14_400),
            ("EST5EDT,M3.2.0,M11.1.0", 1_793_512_800, -18_000),
            ("AEST-10AEDT,M10.1.0,M4.1.0/3", 1_795_847_100, 39_600),
            ("AEST-10AEDT,M10.1.0,M4.1.0/3", 1_782_000_000, 36_000),
            ("IST-2IDT,M3.4.4/26,M10.5.0", 1_774_569_599, 7_200),
            ("IST-2IDT,M3.4.4/26,M10.5.0", 1_774_569_600, 10_800),
            // Summer time all year.
            ("XXX3EDT4,0/0,J365/23", 1_795_847_100, -14_400),
        ];
        for (text, utc, offset) in cases {
            assert_eq!(Rule::parse(text).expect(text).offset_at(utc), offset, "{text} at {utc}");
        }
        for text in ["", "CE-1", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "<CET-1"] {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
    }
}
