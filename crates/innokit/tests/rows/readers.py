"""Holds Parquet and Arrow files, as pyarrow, DuckDB and Polars read them, against what the server's SELECT gave.

readers.py FOLDER: for each table FOLDER/TABLE.columns (name, type and declaration a line), FOLDER/TABLE.rows (the server's rows, fields
between tabs), FOLDER/ty.TABLE.parquet and FOLDER/ty.TABLE.arrow. Prints how many tables, rows and values were compared; what differs ends it.
"""

import datetime
import decimal
import pathlib
import struct
import sys

import duckdb
import polars
import pyarrow
import pyarrow.ipc
import pyarrow.parquet

EPOCH = datetime.datetime(1970, 1, 1)
INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
TEXT = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "set", "inet4", "inet6"}
BINARY = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
GEOMETRY = {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection"}


def arrow_type(kind, declared):
    """The type that docs/arrow.md promises, as pyarrow writes it."""
    if kind in INTEGERS:
        return ("u" if "unsigned" in declared else "") + f"int{INTEGERS[kind]}"
    if kind == "decimal":
        precision, scale = declared.split("(")[1].split(")")[0].split(",")
        return f"decimal128({precision}, {scale})" if int(precision) <= 38 else "string"
    if kind in BINARY | GEOMETRY:
        return "binary"
    return {
        "float": "float", "double": "double", "year": "uint16", "bit": "uint64", "date": "date32[day]",
        "time": "duration[us]", "datetime": "timestamp[us]", "timestamp": "timestamp[us, tz=UTC]",
        "enum": "dictionary<values=string, indices=uint16, ordered=0>", "uuid": "extension<arrow.uuid>",
        "json": "extension<arrow.json>", "vector": "list<item: float not null>",
    }.get(kind, "string")


def micros(span):
    return span // datetime.timedelta(microseconds=1)


def span_of(text):
    """-838:59:59.5 in microseconds."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    number = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1000000 + int(fraction.ljust(6, "0"))
    return -number if text.startswith("-") else number


def expected(kind, text):
    """What the server showed, in the form that a reader's value is brought into too."""
    if text == "NULL":
        return None
    if kind in INTEGERS or kind in ("year", "bit"):
        return int(text)
    if kind == "decimal":
        return decimal.Decimal(text)
    if kind in ("float", "double"):
        return float(text)
    if kind == "date" or kind in ("datetime", "timestamp"):
        try:
            moment = datetime.datetime.fromisoformat(text.partition(".")[0])
        except ValueError:
            return None  # no calendar has it
        fraction = text.partition(".")[2]
        return micros(moment - EPOCH) + int(fraction.ljust(6, "0"))
    if kind == "time":
        return span_of(text)
    if kind == "uuid":
        return text
    data = bytes.fromhex(text)
    if kind in BINARY:
        return data
    if kind in GEOMETRY:
        return data[4:]  # the spatial reference system comes first
    if kind == "vector":
        return struct.unpack(f"<{len(data) // 4}f", data)
    return data.decode()


def found(kind, value):
    if value is None:
        return None
    if kind == "decimal":
        return decimal.Decimal(value)
    if kind == "uuid":
        text = value.hex() if isinstance(value, bytes) else str(value).replace("-", "")
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    if isinstance(value, datetime.datetime):
        return micros(value.replace(tzinfo=None) - EPOCH)
    if isinstance(value, datetime.date):
        return micros(datetime.datetime(value.year, value.month, value.day) - EPOCH)
    if isinstance(value, datetime.timedelta):
        return micros(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, list):
        return tuple(value)
    return value


def by_pyarrow(table, kinds):
    columns = []
    for name, kind in kinds:
        column = table.column(name)
        # A Python datetime with a zone wants a database of zones.
        columns.append(column.cast(pyarrow.timestamp("us")).to_pylist() if kind == "timestamp" else column.to_pylist())
    return list(zip(*columns))


def by_duckdb(path, kinds):
    quoted = ['"' + name.replace('"', '""') + '"' for name, _ in kinds]
    shown = [f"epoch_us({name})" if kind == "timestamp" else name for name, (_, kind) in zip(quoted, kinds)]
    return duckdb.execute(f"SELECT {', '.join(shown)} FROM read_parquet(?)", [str(path)]).fetchall()


def check_types(schema, columns, where):
    for name, kind, declared in columns:
        field = schema.field(name)
        # The servers write a JSON column of MariaDB as longtext.
        is_json = field.type == pyarrow.json_() and kind == "longtext"
        wanted = arrow_type("json" if is_json else kind, declared)
        shown = str(field.type).split("[")[0] if str(field.type).startswith("extension") else str(field.type)
        assert shown.replace("string>", "string") .startswith(wanted) or shown == wanted, f"{where}: {name} {declared}: {field.type}, not {wanted}"
        said = field.metadata[b"innokit.type"].decode().split(" CHARACTER")[0]
        assert said.split("(")[0].split(" ")[0] == declared.split("(")[0].split(" ")[0], f"{where}: {name}: {said}, not {declared}"


def compare(folder, name):
    columns = [line.split("\t") for line in (folder / f"{name}.columns").read_text().splitlines()]
    kinds = [(column, kind) for column, kind, _ in columns]
    lines = (folder / f"{name}.rows").read_text().splitlines()
    rows = [tuple(expected(kind, text) for (_, kind), text in zip(kinds, line.split("\t"))) for line in lines]
    parquet, arrow = folder / f"ty.{name}.parquet", folder / f"ty.{name}.arrow"
    table = pyarrow.parquet.read_table(parquet)
    check_types(table.schema, columns, parquet)
    with pyarrow.ipc.open_file(arrow) as file:
        ipc = file.read_all()
    check_types(ipc.schema, columns, arrow)
    names = [column for column, _ in kinds]
    read = {
        "pyarrow, Parquet": by_pyarrow(table, kinds),
        "pyarrow, Arrow": by_pyarrow(ipc, kinds),
        "DuckDB, Parquet": by_duckdb(parquet, kinds),
        "Polars, Arrow": polars.read_ipc(arrow).select(names).rows(),
        "Polars, Parquet": polars.read_parquet(parquet).select(names).rows(),
    }
    rows.sort(key=repr)
    for reader, values in read.items():
        seen = [tuple(found(kind, value) for (_, kind), value in zip(kinds, row)) for row in values]
        seen.sort(key=repr)
        assert len(seen) == len(rows), f"{name}: {reader}: {len(seen)} rows, not {len(rows)}"
        for one, other in zip(seen, rows):
            for (column, kind), value, wanted in zip(kinds, one, other):
                assert value == wanted, f"{name}.{column} ({kind}): {reader}: {value!r}, not {wanted!r}"
    return len(rows), len(rows) * len(kinds) * len(read)


def main():
    folder = pathlib.Path(sys.argv[1])
    names = sorted(path.stem for path in folder.glob("*.columns"))
    counts = [compare(folder, name) for name in names]
    print(f"{len(names)} tables, {sum(rows for rows, _ in counts)} rows, {sum(values for _, values in counts)} values")


if __name__ == "__main__":
    main()
