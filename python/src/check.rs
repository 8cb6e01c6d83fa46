//! The two checks, and their findings as an Arrow stream.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use datadir::keys::KeyFiles;
use datadir::redo_log::Pending;
use datadir::remote::{self, StorageOptions};
use datadir::severity::Severity;
use inspect::report::document::Finding;
use inspect::report::table_finding::TableFinding;
use inspect::report::watcher::Watcher;
use inspect::{Check, CheckOptions, Portion, TableOptions, tables_watched};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments::{self, KeyFile, Paths, Storage};
use crate::failure::Failure;
use crate::schema::Schema as PySchema;
use crate::wait::interruptible;
use crate::{capsule, storage};

/// A finding of either check.
struct Row {
    path: String,
    table: Option<String>,
    index: Option<String>,
    page: Option<u32>,
    position: Option<u64>,
    severity: Severity,
    reason: &'static str,
    message: String,
    found: Option<u64>,
    expected: Option<u64>,
}

impl From<Finding> for Row {
    fn from(finding: Finding) -> Self {
        let Finding { path, page, position, severity, reason, message, stored, computed, .. } = finding;
        let (table, index, reason) = (None, None, reason.as_str());
        Self { path, table, index, page, position, severity, reason, message, found: stored, expected: computed }
    }
}

impl From<TableFinding> for Row {
    fn from(finding: TableFinding) -> Self {
        let TableFinding { path, table, index, page, rule, severity, message, found, expected, .. } = finding;
        let (position, reason) = (None, rule.as_str());
        Self { path, table, index, page, position, severity, reason, message, found, expected }
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Damage => "damage",
        Severity::Undecided => "undecided",
        Severity::Notice => "notice",
    }
}

fn schema() -> SchemaRef {
    let text = |name, nullable| Field::new(name, DataType::Utf8, nullable);
    let number = |name| Field::new(name, DataType::UInt64, true);
    Arc::new(Schema::new(vec![
        text("path", false),
        text("table", true),
        text("index", true),
        Field::new("page", DataType::UInt32, true),
        number("position"),
        text("severity", false),
        text("reason", false),
        text("message", false),
        number("found"),
        number("expected"),
    ]))
}

fn batch(rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    let text =
        |of: &dyn Fn(&Row) -> Option<String>| -> ArrayRef { Arc::new(rows.iter().map(of).collect::<StringArray>()) };
    let number = |of: fn(&Row) -> Option<u64>| -> ArrayRef { Arc::new(rows.iter().map(of).collect::<UInt64Array>()) };
    let columns = vec![
        text(&|row| Some(row.path.clone())),
        text(&|row| row.table.clone()),
        text(&|row| row.index.clone()),
        Arc::new(rows.iter().map(|row| row.page).collect::<UInt32Array>()),
        number(|row| row.position),
        text(&|row| Some(severity(row.severity).to_owned())),
        text(&|row| Some(row.reason.to_owned())),
        text(&|row| Some(row.message.clone())),
        number(|row| row.found),
        number(|row| row.expected),
    ];
    RecordBatch::try_new(schema(), columns)
}

/// What a check found.
///
/// As an Arrow stream: one row a finding, with the columns path, table, index, page, position (byte offset), severity ("damage",
/// "undecided" or "notice"), reason (a stable code), message, found and expected (values, if it is about one).
#[pyclass(frozen, module = "innokit")]
pub struct Report {
    findings: RecordBatch,
    /// As the command line's: 0 all well, 1 damage, 2 something could not be verified.
    #[pyo3(get)]
    exit_status: u8,
    #[pyo3(get)]
    files: u64,
    #[pyo3(get)]
    pages: u64,
    /// All findings; at most ``max_findings`` are listed.
    #[pyo3(get)]
    findings_total: u64,
    pending: Vec<Pending>,
    document: String,
}

#[pymethods]
impl Report {
    /// Whether everything was verified and is sound.
    #[getter]
    fn ok(&self) -> bool {
        self.exit_status == 0
    }

    /// Datadirs that need crash recovery, and why.
    #[getter]
    fn pending(&self) -> Vec<(String, String)> {
        self.pending.iter().map(|pending| (pending.path.clone(), pending.why.clone())).collect()
    }

    /// The columns as a scan without arguments has them.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(self.findings.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        capsule::stream(py, RecordBatchIterator::new([Ok(self.findings.clone())], self.findings.schema()))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.findings.schema())
    }

    fn __len__(&self) -> usize {
        self.findings.num_rows()
    }

    /// The document that ``innokit check --json`` prints.
    fn to_json(&self) -> &str {
        &self.document
    }

    fn __repr__(&self) -> String {
        let (status, files, findings) = (self.exit_status, self.files, self.findings_total);
        format!("<innokit.Report: {files} files, {findings} findings, exit status {status}>")
    }
}

/// Verifies files: each page by its checksum and position (``"pages"``), or each B-tree by its rules (``"trees"``).
///
/// Returns a Report. Damage is not an exception here: it is what the report is about. Nor is a path or a URL that cannot be read.
///
/// part: ``(3, 7)`` reads the third of seven parts of the pages, the same each time. Each page is in one of them, and so are the findings
///     about it; the first also compares the dictionary with the files. Only for ``"pages"``.
/// threads: all cores if None.
/// storage_options: as for ``innokit.open``.
#[pyfunction]
#[pyo3(signature = (paths, *, level="pages", part=None, threads=None, keyring=None, key_file=None, max_findings=1000, storage_options=None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub fn check(
    py: Python<'_>,
    paths: Paths,
    level: &str,
    part: Option<(u32, u32)>,
    threads: Option<usize>,
    keyring: Option<Paths>,
    key_file: Option<KeyFile>,
    max_findings: usize,
    storage_options: Option<Storage>,
) -> PyResult<Report> {
    let options = arguments::storage(storage_options);
    let (paths, workers) = (storage::entered(paths.into_list(), &options)?, arguments::workers(threads)?);
    let keys = arguments::keys(keyring, key_file);
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = Watcher::new(Arc::clone(&stop), None);
    let portion = part.map(|(number, of)| {
        let none = || PyValueError::new_err(format!("part must be (k, n) with k from 1 to n, not ({number}, {of})"));
        Portion::new(number, of).ok_or_else(none)
    });
    let portion = portion.transpose()?;
    let limits = Limits { workers, keys, watcher, portion, findings_max: max_findings, storage: options };
    match level {
        "pages" => interruptible(py, &stop, move || pages(&paths, limits)),
        "trees" if portion.is_some() => {
            Err(PyValueError::new_err("part splits files by their pages: level must be \"pages\""))
        }
        "trees" => interruptible(py, &stop, move || trees(&paths, limits)),
        _ => Err(PyValueError::new_err(format!("level must be \"pages\" or \"trees\", not {level:?}"))),
    }
}

struct Limits {
    workers: usize,
    keys: KeyFiles,
    watcher: Watcher,
    portion: Option<Portion>,
    findings_max: usize,
    storage: StorageOptions,
}

fn pages(paths: &[std::path::PathBuf], limits: Limits) -> Result<Report, Failure> {
    let Limits { workers, keys, watcher, portion, findings_max, storage } = limits;
    let _visit = remote::visit(paths, &storage);
    let options = CheckOptions { workers, keys, watcher, portion, findings_max, ..CheckOptions::default() };
    let report = Check::plan(paths, options)?.run(None)?;
    let document = serde_json::to_string(&report).map_err(text)?;
    let rows: Vec<Row> = report.findings.iter().cloned().map(Row::from).collect();
    Ok(Report {
        findings: batch(&rows).map_err(text)?,
        exit_status: report.exit_status(),
        files: report.totals.files,
        pages: report.totals.counts.pages,
        findings_total: report.totals.findings,
        pending: report.pending,
        document,
    })
}

fn trees(paths: &[std::path::PathBuf], limits: Limits) -> Result<Report, Failure> {
    let Limits { workers, keys, watcher, findings_max, storage, .. } = limits;
    let _visit = remote::visit(paths, &storage);
    let options = TableOptions { workers, keys, watcher, findings_max, ..TableOptions::default() };
    let report = tables_watched(paths, &options, None)?;
    let document = serde_json::to_string(&report).map_err(text)?;
    let rows: Vec<Row> = report.findings.iter().cloned().map(Row::from).collect();
    Ok(Report {
        findings: batch(&rows).map_err(text)?,
        exit_status: report.exit_status(),
        files: report.totals.files,
        pages: report.totals.pages,
        findings_total: report.totals.findings,
        pending: report.pending,
        document,
    })
}

fn text(error: impl std::error::Error) -> Failure {
    Failure::Refused(error.to_string())
}
