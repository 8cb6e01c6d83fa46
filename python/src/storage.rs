//! URLs as paths: buckets and web servers, read by the same clients as in the command line.

use std::path::PathBuf;
use std::sync::Arc;

use jobs::source::datadir::Inventory;
use jobs::source::remote;
use pyo3::prelude::*;

use crate::wait::interruptible;

/// Paths in the form that jobs read. The first URL sets up the clients: nothing starts before it is needed.
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

/// Without the feature, jobs refuse each URL by name.
#[cfg(not(feature = "cloud"))]
fn install() -> PyResult<()> {
    Ok(())
}

/// For the Python modules: whether a path is a storage URL.
#[pyfunction(name = "_is_url")]
pub fn is_url(path: PathBuf) -> bool {
    remote::is_url(&path)
}

/// For Spark, which sizes its partitions: the total size in bytes of the files that a check of this URL reads; `None` if they cannot be listed.
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
