"""Tables as LazyFrames of Polars: columns, limits and filters reach the scan."""

from __future__ import annotations

import datetime as _datetime
import json as _json
import warnings as _warnings

from . import open as _open

__all__ = ["scan_innodb"]

#: Bytes of leaf pages read at a time, which bounds the memory of a streaming query.
_PART_BYTES = 64 << 20


def scan_innodb(path, table, *, key_range=None, keyring=None, key_file=None, storage_options=None, threads=None):
    """The table as a LazyFrame.

    path, keyring, key_file, storage_options: as for ``innokit.open``.
    table: ``"schema.name"``.
    key_range: as for ``Table.scan``. Without it, a filter that compares the first column of the primary key with whole numbers, dates or
        datetimes makes one. Other filters are applied to the rows as they are read.
    threads: all cores if None.

    Only the columns of the query are read, and no more rows than it wants. Damage raises DamageError, or what Polars makes of it.
    """
    import polars
    from polars.io.plugins import register_io_source

    source = _open(path, keyring=keyring, key_file=key_file, storage_options=storage_options).table(table)
    source.scan(key_range=key_range)  # mistakes are raised here, not in the query

    def asked(predicate):
        bounds = _bounds(predicate, source.key[0]) if predicate is not None and source.key else (None, None)
        try:
            source.scan(key_range=bounds)
        except ValueError:  # there are no ranges of this key
            return None
        return bounds

    def parts(with_columns, predicate, n_rows, batch_size):
        # Rows without columns must still be counted.
        columns = with_columns if with_columns != [] else source.schema.names[:1]
        left = n_rows
        # Polars applies the limit before the filter: the first rows are those of the whole table then.
        bounds = key_range or (asked(predicate) if n_rows is None else None)
        for split in source.splits(target_bytes=_PART_BYTES, key_range=bounds):
            if left == 0:
                return
            frame = polars.DataFrame(split.scan(columns, limit=left, threads=threads))
            if left is not None:
                left -= frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame

    return register_io_source(parts, schema=dict(polars.DataFrame(source.scan(limit=0)).schema), is_pure=False)


#: What a comparison with the column on its right says with the column on its left.
_TURNED = {"Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq", "Eq": "Eq"}


def _bounds(predicate, column):
    """The first and the last value that a filter leaves of a column: at least these, None if it says nothing.

    Polars promises no form of its serialized expressions. What is not recognised here only costs time, for the filter is applied anyway.
    """
    low = high = None
    try:
        with _warnings.catch_warnings():
            _warnings.simplefilter("ignore")
            found = list(_comparisons(_json.loads(predicate.meta.serialize(format="json")), column))
        for operator, value in found:
            if operator in ("Gt", "GtEq", "Eq"):
                low = value if low is None else max(low, value)
            if operator in ("Lt", "LtEq", "Eq"):
                high = value if high is None else min(high, value)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None, None
    return low, high


def _comparisons(node, column):
    """The operators and values with which a column is compared in every row that a filter keeps."""
    of_column = {"Column": column}
    if "BinaryExpr" in node:
        node = node["BinaryExpr"]
        left, operator, right = node["left"], node["op"], node["right"]
        if operator == "And":
            yield from _comparisons(left, column)
            yield from _comparisons(right, column)
        elif operator in _TURNED and left == of_column:
            yield from ((operator, value) for value in _literal(right))
        elif operator in _TURNED and right == of_column:
            yield from ((_TURNED[operator], value) for value in _literal(left))
    elif "IsBetween" in str(node.get("Function", {}).get("function")):
        subject, first, last = node["Function"]["input"]
        if subject == of_column:
            yield from (("GtEq", value) for value in _literal(first))
            yield from (("LtEq", value) for value in _literal(last))


def _literal(node):
    """The value of a literal that a key can be compared with."""
    literal = node.get("Literal", {})
    [(kind, value)] = (literal.get("Dyn") or literal.get("Scalar") or {"": None}).items()
    if kind in ("Int", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64") and type(value) is int:
        yield value
    elif kind == "Date":
        yield _datetime.date(1970, 1, 1) + _datetime.timedelta(days=value)
    elif kind == "Datetime" and value[1:] == ["Microseconds", None]:
        yield _datetime.datetime(1970, 1, 1) + _datetime.timedelta(microseconds=value[0])
