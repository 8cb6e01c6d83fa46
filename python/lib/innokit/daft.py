"""Tables as DataFrames of Daft.

>>> import innokit.daft
>>> orders = innokit.daft.read_innodb("/backups/last-night", "shop.orders")

Daft's tasks, in this process or on the nodes of a cluster, read ranges of leaf pages of the clustered index. Nodes need this package, and the
files under the same paths.
"""

from __future__ import annotations

from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import RecordBatch
from daft.schema import Schema

from . import _tasks

__all__ = ["read_innodb"]


def read_innodb(
    path,
    table,
    *,
    columns=None,
    key_range=None,
    on_damage="raise",
    keyring=None,
    key_file=None,
    storage_options=None,
    target_bytes=64 << 20,
):
    """The table as a lazy DataFrame. The columns of a query and its limit reach the tasks.

    path, keyring, key_file, storage_options: as for ``innokit.open``.
    table: ``"schema.name"``.
    columns: all if None.
    key_range: first and last value, both inclusive, of the primary key's first column: only pages that can hold such keys are read.
    on_damage: "raise" ends the query with DamageError, or what Daft makes of it; "skip" leaves out rows that cannot be read, with a
        DamageWarning; "list" returns, in place of the rows, what cannot be read: path, page, offset, keys, message.
    target_bytes: bytes of leaf pages for a task.

    Raises KeyError and ValueError for a table, columns and keys that do not exist.
    """
    columns = None if columns is None else tuple(columns)
    reading = _tasks.Reading(path, table, columns, key_range, on_damage, keyring, key_file, storage_options)
    return _Source(reading, target_bytes).read()


class _Source(DataSource):
    def __init__(self, reading, target_bytes):
        self._reading, self._target_bytes = reading, target_bytes
        self._schema = _schema(_tasks.damage_schema() if reading.on_damage == "list" else reading.scan(reading.open()))

    @property
    def name(self):
        return f"InnoDB {self._reading.table}"

    @property
    def schema(self):
        return self._schema

    async def get_tasks(self, pushdowns):
        reading = self._reading
        is_list = reading.on_damage == "list"
        if pushdowns.columns is not None and not is_list:
            # Daft applies filters itself, to columns that the query may not select.
            wanted = {*pushdowns.columns, *pushdowns.filter_required_column_names()}
            names = [name for name in self._schema.column_names() if name in wanted] or self._schema.column_names()[:1]
            reading = _tasks.dataclasses.replace(reading, columns=tuple(names))
        # With a filter, the limit applies to the rows that pass it.
        limit = None if pushdowns.filters is not None or is_list else pushdowns.limit
        for part in reading.parts(reading.open(), target_bytes=self._target_bytes):
            yield _Task(reading, part, limit)


class _Task(DataSourceTask):
    def __init__(self, reading, part, limit):
        self._reading, self._part, self._limit = reading, part, limit

    @property
    def schema(self):
        return _schema(_tasks.damage_schema() if self._reading.on_damage == "list" else self._reading.scan(self._part))

    async def read(self):
        scan = self._reading.scan(self._part, limit=self._limit)
        found = [_tasks.damage_batch(scan)] if self._reading.on_damage == "list" else _tasks.batches(scan)
        for batch in found:
            yield RecordBatch.from_arrow_record_batches([_plain(batch)], _plain_schema(batch.schema))


def _schema(source):
    import pyarrow

    return Schema.from_pyarrow_schema(_plain_schema(pyarrow.schema(source)))


def _plain_schema(schema):
    """Without extension types, which Daft would turn into Python objects."""
    import pyarrow

    def storage(kind):
        return kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) else kind

    return pyarrow.schema([pyarrow.field(field.name, storage(field.type), field.nullable) for field in schema])


def _plain(batch):
    import pyarrow

    columns = [column.storage if isinstance(column, pyarrow.ExtensionArray) else column for column in batch.columns]
    return pyarrow.RecordBatch.from_arrays(columns, schema=_plain_schema(batch.schema))
