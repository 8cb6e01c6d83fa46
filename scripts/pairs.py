"""Paired timing for the Python scripts behind docs/benchmarks.md, as pairs.sh is for the others."""

import time


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def pairs(ours, peer, count):
    """The seconds of both, in turn, after one run of each that is not counted."""
    ours(), peer()
    return [(seconds(ours), seconds(peer)) for _ in range(count)]
