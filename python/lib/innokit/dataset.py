"""Tables as datasets of pyarrow, for DuckDB and whatever else plans queries over them: columns and filters reach the scan.

>>> orders = innokit.open("/backups/last-night").table("shop.orders").to_dataset()
>>> duckdb.sql("SELECT sum(total) FROM orders WHERE id BETWEEN 1000 AND 2000")       # reads the pages of these keys

Nothing is read before a query asks for it, and each query reads again.
"""

from __future__ import annotations

import datetime as _datetime
import decimal as _decimal
import re as _re

import pyarrow as _pyarrow
import pyarrow.dataset as _dataset

__all__ = ["InnodbDataset"]


class InnodbDataset(_dataset.Dataset):
    """A table, or a split of one, as a ``pyarrow.dataset.Dataset``.

    A filter that compares the first column of the primary key with whole numbers, decimals, dates or datetimes reads only the pages that can
    hold such keys. Each filter is applied to the rows, whatever it made of the pages.

    What a dataset of files has beyond rows (fragments, partitions, joins) raises NotImplementedError.
    """

    def __init__(self, source, *, threads=None, on_damage="raise"):
        # Not that of the base class, which makes datasets of files.
        self._source, self._scan = source, {"threads": threads, "on_damage": on_damage}
        self._schema = _pyarrow.schema(source.schema)

    def __reduce__(self):
        raise TypeError("a table of open files cannot be pickled, but its splits can: table.splits()")

    def __repr__(self):
        return f"<innokit.dataset.InnodbDataset of {self._source!r}>"

    @property
    def schema(self):
        return self._schema

    def scanner(self, columns=None, filter=None, batch_size=65536, **_options):
        """What pyarrow asks for rows. Options that only files have are ignored."""
        names = self._needed(columns, filter)
        scan = self._source.scan(names, batch_size=batch_size, **self._scan, **self._range(filter))
        reader = _pyarrow.RecordBatchReader.from_stream(scan)
        return _dataset.Scanner.from_batches(reader, columns=columns, filter=filter, batch_size=batch_size)

    def to_table(self, columns=None, filter=None, **options):
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(self, columns=None, filter=None, **options):
        return self.scanner(columns, filter, **options).to_batches()

    def count_rows(self, filter=None, **options):
        """Without a filter, every page is verified and no value is read."""
        if filter is None and self._scan["on_damage"] == "raise":
            return self._source.count(threads=self._scan["threads"])
        return self.scanner(self._schema.names[:1], filter, **options).count_rows()

    def head(self, num_rows, columns=None, filter=None, **options):
        """The first rows. Without a filter no more are read."""
        if filter is not None:
            return self.scanner(columns, filter, **options).head(num_rows)
        scan = self._source.scan(self._needed(columns, None), limit=num_rows, **self._scan)
        return _dataset.Scanner.from_batches(_pyarrow.RecordBatchReader.from_stream(scan), columns=columns).to_table()

    def _needed(self, columns, filter):
        """The columns to read: those of the result, and at least those that the filter names."""
        names = self._schema.names
        if columns is None or isinstance(columns, dict):  # of a dict the values are expressions
            return None
        # The text of an expression has the names of its fields as they are.
        text = "" if filter is None else str(filter)
        needed = [name for name in names if name in columns or name in text]
        # Rows without columns must still be counted.
        return needed or names[:1]

    def _range(self, filter):
        if filter is None or not hasattr(self._source, "key") or not self._source.key:
            return {}
        bounds = _bounds(filter, self._schema, self._source.key[0])
        if bounds == (None, None):
            return {}
        try:
            self._source.scan(key_range=bounds)
        except ValueError:  # there are no ranges of this key
            return {}
        return {"key_range": bounds}

    def _refused(self, *_arguments, **_options):
        raise NotImplementedError("a table of InnoDB is no set of files: read it with to_table, to_batches or scanner")

    # Those of the base class would read a dataset that was never made.
    filter = get_fragments = join = join_asof = replace_schema = sort_by = take = _refused
    _get_fragments = _scanner_options = _scan_options = _refused

    @property
    def partition_expression(self):
        return self._refused()


_OPERATORS = {"==": "__eq__", ">=": "__ge__", "<=": "__le__", ">": "__gt__", "<": "__lt__"}


def _bounds(filter, schema, column):
    """The first and the last value that a filter leaves of a column: at least these, None if it says nothing.

    pyarrow shows an expression only as text, whose form it does not promise. So what was understood is made again, and counts only if it equals
    the filter.
    """
    for expression, bounds in _readings(str(filter), schema, column):
        if expression.equals(filter):
            return bounds
    return None, None


def _readings(text, schema, column):
    """The expressions that a text may stand for, each with its bounds of the column. Texts that are longer than a query's are not read."""
    if len(text) > 2000:
        return
    for end, expression, bounds in _expression(text, 0, schema, column):
        if end == len(text):
            yield expression, bounds


def _expression(text, at, schema, column):
    if text.startswith("is_valid(", at):
        for name in schema.names:
            if text.startswith(f"{name})", at + 9):
                yield at + 10 + len(name), _dataset.field(name).is_valid(), (None, None)
    if not text.startswith("(", at):
        return
    for end, left, of_left in _expression(text, at + 1, schema, column):
        for word, joined in ((" and ", True), (" or ", False)):
            if not text.startswith(word, end):
                continue
            for last, right, of_right in _expression(text, end + len(word), schema, column):
                if text.startswith(")", last):
                    both = (left & right, _both(of_left, of_right)) if joined else (left | right, _either(of_left, of_right))
                    yield last + 1, *both
    yield from _comparison(text, at + 1, schema, column)


def _comparison(text, at, schema, column):
    for field in schema:
        if not text.startswith(field.name, at):
            continue
        found = _re.compile(r" (==|>=|<=|>|<) ").match(text, at + len(field.name))
        if not found:
            continue
        first = found.end()
        ends = [last.start() for last in _re.compile(r"\)").finditer(text, first)]
        for end in ends[:20] if text.startswith('"', first) else ends[:1]:
            for value in _values(text[first:end], field.type):
                compared = getattr(_dataset.field(field.name), _OPERATORS[found[1]])(value)
                bounds = _of_comparison(found[1], value.as_py()) if field.name == column else (None, None)
                yield end + 1, compared, bounds


def _of_comparison(operator, value):
    if isinstance(value, (bool, float, str, bytes)):
        return None, None
    return (value if operator in ("==", ">=", ">") else None, value if operator in ("==", "<=", "<") else None)


def _both(one, other):
    lows = [low for low in (one[0], other[0]) if low is not None]
    highs = [high for high in (one[1], other[1]) if high is not None]
    return max(lows, default=None), min(highs, default=None)


def _either(one, other):
    low = None if None in (one[0], other[0]) else min(one[0], other[0])
    high = None if None in (one[1], other[1]) else max(one[1], other[1])
    return low, high


def _values(text, kind):
    """The scalars that a text in an expression may stand for: of the column's type, or of the one that Python's values have."""
    types = _pyarrow.types
    try:
        if text.startswith('"') and text.endswith('"') and len(text) > 1:
            plain = _re.sub(r"\\(.)", r"\1", text[1:-1])
            made = [(plain, kind), (plain, _pyarrow.string())]
        elif types.is_integer(kind):
            made = [(int(text), kind), (int(text), _pyarrow.int64()), (int(text), _pyarrow.int32())]
        elif types.is_decimal(kind):
            made = [(_decimal.Decimal(text), kind)]
        elif types.is_date(kind):
            made = [(_datetime.date.fromisoformat(text), kind)]
        elif types.is_timestamp(kind):
            made = [(_datetime.datetime.fromisoformat(text.replace("Z", "+00:00")), kind)]
        elif types.is_floating(kind):
            made = [(float(text), kind)]
        else:
            made = []
    except (ValueError, ArithmeticError):
        return
    for value, of in made:
        try:
            yield _pyarrow.scalar(value, of)
        except (_pyarrow.ArrowInvalid, _pyarrow.ArrowTypeError, OverflowError):
            pass
