//! Numbers as the originals' option parser reads them: `7`, `+7`, `2K`. Anything after a suffix is ignored.

/// Why a text is not a number.
#[derive(Debug, PartialEq, Eq)]
pub enum Bad {
    /// It begins with a minus sign: the original takes it as 0.
    Negative,
    /// It has a character that is neither a digit nor a suffix.
    Suffix(char),
    /// It does not fit 64 bits.
    TooLarge,
}

/// Reads an unsigned number with an optional suffix: K, M, G, T, P, E, powers of 1024.
pub fn parse(text: &str) -> Result<u64, Bad> {
    let text = text.trim_start();
    if text.starts_with('-') {
        return Err(Bad::Negative);
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let digits = unsigned.len() - unsigned.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (digits, suffix) = unsigned.split_at_checked(digits).unwrap_or((unsigned, ""));
    if digits.is_empty() {
        return Err(Bad::Suffix(text.chars().next().unwrap_or(' ')));
    }
    let number: u64 = digits.parse().map_err(|_| Bad::TooLarge)?;
    let power = match suffix.chars().next().map(|letter| letter.to_ascii_uppercase()) {
        None => 0,
        Some('K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        Some('P') => 5,
        Some('E') => 6,
        Some(_) => return Err(Bad::Suffix(suffix.chars().next().unwrap_or(' '))),
    };
    Ok(number.saturating_mul(1 << (10 * power)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_signs_and_suffixes_as_the_original_does() {
        assert_eq!(parse("03"), Ok(3));
        assert_eq!(parse("+3"), Ok(3));
        assert_eq!(parse("2K"), Ok(2048));
        assert_eq!(parse("1kx"), Ok(1024));
        assert_eq!(parse("-0"), Err(Bad::Negative));
        assert_eq!(parse("3x"), Err(Bad::Suffix('x')));
        assert_eq!(parse("0x15"), Err(Bad::Suffix('x')));
        assert_eq!(parse("x"), Err(Bad::Suffix('x')));
        assert_eq!(parse("+x"), Err(Bad::Suffix('+')));
        assert_eq!(parse("18446744073709551616"), Err(Bad::TooLarge));
    }
}
