//! `component_keyring_file`: JSON with the keys in hexadecimal digits.
//!
//! ```json
//! {"version":"1.0","elements":[{"user":"","data_id":"INNODBKey-...-1","data_type":"AES","data":"A5D3...","extension":[]}]}
//! ```
//!
//! Source: observed on MySQL 8.0 and 9.7.

use serde::Deserialize;
use zeroize::Zeroizing;

use super::error::KeyringError;
use super::secret::{Secret, unhex};

#[derive(Deserialize)]
struct Keyring {
    elements: Vec<Element>,
}

#[derive(Deserialize)]
struct Element {
    data_id: String,
    data: String,
}

/// The keys in the file, with their names.
pub(super) fn parse(file: &[u8]) -> Result<Vec<(String, Secret)>, KeyringError> {
    let keyring: Keyring = serde_json::from_slice(file)
        .map_err(|error| KeyringError::Json { line: error.line(), column: error.column() })?;
    let key = |Element { data_id, data }| {
        let data = Zeroizing::new(data);
        match unhex(data.as_bytes()) {
            Some(key) => Ok((data_id, key)),
            None => Err(KeyringError::NotHex { name: data_id }),
        }
    };
    keyring.elements.into_iter().map(key).collect()
}
