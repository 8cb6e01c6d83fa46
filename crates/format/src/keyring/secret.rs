//! Secret bytes.

use zeroize::Zeroizing;

/// Bytes that `Debug` does not show and that are overwritten when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The secret `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes themselves.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret of {} bytes", self.0.len())
    }
}

/// Decodes pairs of hexadecimal digits.
pub(super) fn unhex(digits: &[u8]) -> Option<Secret> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>().map(Secret::new);
    bytes.filter(|_| rest.is_empty())
}
