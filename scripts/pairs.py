"""Paired timing for the Python scripts behind docs/benchmarks.md, as pairs.sh is for the others."""

import os
import pathlib
import statistics
import time


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def pairs(ours, peer, count):
    """The seconds of both, in turn, after one run of each that is not counted."""
    ours(), peer()
    return [(seconds(ours), seconds(peer)) for _ in range(count)]


def medians(taken):
    """Of pairs: of both sides' seconds, and of the ratios."""
    ratio = statistics.median(mine / theirs for mine, theirs in taken)
    return (*(statistics.median(column) for column in zip(*taken)), ratio)


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def disk_of(path):
    """What the system says of the whole disk below a path: its folder in /sys."""
    number = os.stat(path).st_dev
    block = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    return block.parent if (block / "partition").exists() else block
