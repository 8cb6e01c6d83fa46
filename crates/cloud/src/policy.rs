//! Timeouts and retries.

use std::time::Duration;

/// How long requests wait, and how often they are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How often to retry a request without an answer or with a temporary error.
    pub retries: u32,
    /// How long a connection may deliver nothing before the request has failed.
    pub timeout: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { retries: 8, timeout: Duration::from_secs(30) }
    }
}

/// An environment variable has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is {value:?}: it must be a whole number from {least} to {most}")]
pub struct PolicyError {
    variable: &'static str,
    value: String,
    least: u32,
    most: u32,
}

/// The pause before the first retry; it doubles with each further one.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl Policy {
    /// Reads `INNOKIT_CLOUD_RETRIES` and `INNOKIT_CLOUD_TIMEOUT` (seconds), if set.
    ///
    /// # Errors
    /// One of them is not a number, or out of its range.
    pub fn from_env() -> Result<Self, PolicyError> {
        let usual = Self::default();
        let retries = number("INNOKIT_CLOUD_RETRIES", 0, 100)?.unwrap_or(usual.retries);
        let timeout = number("INNOKIT_CLOUD_TIMEOUT", 1, 3600)?;
        Ok(Self { retries, timeout: timeout.map_or(usual.timeout, |seconds| Duration::from_secs(seconds.into())) })
    }

    /// The pause before retry `number`, counted from 1. `chance` spreads requests that failed together over half of that time.
    pub(crate) fn pause(number: u32, chance: u32) -> Duration {
        let full = PAUSE_FIRST.saturating_mul(1 << number.saturating_sub(1).min(16)).min(PAUSE_MAX);
        full / 2 + full.mul_f64(f64::from(chance) / f64::from(u32::MAX)) / 2
    }
}

fn number(variable: &'static str, least: u32, most: u32) -> Result<Option<u32>, PolicyError> {
    let Some(value) = std::env::var_os(variable) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    match value.trim().parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
        _ => Err(PolicyError { variable, value, least, most }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let full = |number| Policy::pause(number, u32::MAX).as_millis();
        assert_eq!([1, 2, 3, 6, 7, 100].map(full), [100, 200, 400, 3200, 5000, 5000]);
        assert_eq!(Policy::pause(2, 0).as_millis(), 100);
    }
}
