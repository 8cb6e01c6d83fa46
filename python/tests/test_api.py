"""Arguments, exceptions, interrupts, files written, checks."""

import ast
import inspect
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import innokit
import polars
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
import pytest
from conftest import DATADIRS, break_page, needs_servers, units

TABLE = "mysql-16k/shop/row_dynamic.ibd"


@pytest.fixture
def path(tmp_path):
    """A table of 16,000 rows that a test may damage."""
    return shutil.copy(pathlib.Path(DATADIRS) / TABLE, tmp_path)


@pytest.fixture
def table(path):
    return innokit.open(path).table("shop.row_dynamic")


def test_a_panic_is_an_exception():
    with pytest.raises(innokit.InternalError, match="a job that tests made panic"):
        innokit._innokit._panicking_job()

    class Stream:
        def __init__(self, on_thread):
            self.on_thread = on_thread

        def __arrow_c_stream__(self, requested_schema=None):
            return innokit._innokit._panicking_stream(self.on_thread)

    for on_thread, words in ((False, "a stream that tests made panic"), (True, "a thread that tests made panic")):
        with pytest.raises(Exception, match=words):
            pyarrow.RecordBatchReader.from_stream(Stream(on_thread)).read_all()
        with pytest.raises(Exception, match=words):
            polars.DataFrame(Stream(on_thread))


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        innokit.open(tmp_path / "nowhere")
    assert raised.value.filename == str(tmp_path / "nowhere")
    assert innokit.open(tmp_path).tables() == []
    (tmp_path / "t.ibd").write_bytes(b"this is no tablespace" * 5000)
    with pytest.warns(innokit.UnreadWarning, match="t.ibd"):
        db = innokit.open(tmp_path)
    [(where, _)] = db.unread
    assert where.endswith("t.ibd")
    with pytest.raises(KeyError, match="no table shop.t.*t.ibd"):
        db.table("shop.t")


@needs_servers
def test_arguments_that_make_no_sense(table, tmp_path):
    for arguments, words in (
        ({"columns": ["id", "nope"]}, "no column nope"),
        ({"columns": []}, "none of its columns"),
        ({"strings": "large"}, "strings must be"),
        ({"on_damage": "ignore"}, "on_damage must be"),
        ({"threads": 0}, "threads"),
        ({"batch_size": 0}, "batch_size"),
        ({"key_range": ("a", 5)}, "is not a value of key column id"),
    ):
        with pytest.raises(ValueError, match=words):
            table.scan(**arguments)
    for key_range in ((1.5, 2), (True, 2)):
        with pytest.raises(TypeError):
            table.scan(key_range=key_range)
    for arguments in ({"n": 0}, {"target_bytes": 0}):
        with pytest.raises(ValueError):
            table.splits(**arguments)
    with pytest.raises(ValueError):
        table.write_parquet(tmp_path / "x.parquet", compression_level=99)
    assert not (tmp_path / "x.parquet").exists()


@needs_servers
@pytest.mark.parametrize("name", ["mysql-16k", "mariadb-16k"])
def test_an_index_instead_of_the_rows(name):
    table = innokit.open(f"{DATADIRS}/{name}").table("shop.churn")
    rows = polars.DataFrame(table.scan(["a", "id"])).sort("a", "id", nulls_last=False)
    entries = polars.DataFrame(table.scan(index="by_a"))
    assert entries.columns == ["id", "a"] and entries.select("a", "id").equals(rows) and entries.height > 1000
    middle = rows["a"].drop_nulls().sort()[len(rows) // 2]
    some = table.scan(index="BY_A", key_range=(middle, middle + 5))
    assert polars.DataFrame(some).select("a", "id").equals(rows.filter(polars.col("a").is_between(middle, middle + 5)))
    assert some.bytes_read < 1 << 20
    with pytest.raises(ValueError, match="shop.churn has no index by_b"):
        table.scan(index="by_b")


@needs_servers
def test_schema(table):
    schema = table.schema
    assert schema.names == ["id", "a", "b", "c"] and len(schema) == 4
    assert [field.sql_type for field in schema.fields][:2] == ["int", "int"]
    assert [field.arrow_type for field in schema.fields] == ["Int32", "Int32", "Utf8", "Utf8"]
    assert [field.nullable for field in schema.fields] == [False, True, True, True]
    assert pyarrow.schema(schema).equals(pyarrow.table(table).schema)
    assert pyarrow.schema(table.scan(["c"])).names == ["c"]
    assert "id: Int32 not null (int)" in repr(schema)


@needs_servers
def test_no_rows_cost_nothing(table):
    scan = table.scan(limit=0)
    assert polars.DataFrame(scan).shape == (0, 4) and scan.rows_read == 0
    # Only pages above the leaves would say where the rows are.
    assert scan.bytes_read == 0


@needs_servers
def test_pyarrow_can_work_with_what_it_gets(table):
    rows = pyarrow.table(table)
    some = rows.filter(pyarrow.compute.field("b") > "name 5").sort_by("b")
    assert 0 < some.num_rows <= rows.num_rows
    assert some.join(rows.select(["b", "id"]), keys="b", join_type="inner", right_suffix="_too").num_rows >= some.num_rows
    pyarrow.csv.write_csv(some, pyarrow.BufferOutputStream())


@needs_servers
def test_shortcuts(table, path):
    db = innokit.open(path)
    name = table.name
    assert name in db and "shop.nope" not in db and len(db) == 1 and list(db) == [name]
    assert db[name].count() == 16_000
    with pytest.raises(KeyError):
        db["shop.nope"]
    for readable in (table, table.scan(["id", "b"]), table.splits(1)[0]):
        frame = readable.to_polars()
        assert frame.height == 16_000 and frame.equals(polars.from_arrow(readable.to_arrow()))
        assert readable.to_pandas()["id"].sum() == frame["id"].sum()
    assert f"<li>{name}</li>" in db._repr_html_()
    assert "<tr><td>id</td><td>Int32 not null (int)</td></tr>" in table._repr_html_()


def test_help_says_what_the_stubs_say():
    stubs = ast.parse((pathlib.Path(innokit.__file__).parent / "_innokit.pyi").read_text())
    classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
    compared = 0
    for name, node in classes.items():
        bases = [classes[base.id] for base in node.bases if isinstance(base, ast.Name)]
        bases += [classes[base.id] for higher in bases for base in higher.bases]
        made = getattr(innokit, name, None)
        if made is None:
            assert name.startswith("_"), name
            continue
        assert inspect.getdoc(made) == ast.get_docstring(node), name
        for method in [method for one in (node, *bases) for method in one.body if isinstance(method, ast.FunctionDef)]:
            said = ast.get_docstring(method)
            if said and not method.name.startswith("__"):
                assert inspect.getdoc(getattr(made, method.name)) == said, f"{name}.{method.name}"
                compared += 1
    [check] = [node for node in stubs.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    assert inspect.getdoc(innokit.check) == ast.get_docstring(check)
    assert compared >= 35


def test_an_archive_is_not_an_empty_database(tmp_path):
    archive = tmp_path / "full.xb"
    archive.write_bytes(b"XBSTCK01" + bytes(5000))
    with pytest.raises(innokit.InnokitError, match="full.xb: an archive.*innokit unpack"):
        innokit.open(archive)


@needs_servers
def test_urls_in_any_spelling(path):
    assert innokit.open(pathlib.Path(path).as_uri()).tables() == innokit.open(path).tables()
    assert innokit.open("FILE://" + str(path).replace("r", "%72")).tables() == ["shop.row_dynamic"]
    # A path of this system that looks like it comes first.
    for url in ("S3://", pathlib.Path("s3://none"), "Https://"):
        with pytest.raises(innokit.StorageError):
            innokit.open(url)
    assert innokit._innokit._is_url("S3://bucket/x") and innokit._innokit._is_url(pathlib.Path("s3://bucket/x"))
    assert not innokit._innokit._is_url("s3:x") and not innokit._innokit._is_url("file:///x")


@needs_servers
def test_each_stream_reads_again(table):
    scan = table.scan()
    assert polars.DataFrame(scan).equals(polars.DataFrame(scan))
    # An abandoned or never started stream does no harm.
    for _ in range(20):
        reader = pyarrow.RecordBatchReader.from_stream(table.scan(batch_size=10))
        assert reader.read_next_batch().num_rows == 10
        del reader
        assert table.__arrow_c_stream__() is not None
    assert scan.rows_read == 16_000


@needs_servers
def test_write_parquet(table, path, tmp_path):
    target = tmp_path / "t.parquet"
    assert table.write_parquet(target) == 16_000
    assert polars.read_parquet(target).equals(polars.DataFrame(table))
    assert table.write_parquet(target, columns=["a", "id"], key_range=(10, 20)) == polars.read_parquet(target).height
    assert pyarrow.parquet.read_schema(target).names == ["a", "id"]
    [(_, pages)] = units(table.splits(1)[0])
    break_page(path, pages[100])
    before = target.read_bytes()
    with pytest.raises(innokit.DamageError, match=f"page {pages[100]}"):
        table.write_parquet(target)
    # The old file is unchanged, and no unfinished one is left.
    assert target.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["row_dynamic.ibd", "t.parquet"]
    with pytest.raises(FileNotFoundError):
        innokit.open(path).table("shop.row_dynamic").write_parquet(tmp_path / "no/such/folder.parquet")


@needs_servers
def test_check(path):
    for level in ("pages", "trees"):
        report = innokit.check(path, level=level)
        assert (report.ok, report.exit_status, report.files, len(report)) == (True, 0, 1, 0)
        assert report.pages > 100
    [(_, pages)] = units(innokit.open(path).table("shop.row_dynamic").splits(1)[0])
    break_page(path, pages[7])
    for level in ("pages", "trees"):
        report = innokit.check([path], level=level)
        assert (report.ok, report.exit_status) == (False, 1)
        findings = polars.DataFrame(report)
        assert findings.height == len(report) > 0
        assert pages[7] in findings["page"].to_list()
        assert set(findings["severity"]) <= {"damage", "undecided", "notice"}
        assert len(json.loads(report.to_json())["findings"]) == len(report)
    assert len(innokit.check(path, max_findings=0)) == 0 < innokit.check(path, max_findings=0).findings_total
    with pytest.raises(ValueError):
        innokit.check(path, level="bytes")
    missing = innokit.check(path + ".not")
    assert (missing.ok, missing.exit_status) == (False, 2)


@needs_servers
def test_parts_of_a_check_are_the_whole(path):
    break_page(path, 100)
    whole = innokit.check(path)
    parts = [innokit.check(path, part=(number, 3)) for number in (1, 2, 3)]
    assert sum(report.pages for report in parts) == whole.pages
    assert polars.concat([polars.DataFrame(report) for report in parts]).equals(polars.DataFrame(whole))
    assert len(whole) == 1
    for part in ((0, 3), (4, 3), (1, 0)):
        with pytest.raises(ValueError, match="from 1 to n"):
            innokit.check(path, part=part)
    with pytest.raises(ValueError, match="splits files by their pages"):
        innokit.check(path, part=(1, 3), level="trees")


@needs_servers
def test_a_datadir_that_needs_recovery_is_told():
    with pytest.warns(innokit.PendingWarning):
        db = innokit.open(pathlib.Path(DATADIRS) / "mysql-16k-crashed")
    assert db.pending


def child(code, *arguments):
    """Another Python in its own process group, which prints `ready` once it has begun."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def is_interrupted(process):
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT, errors
    assert "KeyboardInterrupt" in errors


@pytest.fixture
def endless(tmp_path):
    """A sparse tablespace that takes minutes to check. From 1 TiB on it would be refused at once."""
    shutil.copy(pathlib.Path(DATADIRS) / TABLE, tmp_path / "endless.ibd")
    os.truncate(tmp_path / "endless.ibd", (1 << 40) - (1 << 20))
    return tmp_path / "endless.ibd"


@needs_servers
def test_ctrl_c_ends_a_check(endless):
    is_interrupted(child("import sys, innokit; print('ready', flush=True); innokit.check(sys.argv[1])", endless))


@needs_servers
@pytest.mark.parametrize("reader", ["pyarrow.table", "polars.DataFrame", "duckdb"])
def test_ctrl_c_ends_a_stream(path, reader):
    code = """
        import sys, duckdb, innokit, polars, pyarrow
        table = innokit.open(sys.argv[1]).table("shop.row_dynamic")
        scan = table.scan(batch_size=10**9)
        print("ready", flush=True)
        while True:
            try:
                duckdb.sql("SELECT sum(a) FROM scan").fetchall() if sys.argv[2] == "duckdb" else eval(sys.argv[2])(scan)
            except Exception as error:  # the library's, for a stream that was interrupted: Ctrl-C is not lost in it
                if sys.argv[2] != "duckdb":
                    assert "interrupted" in str(error).lower(), error
                else:  # it may have taken the signal itself, wherever it was, and then this error is all that it says
                    assert "interrupted" in str(error).lower() or "KeyboardInterrupt" in str(error), error
                    raise KeyboardInterrupt from error
    """
    is_interrupted(child(code, path, reader))


@needs_servers
def test_other_threads_run_meanwhile(endless):
    code = """
        import os, sys, threading, time, innokit
        threading.Thread(target=innokit.check, args=[sys.argv[1]], daemon=True).start()
        for _ in range(20):
            time.sleep(0.01)
        print("ready", flush=True)
        os._exit(7)
    """
    process = child(code, endless)
    process.communicate(timeout=60)
    assert process.returncode == 7


def stub():
    """The classes and functions of the type hints, and the names in each."""
    text = (pathlib.Path(innokit.__file__).parent / "_innokit.pyi").read_text()
    tree = ast.parse(text)
    names = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}

    def members(node):
        own = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        return own.union(*(members(names[base.id]) for base in node.bases))

    for name, node in names.items():
        if isinstance(node, ast.ClassDef) and not name.startswith("_"):
            yield name, members(node), node
        elif isinstance(node, ast.FunctionDef):
            yield name, None, node


def test_type_hints_are_true():
    assert (pathlib.Path(innokit.__file__).parent / "py.typed").exists()
    checked = 0
    for name, members, node in stub():
        real = getattr(innokit._innokit, name)
        if members is None:
            wanted = [argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]]
            assert list(inspect.signature(real).parameters) == wanted, name
            continue
        own = {member for member in vars(real) if not member.startswith("_")}
        assert own == {member for member in members if not member.startswith("_")}, name
        for item in node.body:
            is_method = isinstance(item, ast.FunctionDef) and not item.decorator_list and not item.name.startswith("_")
            if is_method:
                wanted = [argument.arg for argument in [*item.args.args, *item.args.kwonlyargs]]
                assert list(inspect.signature(getattr(real, item.name)).parameters) == wanted, f"{name}.{item.name}"
                checked += 1
    assert checked >= 10
