"""Shared by Spark, Ray and Daft: a table as parts that tasks read in other processes as pyarrow batches.

``open -> splits -> a task each (pickled) -> scan -> record batches, or the list of damage``
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from . import _innokit
from . import open as _open
from ._errors import DamageError

ON_DAMAGE = ("raise", "skip", "list")
#: The columns of ``on_damage="list"``.
DAMAGE_COLUMNS = ("path", "page", "offset", "keys", "message")


def absolute(path):
    """The path for a task, which may have another working directory. A URL stays unchanged."""
    return os.fspath(path) if _innokit._is_url(path) else os.path.abspath(path)


@dataclasses.dataclass(frozen=True)
class Reading:
    """A table and what to read of it. Validated by `open`."""

    path: Any
    table: str
    columns: tuple[str, ...] | None = None
    key_range: tuple | None = None
    on_damage: str = "raise"
    keyring: Any = None
    key_file: Any = None
    storage_options: dict | None = None

    def __post_init__(self):
        paths = [self.path] if isinstance(self.path, (str, os.PathLike)) else self.path
        object.__setattr__(self, "path", [absolute(path) for path in paths])
        if self.on_damage not in ON_DAMAGE:
            raise ValueError(f'on_damage must be "raise", "skip" or "list", not {self.on_damage!r}')

    def open(self):
        """The table. Raises KeyError or ValueError for names that do not exist in it."""
        table = _open(self.path, keyring=self.keyring, key_file=self.key_file, storage_options=self.storage_options).table(self.table)
        table.scan(self.columns, key_range=self.key_range)
        return table

    def parts(self, table, *, n=None, target_bytes=256 << 20):
        """A part for each task: splits, or the whole table if a damaged page hides what is below it."""
        try:
            if n is not None:
                return table.splits(n, key_range=self.key_range)
            return table.splits(target_bytes=target_bytes, key_range=self.key_range)
        except DamageError:
            if self.on_damage == "raise":
                raise
            # Only a scan of the whole table searches for unreachable leaves.
            return [Whole(self)]

    def scan(self, part, *, limit=None):
        """The rows of a part, in types that every engine has."""
        on_damage = "raise" if self.on_damage == "raise" else "skip"
        columns = None if self.columns is None else list(self.columns)
        return part.scan(columns, limit=limit, strings="utf8", on_damage=on_damage)


@dataclasses.dataclass(frozen=True)
class Whole:
    """A whole table instead of splits, opened by the task."""

    reading: Reading

    def scan(self, columns=None, **choices):
        return self.reading.open().scan(columns, key_range=self.reading.key_range, **choices)


def batches(scan):
    """The record batches of a scan. Errors are innokit's own, which can be pickled, not pyarrow's."""
    import pyarrow

    reader = pyarrow.RecordBatchReader.from_stream(scan)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except Exception:
            if scan.damage:
                raise scan.damage[0] from None
            if getattr(scan, "error", None):
                raise scan.error from None
            raise
        yield batch


def damage(scan):
    """Reads a scan to its end and lists its unreadable places: rows of `DAMAGE_COLUMNS`."""
    import warnings

    with warnings.catch_warnings():
        # They are the result here.
        warnings.simplefilter("ignore")
        for _ in batches(scan):
            pass
    return [(lost.path, lost.page, lost.offset, lost.keys, str(lost)) for lost in scan.damage]


def damage_schema():
    """The pyarrow schema of what `damage` returns."""
    import pyarrow

    types = dict.fromkeys(DAMAGE_COLUMNS, pyarrow.string())
    types.update(page=pyarrow.int64(), offset=pyarrow.int64())
    return pyarrow.schema([pyarrow.field(name, kind, name not in ("path", "message")) for name, kind in types.items()])


def damage_batch(scan):
    """The same as one record batch."""
    import pyarrow

    rows = damage(scan)
    columns = [list(column) for column in zip(*rows)] or [[] for _ in DAMAGE_COLUMNS]
    schema = damage_schema()
    arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
