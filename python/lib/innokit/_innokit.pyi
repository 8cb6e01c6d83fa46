from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from os import PathLike
from typing import Any, Literal, TypeAlias, final

from ._errors import StorageError

_Path: TypeAlias = str | PathLike[str]
_Paths: TypeAlias = _Path | Sequence[_Path]
_KeyFile: TypeAlias = _Path | tuple[_Path, str]
_StorageOptions: TypeAlias = Mapping[str, str | int | bool]
_Key: TypeAlias = int | str | bytes | date | datetime | Decimal
_Bound: TypeAlias = _Key | tuple[_Key, ...] | None
_KeyRange: TypeAlias = tuple[_Bound, _Bound]

__version__: str

def open(
    path: _Paths,
    *,
    keyring: _Paths | None = None,
    key_file: _KeyFile | None = None,
    storage_options: _StorageOptions | None = None,
) -> Database: ...
def check(
    paths: _Paths,
    *,
    level: Literal["pages", "trees"] = "pages",
    part: tuple[int, int] | None = None,
    threads: int | None = None,
    keyring: _Paths | None = None,
    key_file: _KeyFile | None = None,
    max_findings: int = 1000,
    storage_options: _StorageOptions | None = None,
) -> Report:
    """Verifies files: each page by its checksum and position (``"pages"``), or each B-tree by its rules (``"trees"``).

    Returns a Report. Damage is not an exception here: it is what the report is about. Nor is a path or a URL that cannot be read.

    part: ``(3, 7)`` reads the third of seven parts of the pages, the same each time. Each page is in one of them, and so are the findings
        about it; the first also compares the dictionary with the files. Only for ``"pages"``.
    threads: all cores if None.
    storage_options: as for ``innokit.open``.
    """

@final
class Field:
    """A column: its name, Arrow type, and type in the server's words (``"decimal(10,2) unsigned"``)."""

    @property
    def name(self) -> str: ...
    @property
    def arrow_type(self) -> str: ...
    @property
    def nullable(self) -> bool: ...
    @property
    def sql_type(self) -> str | None: ...

@final
class Schema:
    """The columns of a table, in its order. ``pyarrow.schema(schema)`` takes it."""

    @property
    def names(self) -> list[str]: ...
    @property
    def fields(self) -> list[Field]: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Database:
    """The tables of some files."""

    def tables(self) -> list[str]:
        """Their names, ``schema.table``, sorted. Without those of the servers' own schemas."""

    def table(self, name: str) -> Table:
        """The table of that name. Raises KeyError."""

    def __getitem__(self, name: str) -> Table: ...
    def __contains__(self, name: str) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...

    @property
    def unread(self) -> list[tuple[str, str]]:
        """Files that should hold a table but cannot be read, and why."""

    @property
    def pending(self) -> list[tuple[str, str]]:
        """Datadirs that need crash recovery, and why. A running server's always does."""

class _Readable:
    @property
    def schema(self) -> Schema:
        """The columns as a scan without arguments has them."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A new stream of record batches; ``requested_schema`` is ignored, as the protocol allows."""

    def __arrow_c_schema__(self) -> object: ...

class _Rows(_Readable):
    def to_arrow(self) -> Any:
        """All rows as a ``pyarrow.Table``."""

    def to_polars(self) -> Any:
        """All rows as a ``polars.DataFrame``."""

    def to_pandas(self) -> Any:
        """All rows as a ``pandas.DataFrame``, by way of pyarrow."""

class _Queried(_Rows):
    def to_dataset(self, *, threads: int | None = None, on_damage: Literal["raise", "skip"] = "raise") -> Any:
        """As a ``pyarrow.dataset.Dataset``, which DuckDB and others query: columns, and filters on the key, reach the pages."""

@final
class Table(_Queried):
    """A table, or all partitions of one. Each stream reads it again; nothing is kept."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> list[str]:
        """The columns by which its rows are ordered: the primary key, or what the server takes for it. Empty if there is none."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        key_range: _KeyRange | None = None,
        limit: int | None = None,
        index: str | None = None,
        batch_size: int = 65536,
        strings: Literal["utf8", "view"] = "utf8",
        types: Literal["exact", "lakehouse"] = "exact",
        threads: int | None = 1,
        on_damage: Literal["raise", "skip"] = "raise",
    ) -> Scan:
        """Rows of the table, in the order of its primary key within each partition. Nothing is read yet.

        columns: names, in the wanted order. Off-page values are read only for these.
        key_range: first and last value, both inclusive, of the primary key's first column, or tuples of values of its first columns;
            None is no bound. Only pages that can hold such rows are read. Of a TIMESTAMP, a datetime without a zone is in UTC.
        limit: at most that many rows. With 0 nothing is read.
        index: read this secondary index instead of the rows: its columns and those of the primary key, in its order. ``key_range`` is of its
            columns then.
        batch_size: at most that many rows in a batch.
        strings: "utf8" for ``string`` and ``binary``, with ENUM and JSON as text, which every reader knows; "view" for ``string_view`` and
            ``binary_view``, with ENUM as a dictionary and JSON as ``arrow.json``: Polars and DuckDB copy less, but pyarrow cannot filter,
            sort or join string views.
        types: "exact" for the server's; "lakehouse" for those that Iceberg and Delta Lake have too: the next larger signed type for UNSIGNED,
            ``int64`` microseconds for TIME, text for ENUM, JSON and UUID.
        threads: number of reading threads; None for all cores. The order of rows does not depend on it.
        on_damage: "raise" ends the stream with an error at the first row that cannot be read; "skip" leaves such rows out and says so:
            with DamageWarning and in the log "innokit" at the end of each stream, in ``Scan.damage``, and with DamageError by
            ``Scan.close`` if nobody has asked for that list.

        Raises ValueError for columns and keys that do not exist.
        """

    def splits(
        self, n: int | None = None, *, target_bytes: int = 268435456, key_range: _KeyRange | None = None
    ) -> list[Split]:
        """The table in ``n`` parts, or in parts of about ``target_bytes`` bytes, for other processes or machines to read.

        The parts are ranges of leaf pages of about the same number of bytes, in key order. There are fewer than ``n`` if there are fewer pages to cut between,
        and at least one. Pages above the leaves are read to make them. Raises DamageError if one of these is damaged: which rows are
        below it is unknown, and only ``scan(on_damage="skip")`` of the whole table looks for them.
        """

    def count(self, *, threads: int | None = None) -> int:
        """The number of rows, as ``SELECT COUNT(*)``. Reads and verifies every leaf page. Raises DamageError."""

    def checksum(self, *, threads: int | None = None, without_generated: bool = False) -> int:
        """The value of the server's ``CHECKSUM TABLE``. Raises DamageError, and InnokitError if no file has all the values it needs.

        without_generated: as MariaDB up to 10.11.19 computes it, which gets another value for tables with stored generated columns.
        """

    def write_parquet(
        self,
        path: _Path,
        *,
        columns: Sequence[str] | None = None,
        key_range: _KeyRange | None = None,
        types: Literal["exact", "lakehouse"] = "exact",
        compression_level: int = 1,
        threads: int | None = None,
    ) -> int:
        """Writes a Parquet file, compressed by zstd (levels 1 to 22), and returns its number of rows.

        types: as for ``scan``.

        A file of that name is replaced once the new one is complete. It cannot be a URL. Raises DamageError, and leaves no file then.
        """

@final
class Scan(_Rows):
    """Rows to read. Each stream reads them again; the properties below tell of the newest one, and are None until it has ended."""

    @property
    def rows_read(self) -> int | None:
        """Rows in the stream."""

    @property
    def bytes_read(self) -> int | None:
        """Bytes read of leaves, the pages above them and values outside of the rows."""

    @property
    def damage(self) -> list[Any] | None:
        """What could not be read: a DamageError each. Of a stream that was not read to its end, what it left out until then."""

    @property
    def error(self) -> StorageError | None:
        """What ended the stream early, if that was an object in a bucket that could not be read. Libraries raise it as an error of theirs."""

    @property
    def changes(self) -> list[tuple[str, str, int]] | None:
        """Values that Arrow cannot represent: column, what became of them, and how many. A zero date becomes NULL."""

    @property
    def left_out(self) -> list[str] | None:
        """Virtual generated columns, which no file holds."""

    def close(self) -> None:
        """Raises DamageError if rows are missing and ``damage`` was not asked for. ``with table.scan(...) as scan`` calls it."""

    def __enter__(self) -> Scan: ...
    def __exit__(self, class_: object, value: object, traceback: object, /) -> None: ...

@final
class Split(_Queried):
    """A part of a table. Can be pickled; reading it opens only its files, and reads only its pages of them.

    It names files by their absolute paths, so these must lead to the same files wherever it is read. If a file has changed since, reading
    raises InnokitError. Of an object in a bucket it holds the URL and the ETag: reading it fails with StorageError if another object has
    the name by then. The pickle holds the paths of key files too. Of secrets it has what the program itself gave: a key as text in ``key_file``, and
    ``storage_options``.
    """

    @property
    def table(self) -> str: ...
    @property
    def paths(self) -> list[str]:
        """Its files: absolute paths, or URLs."""

    @property
    def partitions(self) -> list[str | None]: ...
    @property
    def nbytes(self) -> int:
        """About how many bytes of leaf pages there are, without values outside of the rows."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        batch_size: int = 65536,
        strings: Literal["utf8", "view"] = "utf8",
        types: Literal["exact", "lakehouse"] = "exact",
        threads: int | None = 1,
        on_damage: Literal["raise", "skip"] = "raise",
    ) -> Scan:
        """As ``Table.scan``. With "skip", rows below a damaged page above the leaves are lost, where a scan of the table finds them."""

    def count(self, *, threads: int | None = None) -> int: ...
    def checksum(self, *, threads: int | None = None, without_generated: bool = False) -> int:
        """A share of the table's checksum: those of all splits add up to it, modulo 2**32."""

@final
class Report(_Readable):
    """What a check found.

    As an Arrow stream: one row a finding, with the columns path, table, index, page, position (byte offset), severity ("damage",
    "undecided" or "notice"), reason (a stable code), message, found and expected (values, if it is about one).
    """

    @property
    def ok(self) -> bool:
        """Whether everything was verified and is sound."""

    @property
    def exit_status(self) -> int:
        """As the command line's: 0 all well, 1 damage, 2 something could not be verified."""

    @property
    def files(self) -> int: ...
    @property
    def pages(self) -> int: ...
    @property
    def findings_total(self) -> int:
        """All findings; at most ``max_findings`` are listed."""

    @property
    def pending(self) -> list[tuple[str, str]]:
        """Datadirs that need crash recovery, and why."""

    def __len__(self) -> int: ...
    def to_json(self) -> str:
        """The document that ``innokit check --json`` prints."""
