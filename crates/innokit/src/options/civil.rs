//! Dates and days since 1970.

/// Days from 1970-01-01 to a date. Month 13 is the next year's first.
pub(super) fn days_of(year: i64, month: u64, day: i64) -> i64 {
    let (year, month) = if month > 12 { (year + 1, month - 12) } else { (year, month) };
    // Years start in March here, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = (153 * i64::try_from(month).unwrap_or(0) + 2) / 5;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + before + day - 1 - 719_468
}

/// The year of a day since 1970.
pub(super) fn year_of(days: i64) -> i64 {
    date_of(days).0
}

/// Year, month and day of a day since 1970.
pub(super) fn date_of(days: i64) -> (i64, u64, i64) {
    // At most a year off.
    let mut year = 1970 + days.div_euclid(365) - days.div_euclid(365 * 4 + 1) / 4;
    while days_of(year, 1, 1) > days {
        year -= 1;
    }
    while days_of(year + 1, 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days_of(year, *month, 1) <= days).unwrap_or(1);
    (year, month, days - days_of(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_days_and_days_become_dates() {
        let cases = [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (11_017, (2000, 3, 1)), (47_846, (2100, 12, 31))];
        for (days, date) in cases {
            assert_eq!((days_of(date.0, date.1, date.2), date_of(days)), (days, date));
        }
        assert!((-800_000..800_000).all(|days| {
            let (year, month, day) = date_of(days);
            days_of(year, month, day) == days
        }));
    }
}
