"""The measurements of bench-python.sh: bench-python.py DATADIR SOCKET ROWS PAIRS"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import connectorx
import innokit
import pandas
import polars
import pyarrow
import sqlalchemy
from pairs import medians, pairs

DATADIR, SOCKET, ROWS, PAIRS = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
TABLE = "bench.rows"
QUERY = f"SELECT * FROM bench.`rows` WHERE id < {ROWS}"
FILE = DATADIR / "bench" / "rows.ibd"


def compare(name, ours, peer):
    """One row: the median of the ratios of pairs."""
    *_, ratio = medians(pairs(ours, peer, PAIRS))
    print(f"| {name} | {ratio:.2f} | {1 / ratio:.1f} |", flush=True)


def scan(threads, **options):
    return table.scan(key_range=(0, ROWS - 1), threads=threads, **options)


def into_polars(threads=None):
    frame = polars.DataFrame(scan(threads))
    assert frame.height == ROWS
    return frame


def into_pandas():
    frame = pyarrow.table(scan(None, strings="utf8")).to_pandas()
    assert len(frame) == ROWS


def through_connectorx(partitions):
    url = f"mysql://root@localhost/bench?socket={SOCKET}"
    frame = connectorx.read_sql(url, QUERY, return_type="polars", partition_on="id", partition_num=partitions)
    assert frame.height == ROWS
    return frame


def through_pandas():
    engine = sqlalchemy.create_engine(f"mysql+pymysql://root@localhost/bench?unix_socket={SOCKET}")
    with engine.connect() as connection:
        assert len(pandas.read_sql(sqlalchemy.text(QUERY), connection)) == ROWS


def command_line(target):
    subprocess.run([sys.executable, "-m", "innokit", "table", "export", "--format", "parquet", "-o", target, FILE], check=True)


# The server in the comparison has the table open, and changes nothing.
warnings.filterwarnings("ignore", category=innokit.PendingWarning)
table = innokit.open(FILE).table(TABLE)
ours, theirs = into_polars().select("id", "part", "price", "name"), through_connectorx(2).select("id", "part", "price", "name")
same = ours.sort("id").with_columns(polars.col("price").cast(float)).equals(
    theirs.sort("id").with_columns(polars.col("id").cast(polars.UInt64), polars.col("part").cast(polars.Int32), polars.col("price").cast(float))
)
print(f"{ROWS} rows of {len(table.schema.names)} columns; the columns compared are {'equal' if same else 'DIFFERENT'}\n")
print("| against | wall, innokit / peer | times as fast |\n|---|---|---|")
compare("Polars by ConnectorX, 2 connections", into_polars, lambda: through_connectorx(2))
compare("Polars by ConnectorX, 1 connection; one thread of ours", lambda: into_polars(1), lambda: through_connectorx(1))
compare("pandas.read_sql", into_pandas, through_pandas)
with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    ends = iter(range(10**6))
    new = lambda: f"{folder}/{next(ends)}.parquet"  # noqa: E731

    def write():
        table.write_parquet(target := new())
        pathlib.Path(target).unlink()

    def by_command():
        command_line(target := new())
        pathlib.Path(target).unlink()

    compare("`write_parquet` against `table export --format parquet`", write, by_command)

for threads in (1, None):
    rates = []
    for _ in range(PAIRS):
        began, rows = time.perf_counter(), 0
        for batch in pyarrow.RecordBatchReader.from_stream(table.scan(threads=threads)):
            rows += batch.num_rows
        rates.append(rows / (time.perf_counter() - began))
    print(f"\nThe whole table as Arrow batches, {'one thread' if threads else 'all cores'}: {statistics.median(rates) / 1e6:.2f} million rows/s")
