//! Days as dates.

/// Year, month and day of the date `days` days after 1970-01-01.
#[must_use]
pub(crate) fn day_of(days: u32) -> (u16, u8, u8) {
    // Count years from March, so that a leap day is the last day of its year.
    let days = u64::from(days) + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    ((era * 400 + year + u64::from(month <= 2)) as u16, month as u8, day as u8)
}
