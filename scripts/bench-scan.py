"""Scans tables with each kind of read-ahead, ours and the servers': bench-scan.py DATA ROUNDS INNOKIT, called by bench.sh.

DATA has the datadirs of make-frag-data.sh (leaves in no order) and make-rows-data.sh (leaves in file order). Per round `innokit bench scan`
reads the clustered index in every way, and then the server that made the table reads it in key order by a statement, once per setting: just
started, with a buffer pool of 128 MiB, and a cold page cache.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

from pairs import drop_caches, seconds

DATA, ROUNDS, INNOKIT = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
SERVER = pathlib.Path(__file__).with_name("server.sh")
#: The servers' default.
POOL = "128M"

#: The folder below DATA, the table, and a column that only the clustered index has.
TABLES = [(".frag", "frag", "c"), (".rows", "rows", "comment")]
METHODS = {"direct": "O_DIRECT", "buffered": "fsync"}
#: MySQL's linear read-ahead cannot be turned off: with 64 all pages of an area must have been read in order.
LINEAR_OFF = {"mysql": "64", "mariadb": "0"}
LINEAR_DEFAULT = "56"


def server(kind, command, datadir, *arguments):
    done = subprocess.run([SERVER, kind, command, datadir, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def cpu_seconds(pid):
    """Of a process so far, user and system."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counters(kind, datadir):
    """Of the server, by name: read requests and their bytes, pages read ahead."""
    names = ("Innodb_data_reads", "Innodb_data_read", "Innodb_buffer_pool_read_ahead", "Innodb_buffer_pool_read_ahead_rnd")
    asked = ", ".join(f"'{name}'" for name in names)
    answer = server(kind, "sql", datadir, "-N", "-e", f"SHOW GLOBAL STATUS WHERE Variable_name IN ({asked})")
    return {name: int(value) for name, value in (line.split() for line in answer.splitlines())}


def scanned_by_server(kind, datadir, table, column, options):
    """One scan by a server that has just started: figures like ours, the pages that it read ahead, and its seconds of processor time."""
    common = [f"--innodb-buffer-pool-size={POOL}", "--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF"]
    statement = f"SELECT COUNT(*), SUM(LENGTH({column})) FROM bench.`{table}` FORCE INDEX (PRIMARY)"
    server(kind, "start", datadir, *common, *options)
    try:
        pid = int((datadir.parent / f".{kind}.server/pid").read_text())
        drop_caches()
        before, cpu = counters(kind, datadir), cpu_seconds(pid)
        took = seconds(lambda: server(kind, "sql", datadir, "-e", statement))
        cpu, after = cpu_seconds(pid) - cpu, counters(kind, datadir)
    finally:
        server(kind, "stop", datadir)
    did = {name: after[name] - before[name] for name in after}
    ahead = did["Innodb_buffer_pool_read_ahead"] + did["Innodb_buffer_pool_read_ahead_rnd"]
    return {"seconds": took, "requests": did["Innodb_data_reads"], "bytes": did["Innodb_data_read"], "ahead": ahead, "cpu": cpu}


def scanned_by_us(file):
    """One scan of the clustered index in each way: (way, read-ahead) to its figures."""
    command = [INNOKIT, "bench", "scan", "--json", "--progress", "never", "--rounds", "1", "--index", "PRIMARY", "--pool", POOL]
    done = subprocess.run([*command, "--simulated", "none", file], stdout=subprocess.PIPE, check=True)
    (index,) = json.loads(done.stdout)["indexes"]
    figures = {}
    for row in index["rows"]:
        figures[row["way"], row["policy"]] = {"seconds": row["seconds"]["median"], "requests": row["requests"], "bytes": row["bytes"]}
    return figures


def settings(kind):
    """The server's rows: (way, read-ahead) to the options."""
    for way, method in METHODS.items():
        for linear in (LINEAR_OFF[kind], LINEAR_DEFAULT):
            for random in ("OFF", "ON"):
                words = f"threshold {linear}" + (", random" if random == "ON" else "")
                options = [f"--innodb-flush-method={method}", f"--innodb-read-ahead-threshold={linear}", f"--innodb-random-read-ahead={random}"]
                yield (way, words), options


def measure(folder, table, column, kind):
    datadir = DATA / folder / kind
    file = datadir / "bench" / f"{table}.ibd"
    rows = {}
    for _ in range(ROUNDS):
        ours = scanned_by_us(file)
        base = ours["direct", "none"]["seconds"]
        taken = {("innokit", *name): figures for name, figures in ours.items()}
        for name, options in settings(kind):
            taken[kind, *name] = scanned_by_server(kind, datadir, table, column, options)
        for name, figures in taken.items():
            rows.setdefault(name, []).append(figures | {"times": base / figures["seconds"]})
    return rows


def show(title, rows):
    print(f"\n### {title}\n\n| who | way | read-ahead | requests | MB | read ahead, pages | seconds | processor, s | times as fast |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (who, way, policy), taken in rows.items():
        of = {name: statistics.median(figures[name] for figures in taken) for name in taken[0]}
        ahead, cpu = (f"{of['ahead']:,.0f}", f"{of['cpu']:.1f}") if "cpu" in of else ("", "")
        times = [figures["times"] for figures in taken]
        print(
            f"| {who} | {way} | {policy} | {of['requests']:,.0f} | {of['bytes'] / 1e6:,.0f} | {ahead} | {of['seconds']:.1f} | {cpu} |"
            f" {of['times']:.2f} ({min(times):.2f} to {max(times):.2f}) |",
            flush=True,
        )


def main():
    for folder, table, column in TABLES:
        for kind in ("mysql", "mariadb"):
            rows = measure(folder, table, column, kind)
            show(f"`bench.{table}` of {kind}: the clustered index in key order, medians of {ROUNDS} rounds", rows)


main()
