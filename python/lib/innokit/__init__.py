"""Tables of MySQL and MariaDB as Arrow streams, read from InnoDB's files without a server.

>>> import innokit
>>> db = innokit.open("/backups/last-night")            # a datadir, a backup, a folder of .ibd files, or one file
>>> db = innokit.open("s3://backups/2026-11-24/")       # the same in a bucket
>>> db.tables()                                         # ["shop.customer", "shop.lineitem"]
>>> table = db.table("shop.lineitem")
>>> polars.DataFrame(table)                             # pyarrow.table(table), duckdb: "SELECT ... FROM table"

Anything that takes Arrow's C streams (``__arrow_c_stream__``) reads a table, a scan, a split and a report: pyarrow, Polars, DuckDB, pandas.
None of them is required. For engines that plan queries or run on clusters: ``innokit.polars``, ``innokit.spark``, ``innokit.ray``,
``innokit.daft``.
"""

from __future__ import annotations

import warnings as _warnings

from . import _innokit, _readers
from ._errors import DamageError, DamageWarning, InnokitError, InternalError, PendingWarning, StorageError, UnreadWarning
from ._innokit import Database, Field, Report, Scan, Schema, Split, Table, __version__, check

__all__ = [
    "DamageError",
    "DamageWarning",
    "Database",
    "Field",
    "InnokitError",
    "InternalError",
    "PendingWarning",
    "Report",
    "Scan",
    "Schema",
    "Split",
    "StorageError",
    "Table",
    "UnreadWarning",
    "__version__",
    "check",
    "open",
]

_readers.equip(Scan, Split, Table, dataset=(Split, Table))


def open(path, *, keyring=None, key_file=None, storage_options=None):
    """Opens a datadir, a backup, a folder of tablespaces, or single files.

    path: a path or a URL (``s3://``, ``gs://``, ``az://``, ``https://``), or a list of them. Only definitions are read, no rows. Credentials
        are those that the clouds' own commands would use: from the environment, a profile, or the machine.
    keyring: MySQL's keyring file, or a list of them.
    key_file: MariaDB's key file, or a pair of it and its key (or ``"FILE:"`` and the path of the key).

    storage_options: how to reach the bucket, for this call and the tables it opens: ``{"aws_access_key_id": ..., "aws_secret_access_key": ...}``,
        ``{"endpoint_url": ..., "region": ...}``, ``{"profile": ...}``, ``{"anon": True}``; the names are those of Polars, Delta Lake and
        ``object_store``, and ``key``, ``secret``, ``token`` and ``anon`` of fsspec. What they do not say comes from the environment; its credentials
        only if these have none.

    Raises FileNotFoundError for a path that is not there, and StorageError for a URL that is not there or cannot be read. Warns with PendingWarning if crash recovery is pending, for then the server
    would show other rows than the files, and with UnreadWarning of files that should hold a table but cannot be read.
    """
    db = _innokit.open(path, keyring=keyring, key_file=key_file, storage_options=storage_options)
    for where, why in db.pending:
        _warnings.warn(f"{where}: {why}", PendingWarning, stacklevel=2)
    for where, why in db.unread:
        _warnings.warn(f"{where}: {why}", UnreadWarning, stacklevel=2)
    return db
