"""`innokit.polars.scan_innodb`: a query's columns, limit and filter reach the scan."""

import pathlib

import innokit
import innokit.polars
import polars
import pytest
from conftest import DATADIRS, needs_servers


@pytest.fixture
def path():
    return pathlib.Path(DATADIRS) / "mysql-16k/shop/row_dynamic.ibd"


@needs_servers
def test_queries_are_those_of_the_whole_frame(path, monkeypatch):
    # Several parts for a table of any size.
    monkeypatch.setattr(innokit.polars, "_PART_BYTES", 1 << 20)
    whole = polars.DataFrame(innokit.open(path).table("shop.row_dynamic"))
    lazy = innokit.polars.scan_innodb(path, "shop.row_dynamic")
    assert lazy.collect_schema() == whole.schema
    column = polars.col("a")
    for query in (
        lambda frame: frame,
        lambda frame: frame.select("b", "id"),
        lambda frame: frame.filter(column > 5000).select("id", column * 2),
        lambda frame: frame.select("id").filter(polars.col("id") % 1000 == 0),
        lambda frame: frame.head(10),
        lambda frame: frame.head(5000).filter(column > 9000),
        lambda frame: frame.filter(column > 9000).head(7),
        lambda frame: frame.select(polars.len()),
        lambda frame: frame.slice(9000, 20),
        lambda frame: frame.filter(column.is_null()),
        lambda frame: frame.group_by(column % 7).agg(polars.col("id").sum()).sort("a"),
    ):
        assert query(lazy).collect().equals(query(whole.lazy()).collect())
        assert query(lazy).collect(engine="streaming").equals(query(whole.lazy()).collect(engine="streaming"))
    ranged = innokit.polars.scan_innodb(path, "shop.row_dynamic", key_range=(100, 199)).collect()
    assert ranged.equals(whole.filter(polars.col("id").is_between(100, 199)))


@needs_servers
def test_mistakes_are_raised_at_once(path):
    with pytest.raises(KeyError):
        innokit.polars.scan_innodb(path, "shop.nope")
    with pytest.raises(ValueError):
        innokit.polars.scan_innodb(path, "shop.row_dynamic", key_range=("x", None))
