"""Holds the simulated device against one that is slow but wide, in a virtual machine: bench-wide.py ROUNDS INNOKIT DATADIR, called by bench.sh.

The machine's kernel has such a device (`null_blk`): each request takes its time, so many are worked on at once. Each bench runs on it, and
simulates a device of the same time and width. The machine is emulated (scripts/vm.sh), so a request must take far longer than a processor
that is ten times too slow needs for it. DATADIR is a small crashed datadir of MariaDB.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from simulated import rows_of

ROUNDS, INNOKIT, DATADIR = int(sys.argv[1]), sys.argv[2], sys.argv[3]
HERE = pathlib.Path(__file__).parent
LATENCY_MS, WIDTH = 20, 16

MODEL = f"--latency {LATENCY_MS} --width {WIDTH} --bandwidth 100G --sync 0.001 --sync-per-gib 0"
BENCHES = {
    "check": "--no-peers --seconds 0.05 --workers 1 --block-sizes 64K --depth 1,4,16,64 /mnt/check.ibd",
    "scan": "--index a_b /mnt/scattered.ibd",
    "log": "--callers 1 --seconds 1 --size 8M --write-ahead 8K --scattered 1000 /mnt",
    "recover": "--memory 64M --on-device /mnt /share/crashed",
}

SCRIPT = f"""
set -e
modprobe configfs
mount -t configfs configfs /sys/kernel/config
modprobe null_blk nr_devices=0
modprobe crc32c_generic
modprobe ext4

# device LATENCY: a new one in memory, with a file system on it.
device() {{
    mkdir -p /sys/kernel/config/nullb/wide
    cd /sys/kernel/config/nullb/wide
    [ "$(cat power)" = 0 ] || {{ umount /mnt; echo 0 >power; }}
    echo 1 >memory_backed
    echo 900 >size
    echo 4096 >blocksize
    echo 1 >submit_queues
    echo {WIDTH} >hw_queue_depth
    echo 2 >irqmode
    echo "$1" >completion_nsec
    echo 1 >power
    cd /share
    mkfs.ext4 -q -F /dev/wide
    mount /dev/wide /mnt
    cp *.ibd /mnt/
    sync
}}
"""

#: Its own time apart, the emulated machine needs as long for a bench as with a device that takes none.
DEVICES = {"real": LATENCY_MS * 1_000_000, "at_once": 1}


def fixture(name, path):
    unpacked = subprocess.run(["zstd", "-dc", HERE.parent / "fixtures" / f"{name}.ibd.zst"], stdout=subprocess.PIPE, check=True)
    path.write_bytes(unpacked.stdout)


def run(share):
    fixture("mysql-9.7/dictionary-16k", share / "check.ibd")
    fixture("scattered/scattered-16k", share / "scattered.ibd")
    shutil.copytree(DATADIR, share / "crashed", symlinks=True)
    shutil.copy(INNOKIT, share / "innokit")
    lines = [SCRIPT]
    for device, latency in DEVICES.items():
        lines.append(f"device {latency}")
        for name, arguments in BENCHES.items():
            lines.append(f"innokit bench {name} --json --progress never --rounds {ROUNDS} {MODEL} {arguments} >{device}.{name}.json")
    (share / "run").write_text("\n".join(lines) + "\n")
    done = subprocess.run([HERE / "vm.sh", share, share / "innokit", shutil.which("mkfs.ext4")], env={**os.environ, "VM_SECONDS": str(900 * ROUNDS)})
    if done.returncode:
        sys.exit((share / "console").read_text(errors="replace"))
    print(f"\n### Simulated and real: {LATENCY_MS} ms a request, {WIDTH} at a time, medians of {ROUNDS} rounds\n")
    print("| bench | requests | simulated, s | real, s | real without the delay, s | real / simulated |\n|---|---|---|---|---|---|")
    for name in BENCHES:
        real, at_once = (rows_of(json.loads((share / f"{device}.{name}.json").read_text())) for device in DEVICES)
        for (words, requests, expected, took), (*_, own) in zip(real, at_once, strict=True):
            print(f"| {words} | {requests:,} | {expected:.2f} | {took:.2f} | {own:.2f} | {took / expected:.2f} |")


with tempfile.TemporaryDirectory() as folder:
    run(pathlib.Path(folder))
