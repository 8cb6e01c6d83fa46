"""Rows that are left out are told: on every path by which a stream is read, and on every thread. INNOKIT_LOSSES: runs of each, 10 by default."""

import concurrent.futures
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import warnings

import innokit
import polars
import pytest
from conftest import break_page, needs_servers, units

RUNS = int(os.environ.get("INNOKIT_LOSSES", "10"))


@contextlib.contextmanager
def recorded():
    """The warnings of a block, those of other threads too."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", innokit.DamageWarning)
        yield told


@pytest.fixture
def damaged(mysql, tmp_path):
    """A table with a damaged leaf, the number of its page, and how many rows it had."""
    path = mysql.copy("sp.signed", tmp_path)
    table = innokit.open(tmp_path).table("sp.signed")
    rows = table.count()
    [(_, pages)] = units(table.splits(1)[0])
    break_page(path, pages[len(pages) // 2])
    return table, pages[len(pages) // 2], rows


def with_polars(scan):
    return polars.DataFrame(scan).height


def with_pyarrow(scan):
    return pytest.importorskip("pyarrow").table(scan).num_rows


def with_pandas(scan):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    return len(pyarrow.table(scan).to_pandas())


def with_duckdb(scan):
    """DuckDB asks for batches on threads of its own."""
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    with duckdb.connect() as connection:
        connection.execute("SET threads = 4")
        return connection.execute("SELECT COUNT(v) FROM scan").fetchone()[0]


def on_a_thread(read):
    def run(scan):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return pool.submit(read, scan).result()

    return run


def streamed_elsewhere(read):
    """The stream is asked for on this thread and read on another."""

    class Stream:
        def __init__(self, scan):
            self.capsule = scan.__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    def run(scan):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return pool.submit(read, Stream(scan)).result()

    return run


READERS = [with_polars, with_pyarrow, with_pandas, with_duckdb]
PATHS = {f"{how.__name__}-{read.__name__}": how(read) for read in READERS for how in (on_a_thread, streamed_elsewhere)}
PATHS |= {read.__name__: read for read in READERS}


@needs_servers
@pytest.mark.parametrize("path", PATHS)
def test_each_run_says_that_rows_are_missing(damaged, path, caplog):
    table, page, rows = damaged
    for number in range(RUNS):
        caplog.clear()
        scan = table.scan(on_damage="skip", threads=1 + number % 3)
        with recorded() as told, caplog.at_level(logging.WARNING, "innokit"):
            read = PATHS[path](scan)
            innokit._innokit._wait_for_losses()
        assert 0 < read < rows
        assert [warning.category for warning in told if "rows are missing" in str(warning.message)] == [innokit.DamageWarning], number
        assert [f"page {page} is damaged" in record.getMessage() for record in caplog.records] == [True], number
        assert [lost.page for lost in scan.damage] == [page]


@needs_servers
def test_many_threads_at_once_lose_nothing_in_silence(damaged):
    table, _, rows = damaged
    scans = [table.scan(on_damage="skip") for _ in range(8)]
    with recorded() as told, concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(0 < read < rows for read in pool.map(with_polars, scans))
        innokit._innokit._wait_for_losses()
    assert len(told) == len(scans)


@needs_servers
def test_a_stream_that_is_not_read_to_its_end_says_what_it_left_out(damaged):
    pyarrow = pytest.importorskip("pyarrow")
    table, page, _ = damaged
    scan = table.scan(on_damage="skip", batch_size=500)
    with recorded() as told:
        reader = pyarrow.RecordBatchReader.from_stream(scan)
        # Beyond the damaged page, and not to the end.
        read = sum(reader.read_next_batch().num_rows for _ in range(30))
        assert scan.damage is None
        reader.close()
        del reader
        innokit._innokit._wait_for_losses()
    assert read > 10_000 and [warning.category for warning in told] == [innokit.DamageWarning]
    # Who asked before the list was known has not seen it.
    with pytest.raises(innokit.DamageError, match=f"page {page}"):
        scan.close()
    assert [lost.page for lost in scan.damage] == [page]


@needs_servers
def test_closing_raises_what_nobody_has_asked_for(damaged):
    table, page, rows = damaged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", innokit.DamageWarning)
        with pytest.raises(innokit.DamageError, match=f"page {page}"):
            with table.scan(on_damage="skip") as scan:
                assert 0 < with_polars(scan) < rows
        with table.scan(on_damage="skip") as scan:
            with_polars(scan)
            assert len(scan.damage) == 1
        with pytest.raises(ZeroDivisionError), table.scan(on_damage="skip") as scan:
            with_polars(scan)
            raise ZeroDivisionError
        with table.scan(key_range=(None, -69_000), on_damage="skip") as scan:
            assert with_polars(scan) > 0


@needs_servers
def test_a_warning_that_is_made_an_error_ends_the_stream_on_any_thread(damaged):
    table, page, _ = damaged
    for read in (with_polars, on_a_thread(with_polars), streamed_elsewhere(with_polars)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", innokit.DamageWarning)
            with pytest.raises(Exception, match=f"page {page} is damaged"):
                read(table.scan(on_damage="skip"))


@needs_servers
def test_the_second_loss_with_the_same_words_is_told_too_and_so_is_one_at_the_end_of_python(damaged, tmp_path):
    """By the default filters, and to standard error."""
    script = f"""
import concurrent.futures, innokit, polars
table = innokit.open({str(tmp_path)!r}).table("sp.signed")
for _ in range(2):
    polars.DataFrame(table.scan(on_damage="skip"))
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    pool.submit(polars.DataFrame, table.scan(on_damage="skip")).result()
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stderr.count("DamageWarning: rows are missing") == 3, run.stderr


@needs_servers
def test_a_table_whose_file_was_replaced_changed_or_removed_is_refused_and_is_not_damaged(mysql, tmp_path):
    jobs = {
        "count": lambda table: table.count(),
        "checksum": lambda table: table.checksum(),
        "splits": lambda table: table.splits(3),
        "write_parquet": lambda table: table.write_parquet(tmp_path / "out.parquet"),
        "scan": lambda table: polars.DataFrame(table.scan()),
        "skip": lambda table: polars.DataFrame(table.scan(on_damage="skip")),
    }
    next_one = tmp_path / "next.ibd"

    def renamed_over(path):
        # With the same length and times, as a copy that keeps them has.
        shutil.copy2(path, next_one)
        os.rename(next_one, path)

    def copied_over(path):
        shutil.copy(mysql.datadir / "sp/composite.ibd", path)

    def appended(path):
        with open(path, "ab") as file:
            file.write(bytes(16384))

    for change, error, words in (
        (renamed_over, Exception, "it has changed since it was opened"),
        (copied_over, Exception, "it has changed since it was opened"),
        (appended, Exception, "it has changed since it was opened"),
        (os.unlink, Exception, "No such file"),
    ):
        for name, job in jobs.items():
            folder = tmp_path / f"{change.__name__}-{name}"
            path = mysql.copy("sp.signed", folder)
            table = innokit.open(folder).table("sp.signed")
            job(table)
            change(path)
            with pytest.raises(error, match=words) as raised:
                job(table)
            assert not isinstance(raised.value, innokit.DamageError), name
    assert list(tmp_path.glob(".out*")) == []
