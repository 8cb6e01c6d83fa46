"""Measures on devices that the kernel makes slow, and with little memory: bench-throttled.py DATA ROUNDS INNOKIT 'PART ...', called by bench.sh.

   simulated   every bench with a simulated device, beside the same requests to a real one that is as slow
   devices     a check of files on two devices of different speed, against each of them alone
   memory      a check of a file that is larger than the memory of its control group, against MySQL's tool and `cat`

Needs root and control groups of version 1 (blkio and memory): there the kernel limits a group's requests and bytes a second, for each device.
DATA has the datadirs of make-frag-data.sh, make-rows-data.sh and make-crash-data.sh; its file system must be on one block device.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from pairs import disk_of, drop_caches, medians, pairs
from simulated import rows_of

DATA, ROUNDS, INNOKIT = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
PARTS = sys.argv[4].split()
HERE = pathlib.Path(__file__).parent
GROUPS = pathlib.Path("/sys/fs/cgroup")
MIB = 1 << 20


@dataclasses.dataclass
class Limits:
    """What a group may do on one device in a second, for reading and for writing; `None`: as much as the device can."""

    requests: int | None = None
    bytes: int | None = None

    def __str__(self):
        return f"{self.requests:,} requests" if self.requests else f"{self.bytes / 1e6:,.0f} MB"

    def model(self):
        """The simulated device that is as slow. It works on one request at a time, so that it has the same rate whatever is in flight; for
        the kernel a sync is a request too."""
        latency = 1000 / self.requests if self.requests else 0.001
        bandwidth = self.bytes or 100 << 30
        return ["--latency", str(latency), "--width", "1", "--bandwidth", str(bandwidth), "--sync", str(latency), "--sync-per-gib", "0"]


class Group:
    """A control group of its own, and how to run commands in it."""

    def __init__(self, controller):
        self.path = GROUPS / controller / f"innokit-bench-{os.getpid()}"

    def __enter__(self):
        self.path.mkdir()
        return self

    def __exit__(self, *_):
        self.path.rmdir()

    def set(self, name, value):
        (self.path / name).write_text(str(value))

    def throttle(self, device, limits):
        for direction in ("read", "write"):
            if limits.requests:
                self.set(f"blkio.throttle.{direction}_iops_device", f"{device} {limits.requests}")
            if limits.bytes:
                self.set(f"blkio.throttle.{direction}_bps_device", f"{device} {limits.bytes}")

    def run(self, *command, judges=False):
        """Its output. A command that judges may end with status 1."""
        entering = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', self.path / "cgroup.procs"]
        done = subprocess.run([*entering, *command], stdout=subprocess.PIPE)
        assert done.returncode == 0 or (judges and done.returncode == 1), (command, done.returncode)
        return done.stdout


def device_of(path):
    """The number of the disk below a path, as control groups want it: partitions are not throttled."""
    return (disk_of(path) / "dev").read_text().strip()


# Simulated and throttled


def check_document(bench, folder):
    part = folder / "part.ibd"
    with open(DATA / ".frag/mysql/bench/frag.ibd", "rb") as whole:
        part.write_bytes(whole.read(128 * MIB))
    return bench("check", "--no-peers", "--seconds", "0.05", "--workers", "1", "--block-sizes", "64K", "--depth", "1", part)


def scan_document(bench, _):
    return bench("scan", "--index", "a", DATA / ".frag/mysql/bench/frag.ibd")


def recover_document(bench, folder):
    return bench("recover", "--on-device", folder, DATA / ".crash/mariadb")


def log_document(bench, folder):
    return bench("log", "--callers", "1", "--seconds", "0.5", folder)


#: Benches and limits: much I/O takes a faster device.
CASES = [
    (Limits(requests=2000), (check_document, scan_document, log_document)),
    # The log has too few bytes to be limited, but the files that its bench prepares have many.
    (Limits(bytes=50 * MIB), (check_document, scan_document)),
    (Limits(bytes=400 * MIB), (recover_document,)),
]


def simulated():
    for limits, benches in CASES:
        print(f"\n### Simulated and throttled: {limits} a second, medians of {ROUNDS} rounds\n")
        print("| bench | requests | simulated, s | throttled, s | throttled / simulated |\n|---|---|---|---|---|")
        with tempfile.TemporaryDirectory(dir=DATA) as folder, Group("blkio") as group:
            group.throttle(device_of(DATA), limits)

            def bench(name, *arguments):
                command = [INNOKIT, "bench", name, "--json", "--progress", "never", "--rounds", str(ROUNDS), *limits.model()]
                return json.loads(group.run(*command, *arguments))

            for document in benches:
                for words, requests, expected, took in rows_of(document(bench, pathlib.Path(folder))):
                    print(f"| {words} | {requests:,} | {expected:.2f} | {took:.2f} | {took / expected:.2f} |", flush=True)


# Two devices


@contextlib.contextmanager
def loop_device(image, files):
    """A file system of its own on a loop device, with copies of the files: the device's number, and where it is mounted."""
    size = sum(file.stat().st_size for file in files) * 11 // 10 // MIB + 64
    with open(image, "wb") as made:
        made.truncate(size * MIB)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    name = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", image], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    mounted = image.with_suffix(".mounted")
    try:
        mounted.mkdir()
        subprocess.run(["mount", name, mounted], check=True)
        for number, file in enumerate(files):
            shutil.copy(file, mounted / f"{number}.ibd")
        yield device_of(mounted), mounted
    finally:
        subprocess.run(["umount", mounted])
        mounted.rmdir()
        subprocess.run(["losetup", "--detach", name], check=True)
        image.unlink()


def devices():
    """The slow one has a third of the bytes and of the speed, so both alone take equally long."""
    frag, rows = DATA / ".frag/mysql/bench/frag.ibd", DATA / ".rows/mysql/bench/rows.ibd"
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=DATA)))
        fast, on_fast = stack.enter_context(loop_device(folder / "fast", [frag, rows]))
        slow, on_slow = stack.enter_context(loop_device(folder / "slow", [rows]))
        group = stack.enter_context(Group("blkio"))
        group.throttle(fast, Limits(bytes=400 * MIB))
        group.throttle(slow, Limits(bytes=170 * MIB))

        def check(*places):
            def run():
                drop_caches()
                group.run(INNOKIT, "check", "--progress", "never", "--io", "direct", *places, judges=True)

            return run

        print("\n### `innokit check` of files on two devices, 419 and 178 MB a second, together and each alone\n")
        print("| what | seconds | together / this |\n|---|---|---|")
        both = check(on_fast, on_slow)
        for words, alone in (("the fast one alone", check(on_fast)), ("the slow one alone", check(on_slow))):
            together, one, ratio = medians(pairs(both, alone, ROUNDS))
            print(f"| {words} | {one:.1f} | {ratio:.2f} |", flush=True)
        print(f"| together | {together:.1f} | |")


# Little memory


def memory():
    file = DATA / ".frag/mysql/bench/frag.ibd"
    innochecksum = subprocess.run([HERE / "server.sh", "mysql", "command", "innochecksum"], stdout=subprocess.PIPE, text=True, check=True)
    peers = [("MySQL `innochecksum -C crc32`", [*innochecksum.stdout.split(), "-C", "crc32", file]), ("`cat`", ["cat", file])]
    with Group("memory") as group:
        drop_caches()
        group.set("memory.limit_in_bytes", 512 * MIB)
        print(f"\n### A file of {file.stat().st_size:,} bytes in 512 MiB of memory, read again and again\n")
        print("| against | innokit, s | peer, s | wall, innokit / peer | times as fast |\n|---|---|---|---|---|")
        for name, command in peers:
            taken = pairs(lambda: group.run(INNOKIT, "check", "--progress", "never", file), lambda: group.run(*command), ROUNDS)
            ours, theirs, ratio = medians(taken)
            print(f"| {name} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} | {1 / ratio:.1f} |", flush=True)


for part in PARTS:
    {"simulated": simulated, "devices": devices, "memory": memory}[part]()
