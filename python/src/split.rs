//! A part of a table, for another process or machine.

use std::sync::{Arc, Mutex, PoisonError};

use datadir::keys::KeyFiles;
use datadir::remote::{self, StorageOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use serde::{Deserialize, Serialize};

use crate::database::{Opened, Source};
use crate::failure::Failure;
use crate::scan::{Choices, Scan};
use crate::schema::Schema;
use crate::storage;
use crate::wait::interruptible;

/// Version of the pickled form.
const VERSION: u32 = 3;

/// The pickled form. It includes the paths of key files, but a key or credentials only if they were given instead of a path or by the environment.
#[derive(Serialize, Deserialize)]
struct State {
    version: u32,
    split: inspect::rows::Split,
    keyrings: Vec<std::path::PathBuf>,
    key_file: Option<(std::path::PathBuf, Option<String>)>,
    storage_options: StorageOptions,
}

/// A part of a table. Can be pickled; reading it opens only its files, and reads only its pages of them.
///
/// It names files by their absolute paths, so these must lead to the same files wherever it is read. If a file has changed since, reading
/// raises InnokitError. Of an object in a bucket it holds the URL and the ETag: reading it fails with StorageError if another object has
/// the name by then. The pickle holds the paths of key files too. Of secrets it has what the program itself gave: a key as text in ``key_file``, and
/// ``storage_options``.
#[pyclass(frozen, module = "innokit")]
pub struct Split {
    split: Arc<inspect::rows::Split>,
    keys: KeyFiles,
    storage: StorageOptions,
    /// Its files, opened when first needed.
    opened: Mutex<Option<Arc<Opened>>>,
}

impl Split {
    pub fn new(split: inspect::rows::Split, keys: KeyFiles, storage: StorageOptions) -> Self {
        Self { split: Arc::new(split), keys, storage, opened: Mutex::default() }
    }

    fn source(&self, py: Python<'_>) -> PyResult<Source> {
        let known = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let opened = match known {
            Some(opened) => opened,
            None => {
                let (split, keys) = (Arc::clone(&self.split), self.keys.clone());
                let storage = self.storage.clone();
                let opened = interruptible(py, &Arc::default(), move || {
                    let paths: Vec<_> = split.files.iter().map(|file| file.path.clone()).collect();
                    let _visit = remote::visit(&paths, &storage);
                    let tables = split.open(&keys).map_err(|error| match remote::missed_near(&paths) {
                        Some(missed) => Failure::Storage(missed),
                        None => error.into(),
                    })?;
                    Ok(Arc::new(Opened::new(tables, keys, storage, Vec::new())))
                })?;
                *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&opened));
                opened
            }
        };
        Ok(Source { opened, at: 0, split: Some(Arc::clone(&self.split)) })
    }

    fn plain(&self, py: Python<'_>) -> PyResult<Scan> {
        Scan::new(self.source(py)?, Choices::default())
    }
}

/// For `pickle`.
#[pyfunction(name = "_split_from_state")]
pub fn split_from_state(state: &[u8]) -> PyResult<Split> {
    let wrong = |why: String| PyValueError::new_err(format!("this is not a split of innokit: {why}"));
    let State { version, split, keyrings, key_file, storage_options } =
        serde_json::from_slice(state).map_err(|error| wrong(error.to_string()))?;
    if version != VERSION {
        return Err(wrong(format!("its version is {version}, not {VERSION}")));
    }
    // They are already URLs without signatures. This sets up the clients.
    storage::entered(split.files.iter().map(|file| file.path.clone()).collect(), &StorageOptions::new())?;
    Ok(Split::new(split, KeyFiles { keyrings, key_file }, storage_options))
}

#[pymethods]
impl Split {
    #[getter]
    fn table(&self) -> &str {
        &self.split.table
    }

    /// Its files: absolute paths, or URLs.
    #[getter]
    fn paths(&self) -> Vec<String> {
        self.split.files.iter().map(|file| file.path.display().to_string()).collect()
    }

    #[getter]
    fn partitions(&self) -> Vec<Option<String>> {
        self.split.parts.iter().map(|part| part.partition.clone()).collect()
    }

    /// About how many bytes of leaf pages there are, without values outside of the rows.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.split.bytes()
    }

    /// The columns as a scan without arguments has them.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        Ok(self.plain(py)?.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.plain(py)?.stream(py, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        crate::capsule::schema(py, &self.plain(py)?.schema().0)
    }

    /// As ``Table.scan``. With "skip", rows below a damaged page above the leaves are lost, where a scan of the table finds them.
    #[pyo3(signature = (columns=None, *, limit=None, batch_size=65536, strings="utf8", types="exact", threads=1, on_damage="raise"))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn scan(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        limit: Option<u64>,
        batch_size: usize,
        strings: &str,
        types: &str,
        threads: Option<usize>,
        on_damage: &str,
    ) -> PyResult<Scan> {
        let choices = Choices { columns, key_range: None, limit, batch_size, strings, types, threads, on_damage };
        Scan::new(self.source(py)?, choices)
    }

    #[pyo3(signature = (*, threads=None))]
    fn count(&self, py: Python<'_>, threads: Option<usize>) -> PyResult<u64> {
        self.source(py)?.count(py, threads)
    }

    /// A share of the table's checksum: those of all splits add up to it, modulo 2**32.
    #[pyo3(signature = (*, threads=None, without_generated=false))]
    fn checksum(&self, py: Python<'_>, threads: Option<usize>, without_generated: bool) -> PyResult<u32> {
        self.source(py)?.checksum(py, threads, without_generated)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let KeyFiles { keyrings, key_file } = self.keys.clone();
        let (split, storage_options) = ((*self.split).clone(), self.storage.clone());
        let state = State { version: VERSION, split, keyrings, key_file, storage_options };
        let state = serde_json::to_vec(&state).map_err(|error| Failure::Refused(error.to_string()))?;
        let make = py.import("innokit._innokit")?.getattr("_split_from_state")?;
        Ok((make, (PyBytes::new(py, &state),)))
    }

    fn __repr__(&self) -> String {
        format!("<innokit.Split of {}, about {} bytes>", self.split.table, self.split.bytes())
    }
}
