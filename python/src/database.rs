//! Open files and the tables in them.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::parquet::Parquet;
use datadir::keys::KeyFiles;
use datadir::remote::{self, StorageOptions};
use datadir::selection::Selection;
use flow::Counters;
use format::schema::FieldSource;
use inspect::rows::checksum::{ChecksumOptions, checksum_of};
use inspect::rows::count::count_rows;
use inspect::rows::export::{ExportOptions, export_table};
use inspect::rows::key_range::KeyBounds;
use inspect::rows::scan::ScanOptions;
use inspect::rows::source::Wish;
use inspect::rows::{OpenTable, SplitSize, TableSource, Tables, splits};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arguments::{self, KeyFile, KeyRange, Paths, Storage};
use crate::failure::Failure;
use crate::notebook::html;
use crate::scan::{Choices, Scan};
use crate::schema::Schema;
use crate::seen::Seen;
use crate::split::Split;
use crate::storage;
use crate::wait::interruptible;

/// Open files.
pub struct Opened {
    pub tables: Tables,
    pub keys: KeyFiles,
    /// How to reach the buckets of its paths.
    pub storage: StorageOptions,
    /// What was opened. Empty for a split.
    paths: Vec<PathBuf>,
    /// Of each table.
    seen: Vec<Seen>,
}

impl Opened {
    pub fn new(tables: Tables, keys: KeyFiles, storage: StorageOptions, paths: Vec<PathBuf>) -> Self {
        let seen = tables.tables.iter().map(|table| Seen::of(&tables, table)).collect();
        Self { tables, keys, storage, paths, seen }
    }
}

/// A table of open files, or a split of it.
#[derive(Clone)]
pub struct Source {
    pub opened: Arc<Opened>,
    /// Its index in [`Tables::tables`].
    pub at: usize,
    pub split: Option<Arc<inspect::rows::Split>>,
}

impl Source {
    /// In the form that jobs read.
    pub fn of(&self) -> Result<OpenTable<'_>, Failure> {
        let table = self.opened.tables.tables.get(self.at);
        let table = table.ok_or_else(|| Failure::Refused("the table is not there any more".to_owned()))?;
        Ok(OpenTable { tables: &self.opened.tables, table, split: self.split.as_deref() })
    }

    /// Fails if the table's files are not those that were opened.
    fn unchanged(&self) -> Result<(), Failure> {
        self.opened.seen.get(self.at).map_or(Ok(()), Seen::expect)
    }

    /// The result of a job that reads the table. If one of its files was replaced before the end, or one of its objects could not be read, that
    /// is the result: what is missing then is not damage.
    pub fn read<T>(&self, job: impl FnOnce(OpenTable<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        self.unchanged()?;
        let table = self.of()?;
        let outcome = job(table);
        self.unchanged()?;
        let missed = table.tables.missed(table.table);
        missed.map_or(Ok(()), |missed| Err(Failure::Storage(missed)))?;
        outcome
    }

    /// The same table, read by a secondary index: its columns and those of the primary key, in its order.
    pub fn by_index(&self, py: Python<'_>, index: &str) -> PyResult<Self> {
        let (opened, table, index) = (Arc::clone(&self.opened), self.name().to_owned(), index.to_owned());
        self.unchanged()?;
        let Opened { keys, storage, paths, .. } = &*opened;
        let (keys, storage, paths) = (keys.clone(), storage.clone(), paths.clone());
        let (named, of) = (index.clone(), table.clone());
        let opened = interruptible(py, &Arc::default(), move || open_files(paths, keys, storage, Some((&of, &named))))?;
        let has_it = |found: &TableSource| found.name == table && !found.trees.is_empty();
        let at = opened.tables.tables.iter().position(has_it);
        let none = || PyValueError::new_err(format!("{table} has no index {index}"));
        Ok(Self { opened: Arc::new(opened), at: at.ok_or_else(none)?, split: None })
    }

    pub fn name(&self) -> &str {
        self.opened.tables.tables.get(self.at).map_or("", |table| table.name.as_str())
    }

    /// The columns of the clustered index's key. None if the server generates row ids.
    pub fn key(&self) -> Vec<&str> {
        let table = self.opened.tables.tables.get(self.at);
        let Some((table, tree)) = table.and_then(|table| Some((table, table.trees.first()?))) else {
            return Vec::new();
        };
        let fields = tree.index.fields.iter().take(tree.index.declared_parts);
        let name = |field: &format::schema::FieldDef| match field.source {
            FieldSource::Column(at) => table.table.columns.get(at).map(|column| column.name.as_str()),
            _ => None,
        };
        fields.map_while(name).collect()
    }

    /// How many rows there are.
    pub fn count(&self, py: Python<'_>, threads: Option<usize>) -> PyResult<u64> {
        let (source, options) = (self.clone(), scan_options(threads)?);
        let stop = options.stop.clone().unwrap_or_default();
        interruptible(py, &stop, move || {
            let counters = Counters::new(options.workers);
            let count = source.read(|table| Ok(count_rows(table, &options, &counters)?))?;
            Failure::of_damage(&count.damage).map_or(Ok(count.rows), Err)
        })
    }

    /// The value of `CHECKSUM TABLE`, or of older MariaDB's.
    pub fn checksum(&self, py: Python<'_>, threads: Option<usize>, without_generated: bool) -> PyResult<u32> {
        let source = self.clone();
        let options = ChecksumOptions { scan: scan_options(threads)?, ..ChecksumOptions::default() };
        let stop = options.scan.stop.clone().unwrap_or_default();
        interruptible(py, &stop, move || {
            let counters = Counters::new(options.scan.workers);
            let sum = source.read(|table| Ok(checksum_of(table, &options, &counters)?))?;
            let refused = || sum.not_computable.clone().unwrap_or_else(|| "it cannot be computed".to_owned());
            match Failure::of_damage(&sum.damage) {
                Some(damage) => Err(damage),
                None => {
                    let older = sum.checksum_without_generated.filter(|_| without_generated);
                    older.or(sum.checksum).ok_or_else(|| Failure::Refused(refused()))
                }
            }
        })
    }
}

fn scan_options(threads: Option<usize>) -> PyResult<ScanOptions> {
    let workers = arguments::workers(threads)?;
    Ok(ScanOptions { workers, stop: Some(Arc::default()), ..ScanOptions::default() })
}

/// Opens files. See `__init__.py`.
#[pyfunction]
#[pyo3(signature = (path, *, keyring=None, key_file=None, storage_options=None))]
pub fn open(
    py: Python<'_>,
    path: Paths,
    keyring: Option<Paths>,
    key_file: Option<KeyFile>,
    storage_options: Option<Storage>,
) -> PyResult<Database> {
    let (options, keys) = (arguments::storage(storage_options), arguments::keys(keyring, key_file));
    let paths = storage::entered(path.into_list(), &options)?;
    let opened = interruptible(py, &Arc::default(), move || open_files(paths, keys, options, None))?;
    Ok(Database { opened: Arc::new(opened) })
}

/// Opens the tables of some files, to read their rows or, of those that have an index of that name, its entries.
fn open_files(
    paths: Vec<PathBuf>,
    keys: KeyFiles,
    options: StorageOptions,
    index: Option<(&str, &str)>,
) -> Result<Opened, Failure> {
    let _visit = remote::visit(&paths, &options);
    for path in &paths {
        let missing = |source| datadir::Error::Io { path: path.clone(), action: "opening it", source };
        match remote::is_url(path) {
            true => remote::find(path)?,
            false => std::fs::metadata(path).map(drop).map_err(missing)?,
        }
    }
    let workers = arguments::workers(None).unwrap_or(1);
    let selection = index.map(|(table, _)| Selection::new(&[], &[table.to_owned()]));
    let wish = Wish {
        keys: &keys,
        selection: selection.as_ref(),
        page_size: None,
        workers,
        index: index.map(|(_, index)| index),
        create_table: None,
        pending: index.is_none(),
    };
    let tables = Tables::find(&paths, wish)?;
    // A named file without a table is a mistake, unlike an empty directory.
    if let ([only], [unread], true) = (paths.as_slice(), tables.unread.as_slice(), tables.tables.is_empty())
        && unread.path == *only
        && !remote::is_url(only)
    {
        return Err(Failure::Refused(format!("{}: {}", only.display(), unread.why)));
    }
    // The named path must be readable. Files below it may fail individually, with a warning.
    match remote::missed(&paths) {
        Some(missed) => Err(Failure::Storage(missed)),
        None => Ok(Opened::new(tables, keys, options, paths)),
    }
}

/// The tables of some files.
#[pyclass(frozen, module = "innokit")]
pub struct Database {
    opened: Arc<Opened>,
}

#[pymethods]
impl Database {
    /// Their names, ``schema.table``, sorted. Without those of the servers' own schemas.
    fn tables(&self) -> Vec<String> {
        self.opened.tables.tables.iter().map(|table| table.name.clone()).collect()
    }

    /// The table of that name. Raises KeyError.
    fn table(&self, name: &str) -> PyResult<Table> {
        let is_named = |table: &TableSource| table.name == name;
        let Some(at) = self.opened.tables.tables.iter().position(is_named) else {
            let unread = self.unread().into_iter().map(|(path, why)| format!("; {path}: {why}"));
            return Err(PyKeyError::new_err(format!("no table {name}{}", unread.collect::<String>())));
        };
        Ok(Table(Source { opened: Arc::clone(&self.opened), at, split: None }))
    }

    fn __getitem__(&self, name: &str) -> PyResult<Table> {
        self.table(name)
    }

    fn __contains__(&self, name: &str) -> bool {
        self.opened.tables.tables.iter().any(|table| table.name == name)
    }

    fn __len__(&self) -> usize {
        self.opened.tables.tables.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.tables().into_pyobject(py)?.call_method0("__iter__")
    }

    /// For notebooks: the tables.
    fn _repr_html_(&self) -> String {
        let tables = self.opened.tables.tables.iter();
        let names: String = tables.map(|table| format!("<li>{}</li>", html(&table.name))).collect();
        format!("<p>{}</p><ul>{names}</ul>", html(&self.__repr__()))
    }

    /// Files that should hold a table but cannot be read, and why.
    #[getter]
    fn unread(&self) -> Vec<(String, String)> {
        let of = |unread: &inspect::rows::source::Unread| (unread.path.display().to_string(), unread.why.clone());
        self.opened.tables.unread.iter().map(of).collect()
    }

    /// Datadirs that need crash recovery, and why. A running server's always does.
    #[getter]
    fn pending(&self) -> Vec<(String, String)> {
        self.opened.tables.pending.iter().map(|pending| (pending.path.clone(), pending.why.clone())).collect()
    }

    fn __repr__(&self) -> String {
        format!("<innokit.Database: {} tables>", self.opened.tables.tables.len())
    }
}

/// A table, or all partitions of one. Each stream reads it again; nothing is kept.
#[pyclass(frozen, module = "innokit")]
pub struct Table(Source);

#[pymethods]
impl Table {
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The columns by which its rows are ordered: the primary key, or what the server takes for it. Empty if there is none.
    #[getter]
    fn key(&self) -> Vec<&str> {
        self.0.key()
    }

    /// The columns as a scan without arguments has them.
    #[getter]
    fn schema(&self) -> PyResult<Schema> {
        Ok(self.plain()?.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.plain()?.stream(py, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        crate::capsule::schema(py, &self.plain()?.schema().0)
    }

    /// Rows of the table, in the order of its primary key within each partition. Nothing is read yet.
    ///
    /// columns: names, in the wanted order. Off-page values are read only for these.
    /// key_range: first and last value, both inclusive, of the primary key's first column, or tuples of values of its first columns;
    ///     None is no bound. Only pages that can hold such rows are read. Of a TIMESTAMP, a datetime without a zone is in UTC.
    /// limit: at most that many rows. With 0 nothing is read.
    /// index: read this secondary index instead of the rows: its columns and those of the primary key, in its order. ``key_range`` is of its
    ///     columns then.
    /// batch_size: at most that many rows in a batch.
    /// strings: "utf8" for ``string`` and ``binary``, with ENUM and JSON as text, which every reader knows; "view" for ``string_view`` and
    ///     ``binary_view``, with ENUM as a dictionary and JSON as ``arrow.json``: Polars and DuckDB copy less, but pyarrow cannot filter,
    ///     sort or join string views.
    /// types: "exact" for the server's; "lakehouse" for those that Iceberg and Delta Lake have too: the next larger signed type for UNSIGNED,
    ///     ``int64`` microseconds for TIME, text for ENUM, JSON and UUID.
    /// threads: number of reading threads; None for all cores. The order of rows does not depend on it.
    /// on_damage: "raise" ends the stream with an error at the first row that cannot be read; "skip" leaves such rows out and says so:
    ///     with DamageWarning and in the log "innokit" at the end of each stream, in ``Scan.damage``, and with DamageError by
    ///     ``Scan.close`` if nobody has asked for that list.
    ///
    /// Raises ValueError for columns and keys that do not exist.
    #[pyo3(signature = (columns=None, *, key_range=None, limit=None, index=None, batch_size=65536, strings="utf8", types="exact", threads=1, on_damage="raise"))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn scan(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        key_range: Option<KeyRange<'_>>,
        limit: Option<u64>,
        index: Option<&str>,
        batch_size: usize,
        strings: &str,
        types: &str,
        threads: Option<usize>,
        on_damage: &str,
    ) -> PyResult<Scan> {
        let key_range = key_range.map(|range| range.bounds()).transpose()?;
        let source = index.map_or_else(|| Ok(self.0.clone()), |index| self.0.by_index(py, index))?;
        Scan::new(source, Choices { columns, key_range, limit, batch_size, strings, types, threads, on_damage })
    }

    /// The table in ``n`` parts, or in parts of about ``target_bytes`` bytes, for other processes or machines to read.
    ///
    /// The parts are ranges of leaf pages of about the same number of bytes, in key order. There are fewer than ``n`` if there are fewer pages to cut between,
    /// and at least one. Pages above the leaves are read to make them. Raises DamageError if one of these is damaged: which rows are
    /// below it is unknown, and only ``scan(on_damage="skip")`` of the whole table looks for them.
    #[pyo3(signature = (n=None, *, target_bytes=268_435_456, key_range=None))]
    fn splits(
        &self,
        py: Python<'_>,
        n: Option<usize>,
        target_bytes: u64,
        key_range: Option<KeyRange<'_>>,
    ) -> PyResult<Vec<Split>> {
        let key_range = key_range.map(|range| range.bounds()).transpose()?;
        let size = match n {
            Some(0) => return Err(PyValueError::new_err("n must be at least 1")),
            Some(n) => SplitSize::Count(n),
            None if target_bytes == 0 => return Err(PyValueError::new_err("target_bytes must be at least 1")),
            None => SplitSize::Bytes(target_bytes),
        };
        let source = self.0.clone();
        let made = interruptible(py, &Arc::default(), move || {
            let made = source.read(|table| Ok(splits(table, size, key_range.as_ref())?))?;
            made.map_err(|damage| Failure::Damage(damage, 0))
        })?;
        let Opened { keys, storage, .. } = &*self.0.opened;
        Ok(made.into_iter().map(|split| Split::new(split, keys.clone(), storage.clone())).collect())
    }

    /// The number of rows, as ``SELECT COUNT(*)``. Reads and verifies every leaf page. Raises DamageError.
    #[pyo3(signature = (*, threads=None))]
    fn count(&self, py: Python<'_>, threads: Option<usize>) -> PyResult<u64> {
        self.0.count(py, threads)
    }

    /// The value of the server's ``CHECKSUM TABLE``. Raises DamageError, and InnokitError if no file has all the values it needs.
    ///
    /// without_generated: as MariaDB up to 10.11.19 computes it, which gets another value for tables with stored generated columns.
    #[pyo3(signature = (*, threads=None, without_generated=false))]
    fn checksum(&self, py: Python<'_>, threads: Option<usize>, without_generated: bool) -> PyResult<u32> {
        self.0.checksum(py, threads, without_generated)
    }

    /// Writes a Parquet file, compressed by zstd (levels 1 to 22), and returns its number of rows.
    ///
    /// types: as for ``scan``.
    ///
    /// A file of that name is replaced once the new one is complete. It cannot be a URL. Raises DamageError, and leaves no file then.
    #[pyo3(signature = (path, *, columns=None, key_range=None, types="exact", compression_level=1, threads=None))]
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    fn write_parquet(
        &self,
        py: Python<'_>,
        path: PathBuf,
        columns: Option<Vec<String>>,
        key_range: Option<KeyRange<'_>>,
        types: &str,
        compression_level: i32,
        threads: Option<usize>,
    ) -> PyResult<u64> {
        let key_range = key_range.map(|range| range.bounds()).transpose()?;
        let format = Parquet::new(arguments::arrow(types)?, compression_level).map_err(PyValueError::new_err)?;
        let options = export_options(columns, key_range, threads)?;
        let (source, stop) = (self.0.clone(), options.scan.stop.clone().unwrap_or_default());
        interruptible(py, &stop, move || write_file(&source, &options, &format, &path))
    }

    fn __repr__(&self) -> String {
        format!("<innokit.Table {}>", self.0.name())
    }

    /// For notebooks: the columns and their types. No rows are read.
    fn _repr_html_(&self) -> PyResult<String> {
        let fields = self.plain()?.schema().fields();
        let rows: String = fields.iter().map(|field| field.row()).collect();
        Ok(format!("<p>{}</p><table>{rows}</table>", html(&self.__repr__())))
    }
}

impl Table {
    /// A scan with default arguments.
    fn plain(&self) -> PyResult<Scan> {
        Scan::new(self.0.clone(), Choices::default())
    }
}

fn export_options(
    columns: Option<Vec<String>>,
    key_range: Option<KeyBounds>,
    threads: Option<usize>,
) -> PyResult<ExportOptions> {
    Ok(ExportOptions { scan: scan_options(threads)?, columns, key_range, ..ExportOptions::default() })
}

/// Writes beside the target under another name first: a file of that name is always whole.
fn write_file(source: &Source, options: &ExportOptions, format: &Parquet, path: &PathBuf) -> Result<u64, Failure> {
    if remote::is_url(path) {
        let why = format!("{}: Parquet files are written to this system, not to a URL", path.display());
        return Err(Failure::Usage(why));
    }
    let failed = |source| datadir::Error::Io { path: path.clone(), action: "writing it", source };
    let name = path.file_name().ok_or_else(|| Failure::Usage(format!("{} is not a file's name", path.display())))?;
    let unfinished = path.with_file_name(format!(".{}.{}.unfinished", name.to_string_lossy(), std::process::id()));
    let write = || -> Result<u64, Failure> {
        let file = std::fs::File::create_new(&unfinished).map_err(failed)?;
        let out = Box::new(std::io::BufWriter::new(file.try_clone().map_err(failed)?));
        let counters = Counters::new(options.scan.workers);
        let export = source.read(|table| Ok(export_table(table, options, format, out, &counters)?))?;
        if let Some(damage) = Failure::of_damage(&export.damage) {
            return Err(damage);
        }
        if let Some(why) = export.refused {
            return Err(Failure::Refused(why));
        }
        file.sync_all().map_err(failed)?;
        std::fs::rename(&unfinished, path).map_err(failed)?;
        Ok(export.rows)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
}
