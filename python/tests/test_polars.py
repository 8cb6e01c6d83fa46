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
        lambda frame: frame.filter(polars.col("id") > 15_000, polars.col("id") <= 15_100),
        lambda frame: frame.filter(polars.col("id").is_between(40, 60), column > 1000),
        lambda frame: frame.filter((polars.col("id") < 50) | (polars.col("id") > 17_000)),
        lambda frame: frame.head(5000).filter(polars.col("id") > 3000),
        lambda frame: frame.filter(polars.lit(77) == polars.col("id")).select("b"),
        lambda frame: frame.filter(~(polars.col("id") < 10_000)),
        lambda frame: frame.filter(polars.col("id") > 5.5),
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


@needs_servers
def test_a_filter_on_the_key_spares_pages(path, monkeypatch):
    asked = []
    bounds = innokit.polars._bounds
    monkeypatch.setattr(innokit.polars, "_bounds", lambda *given: asked.append(bounds(*given)) or asked[-1])
    key = polars.col("id")
    lazy = innokit.polars.scan_innodb(path, "shop.row_dynamic")
    for query, expected in (
        (key >= 100, (100, None)),
        ((key > 100) & (key < 200) & (polars.col("a") > 3), (100, 200)),
        (key.is_between(5, 9), (5, 9)),
        (key == 7, (7, 7)),
        ((key == 7) | (polars.col("a") == 1), (None, None)),
        (polars.col("a") > 3, (None, None)),
        (key + 1 > 3, (None, None)),
    ):
        lazy.filter(query).collect()
        assert asked.pop() == expected, query
    import datetime

    day, moment = polars.col("d"), polars.col("t")
    assert bounds(day < datetime.date(2024, 2, 29), "d") == (None, datetime.date(2024, 2, 29))
    exactly = datetime.datetime(2024, 2, 29, 12, 30, 1, 5)
    assert bounds(moment == exactly, "t") == (exactly, exactly)
    # Values of different kinds, or expressions of another form, say nothing.
    assert bounds((day < datetime.date(2024, 2, 29)) & (day < 5), "d") == (None, None)
    assert bounds(object(), "d") == (None, None)
    # Only pages with such keys are read.
    table = innokit.open(path).table("shop.row_dynamic")
    assert len(table.splits(target_bytes=1 << 14, key_range=(100, 199))) < len(table.splits(target_bytes=1 << 14)) / 20
