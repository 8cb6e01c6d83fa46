"""Tables and checks as data sources of Spark 4: ``innodb`` and ``innodb_check``.

>>> import innokit.spark
>>> innokit.spark.register(spark)
>>> orders = spark.read.format("innodb").option("table", "shop.orders").load("/backups/last-night")
>>> findings = spark.read.format("innodb_check").load("/backups/last-night")

Every executor needs this package, and the files under the same paths. Tasks read ranges of leaf pages of the clustered index; no task opens
a file that it does not read.
"""

from __future__ import annotations

import json
import os

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from . import _innokit, _tasks
from . import check as _check

__all__ = ["InnoDB", "InnoDBCheck", "register"]

#: Bytes of leaves, or of files to check, that a task reads unless an option says otherwise.
_TARGET_BYTES = 256 << 20


def register(spark):
    """Registers ``innodb`` and ``innodb_check`` with a SparkSession."""
    spark.dataSource.register(InnoDB)
    spark.dataSource.register(InnoDBCheck)


class InnoDB(DataSource):
    """``spark.read.format("innodb").option("table", "shop.orders").load(path)``: the rows of a table.

    path: a datadir, a backup, a folder of tablespaces, or one file, also as a URL of a bucket; several with ``load([...])``. Relative ones are
      below the folder in which Spark was started.
    Options, all of them text:
      table: ``schema.name``, required.
      columns: names with commas between, all if missing. ``.schema(...)`` chooses columns too.
      key_from, key_to: first and last value, both inclusive, of the primary key's first column.
      target_bytes: bytes of leaf pages in a partition, 256 MiB if missing; or
      splits: how many partitions.
      on_damage: ``raise`` fails the query with the file and the page; ``skip`` leaves out rows that cannot be read; ``list`` returns, in place
        of the rows, what cannot be read: path, page, offset, keys, message.
      keyring, key_file, key_file_opener: as for ``innokit.open``.
      storage_options: as for ``innokit.open``, as a JSON object.
    """

    @classmethod
    def name(cls):
        return "innodb"

    def schema(self):
        reading = _reading(self.options)
        return _damage_type() if reading.on_damage == "list" else _row_type(reading.scan(reading.open()))

    def reader(self, schema):
        return _RowReader(_reading(self.options), schema, _size(self.options))


class InnoDBCheck(DataSource):
    """``spark.read.format("innodb_check").load(path)``: the findings of ``innokit.check``, one row each.

    Each partition checks a part of the pages, as ``innokit check --part K/N``: together they check every page once. No rows: every page was
    verified and is sound. What could not be verified has a row of severity ``undecided``.
    Options:
      files: ``true`` returns, in place of the findings, what was read of each file: path, kind, pages by verdict, error. A file of which
        several partitions read parts has a row from each.
      target_bytes: bytes of files in a partition, 256 MiB if missing; or
      parts: how many partitions.
      max_findings: at most that many from each partition, 1000 if missing; a row tells of more.
      keyring, key_file, key_file_opener, storage_options: as above.
    """

    @classmethod
    def name(cls):
        return "innodb_check"

    def schema(self):
        return _file_type() if _flag(self.options, "files") else _row_type(_check([], max_findings=0))

    def reader(self, schema):
        return _CheckReader(dict(self.options), schema)


class _Part(InputPartition):
    """What a task reads."""


class _RowReader(DataSourceReader):
    """Has no `pushFilters`: Spark 4.3 keeps pushed filters for later queries of the same DataFrame, which then lose rows."""

    def __init__(self, reading, schema, size):
        self.reading, self.wanted, self.size = reading, schema, size
        if reading.on_damage != "list":
            # The columns that the query's own schema names, in its order.
            self.reading = _tasks.dataclasses.replace(reading, columns=tuple(schema.names))

    def partitions(self):
        table = self.reading.open()
        if self.reading.on_damage != "list":
            _compare(self.wanted, _row_type(self.reading.scan(table)))
        return [_Part(part) for part in self.reading.parts(table, **self.size)]

    def read(self, partition):
        scan = self.reading.scan(partition.value)
        if self.reading.on_damage == "list":
            yield from iter(_tasks.damage(scan))
            return
        schema = _arrow_schema(self.wanted)
        for batch in _tasks.batches(scan):
            yield _cast(batch, schema)


class _CheckReader(DataSourceReader):
    def __init__(self, options, schema):
        known = {"path", "paths", "files", "target_bytes", "parts", "max_findings", "keyring", "key_file", "key_file_opener"}
        _refuse_unknown(options, known | {"storage_options"})
        self.paths = [_tasks.absolute(path) for path in _paths(options)]
        self.keys = _keys(options)
        self.files, self.max_findings = _flag(options, "files"), _number(options, "max_findings", 1000, least=0)
        self.size = (_number(options, "parts", None), _number(options, "target_bytes", _TARGET_BYTES))
        self.wanted = schema
        _compare(schema, _file_type() if self.files else _row_type(_check([], max_findings=0)))

    def partitions(self):
        parts, target_bytes = self.size
        sizes = [_bytes_below(path, self.keys["storage_options"]) for path in self.paths]
        if parts is None:
            parts = max(1, -(-sum(size or 0 for size in sizes) // target_bytes))
        # Every part would report a missing path, so only the first one does.
        there = [path for path, size in zip(self.paths, sizes) if size is not None]
        others = range(2, parts + 1) if there else []
        return [_Part(((1, parts), self.paths)), *(_Part(((number, parts), there)) for number in others)]

    def read(self, partition):
        part, paths = partition.value
        report = _check(paths, part=part, threads=1, max_findings=self.max_findings, **self.keys)
        if self.files:
            yield from (_file_row(file, self.wanted.names) for file in json.loads(report.to_json())["files"])
            return
        schema = _arrow_schema(self.wanted)
        for batch in pyarrow.RecordBatchReader.from_stream(report):
            yield _cast(batch.select(self.wanted.names), schema)
        rows = _untold(report, part)
        if rows:
            yield pyarrow.RecordBatch.from_pylist(rows, _arrow_schema(self.wanted))


# Options


def _refuse_unknown(options, known):
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(f"no option {', '.join(unknown)}; there are {', '.join(sorted(known - {'path', 'paths'}))}")


def _paths(options):
    """The arguments of `load`. Spark passes several paths as JSON."""
    paths = json.loads(options["paths"]) if options.get("paths") else [options[name] for name in ("path",) if options.get(name)]
    if not paths:
        raise ValueError("no path: load(path) of a datadir, a backup, a folder of tablespaces, a file, or a URL")
    return paths


def _flag(options, name):
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, not {text!r}")
    return text == "true"


def _number(options, name, default, *, least=1):
    if name not in options:
        return default
    text = options[name]
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{name} must be a number of at least {least}, not {text!r}")
    return int(text)


def _keys(options):
    key_file, opener = options.get("key_file"), options.get("key_file_opener")
    return {
        "keyring": options.get("keyring"),
        "key_file": (key_file, opener) if key_file and opener else key_file,
        "storage_options": _storage_options(options),
    }


def _storage_options(options):
    text = options.get("storage_options")
    try:
        found = json.loads(text) if text else None
    except ValueError:
        found = text
    if found is not None and not isinstance(found, dict):
        # Not the text: it may hold a secret.
        raise ValueError('storage_options must be a JSON object, such as {"endpoint_url": "https://..."}')
    return found


def _size(options):
    return {"n": _number(options, "splits", None), "target_bytes": _number(options, "target_bytes", _TARGET_BYTES)}


def _reading(options):
    options = dict(options)
    known = {"path", "paths", "table", "columns", "key_from", "key_to", "on_damage"}
    _refuse_unknown(options, known | {"splits", "target_bytes", "keyring", "key_file", "key_file_opener", "storage_options"})
    if not options.get("table"):
        raise ValueError('no table: option("table", "schema.name")')
    bounds = (options.get("key_from"), options.get("key_to"))
    return _tasks.Reading(
        _paths(options),
        options["table"],
        columns=tuple(name.strip() for name in options["columns"].split(",")) if options.get("columns") else None,
        key_range=None if bounds == (None, None) else bounds,
        on_damage=options.get("on_damage", "raise"),
        **_keys(options),
    )


# Types: Spark has no unsigned integers, and accepts batches only with exactly the types of its schema.

_EQUAL = {
    pyarrow.int8(): ByteType(),
    pyarrow.int16(): ShortType(),
    pyarrow.int32(): IntegerType(),
    pyarrow.int64(): LongType(),
    pyarrow.float32(): FloatType(),
    pyarrow.float64(): DoubleType(),
    pyarrow.string(): StringType(),
    pyarrow.binary(): BinaryType(),
    pyarrow.date32(): DateType(),
    pyarrow.timestamp("us"): TimestampNTZType(),
    pyarrow.timestamp("us", "UTC"): TimestampType(),
    pyarrow.duration("us"): DayTimeIntervalType(),
}
_WIDER = {
    pyarrow.uint8(): ShortType(),
    pyarrow.uint16(): IntegerType(),
    pyarrow.uint32(): LongType(),
    pyarrow.uint64(): DecimalType(20, 0),
}
_ARROW = {spark: arrow for arrow, spark in _EQUAL.items()}


def _storage(kind):
    return kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) else kind


def _spark_type(kind):
    kind = _storage(kind)
    known = _EQUAL.get(kind) or _WIDER.get(kind)
    if known:
        return known
    if pyarrow.types.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pyarrow.types.is_fixed_size_binary(kind):
        return BinaryType()
    if pyarrow.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type), kind.value_field.nullable)
    raise NotImplementedError(f"a type of Arrow that Spark does not have: {kind}")


def _arrow_type(kind):
    if isinstance(kind, DecimalType):
        return pyarrow.decimal128(kind.precision, kind.scale)
    if isinstance(kind, ArrayType):
        return pyarrow.list_(pyarrow.field("element", _arrow_type(kind.elementType), kind.containsNull))
    return _ARROW[kind]


def _row_type(source):
    """Spark's schema for an object with an Arrow schema. The metadata has each column's type on the server."""
    fields = []
    for field in pyarrow.schema(source):
        said = (field.metadata or {}).get(b"innokit.type")
        metadata = {"innokit.type": said.decode()} if said else None
        fields.append(StructField(field.name, _spark_type(field.type), field.nullable, metadata))
    return StructType(fields)


def _damage_type():
    return _row_type(_tasks.damage_schema())


def _file_type():
    texts, numbers = ("path", "kind", "unit"), ("pages", "ok", "empty", "corrupt", "unverifiable", "missing")
    fields = [StructField(name, StringType(), False) for name in texts]
    fields += [StructField(name, LongType(), False) for name in numbers]
    return StructType([*fields, StructField("error", StringType())])


def _compare(wanted, known):
    """A query's own schema may select columns, but neither change their types nor exclude NULL."""
    types = {field.name: field for field in known}
    for field in wanted:
        own = types.get(field.name)
        if own is None:
            raise ValueError(f"no column {field.name}")
        if field.dataType != own.dataType or (own.nullable and not field.nullable):
            has = own.dataType.simpleString() + ("" if own.nullable else " not null")
            raise ValueError(f"column {field.name} is {has}, not {field.dataType.simpleString()}")


def _arrow_schema(wanted):
    return pyarrow.schema([pyarrow.field(field.name, _arrow_type(field.dataType), field.nullable) for field in wanted])


def _cast(batch, schema):
    columns = []
    for column, field in zip(batch.columns, schema):
        column = column.storage if isinstance(column, pyarrow.ExtensionArray) else column
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


# Checks


def _bytes_below(path, storage_options):
    """Bytes of a file, or of the files in a folder or bucket. None if the path does not exist."""
    if _innokit._is_url(path):
        return _innokit._bytes_below(path, storage_options=storage_options)
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.exists(path) else 0 if os.path.lexists(path) else None
    total = 0
    for folder, _, names in os.walk(path, followlinks=False):
        for name in names:
            total += os.lstat(os.path.join(folder, name)).st_size
    return total


def _file_row(file, names):
    return tuple(file[name] for name in names)


def _untold(report, part):
    """Rows for the parts of a report that are not findings."""
    document, rows = json.loads(report.to_json()), []
    blank = dict.fromkeys(("table", "index", "page", "position", "found", "expected"))
    told = {finding["path"] for finding in document["findings"]}
    for file in document["files"]:
        if file["error"] and file["path"] not in told:
            rows.append({"path": file["path"], "severity": "undecided", "reason": "unread", "message": file["error"]})
    if part[0] == 1:
        for where, why in report.pending:
            rows.append({"path": where, "severity": "notice", "reason": "recovery_pending", "message": why})
    more = report.findings_total - len(report)
    if more:
        listed = sum(finding["severity"] == "damage" for finding in document["findings"])
        severity = "damage" if document["totals"]["damage"] > listed else "undecided"
        message = f"{more} more findings in part {part[0]} of {part[1]}: raise max_findings"
        rows.append({"path": "", "severity": severity, "reason": "more_findings", "message": message})
    return [blank | row for row in rows]
