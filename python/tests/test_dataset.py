"""`Table.to_dataset`: what DuckDB and pyarrow ask of a dataset reaches the scan, and its answers are those of the whole table."""

import datetime
import decimal
import pathlib

import duckdb
import innokit
import polars
import pyarrow
import pyarrow.dataset
import pytest
from conftest import DATADIRS, needs_servers
from innokit.dataset import _bounds

field = pyarrow.dataset.field


@pytest.fixture
def table():
    return innokit.open(pathlib.Path(DATADIRS) / "mysql-16k/shop/row_dynamic.ibd").table("shop.row_dynamic")


@needs_servers
def test_duckdb_answers_as_from_the_whole_table(table):
    orders, whole = table.to_dataset(), table.to_arrow()
    for query in (
        "SELECT * FROM {} ORDER BY id LIMIT 20",
        "SELECT count(*) FROM {}",
        "SELECT count(*), sum(a) FROM {} WHERE id BETWEEN 100 AND 199",
        "SELECT b FROM {} WHERE id = 77",
        "SELECT id, b FROM {} WHERE id >= 15000 AND id < 15100 AND a > 1000 ORDER BY id",
        "SELECT count(*) FROM {} WHERE id < 50 OR id > 17000",
        "SELECT count(*) FROM {} WHERE id IN (3, 77, 5000)",
        "SELECT count(*) FROM {} WHERE a IS NULL",
        "SELECT count(*) FROM {} WHERE b = 'x\") and (id >= 5' OR id > 17000",
        "SELECT a % 7 AS k, sum(id) FROM {} GROUP BY k ORDER BY k",
        "SELECT x.id FROM {0} x JOIN {0} y ON x.id = y.id + 1 WHERE x.id < 9 ORDER BY x.id",
    ):
        assert duckdb.sql(query.format("orders")).fetchall() == duckdb.sql(query.format("whole")).fetchall(), query


@needs_servers
def test_a_filter_on_the_key_spares_pages(table):
    dataset = table.to_dataset()
    asked = []
    scan = dataset._source.scan

    class Noted:
        key, schema = table.key, table.schema

        def scan(self, *given, **named):
            asked.append(named.get("key_range"))
            return scan(*given, **named)

    dataset._source = Noted()
    assert duckdb.sql("SELECT count(*) FROM dataset WHERE id >= 100 AND id < 200").fetchall()
    assert asked[-1] == (100, 200)
    assert dataset.to_table(["a"], field("id") == 77).num_rows == polars.DataFrame(table.scan(["id"], key_range=(77, 77))).height
    assert asked[-1] == (77, 77)
    dataset.to_table(filter=field("a") == 77)
    assert asked[-1] is None


def test_bounds_are_at_least_those_of_the_filter():
    day, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 0, 500)
    schema = pyarrow.schema(
        [
            ("k", pyarrow.uint64()),
            ("d", pyarrow.date32()),
            ("t", pyarrow.timestamp("us")),
            ("m", pyarrow.decimal128(10, 2)),
            ("s", pyarrow.string()),
            ("k and", pyarrow.int32()),
            ("f", pyarrow.float64()),
        ]
    )
    five = pyarrow.scalar(5, pyarrow.uint64())
    for column, expression, expected in (
        ("k", field("k") >= five, (5, None)),
        ("k", (field("k") >= 5) & (field("k") <= 9), (5, 9)),
        ("k", (field("k") > 5) & (field("s") == "x"), (5, None)),
        ("k", (field("k") == 5) | (field("k") == 9), (5, 9)),
        ("k", (field("k") == 5) | (field("s") == "y"), (None, None)),
        ("k", field("k").is_valid() & (field("k") < 9), (None, 9)),
        ("k", field("s") == 'b") and (k >= 5', (None, None)),
        ("k", (field("s") == 'b") and (k >= 5') & (field("k") <= 9), (None, 9)),
        ("k", field("k and") >= 5, (None, None)),
        ("k", ~(field("k") == 5), (None, None)),
        ("k", field("k").cast("int32") >= 5, (None, None)),
        ("k", field("k").isin([5, 6]), (None, None)),
        ("d", field("d") >= day, (day, None)),
        ("t", field("t") == pyarrow.scalar(moment, pyarrow.timestamp("us")), (moment, moment)),
        ("m", field("m") <= pyarrow.scalar(decimal.Decimal("1.50"), pyarrow.decimal128(10, 2)), (None, decimal.Decimal("1.50"))),
        ("f", field("f") <= 1.5, (None, None)),
    ):
        assert _bounds(expression, schema, column) == expected, (column, str(expression))


@needs_servers
def test_a_dataset_is_no_set_of_files(table):
    dataset = table.to_dataset(threads=2)
    assert dataset.schema == table.to_arrow().schema
    assert dataset.count_rows() == table.count() == dataset.to_table().num_rows
    assert dataset.count_rows(field("id") < 50) == dataset.to_table(filter=field("id") < 50).num_rows
    assert dataset.head(7).equals(table.to_arrow().slice(0, 7))
    assert dataset.to_table(columns={"twice": field("id") * 2}).column_names == ["twice"]
    assert polars.scan_pyarrow_dataset(dataset).filter(polars.col("id") < 50).collect().height == dataset.count_rows(field("id") < 50)
    [first, *_] = table.splits(3)
    assert first.to_dataset().count_rows() == first.count()
    for call in (lambda: dataset.get_fragments(), lambda: dataset.take([1]), lambda: dataset.sort_by("id"), lambda: dataset.filter(field("id") < 5)):
        with pytest.raises(NotImplementedError, match="no set of files"):
            call()
    with pytest.raises(NotImplementedError):
        dataset.partition_expression
