"""Tables as Datasets of Ray.

>>> import innokit.ray
>>> orders = innokit.ray.read_innodb("/backups/last-night", "shop.orders", columns=["id", "total"])

Every node needs this package, and the files under the same paths. Read tasks read ranges of leaf pages of the clustered index.
"""

from __future__ import annotations

from ray.data import Datasource, ReadTask, read_datasource
from ray.data.block import BlockMetadata

from . import _tasks

__all__ = ["InnoDBDatasource", "read_innodb"]

#: The column name that Ray's own sources use in blocks of which only the row count matters.
_NO_COLUMN = "__bsp_stub"


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
    override_num_blocks=None,
    concurrency=None,
    ray_remote_args=None,
):
    """The table as a Dataset. Its blocks are Arrow tables.

    path, keyring, key_file, storage_options: as for ``innokit.open``.
    table: ``"schema.name"``.
    columns: all if None. What later steps select reaches the tasks too.
    key_range: first and last value, both inclusive, of the primary key's first column: only pages that can hold such keys are read.
    on_damage: "raise" ends with DamageError; "skip" leaves out rows that cannot be read, and tells the logs of the tasks; "list" returns, in
        place of the rows, what cannot be read: path, page, offset, keys, message.
    override_num_blocks: how many read tasks, as for ``ray.data.read_parquet``. Ray's own choice if None.
    concurrency, ray_remote_args: as for ``ray.data.read_datasource``.

    Raises KeyError and ValueError for a table, columns and keys that do not exist.
    """
    columns = None if columns is None else tuple(columns)
    reading = _tasks.Reading(path, table, columns, key_range, on_damage, keyring, key_file, storage_options)
    return read_datasource(
        InnoDBDatasource(reading),
        override_num_blocks=override_num_blocks,
        concurrency=concurrency,
        **(ray_remote_args or {}),
    )


class InnoDBDatasource(Datasource):
    """What `read_innodb` reads."""

    def __init__(self, reading):
        super().__init__()
        # Ray's own sources set it themselves: the base class does not.
        self._projection_map = None
        self._reading = reading
        table = reading.open()
        self._first = (reading.columns or tuple(table.schema.names))[:1]
        self._bytes = sum(getattr(part, "nbytes", 0) for part in reading.parts(table, n=1))
        self._parts = {}

    def get_name(self):
        return "InnoDB"

    def supports_projection_pushdown(self):
        return self._reading.on_damage != "list"

    def estimate_inmemory_data_size(self):
        return self._bytes or None

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        # Ray asks repeatedly.
        if parallelism not in self._parts:
            self._parts[parallelism] = self._reading.parts(self._reading.open(), n=max(1, parallelism))
        wanted = self._get_data_columns()
        reading = self._reading
        if wanted:
            reading = _tasks.dataclasses.replace(reading, columns=tuple(wanted))
        elif wanted == []:
            reading = _tasks.dataclasses.replace(reading, columns=self._first)
        return [_task(reading, part, per_task_row_limit, wanted == []) for part in self._parts[parallelism]]


def _task(reading, part, limit, is_count):
    def read():
        return _blocks(reading, part, limit, is_count)

    # The row count is unknown before reading, and `count` would take an estimate as exact.
    paths = getattr(part, "paths", None)
    metadata = BlockMetadata(num_rows=None, size_bytes=getattr(part, "nbytes", None), input_files=paths, exec_stats=None)
    return ReadTask(read, metadata, per_task_row_limit=limit)


def _blocks(reading, part, limit, is_count):
    """Runs in the task."""
    import pyarrow

    scan = reading.scan(part, limit=limit)
    if reading.on_damage == "list":
        yield pyarrow.Table.from_batches([_tasks.damage_batch(scan)])
        return
    empty = True
    for batch in _tasks.batches(scan):
        yield _counted(batch.num_rows) if is_count else pyarrow.Table.from_batches([batch])
        empty = False
    if empty:
        # A part without rows still has columns.
        yield _counted(0) if is_count else pyarrow.schema(scan).empty_table()


def _counted(rows):
    import pyarrow

    return pyarrow.table({_NO_COLUMN: pyarrow.nulls(rows)})
