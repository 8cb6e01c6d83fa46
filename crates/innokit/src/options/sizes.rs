//! Sizes and rates as users write them.

/// `65536`, `64K`, `1M`, `1MiB`.
pub fn size(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "more than 4 GiB".to_owned())
}

/// The same without a limit: `100G`, `2T`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        unit => return Err(format!("`{unit}` is not a unit: K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number of bytes such as 65536, 64K or 1M".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than 16 EiB".to_owned())
}

pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    // A user who types 200 means 200M; 200 bytes a second would take years.
    if !number.ends_with(|letter: char| letter.is_ascii_alphabetic()) {
        return Err(format!("name a unit: {number}M is {number} MiB a second, {number}B that many bytes"));
    }
    match bytes(number)? {
        0 => Err("a rate is at least 1 byte a second".to_owned()),
        bytes => Ok(bytes),
    }
}

pub fn page_size(text: &str) -> Result<u32, String> {
    match size(text)? {
        size @ (4096 | 8192 | 16384 | 32768 | 65536) => Ok(size),
        _ => Err("a page is 4K, 8K, 16K, 32K or 64K".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        assert_eq!(size("65536"), Ok(65536));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        assert!(size("4G").is_err() && size("1x").is_err() && size("").is_err());
        assert!(page_size("12K").is_err());
    }

    #[test]
    fn rates_have_units_and_may_be_large() {
        assert_eq!(rate("5G"), Ok(5 << 30));
        assert_eq!(rate("200M/s"), Ok(200 << 20));
        assert_eq!(rate("4096B/s"), Ok(4096));
        assert!(rate("200").is_err_and(|why| why.contains("200M")) && rate("0M").is_err());
    }
}
