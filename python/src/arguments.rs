//! Arguments of several functions.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;

use arrow::ArrowOptions;
use datadir::keys::KeyFiles;
use datadir::remote::StorageOptions;
use inspect::rows::key_range::KeyBounds;
use inspect::rows::reader::OnDamage;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyString, PyTuple};

/// One path, or several.
#[derive(FromPyObject)]
pub enum Paths {
    /// One.
    One(PathBuf),
    /// Several.
    Many(Vec<PathBuf>),
}

impl Paths {
    pub fn into_list(self) -> Vec<PathBuf> {
        match self {
            Self::One(path) => vec![path],
            Self::Many(paths) => paths,
        }
    }
}

/// A file, optionally with the key or key file that decrypts it.
#[derive(FromPyObject)]
pub enum KeyFile {
    /// With its key, or `FILE:` and the path of the key file.
    Locked(PathBuf, String),
    /// Not encrypted.
    Open(PathBuf),
}

pub fn keys(keyring: Option<Paths>, key_file: Option<KeyFile>) -> KeyFiles {
    KeyFiles {
        keyrings: keyring.map(Paths::into_list).unwrap_or_default(),
        key_file: key_file.map(|file| match file {
            KeyFile::Locked(path, opener) => (path, Some(opener)),
            KeyFile::Open(path) => (path, None),
        }),
    }
}

/// A value of `storage_options`.
#[derive(FromPyObject)]
pub enum StorageValue {
    /// A switch, as text `true` or `false`.
    Switch(bool),
    /// A number.
    Number(i64),
    /// Text.
    Text(String),
}

/// `storage_options`.
pub type Storage = BTreeMap<String, StorageValue>;

pub fn storage(options: Option<Storage>) -> StorageOptions {
    let text = |value| match value {
        StorageValue::Switch(is_on) => is_on.to_string(),
        StorageValue::Number(number) => number.to_string(),
        StorageValue::Text(text) => text,
    };
    options.unwrap_or_default().into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// Threads; all cores if `None`.
pub fn workers(threads: Option<usize>) -> PyResult<usize> {
    match threads {
        Some(0) => Err(PyValueError::new_err("threads must be at least 1")),
        Some(threads) => Ok(threads),
        None => Ok(std::thread::available_parallelism().map_or(1, NonZero::get)),
    }
}

pub fn on_damage(text: &str) -> PyResult<OnDamage> {
    match text {
        "raise" => Ok(OnDamage::Stop),
        "skip" => Ok(OnDamage::Skip),
        _ => Err(PyValueError::new_err(format!("on_damage must be \"raise\" or \"skip\", not {text:?}"))),
    }
}

/// `types`.
pub fn arrow(types: &str) -> PyResult<ArrowOptions> {
    match types {
        "exact" => Ok(ArrowOptions::default()),
        "lakehouse" => Ok(ArrowOptions::lakehouse()),
        _ => Err(PyValueError::new_err(format!("types must be \"exact\" or \"lakehouse\", not {types:?}"))),
    }
}

/// A range of keys: `(5, 90)`, `(None, 90)`; of keys of several columns `((5, "a"), (5, "z"))`.
#[derive(FromPyObject)]
pub struct KeyRange<'py>(Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

impl KeyRange<'_> {
    pub fn bounds(&self) -> PyResult<KeyBounds> {
        let text = |bound: &Option<Bound<'_, PyAny>>| bound.as_ref().map(bound_text).transpose();
        Ok(KeyBounds { from: text(&self.0)?, to: text(&self.1)? })
    }
}

/// A bound in the syntax of innokit's command line.
fn bound_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(values) = value.cast::<PyTuple>() else { return value_text(value) };
    let part = |value: Bound<'_, PyAny>| {
        let text = value_text(&value)?;
        let is_text = value.is_instance_of::<PyString>();
        let unquoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(&text);
        Ok(if is_text { format!("'{}'", unquoted.replace('\'', "''")) } else { text })
    };
    Ok(format!("({})", values.iter().map(part).collect::<PyResult<Vec<_>>>()?.join(",")))
}

/// A value in the syntax of innokit's command line.
fn value_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let digits: String = bytes.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        return Ok(format!("0x{digits}"));
    }
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyFloat>() {
        return Err(PyTypeError::new_err(
            "a key is an int, str, bytes, Decimal, date or datetime, or a tuple of these",
        ));
    }
    // Not 1E+3.
    if value.get_type().name()? == "Decimal" {
        return value.call_method1("__format__", ("f",))?.extract();
    }
    let text = value.str()?.to_string();
    if !value.is_instance_of::<PyString>() {
        return Ok(text);
    }
    // Quotes keep a text from being taken for a hexadecimal number, or for a tuple. A date is not quoted.
    let is_plain = !["0x", "'", "("].iter().any(|first| text.starts_with(first));
    Ok(if is_plain { text } else { format!("'{text}'") })
}
