//! Figures for people.

/// `512`, `16K`, `1M`: the form that options accept.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Three significant digits: `0.0123`, `1.23`, `12.3`, `123`, `12,300`.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if magnitude == 0.0 => "0".to_owned(),
        _ if magnitude < 0.1 => format!("{value:.3}"),
        _ if magnitude < 9.995 => format!("{value:.2}"),
        _ if magnitude < 99.95 => format!("{value:.1}"),
        _ => crate::print::grouped(value.max(0.0).round() as u64),
    }
}

/// Bytes a second as MB/s, with decimal megabytes, as devices are sold.
pub fn megabytes(bytes_per_second: f64) -> String {
    number(bytes_per_second / 1e6)
}

/// A share from 0 to 1, as a percentage.
pub fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.1}%", share * 100.0) } else { format!("{:.0}%", share * 100.0) }
}

/// What the figures of a table are, measured this many times.
pub fn rounds(rounds: usize) -> String {
    if rounds == 1 { "one round".to_owned() } else { format!("medians of {rounds} rounds") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_the_digits_that_matter() {
        assert_eq!(
            [size(512), size(16384), size(1 << 20), size(3 << 30), size(1025)],
            ["512", "16K", "1M", "3G", "1025"]
        );
        assert_eq!(
            [0.0, 0.01234, 1.234, 12.34, 123.4, 12345.6].map(number),
            ["0", "0.012", "1.23", "12.3", "123", "12,346"]
        );
        assert_eq!([0.005, 0.5, 1.0].map(percent), ["0.5%", "50%", "100%"]);
        assert_eq!(megabytes(1.5e9), "1,500");
    }
}
