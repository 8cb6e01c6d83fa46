"""The package has no required dependency: Polars and DuckDB read a table without pyarrow and pandas."""

import importlib.util
import os
import pathlib

import innokit
import polars
from conftest import DATADIRS, needs_servers

import duckdb


@needs_servers
def test_polars_and_duckdb_alone():
    if os.environ.get("INNOKIT_BARE"):
        assert importlib.util.find_spec("pyarrow") is None
        assert importlib.util.find_spec("pandas") is None
    table = innokit.open(pathlib.Path(DATADIRS) / "mysql-16k").table("shop.row_dynamic")
    frame = polars.DataFrame(table)
    assert frame.height == table.count() == 16_000
    assert frame.schema == {"id": polars.Int32, "a": polars.Int32, "b": polars.String, "c": polars.String}
    for strings in ("view", "utf8"):
        scan = table.scan(["id", "b"], strings=strings)
        count, least, most, text = duckdb.sql("SELECT count(*), min(id), max(id), min(b) FROM scan").fetchall()[0]
        assert (count, least, most, text) == (16_000, frame["id"].min(), frame["id"].max(), frame["b"].min())
    split = table.splits(2)[1]
    assert duckdb.sql("SELECT count(*) FROM split").fetchall() == [(split.count(),)]


@needs_servers
def test_findings_are_a_stream_too():
    report = innokit.check(pathlib.Path(DATADIRS) / "mysql-16k/shop/row_dynamic.ibd")
    assert report.ok
    assert polars.DataFrame(report).columns[:4] == ["path", "table", "index", "page"]
