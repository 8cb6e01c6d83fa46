"""Two cores on one table, in the page cache and cold: bench-cores.py DATA ROUNDS INNOKIT, called by bench.sh.

DATA has the datadirs of make-frag-data.sh and make-rows-data.sh. In each round one worker reads the whole table, then two workers share it, then
two processes of one worker each read all of it at once, which shows what the machine's two cores can do at all. Cold, where the device is the
limit, one worker and two take turns; that needs root.
"""

import pathlib
import statistics
import subprocess
import sys

from pairs import drop_caches, seconds

DATA, ROUNDS, INNOKIT = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
TABLES = [".rows/mysql/bench/rows.ibd", ".frag/mysql/bench/frag.ibd"]
COMMANDS = [["check"], ["check", "--extended"], ["count"]]


def read(table, command, threads, processes=1):
    words = [INNOKIT, "table", *command, "--threads", str(threads), "--progress", "never", DATA / table]

    def run():
        running = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(processes)]
        assert all(process.wait() == 0 for process in running), words

    return seconds(run)


def words_of(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


print(f"\n### Two cores on one table in the page cache, medians of {ROUNDS} rounds\n")
print("| command | table | seconds of one worker | times as fast with two | what two processes get |\n|---|---|---|---|---|")
for table in TABLES:
    for command in COMMANDS:
        read(table, command, 2)
        ones, shared, apart = [], [], []
        for _ in range(ROUNDS):
            one = read(table, command, 1)
            ones.append(one)
            shared.append(one / read(table, command, 2))
            apart.append(2 * one / read(table, command, 1, processes=2))
        name = f"`table {' '.join(command)}`"
        print(f"| {name} | {table} | {statistics.median(ones):.2f} | {words_of(shared)} | {words_of(apart)} |", flush=True)

print(f"\n### Two cores on one table, cold, medians of {ROUNDS} rounds\n")
print("| command | table | seconds of one worker | times as fast with two |\n|---|---|---|---|")
for table in TABLES:
    ones, shared = [], []
    for _ in range(ROUNDS):
        drop_caches()
        one = read(table, ["check"], 1)
        drop_caches()
        ones.append(one)
        shared.append(one / read(table, ["check"], 2))
    print(f"| `table check` | {table} | {statistics.median(ones):.2f} | {words_of(shared)} |", flush=True)
