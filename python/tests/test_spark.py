"""`innokit.spark` on a real cluster: a master and two workers in separate processes."""

import inspect
import json
import os
import pathlib
import re
import shutil
import signal
import threading
import time

import innokit
import innokit.spark
import polars
import pyarrow
import pytest
import readers
from clusters import Cluster
from conftest import DATADIRS, REPOSITORY, break_page, hinted, needs_servers, units
from pyspark.sql.pandas.types import to_arrow_schema
from test_guide import readers_folder, run

pytestmark = pytest.mark.filterwarnings("default")
GUIDE = REPOSITORY / "docs/spark.md"
BACKUP = pathlib.Path(DATADIRS or "") / "mysql-16k"
#: Tables that have every type between them.
TYPES = ("nums", "decs", "temps", "strs", "geo", "vec", "jsn", "net", "cmt", "prng", "dkey")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, buckets):
    # Its processes find the S3 server through the environment they are started with.
    cluster = Cluster(tmp_path_factory.mktemp("spark"))
    try:
        cluster.connect()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def spark(cluster):
    return cluster.session


@pytest.fixture
def torn(tmp_path):
    """A copy of a table of 16,000 rows with a damaged leaf in its middle: the path, the page, and the first and last key of the others."""
    path = shutil.copy(BACKUP / "shop/row_dynamic.ibd", tmp_path)
    [(level, pages)] = units(innokit.open(path).table("shop.row_dynamic").splits(1)[0])
    assert level == 0
    break_page(path, pages[len(pages) // 2])
    return path, pages[len(pages) // 2]


def read(spark, path, table, **options):
    return spark.read.format("innodb").options(table=table, **{name: str(value) for name, value in options.items()}).load(str(path))


def whole(path, table, **choices):
    return polars.DataFrame(innokit.open(path).table(table).scan(strings="utf8", **choices))


@needs_servers
@pytest.mark.parametrize("datadir, name, splits", [("mysql-16k", "shop.row_dynamic", 7), ("mariadb-8k", "shop.row_compact", 3), ("mysql-16k", "shop.parts", 2)])
def test_rows_are_those_of_the_table(spark, datadir, name, splits):
    path = pathlib.Path(DATADIRS) / datadir
    table = innokit.open(path).table(name)
    made = table.splits(splits)
    assert len(made) == splits
    frame = read(spark, path, name, splits=splits)
    assert frame.rdd.getNumPartitions() == splits
    rows = [tuple(row) for row in frame.collect()]
    expected = whole(path, name).rows()
    # Partitions are in key order, and so are the rows in them.
    assert rows == expected and len(rows) == table.count() > 0


@needs_servers
def test_columns_and_keys_are_chosen(spark):
    path = BACKUP / "shop/row_dynamic.ibd"
    for frame in (
        read(spark, path, "shop.row_dynamic", columns="b, id", key_from=100, key_to=199),
        spark.read.format("innodb").schema("b string, id int").options(table="shop.row_dynamic", key_from="100", key_to="199").load(str(path)),
    ):
        assert frame.columns == ["b", "id"]
        expected = whole(path, "shop.row_dynamic", columns=["b", "id"], key_range=(100, 199))
        assert [tuple(row) for row in frame.collect()] == expected.rows()
    nothing = read(spark, path, "shop.row_dynamic", key_from=5, key_to=1)
    assert nothing.collect() == []
    several = spark.read.format("innodb").option("table", "shop.parts").load([str(file) for file in sorted(BACKUP.glob("shop/parts#*"))])
    assert several.count() == innokit.open(BACKUP).table("shop.parts").count()


@needs_servers
def test_buckets_are_read_and_verified(spark, buckets, torn):
    path = BACKUP / "shop/row_dynamic.ibd"
    url = buckets.put("spark/row_dynamic.ibd", path)
    frame = read(spark, url, "shop.row_dynamic", splits=4)
    assert frame.rdd.getNumPartitions() == 4
    assert [tuple(row) for row in frame.collect()] == whole(path, "shop.row_dynamic").rows()
    check = spark.read.format("innodb_check").option("parts", "3")
    assert check.load(url).count() == 0
    [found] = check.load(buckets.put("spark/torn.ibd", torn[0])).collect()
    assert (found.page, found.severity) == (torn[1], "damage")
    for missing in ("s3://lab/spark/none.ibd", "s3://lab/none/"):
        # One row in total, not one per partition.
        [found] = check.load(missing).collect()
        assert (found.path, found.severity) == (missing, "undecided")
        with pytest.raises(Exception, match=f"StorageError: {missing}: there is no object of this name"):
            read(spark, missing, "shop.row_dynamic").collect()
    # By its size: three partitions of 8 MiB.
    assert spark.read.format("innodb_check").option("target_bytes", str(8 << 20)).load(url).rdd.getNumPartitions() == 3


@needs_servers
def test_a_range_of_keys_reads_only_its_pages(spark, torn):
    """Only a query that reads the damaged page fails. A filter does not change what is read."""
    path, page = torn
    keys = whole(BACKUP / "shop/row_dynamic.ibd", "shop.row_dynamic", columns=["id"])["id"]
    low, high = keys[len(keys) // 4], keys[3 * len(keys) // 4]
    below = read(spark, path, "shop.row_dynamic", columns="id", key_to=low)
    above = read(spark, path, "shop.row_dynamic", columns="id", key_from=high)
    assert [row.id for row in below.union(above).collect()] == keys.filter((keys <= low) | (keys >= high)).to_list()
    with pytest.raises(Exception, match=f"page {page} is damaged"):
        read(spark, path, "shop.row_dynamic", columns="id").where(f"id < {low}").collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        # Earlier queries do not change a DataFrame's rows.
        assert below.where("id < 100").count() == keys.filter(keys < 100).len()
        assert below.count() == keys.filter(keys <= low).len()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


@needs_servers
def test_damage_is_raised_skipped_or_listed(spark, torn):
    path, page = torn
    with pytest.raises(Exception, match=rf"DamageError: {re.escape(str(path))}, byte {page * 16384}: .*page {page} is damaged"):
        read(spark, path, "shop.row_dynamic", splits=4).collect()
    rest = read(spark, path, "shop.row_dynamic", splits=4, on_damage="skip").collect()
    with pytest.warns(innokit.DamageWarning):
        expected = whole(path, "shop.row_dynamic", on_damage="skip")
    assert [tuple(row) for row in rest] == expected.rows()
    assert 15_000 < len(rest) < 16_000
    [lost] = read(spark, path, "shop.row_dynamic", splits=4, on_damage="list").collect()
    assert (lost.path, lost.page, lost.offset) == (str(path), page, page * 16384)
    assert f"page {page} is damaged" in lost.message
    # One task reads a table that cannot be split.
    break_page(path, innokit_root(path))
    with pytest.raises(Exception, match="DamageError"):
        read(spark, path, "shop.row_dynamic", splits=4).collect()
    found = read(spark, path, "shop.row_dynamic", splits=4, on_damage="skip").collect()
    assert sorted(tuple(row) for row in found) == expected.sort("id").rows()


def innokit_root(path):
    """The root of the table's clustered index: the first page of level 1."""
    data = pathlib.Path(path).read_bytes()
    for page in range(3, len(data) // 16384):
        head = data[page * 16384 :][:80]
        if int.from_bytes(head[24:26], "big") == 17855 and int.from_bytes(head[64:66], "big") == 1:
            return page
    raise AssertionError("no page above the leaves")


@needs_servers
def test_what_does_not_exist_is_refused(spark, tmp_path):
    path = BACKUP / "shop/row_dynamic.ibd"
    for options, words in (
        ({"table": "shop.nope"}, "no table shop.nope"),
        ({"table": "shop.row_dynamic", "columns": "id,nope"}, "no column nope"),
        ({"table": "shop.row_dynamic", "colums": "id"}, "no option colums"),
        ({"table": "shop.row_dynamic", "on_damage": "ignore"}, "on_damage must be"),
        ({"table": "shop.row_dynamic", "splits": "0"}, "splits must be"),
        ({"table": "shop.row_dynamic", "key_from": "x"}, "is not a value of key column id"),
        ({}, "no table"),
    ):
        with pytest.raises(Exception, match=words):
            spark.read.format("innodb").options(**options).load(str(path)).collect()
    for schema, words in (("id string", "column id is int not null, not string"), ("x int", "no column x")):
        with pytest.raises(Exception, match=words):
            spark.read.format("innodb").option("table", "shop.row_dynamic").schema(schema).load(str(path)).collect()
    with pytest.raises(Exception, match="no path"):
        spark.read.format("innodb").option("table", "shop.row_dynamic").load()
    with pytest.raises(Exception, match="FileNotFoundError"):
        read(spark, tmp_path / "nowhere", "shop.t")


@needs_servers
def test_a_file_that_changes_meanwhile_is_refused(spark, tmp_path):
    path = shutil.copy(BACKUP / "shop/row_dynamic.ibd", tmp_path)
    frame = read(spark, path, "shop.row_dynamic", splits=2)
    # Spark requests the splits when it plans, and again only with each action on the DataFrame's source.
    planned = frame.rdd
    os.utime(path, (1, 1))
    with pytest.raises(Exception, match="it has changed since the split was made"):
        planned.count()


@needs_servers
def test_a_killed_executor_costs_no_row(cluster, tmp_path):
    spark, path = cluster.session, BACKUP / "shop/row_dynamic.ibd"
    frame = read(spark, path, "shop.row_dynamic", splits=12)
    marks = str(tmp_path)

    def slowly(batches):
        import os
        import pathlib
        import time

        for batch in batches:
            # This process is a child of a daemon, which is a child of the executor.
            executor = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")")[-1].split()[1]
            open(f"{marks}/{executor}-{time.time_ns()}", "w").close()
            while not os.path.exists(f"{marks}/go"):
                time.sleep(0.05)
            yield batch

    def begun():
        return {int(name.split("-")[0]) for name in os.listdir(marks) if name != "go"}

    seen = []
    job = threading.Thread(target=lambda: seen.extend(frame.mapInArrow(slowly, frame.schema).collect()))
    job.start()
    deadline = time.monotonic() + 120
    while len(begun()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    executors = cluster.executors()
    assert begun() == executors and len(executors) == 2
    # Both are running a task; one does not finish it.
    victim = min(executors)
    os.kill(victim, signal.SIGKILL)
    open(f"{marks}/go", "w").close()
    job.join(120)
    assert not job.is_alive()
    assert [tuple(row) for row in seen] == whole(path, "shop.row_dynamic").rows()
    assert victim not in cluster.executors()
    # What the killed executor had begun was read again.
    assert len(os.listdir(marks)) - 1 > 12


@needs_servers
def test_checks_are_those_of_the_whole(spark, tmp_path):
    """A datadir with several kinds of damage, checked in parts, and an intact one."""
    datadir = tmp_path / "data"
    shutil.copytree(BACKUP, datadir, ignore=shutil.ignore_patterns("mysql.ibd.*", "binlog*", "*.pem"))
    break_page(datadir / "shop/row_dynamic.ibd", 100)
    break_page(datadir / "shop/churn.ibd", 50)
    (datadir / "shop/n.ibd").unlink()
    os.truncate(datadir / "shop/blobs.ibd", 5 << 20)
    os.truncate(datadir / "shop/types.ibd", 0)
    report = innokit.check(datadir)
    assert report.exit_status == 1
    expected = polars.DataFrame(report)
    assert expected.height >= 5
    found = spark.read.format("innodb_check").option("parts", 3).load(str(datadir)).collect()
    rows = [(row.path, row.page, row.reason, row.severity) for row in found if row.reason != "recovery_pending"]
    assert sorted(rows, key=repr) == sorted(expected.select("path", "page", "reason", "severity").rows(), key=repr)
    files = spark.read.format("innodb_check").options(files="true", parts="3").load(str(datadir)).collect()
    assert sum(row.pages for row in files if row.unit == "pages") == report.pages
    assert {row.path for row in files} == {file["path"] for file in json.loads(report.to_json())["files"]}
    few = spark.read.format("innodb_check").options(parts="1", max_findings="1").load(str(datadir)).collect()
    assert [row.reason for row in few][-1] == "more_findings" and few[-1].severity == "damage"
    sound = spark.read.format("innodb_check").load(str(BACKUP / "shop/row_dynamic.ibd"))
    assert sound.count() == 0
    paths = [str(tmp_path / "nowhere"), str(BACKUP / "shop/row_dynamic.ibd")]
    [missing] = spark.read.format("innodb_check").option("parts", 3).load(paths).collect()
    assert missing.severity == "undecided" and "nowhere" in missing.path


def spark_name(kind, declared):
    """The name of a column in docs/spark.md."""
    name = kind.upper()
    if kind == "decimal":
        return "DECIMAL of up to 38 digits" if int(declared.split("(")[1].split(",")[0].rstrip(")")) <= 38 else "DECIMAL of 39 to 65 digits"
    if kind in readers.GEOMETRY:
        return "geometry"
    return name + " UNSIGNED" if kind in readers.INTEGERS and "unsigned" in declared else name


def documented():
    """The table of types: its left column, each name with its Spark type."""
    table = GUIDE.read_text().split("## Types")[1].split("\n\n")[1:]
    rows = [line.strip("|").split("|") for block in table for line in block.splitlines() if line.startswith("| ")]
    return {name.strip(): row[1].strip(" `") for row in rows[1:] for name in row[0].split(",")}


@needs_servers
@pytest.mark.parametrize("kind", ["mysql", "mariadb118"])
def test_every_type_is_what_the_server_shows(spark, datadirs, kind):
    server, seen, values = datadirs(kind), {}, 0
    for name, said in server.types.items():
        table = innokit.open(server.datadir).table(f"ty.{name}")
        # Spark accepts the batches of every table.
        scan = table.scan(strings="utf8")
        schema = innokit.spark._row_type(scan)
        target = innokit.spark._arrow_schema(schema)
        assert to_arrow_schema(schema, timezone="UTC").equals(target), name
        for batch in pyarrow.RecordBatchReader.from_stream(scan):
            innokit.spark._cast(batch, target).validate(full=True)
        if name not in TYPES:
            continue
        kinds = [(column, kind) for column, kind, _ in said.columns]
        frame = read(spark, server.datadir, f"ty.{name}")
        for column, kind_, declared in said.columns:
            shown = frame.schema[column].dataType.simpleString()
            seen[spark_name(kind_, declared)] = re.sub(r"decimal.*", "decimal(p,s)", shown) if kind_ == "decimal" else shown
            assert frame.schema[column].metadata["innokit.type"].split("(")[0].split(" ")[0] == declared.split("(")[0].split(" ")[0]
        rows = [tuple(plain(kind, row[column]) for column, kind in kinds) for row in frame.collect()]
        expected = [tuple(readers.expected(kind, text) for (_, kind), text in zip(kinds, row)) for row in said.rows]
        assert sorted(rows, key=repr) == sorted(expected, key=repr), name
        values += len(rows) * len(kinds)
    table = documented()
    assert {name: shown for name, shown in seen.items() if table.get(name) != shown} == {}
    assert values > 500 and len(seen) >= 25, (values, len(seen))


def plain(kind, value):
    value = bytes(value) if isinstance(value, bytearray) else value
    if kind in readers.INTEGERS or kind in ("bit", "year"):
        return None if value is None else int(value)
    return readers.found(kind, value)


@needs_servers
def test_the_guide_is_true(spark, tmp_path):
    assert run(GUIDE, {"spark": spark}, readers_folder(tmp_path)) >= 20


def test_the_guide_names_every_option():
    text = GUIDE.read_text()
    for source in (innokit.spark.InnoDB, innokit.spark.InnoDBCheck):
        options = re.findall(r"^      (\w+(?:, \w+)*):", source.__doc__, re.M)
        names = {name for names in options for name in names.split(", ")}
        assert len(names) >= 6
        assert {f"`{name}`" for name in names} <= set(re.findall(r"`\w+`", text))
    fences = re.findall(r"^```(\w*)\n", text, re.M)
    assert set(fences[::2]) == {"pycon"} and set(fences[1::2]) == {""}


def test_type_hints_are_true():
    assert hinted(innokit.spark.register) == list(inspect.signature(innokit.spark.register).parameters)
