"""Every type of both servers, through the Arrow stream, against the server's own SELECT."""

import decimal

import innokit
import pandas
import polars
import pyarrow
import pytest
import readers
from conftest import needs_servers
from pyarrow import parquet

import duckdb

# History rows, and the period of each row, are in separate columns there.
LEFT_OUT = {"vers"}


def in_form(seen, kinds):
    rows = [tuple(readers.found(kind, value) for (_, kind), value in zip(kinds, row)) for row in seen]
    return sorted(rows, key=repr)


def by_duckdb(scan, kinds):
    quoted = ['"' + name.replace('"', '""') + '"' for name, _ in kinds]
    # Python's zoned datetimes need a time zone database.
    shown = [f"epoch_us({name})" if kind == "timestamp" else name for name, (_, kind) in zip(quoted, kinds)]
    return duckdb.sql(f"SELECT {', '.join(shown)} FROM scan").fetchall()


def by_pandas(scan, kinds):
    """Through pyarrow's types, so that integers with NULL stay integers."""
    frame = pyarrow.table(scan).to_pandas(types_mapper=pandas.ArrowDtype)
    return readers.by_pyarrow(pyarrow.Table.from_pandas(frame, preserve_index=False), kinds)


def types_are_as_documented(schema, columns, strings):
    for name, kind, declared in columns:
        field = schema.field(name)
        is_json = isinstance(field.type, pyarrow.JsonType)
        assert not is_json or strings == "view", name
        wanted = readers.arrow_type("json" if is_json else "text" if kind == "json" and strings == "utf8" else kind, declared)
        if strings == "view":
            wanted = {"string": "string_view", "binary": "binary_view"}.get(wanted, wanted)
        elif kind == "enum":
            wanted = "string"
        shown = "extension<arrow.json>" if is_json else str(field.type).split("[")[0] if "extension" in str(field.type) else str(field.type)
        assert shown == wanted, f"{name} {declared}: {field.type}, not {wanted}"
        said = field.metadata[b"innokit.type"].decode().split(" CHARACTER")[0]
        assert said.split("(")[0].split(" ")[0] == declared.split("(")[0].split(" ")[0], name


@needs_servers
def test_every_type_is_what_the_server_shows(server):
    db = innokit.open(server.datadir)
    compared = values = 0
    for name, said in server.types.items():
        if name in LEFT_OUT:
            continue
        table = db.table(f"ty.{name}")
        kinds = [(column, kind) for column, kind, _ in said.columns]
        expected = [tuple(readers.expected(kind, text) for (_, kind), text in zip(kinds, row)) for row in said.rows]
        expected.sort(key=repr)
        names = [column for column, _ in kinds]
        view, utf8 = pyarrow.table(table.scan(strings="view")), pyarrow.table(table)
        types_are_as_documented(view.schema, said.columns, "view")
        types_are_as_documented(utf8.schema, said.columns, "utf8")
        seen = {
            "pyarrow, views": readers.by_pyarrow(view, kinds),
            "pyarrow": readers.by_pyarrow(utf8, kinds),
            "Polars, views": polars.DataFrame(table.scan(strings="view")).select(names).rows(),
            "Polars": polars.DataFrame(table).select(names).rows(),
            "DuckDB, views": by_duckdb(table.scan(strings="view"), kinds),
            "DuckDB": by_duckdb(table, kinds),
            "pandas": by_pandas(table, kinds),
        }
        for reader, rows in seen.items():
            rows = in_form(rows, kinds)
            assert len(rows) == len(expected) == said.count, f"{name}: {reader}"
            for one, other in zip(rows, expected):
                for (column, kind), value, wanted in zip(kinds, one, other):
                    assert value == wanted, f"{name}.{column} ({kind}): {reader}: {value!r}, not {wanted!r}"
            values += len(rows) * len(kinds)
        compared += 1
    print(f"{server.kind}: {compared} tables, {values} values")
    assert compared >= 35


#: What Iceberg and Delta Lake both have.
LAKEHOUSE = {"int8", "int16", "int32", "int64", "float", "double", "date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]", "string", "binary"}


def widened(column, wanted):
    """A column with the server's types in those of a lakehouse, by pyarrow's own conversions."""
    if isinstance(column.type, pyarrow.UuidType):
        return pyarrow.chunked_array([[None if value is None else str(value) for value in column.to_pylist()]], wanted)
    if column.type == pyarrow.uint64() and pyarrow.types.is_decimal(wanted):
        return pyarrow.chunked_array([[None if value is None else decimal.Decimal(value) for value in column.to_pylist()]], wanted)
    return column.cast(wanted)


@needs_servers
def test_types_of_a_lakehouse_hold_the_same_values(server, tmp_path):
    db = innokit.open(server.datadir)
    changed = set()
    for name in server.types:
        exact, plain = pyarrow.table(db.table(f"ty.{name}")), pyarrow.table(db.table(f"ty.{name}").scan(types="lakehouse"))
        assert plain.num_rows == exact.num_rows and plain.column_names == exact.column_names
        for one, other in zip(exact.schema, plain.schema):
            shown = str(other.type)
            assert shown in LAKEHOUSE or shown.startswith(("decimal128(", "list<item: float")), f"{name}.{one.name}: {shown}"
            assert other.metadata[b"innokit.type"] == one.metadata[b"innokit.type"]
            assert plain[one.name].equals(widened(exact[one.name], other.type)), f"{name}.{one.name}: {one.type} as {shown}"
            if one.type != other.type:
                changed.add((str(one.type).split("[")[0], shown))
        file = tmp_path / f"{name}.parquet"
        db.table(f"ty.{name}").write_parquet(file, types="lakehouse")
        assert parquet.read_table(file).equals(plain), name
    expected = {("uint8", "int16"), ("uint16", "int32"), ("uint32", "int64"), ("uint64", "decimal128(20, 0)"), ("uint64", "int64"), ("duration", "int64")}
    assert expected <= changed, changed
    with pytest.raises(ValueError, match='types must be "exact" or "lakehouse", not "delta"'):
        db.table("ty.temps").scan(types="delta")


@needs_servers
def test_count_and_checksum_are_the_servers(server):
    db = innokit.open(server.datadir)
    assert {name for name in db.tables() if name.startswith("ty.")} == {f"ty.{name}" for name in server.types}
    equal = 0
    for schema, tables in (("ty", server.types), ("sp", server.keys)):
        for name, said in tables.items():
            table = db.table(f"{schema}.{name}")
            assert table.count() == said.count, name
            if server.kind == "mysql" and name in ("genv", "fidx", "mvi"):
                with pytest.raises(innokit.InnokitError, match="virtual"):
                    table.checksum()
                continue
            # MariaDB 10.11 computes another value for a table with a stored generated column.
            is_older = server.kind == "mariadb" and name == "gens"
            assert table.checksum(without_generated=is_older) == said.checksum, name
            equal += 1
    assert equal >= 45


@needs_servers
def test_what_arrow_cannot_hold_is_told(server):
    scan = innokit.open(server.datadir).table("ty.temps").scan()
    assert scan.rows_read is scan.changes is scan.damage is None
    frame = polars.DataFrame(scan)
    assert scan.rows_read == frame.height
    assert scan.damage == []
    assert all("became NULL" in what for _, what, _ in scan.changes)
    changed = {column: count for column, _, count in scan.changes}
    nulls = {name: frame[name].null_count() for name in changed}
    assert changed and all(0 < changed[name] <= nulls[name] for name in changed)
