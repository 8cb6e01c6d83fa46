//! URLs as paths: buckets and web servers, read by the same clients as in the command line.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use datadir::inventory::Inventory;
use datadir::remote::{self, StorageOptions};
use pyo3::prelude::*;

use crate::arguments::{self, Storage};
use crate::failure::Failure;
use crate::wait::interruptible;

/// Paths in the form that jobs read. The first URL sets up the clients: nothing starts before it is needed. Options that the paths' storage does
/// not have are refused.
pub fn entered(paths: Vec<PathBuf>, options: &StorageOptions) -> PyResult<Vec<PathBuf>> {
    let paths: Vec<PathBuf> = paths.into_iter().map(spelled).collect();
    if paths.iter().any(|path| remote::is_url(path)) {
        install()?;
    }
    let paths: Vec<PathBuf> = paths.into_iter().map(remote::entered).collect();
    remote::take(&paths, options).map_err(Failure::from)?;
    Ok(paths)
}

/// A URL as Python programs come to spell it: with capitals, as `file://`, or through `pathlib.Path`, which makes one slash of two.
fn spelled(path: PathBuf) -> PathBuf {
    let Some((scheme, rest)) = path.to_str().and_then(|text| text.split_once(':')) else { return path };
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "file"
        && let Some(local) = rest.strip_prefix("//").filter(|local| local.starts_with('/'))
    {
        return PathBuf::from(std::ffi::OsString::from_vec(decoded(local)));
    }
    let url = match rest.strip_prefix("//") {
        Some(rest) => format!("{scheme}://{rest}"),
        None if path.exists() => return path,
        None => format!("{scheme}://{}", rest.trim_start_matches('/')),
    };
    let url = PathBuf::from(url);
    if remote::is_url(&url) && rest.starts_with('/') { url } else { path }
}

/// `%20` and the like as the bytes that they stand for.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((first, rest)) = bytes.split_first() {
        let code =
            (*first == b'%').then(|| rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())).flatten();
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                bytes = rest.get(2..).unwrap_or(&[]);
            }
            None => {
                out.push(*first);
                bytes = rest;
            }
        }
    }
    out
}

#[cfg(feature = "cloud")]
fn install() -> PyResult<()> {
    let policy =
        cloud::Policy::from_env().map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    remote::install(Box::new(cloud::Cloud::new(policy)));
    Ok(())
}

/// Without the feature, jobs refuse each URL by name.
#[cfg(not(feature = "cloud"))]
fn install() -> PyResult<()> {
    Ok(())
}

/// For the Python modules: whether a path is a storage URL.
#[pyfunction(name = "_is_url")]
pub fn is_url(path: PathBuf) -> bool {
    remote::is_url(&spelled(path))
}

/// For Spark, which sizes its partitions: the total size in bytes of the files that a check of this URL reads; `None` if they cannot be listed.
#[pyfunction(name = "_bytes_below")]
#[pyo3(signature = (url, *, storage_options=None))]
pub fn bytes_below(py: Python<'_>, url: PathBuf, storage_options: Option<Storage>) -> PyResult<Option<u64>> {
    let options = arguments::storage(storage_options);
    let paths = entered(vec![url], &options)?;
    interruptible(py, &Arc::default(), move || {
        let _visit = remote::visit(&paths, &options);
        let inventory = Inventory::take(&paths);
        let is_listed = !inventory.failed.iter().any(|failed| paths.contains(&failed.path));
        Ok(is_listed.then(|| inventory.candidates.iter().map(|file| file.len).sum()))
    })
}
