"""`innokit.ray` on a Ray node with two workers."""

import inspect
import os
import pathlib
import re
import shutil
import signal
import threading
import time

import innokit
import innokit.ray
import polars
import pyarrow
import pytest
from conftest import DATADIRS, REPOSITORY, break_page, hinted, needs_servers, units

import ray

pytestmark = pytest.mark.filterwarnings("default")
BACKUP = pathlib.Path(DATADIRS or "") / "mysql-16k"
TABLE = "shop.row_dynamic"


@pytest.fixture(scope="module")
def node(buckets):
    # Its workers find the S3 server through the environment they are started with.
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=128 << 20, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture
def path():
    return BACKUP / "shop/row_dynamic.ibd"


def rows(dataset):
    """In the order of the first column."""
    tables = [table for table in map(ray.get, dataset.to_arrow_refs()) if table.num_rows]
    return polars.DataFrame(pyarrow.concat_tables(tables)) if tables else None


@needs_servers
def test_rows_are_those_of_the_table(node, path):
    for source, name, blocks in ((path, TABLE, 5), (BACKUP, "shop.parts", 2), (pathlib.Path(DATADIRS) / "mariadb-8k", "shop.row_compact", 3)):
        table = innokit.open(source).table(name)
        dataset = innokit.ray.read_innodb(source, name, override_num_blocks=blocks)
        assert dataset.count() == table.count() > 0
        expected = polars.DataFrame(table.scan(strings="utf8"))
        assert rows(dataset).sort(expected.columns).equals(expected.sort(expected.columns))
        assert dataset.schema().names == table.schema.names


@needs_servers
def test_columns_and_keys_are_chosen(node, path):
    expected = polars.DataFrame(innokit.open(path).table(TABLE).scan(["b", "id"], key_range=(100, 199), strings="utf8"))
    dataset = innokit.ray.read_innodb(path, TABLE, columns=["b", "id"], key_range=(100, 199))
    assert rows(dataset).equals(expected)
    # The tasks read only the columns that a later step selects.
    selected = innokit.ray.read_innodb(path, TABLE, key_range=(100, 199)).select_columns(["id"])
    assert rows(selected).equals(expected.select("id"))
    source = innokit.ray.InnoDBDatasource(innokit._tasks.Reading(path, TABLE)).apply_projection({"id": "id"})
    [task] = source.get_read_tasks(1)
    assert [table.schema.names for table in task()] == [["id"]]
    assert innokit.ray.read_innodb(path, TABLE).limit(10).count() == 10
    assert innokit.ray.read_innodb(path, TABLE, key_range=(5, 1)).count() == 0


@needs_servers
def test_buckets_are_read(node, path, buckets):
    url = buckets.put("ray/row_dynamic.ibd", path)
    expected = polars.DataFrame(innokit.open(path).table(TABLE).scan(strings="utf8"))
    dataset = innokit.ray.read_innodb(url, TABLE, override_num_blocks=5)
    assert rows(dataset).sort("id").equals(expected)
    later = innokit.ray.read_innodb(url, TABLE, override_num_blocks=5)
    [*tasks] = innokit.ray.InnoDBDatasource(innokit._tasks.Reading(url, TABLE)).get_read_tasks(2)
    assert {task.metadata.input_files for task in tasks} == {(url,)} and later.schema().names == expected.columns
    buckets.put("ray/row_dynamic.ibd", BACKUP / "shop/row_compact.ibd")
    with pytest.raises(innokit.StorageError, match="it changed while it was read"):
        list(tasks[1]())


@needs_servers
def test_tasks_are_made_once(path, monkeypatch):
    source = innokit.ray.InnoDBDatasource(innokit._tasks.Reading(path, TABLE))
    first = source.get_read_tasks(4)
    monkeypatch.setattr(innokit._tasks.Reading, "open", None)
    again = source.get_read_tasks(4)
    assert len(first) == len(again) == 4
    # Ray would take an estimate of the rows for the exact count.
    assert {task.metadata.num_rows for task in first} == {None}
    assert source.estimate_inmemory_data_size() == sum(task.metadata.size_bytes for task in first)
    assert {task.metadata.input_files for task in first} == {(str(path),)}


@needs_servers
def test_damage_is_raised_skipped_or_listed(node, path, tmp_path):
    path = shutil.copy(path, tmp_path)
    [(_, pages)] = units(innokit.open(path).table(TABLE).splits(1)[0])
    page = pages[40]
    break_page(path, page)
    with pytest.raises(Exception, match=rf"{re.escape(str(path))}, byte {page * 16384}: .*page {page} is damaged"):
        innokit.ray.read_innodb(path, TABLE, override_num_blocks=4).count()
    with pytest.warns(innokit.DamageWarning):
        expected = polars.DataFrame(innokit.open(path).table(TABLE).scan(["id"], on_damage="skip"))
    rest = innokit.ray.read_innodb(path, TABLE, columns=["id"], on_damage="skip", override_num_blocks=4)
    assert rows(rest).sort("id").equals(expected.sort("id"))
    [lost] = innokit.ray.read_innodb(path, TABLE, on_damage="list", override_num_blocks=4).take_all()
    assert (lost["path"], lost["page"], lost["offset"]) == (str(path), page, page * 16384)
    for arguments in ({"columns": ["nope"]}, {"key_range": ("x", None)}, {"on_damage": "ignore"}):
        with pytest.raises(ValueError):
            innokit.ray.read_innodb(path, TABLE, **arguments)
    with pytest.raises(KeyError):
        innokit.ray.read_innodb(path, "shop.nope")


@needs_servers
def test_a_killed_worker_costs_no_row(node, path, tmp_path):
    marks = str(tmp_path)

    def slowly(table):
        import os
        import time

        open(f"{marks}/{os.getpid()}-{time.time_ns()}", "w").close()
        while not os.path.exists(f"{marks}/go"):
            time.sleep(0.05)
        return table

    seen = []
    dataset = innokit.ray.read_innodb(path, TABLE, override_num_blocks=10).map_batches(slowly, batch_format="pyarrow", batch_size=None)
    job = threading.Thread(target=lambda: seen.append(rows(dataset)))
    job.start()
    deadline = time.monotonic() + 120
    while not os.listdir(marks) and time.monotonic() < deadline:
        time.sleep(0.05)
    # It is working on a block, and does not finish it.
    os.kill(int(os.listdir(marks)[0].split("-")[0]), signal.SIGKILL)
    open(f"{marks}/go", "w").close()
    job.join(120)
    assert not job.is_alive()
    expected = polars.DataFrame(innokit.open(path).table(TABLE).scan(strings="utf8"))
    assert seen[0].sort("id").equals(expected.sort("id"))
    assert len(os.listdir(marks)) - 1 > 10


@needs_servers
def test_the_guide_is_true(node, path, tmp_path, monkeypatch, capsys):
    [block] = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs/python.md").read_text(), re.S)
    (tmp_path / "last-night").symlink_to(BACKUP)
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    whole = polars.DataFrame(innokit.open(path).table(TABLE))
    first, *shown = capsys.readouterr().out.splitlines()
    assert first == str(whole.filter(polars.col("a") > 5000).height)
    rows = whole.filter(polars.col("id").is_between(100, 199) & (polars.col("a") > 5000))["id"].head(8)
    assert [line.split("│")[1].strip() for line in shown if line.startswith("│")][3:] == [str(number) for number in rows]


def test_type_hints_are_true():
    assert hinted(innokit.ray.read_innodb) == list(inspect.signature(innokit.ray.read_innodb).parameters)
