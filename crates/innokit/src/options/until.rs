//! `--until`: where a recovery or a view ends.

use super::moment::Moment;

/// Where a recovery ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// At an LSN.
    Lsn(u64),
    /// Where the archive was at a time.
    Time(Moment),
}

pub fn until(text: &str) -> Result<Until, String> {
    match text.parse() {
        Ok(lsn) => Ok(Until::Lsn(lsn)),
        Err(_) => Moment::parse(text).map(Until::Time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_an_lsn_and_anything_else_a_time() {
        assert_eq!(until("80703969"), Ok(Until::Lsn(80_703_969)));
        assert!(matches!(until("2026-11-23T20:15:00"), Ok(Until::Time(_))));
        assert!(until("80703969x").is_err_and(|error| error.contains("an LSN, or a time")));
    }
}
