"""What the system's read-ahead does for a tool that reads page by page: bench-readahead.py FILE ROUNDS INNOKIT 'INNOCHECKSUM ...', called by
bench.sh.

`bench check` measures its own row of such a tool and MySQL's innochecksum in the same rounds, once with the kernel's default of 128 KiB for a
disk's read-ahead and once with 8 MiB. Needs root.
"""

import json
import subprocess
import sys

from pairs import disk_of

FILE, ROUNDS, INNOKIT, INNOCHECKSUM = sys.argv[1:]
OURS = ("a page at a time, one thread", "large blocks, through the page cache", "a page at a time, past the page cache", "innokit check as it comes")
PEER = "MySQL innochecksum -C crc32"


def rates(read_ahead):
    SETTING.write_text(str(read_ahead))
    command = [INNOKIT, "bench", "check", "--json", "--progress", "never", "--rounds", ROUNDS, "--workers", "1", "--block-sizes", "1M"]
    done = subprocess.run([*command, "--no-peers", "--peer", f"{PEER}={INNOCHECKSUM} -C crc32", FILE], stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    return {row["name"]: row["bytes_per_second"]["median"] / 1e6 for row in found["ideas"] + found["peers"]}


#: In KiB.
SETTING = disk_of(FILE) / "queue/read_ahead_kb"
before = SETTING.read_text()
try:
    small, large = rates(128), rates(8192)
finally:
    SETTING.write_text(before)
print(f"\n### The system's read-ahead, MB/s, cold, medians of {ROUNDS} rounds\n\n| who | 128 KiB | 8 MiB |\n|---|---|---|")
for name in (*OURS, PEER):
    print(f"| {name} | {small[name]:,.0f} | {large[name]:,.0f} |")
