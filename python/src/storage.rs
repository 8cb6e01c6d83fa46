//! Paths that are URLs: buckets and web servers, read by the same clients as the command line's.

use std::path::PathBuf;
use std::sync::Arc;

use jobs::source::datadir::Inventory;
use jobs::source::remote;
use pyo3::prelude::*;

use crate::wait::interruptible;

/// Paths as jobs read them. The clients are made ready with the first URL: nothing is started before it is asked for.
pub fn entered(paths: Vec<PathBuf>) -> PyResult<Vec<PathBuf>> {
    if paths.iter().any(|path| remote::is_url(path)) {
        install()?;
    }
    Ok(paths.into_iter().map(remote::entered).collect())
}

#[cfg(feature = "cloud")]
fn install() -> PyResult<()> {
    let policy =
        cloud::Policy::from_env().map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    remote::install(Box::new(cloud::Cloud::new(policy)));
    Ok(())
}

/// Jobs refuse each URL by name.
#[cfg(not(feature = "cloud"))]
fn install() -> PyResult<()> {
    Ok(())
}

/// For the modules in Python: whether a path is spelled as a URL of storage.
#[pyfunction(name = "_is_url")]
pub fn is_url(path: PathBuf) -> bool {
    remote::is_url(&path)
}

/// For Spark, which sizes its partitions: bytes of the files that a check of this URL would read; `None` if they cannot be listed.
#[pyfunction(name = "_bytes_below")]
pub fn bytes_below(py: Python<'_>, url: PathBuf) -> PyResult<Option<u64>> {
    let paths = entered(vec![url])?;
    interruptible(py, &Arc::default(), move || {
        let _visit = remote::visit(&paths);
        let inventory = Inventory::take(&paths);
        let is_listed = !inventory.failed.iter().any(|failed| paths.contains(&failed.path));
        Ok(is_listed.then(|| inventory.candidates.iter().map(|file| file.len).sum()))
    })
}
