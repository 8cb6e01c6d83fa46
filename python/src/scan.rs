//! What to read of a table, and what was read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::{ArrowOptions, Enums, Jsons, Strings, schema};
use datadir::remote::Missed;
use inspect::rows::RowDamage;
use inspect::rows::export::{ExportOptions, TableExport, plan_of};
use inspect::rows::key_range::KeyBounds;
use inspect::rows::scan::ScanOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::database::Source;
use crate::failure::Failure;
use crate::schema::Schema;
use crate::stream::Batches;
use crate::{arguments, capsule, loss};

/// The arguments of `scan`.
pub struct Choices<'c> {
    pub columns: Option<Vec<String>>,
    pub key_range: Option<KeyBounds>,
    pub limit: Option<u64>,
    pub batch_size: usize,
    pub strings: &'c str,
    pub types: &'c str,
    pub threads: Option<usize>,
    pub on_damage: &'c str,
}

impl Default for Choices<'_> {
    fn default() -> Self {
        Self {
            columns: None,
            key_range: None,
            limit: None,
            batch_size: 1 << 16,
            strings: "utf8",
            types: "exact",
            threads: Some(1),
            on_damage: "raise",
        }
    }
}

/// What the newest stream of a scan has come to.
#[derive(Default)]
pub struct Outcome {
    /// When it has ended.
    pub export: Option<TableExport>,
    pub bytes_read: u64,
    /// The object that could not be read, if that ended it.
    pub missed: Option<Missed>,
    /// What was left out of it, if it was not read to its end.
    pub lost: Vec<RowDamage>,
    /// Somebody has asked what is missing.
    pub is_asked: bool,
}

impl Outcome {
    /// What could not be read; `None` as long as that is unknown.
    fn damage(&self) -> Option<&[RowDamage]> {
        match &self.export {
            Some(export) => Some(&export.damage),
            None => (!self.lost.is_empty()).then_some(&self.lost),
        }
    }
}

/// Rows to read. Each stream reads them again; the properties below tell of the newest one, and are None until it has ended.
#[pyclass(frozen, module = "innokit")]
pub struct Scan {
    source: Source,
    options: ExportOptions,
    arrow: ArrowOptions,
    batch_size: usize,
    schema: Schema,
    outcome: Arc<Mutex<Outcome>>,
}

impl Scan {
    pub fn new(source: Source, choices: Choices<'_>) -> PyResult<Self> {
        let types = arguments::arrow(choices.types)?;
        let arrow = match choices.strings {
            "view" => ArrowOptions { strings: Strings::Views, ..types },
            "utf8" => ArrowOptions { enums: Enums::Text, json: Jsons::Text, ..types },
            other => return Err(PyValueError::new_err(format!("strings must be \"view\" or \"utf8\", not {other:?}"))),
        };
        if choices.batch_size == 0 {
            return Err(PyValueError::new_err("batch_size must be at least 1"));
        }
        let scan = ScanOptions {
            workers: arguments::workers(choices.threads)?,
            on_damage: arguments::on_damage(choices.on_damage)?,
            ..ScanOptions::default()
        };
        let options = ExportOptions {
            scan,
            columns: choices.columns,
            key_range: choices.key_range,
            limit: choices.limit,
            ..ExportOptions::default()
        };
        let plan = plan_of(source.of()?, &options).map_err(Failure::Usage)?;
        let schema = Schema(schema(&plan, arrow, false));
        Ok(Self { source, options, arrow, batch_size: choices.batch_size, schema, outcome: Arc::default() })
    }

    pub fn schema(&self) -> Schema {
        self.schema.clone()
    }

    pub fn stream<'py>(
        &self,
        py: Python<'py>,
        _requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the request; the consumer casts then.
        let (source, options) = (self.source.clone(), self.options.clone());
        *self.outcome() = Outcome::default();
        let outcome = Arc::clone(&self.outcome);
        let batches = Batches::new(Arc::clone(&self.schema.0), source, options, (self.arrow, self.batch_size), outcome);
        capsule::stream(py, batches)
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Scan {
    /// The columns as a scan without arguments has them.
    #[getter(schema)]
    fn its_schema(&self) -> Schema {
        self.schema()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.stream(py, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.schema.0)
    }

    /// Rows in the stream.
    #[getter]
    fn rows_read(&self) -> Option<u64> {
        self.outcome().export.as_ref().map(|export| export.rows)
    }

    /// Bytes read of leaves, the pages above them and values outside of the rows.
    #[getter]
    fn bytes_read(&self) -> Option<u64> {
        let outcome = self.outcome();
        outcome.export.as_ref().map(|_| outcome.bytes_read)
    }

    /// What could not be read: a DamageError each. Of a stream that was not read to its end, what it left out until then.
    #[getter]
    fn damage(&self) -> PyResult<Option<Vec<Py<PyAny>>>> {
        let mut outcome = self.outcome();
        // Who asks before that is known has learnt nothing.
        let Some(damage) = outcome.damage().map(<[RowDamage]>::to_vec) else { return Ok(None) };
        outcome.is_asked = true;
        drop(outcome);
        let of = |damage: &RowDamage| -> Py<PyAny> {
            let error = PyErr::from(Failure::Damage(damage.clone(), 0));
            Python::attach(|py| error.into_value(py).into_any())
        };
        Ok(Some(damage.iter().map(of).collect()))
    }

    /// Raises DamageError if rows are missing and ``damage`` was not asked for. ``with table.scan(...) as scan`` calls it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // A stream that was not read to its end may be about to say what it left out.
        loss::wait_for_losses(py);
        let mut outcome = self.outcome();
        if std::mem::replace(&mut outcome.is_asked, true) {
            return Ok(());
        }
        let lost = outcome.damage().and_then(Failure::of_damage);
        drop(outcome);
        lost.map_or(Ok(()), |lost| Err(lost.into()))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    /// As `close`, unless an exception is under way.
    fn __exit__(
        &self,
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if class.is_none() { self.close(py) } else { Ok(()) }
    }

    /// What ended the stream early, if that was an object in a bucket that could not be read. Libraries raise it as an error of theirs.
    #[getter]
    fn error(&self) -> Option<Py<PyAny>> {
        let missed = self.outcome().missed.clone()?;
        let error = PyErr::from(Failure::Storage(missed));
        Some(Python::attach(|py| error.into_value(py).into_any()))
    }

    /// Values that Arrow cannot represent: column, what became of them, and how many. A zero date becomes NULL.
    #[getter]
    fn changes(&self) -> Option<Vec<(String, String, u64)>> {
        let outcome = self.outcome();
        let export = outcome.export.as_ref()?;
        Some(
            export.changes.iter().map(|change| (change.column.clone(), change.what.to_owned(), change.count)).collect(),
        )
    }

    /// Virtual generated columns, which no file holds.
    #[getter]
    fn left_out(&self) -> Option<Vec<String>> {
        self.outcome().export.as_ref().map(|export| export.left_out.clone())
    }

    fn __repr__(&self) -> String {
        format!("<innokit.Scan of {}, {} columns>", self.source.name(), self.schema.0.fields().len())
    }
}
