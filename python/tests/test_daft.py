"""`innokit.daft`: Daft queries in this process."""

import inspect
import os
import pathlib
import shutil

import innokit
import innokit.daft
import polars
import pytest
from conftest import DATADIRS, break_page, hinted, needs_servers, units

# If Ray runs in this process, as after its tests, Daft would use it as its cluster.
os.environ.setdefault("DAFT_RUNNER", "native")

import daft
import daft.io.pushdowns

pytestmark = pytest.mark.filterwarnings("default")
BACKUP = pathlib.Path(DATADIRS or "") / "mysql-16k"
TABLE = "shop.row_dynamic"


@pytest.fixture
def path():
    return BACKUP / "shop/row_dynamic.ibd"


def frame(query):
    return polars.DataFrame(query.to_arrow())


@needs_servers
def test_queries_are_those_of_the_whole_table(path):
    whole = polars.DataFrame(innokit.open(path).table(TABLE).scan(strings="utf8"))
    lazy = innokit.daft.read_innodb(path, TABLE, target_bytes=1 << 20)
    assert lazy.column_names == whole.columns
    a, column = daft.col("a"), polars.col("a")
    for query, same in (
        (lambda: lazy, lambda: whole),
        (lambda: lazy.select("b", "id"), lambda: whole.select("b", "id")),
        (lambda: lazy.where(a > 5000).select("id", "c"), lambda: whole.filter(column > 5000).select("id", "c")),
        (lambda: lazy.where((a > 5000) & (daft.col("id") < 900)).select("b"), lambda: whole.filter((column > 5000) & (polars.col("id") < 900)).select("b")),
        (lambda: lazy.where(a.is_null()).select("id"), lambda: whole.filter(column.is_null()).select("id")),
    ):
        found, expected = frame(query()), same()
        assert found.sort(found.columns).equals(expected.sort(expected.columns))
    assert lazy.count_rows() == lazy.where(a.is_null() | ~a.is_null()).count_rows() == whole.height
    assert lazy.limit(10).count_rows() == 10
    assert lazy.where(a > 9000).limit(7).count_rows() == 7
    assert frame(lazy.agg(a.sum(), daft.col("id").max())).row(0) == (whole["a"].sum(), whole["id"].max())
    ranged = innokit.daft.read_innodb(path, TABLE, columns=["b", "id"], key_range=(100, 199))
    assert frame(ranged).equals(whole.filter(polars.col("id").is_between(100, 199)).select("b", "id"))


@needs_servers
def test_buckets_are_read(path, buckets):
    url = buckets.put("daft/row_dynamic.ibd", path)
    here, there = (innokit.daft.read_innodb(place, TABLE, target_bytes=1 << 20) for place in (path, url))
    assert frame(there).sort("id").equals(frame(here).sort("id"))
    assert there.where(daft.col("a") > 5000).count_rows() == here.where(daft.col("a") > 5000).count_rows()


@needs_servers
def test_a_query_reads_its_columns_only(path):
    import asyncio

    source = innokit.daft._Source(innokit._tasks.Reading(path, TABLE), 4 << 20)
    pushdowns = daft.io.pushdowns.Pushdowns(filters=daft.col("a") > 5, columns=["id"], limit=5)

    async def first():
        async for task in source.get_tasks(pushdowns):
            return task, [batch async for batch in task.read()]

    task, batches = asyncio.run(first())
    assert task.schema.column_names() == ["id", "a"] == batches[0].schema().column_names()
    assert sum(len(batch) for batch in batches) > 5, "the limit is of what the filter leaves"


@needs_servers
def test_damage_is_raised_skipped_or_listed(path, tmp_path):
    path = shutil.copy(path, tmp_path)
    [(_, pages)] = units(innokit.open(path).table(TABLE).splits(1)[0])
    page = pages[40]
    break_page(path, page)
    with pytest.raises(Exception, match=f"byte {page * 16384}: .*page {page} is damaged"):
        innokit.daft.read_innodb(path, TABLE, target_bytes=1 << 20).collect()
    with pytest.warns(innokit.DamageWarning):
        expected = polars.DataFrame(innokit.open(path).table(TABLE).scan(["id"], on_damage="skip"))
    rest = frame(innokit.daft.read_innodb(path, TABLE, on_damage="skip", target_bytes=1 << 20).select("id"))
    assert rest.sort("id").equals(expected.sort("id"))
    [lost] = innokit.daft.read_innodb(path, TABLE, on_damage="list").to_pylist()
    assert (lost["path"], lost["page"], lost["offset"]) == (str(path), page, page * 16384)
    with pytest.raises(ValueError):
        innokit.daft.read_innodb(path, TABLE, columns=["nope"])


@needs_servers
@pytest.mark.parametrize("kind", ["mysql", "mariadb118"])
def test_every_type_is_what_innokit_reads(datadirs, kind):
    """Values against the server's SELECT: test_types.py."""
    server, columns = datadirs(kind), 0
    for name in server.types:
        scan = innokit.open(server.datadir).table(f"ty.{name}").scan(strings="utf8")
        expected = polars.DataFrame(scan)
        found = frame(innokit.daft.read_innodb(server.datadir, f"ty.{name}"))
        # Daft returns large strings and binaries; Polars has only one type of each.
        assert found.columns == expected.columns and sorted(found.rows(), key=repr) == sorted(expected.rows(), key=repr), name
        columns += len(expected.columns)
    assert columns > 200


def test_type_hints_are_true():
    assert hinted(innokit.daft.read_innodb) == list(inspect.signature(innokit.daft.read_innodb).parameters)
