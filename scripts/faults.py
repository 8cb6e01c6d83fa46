#!/usr/bin/env python3
"""Lets system calls fail under every command, and holds the law of exit statuses.

    faults.py --make DIR                       a small set of files: datadirs, a backup, an archive of redo, a damaged table, and datadirs of
                                               both vendors for servers of its own
    faults.py --set DIR [options]              the faults
        --innokit PROGRAM    the program [target/debug/innokit]
        --sample N           N cases, chosen by --seed (all of them without)
        --seed N             [1]
        --part K/N           the K-th of N parts of what is chosen, so that all of it can be run in several sessions
        --only WORD          only commands whose name contains WORD
        --call NAME          only system calls (and surroundings) whose name contains NAME
        --known              only those that were found broken once (KNOWN_BROKEN, KNOWN_BROKEN_AROUND)
        --around             no failing system calls, but every command in odd surroundings: a target that is read-only, a working directory that
                             is deleted, clocks and time zones, limits of memory, threads, files and sizes, reads of a file system that are short
        --seconds N          begin no case after N seconds
        --jobs N             cases at once [2]
        --limit N            a run of N seconds hangs [10]
        --verbose            also print the cases that keep the law

Every command runs once without a fault, which gives the reference and the number of times each system call is made. Then it runs once for
each system call that it makes, each error, and the 1st, 2nd, middle and last occurrence. strace injects the error. Short reads and writes
are made by a library that is preloaded (scripts/short.c): strace cannot shorten a call, only leave it out.

The law: status 0 only with the reference's result; status 1 only where bytes are wrong, which is in the damaged table alone; any other
failure is 2, with a sentence. No panic, no signal, no hang. What a failed run leaves is void or is repaired:
the same command again, without the fault, gives the reference's result or refuses with 2. Of a running server every result differs: a
backup is verified and restored, and the rows are compared; an archive of redo is verified.

Exit status: 0 the law holds, 1 it was broken (the cases are printed), 2 it could not be tested, 77 strace or ptrace is missing.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ERRORS = ["EIO", "EACCES", "EMFILE", "ENOMEM", "EAGAIN", "ENOSPC", "ESTALE", "ECONNRESET", "ECONNREFUSED", "ETIMEDOUT", "SHORT"]
# Calls that move bytes, name files or start threads. Memory is left out: Rust ends the process when the allocator has none.
CALLS = """open openat read pread64 readv preadv preadv2 write pwrite64 writev pwritev pwritev2 fstat stat lstat statx newfstatat lseek
    getdents64 fsync fdatasync ftruncate rename renameat renameat2 unlink unlinkat mkdir mkdirat rmdir link linkat symlink copy_file_range
    sendfile ioctl fallocate fadvise64 statfs fstatfs io_uring_setup io_uring_enter io_uring_register clone3 clone flock fcntl readlink
    readlinkat getcwd sched_getaffinity sysinfo pipe2 eventfd2 memfd_create cachestat syncfs sync_file_range sched_setaffinity ioprio_set
    chmod fchmod fchown fchownat utimensat close socket connect sendto recvfrom sendmsg recvmsg shutdown getsockname getpeername
    setsockopt getsockopt bind epoll_create1 epoll_ctl eventfd2""".split()
NETWORK = set("socket connect sendto recvfrom sendmsg recvmsg shutdown getsockname getpeername setsockopt getsockopt bind".split())
# What scripts/short.c can shorten. The file systems of scripts/fuse.py shorten what io_uring reads.
SHORTENED = set("read write pread64 pwrite64 readv writev copy_file_range sendfile".split())
# A call that only asks cannot run out of disk, and closing does not wait for descriptors.
PLAUSIBLE = {
    "SHORT": SHORTENED,
    "ECONNRESET": {"connect", "sendto", "recvfrom", "sendmsg", "recvmsg", "read", "write", "writev", "readv"},
    "ECONNREFUSED": {"connect"},
    "ETIMEDOUT": {"connect", "recvfrom", "sendto", "recvmsg", "sendmsg"},
    "ENOSPC": {"write", "pwrite64", "writev", "pwritev", "pwritev2", "openat", "open", "mkdir", "mkdirat", "ftruncate", "fallocate", "rename",
               "renameat", "renameat2", "link", "linkat", "symlink", "fsync", "fdatasync", "copy_file_range", "syncfs", "io_uring_setup"},
    "EMFILE": {"open", "openat", "io_uring_setup", "pipe2", "eventfd2", "memfd_create", "fcntl", "socket",
               "epoll_create1"},
}
# Not what sockets say.
FILES_ONLY = {"EIO", "ESTALE", "ENOSPC"}
LIMIT = 10
SKIPPED = 77
IMPOSSIBLE = "no kernel does this"
# A run of these that failed is finished by the same command. Others may refuse a folder that is not empty.
IN_PLACE = {"--in-place", "--move", "--write=crc32"}
VENDORS = ["mariadb", "mysql"]
# Command, call, errors: listings that end early, files that cannot be opened for a moment, threads that do not start, rings that stop.
KNOWN_BROKEN = [
    ("restore", "getdents64", ["EIO"]),
    ("restore increment", "openat", ["EACCES", "ESTALE"]),
    ("backup mariadb", "getdents64", ["EIO"]),
    ("backup mysql", "getdents64", ["EIO"]),
    ("check", "getdents64", ["EIO", "EACCES"]),
    ("check", "openat", ["EMFILE", "EACCES"]),
    ("check", "clone3", ["EAGAIN"]),
    ("table check", "openat", ["EMFILE", "EACCES"]),
    ("table checksum", "clone3", ["EAGAIN"]),
    ("recover", "clone3", ["EAGAIN"]),
    ("recover redo", "getdents64", ["EIO"]),
    ("redo verify", "openat", ["EIO", "EACCES", "EMFILE", "EAGAIN"]),
    ("redo verify", "read", ["EIO"]),
    ("backup verify", "io_uring_setup", ["EACCES", "ENOMEM"]),
    ("backup verify", "io_uring_enter", ["EACCES", "ENOMEM"]),
    ("backup verify", "clone3", ["EAGAIN"]),
    ("unpack", "clone3", ["EAGAIN"]),
    ("check bucket", "clone3", ["EAGAIN"]),
    ("table checksum bucket", "clone3", ["EAGAIN"]),
    ("table export", "write", ["ENOSPC"]),
]
BUCKET_KEYS = {"AWS_ACCESS_KEY_ID": "owner", "AWS_SECRET_ACCESS_KEY": "ownersecret", "AWS_REGION": "us-east-1"}

# Command, surroundings.
KNOWN_BROKEN_AROUND = [
    ("redo verify", "20 descriptors"),
    ("backup verify", "address space of 200 MiB"),
    ("backup verify", "without io_uring"),
    ("table check", "FUSE --most 4096"),
    ("recover", "FUSE --most 4096"),
    ("recover", "FUSE --most 5000"),
    ("recover dry-run", "FUSE --most 5000"),
    ("restore", "FUSE --most 4096"),
    ("table check", "control group with pids.max 2"),
    ("restore", "standard output full"),
    ("table export stdout", "standard output closed"),
]


class Live(str):
    """Stands in a command for a datadir, with the vendor of the server that runs on it."""


def commands(files):
    """Name, words, status without a fault. OUT is a path that does not exist yet, and whose content is part of the result. So is that of
    COPY, a copy of the path that stands behind it."""
    clean, crashed, table = files / "clean", files / "crashed", files / "clean/shop/a.ibd"
    bad = files / "bad.ibd"
    quiet = ["--progress", "never"]
    return [
        ("check", ["check", *quiet, clean], 0),
        ("check threads", ["check", *quiet, "--engine", "threads", "--io", "direct", clean], 0),
        ("check uring", ["check", *quiet, "--engine", "uring", "--io", "direct", table], 0),
        ("check structure", ["check", *quiet, "--level", "structure", clean / "shop"], 0),
        ("check bad", ["check", *quiet, bad], 1),
        ("check tar", ["check", *quiet, files / "backup.tar"], 0),
        ("info", ["info", clean], 0),
        ("info file", ["info", table], 0),
        ("table check", ["table", "check", *quiet, clean], 0),
        ("table check extended", ["table", "check", *quiet, "--extended", clean / "shop"], 0),
        ("table check bad", ["table", "check", *quiet, bad], 1),
        ("table count", ["table", "count", *quiet, clean], 0),
        ("table count file", ["table", "count", *quiet, table], 0),
        ("table checksum", ["table", "checksum", *quiet, clean], 0),
        ("table export", ["table", "export", *quiet, table, "-o", "OUT"], 0),
        ("table export stdout", ["table", "export", *quiet, clean], 0),
        ("table export parquet", ["table", "export", *quiet, "--format", "parquet", table, "-o", "OUT"], 0),
        ("table schema", ["table", "schema", clean / "shop"], 0),
        ("redo info", ["redo", "info", crashed], 0),
        ("redo verify", ["redo", "verify", files / "archive"], 0),
        ("backup verify", ["backup", "verify", files / "backup"], 0),
        ("backup verify increment", ["backup", "verify", files / "backup", "--increment", files / "increment"], 0),
        ("restore", ["restore", files / "backup", "--to", "OUT"], 0),
        ("restore increment", ["restore", files / "backup", "--to", "OUT", "--increment", files / "increment"], 0),
        ("restore tar", ["restore", files / "backup.tar", "--to", "OUT"], 0),
        ("recover dry-run", ["recover", "--dry-run", crashed], 0),
        ("recover", ["recover", crashed, "--to", "OUT"], 0),
        ("recover redo", ["recover", files / "backup", "--redo", files / "archive", "--to", "OUT"], 0),
        ("recover in-place", ["recover", "--in-place", ("COPY", crashed)], 0),
        ("restore move", ["restore", "--move", ("COPY", files / "backup"), "--to", "OUT"], 0),
        ("unpack", ["unpack", files / "backup.tar", "OUT"], 0),
        ("innochecksum", ["innochecksum", table], 0),
        ("innochecksum write", ["innochecksum", "--no-check", "--write=crc32", ("COPY", table)], 0),
        ("check bucket", ["check", *quiet, "s3://lab/clean/"], 0),
        ("table checksum bucket", ["table", "checksum", *quiet, "s3://lab/clean/shop/a.ibd"], 0),
    ] + [
        (f"{name} {vendor}", [*words, "--user", "root", "--socket", ("SOCKET", vendor), "--to", "OUT", Live(vendor)], 0)
        for vendor in VENDORS
        for name, words in {
            "backup": ["backup", *quiet],
            "backup prepare": ["backup", *quiet, "--prepare"],
            "backup increment": ["backup", *quiet, "--incremental-since", files / f"{vendor}-backup"],
            "redo archive": ["redo", "archive", "--once", "--segment-size", "1M"],
        }.items()
        if vendor == "mariadb" or name != "backup prepare"
    ]


def server(action, datadir, *options, sql=None, kind="mariadb"):
    script = pathlib.Path(__file__).with_name("server.sh")
    # Not a pipe: a server that has started would keep it open.
    with tempfile.TemporaryFile() as said:
        subprocess.run([script, kind, action, datadir, *options], input=sql, text=True, stdout=said, check=True)
        said.seek(0)
        return said.read().decode().strip()


class Machines:
    """The servers and the object store that commands need, started for the first of them and ended with the run."""

    def __init__(self, files):
        self.files, self.servers, self.store = files, set(), None

    def start(self, words):
        for word in words:
            if isinstance(word, Live) and word not in self.servers:
                server("start", self.files / word, kind=word)
                self.servers.add(word)
            if str(word).startswith("s3://") and not self.store:
                self.start_store()

    def start_store(self):
        program = subprocess.run(["bash", "-c", "echo ${INNOKIT_SERVERS:-~/.cache/innokit}/cloud/versitygw"], capture_output=True, text=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        buckets, notes = (pathlib.Path(tempfile.mkdtemp(dir=SCRATCH)) for _ in range(2))
        (buckets / "lab").symlink_to(self.files)
        self.store = subprocess.Popen([program.stdout.strip(), "--port", f"127.0.0.1:{port}", "--access", BUCKET_KEYS["AWS_ACCESS_KEY_ID"],
                                       "--secret", BUCKET_KEYS["AWS_SECRET_ACCESS_KEY"], "--quiet", "posix", "--bucketlinks", "--sidecar",
                                       notes, buckets], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        ENVIRONMENT["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"

    def end(self):
        """Ends them. What a server still holds for a backup that has failed is found by a statement that would wait for it."""
        held = []
        for vendor in sorted(self.servers):
            free = "SET lock_wait_timeout = 5; CREATE TABLE shop.free (a INT); DROP TABLE shop.free; INSERT INTO shop.i VALUES (1);"
            try:
                server("sql", self.files / vendor, kind=vendor, sql=free)
            except subprocess.CalledProcessError:
                held.append(f"{vendor} still holds a lock of a backup that has ended")
            server("stop", self.files / vendor, kind=vendor)
        if self.store:
            self.store.terminate()
            self.store.wait()
        return held


def make(files, innokit):
    """Tables of one page and of many, three indexes, values off the page; redo that is needed; a backup, an increment, an archive."""
    files.mkdir(parents=True)
    data = files / "data"
    run = lambda *words: subprocess.run([innokit, *words], check=True, stdout=subprocess.DEVNULL)
    server("init", data, "--innodb-log-file-size=4M", "--innodb-undo-tablespaces=0", "--innodb-data-file-path=ibdata1:5M:autoextend")
    server("start", data, "--innodb-max-dirty-pages-pct=90")
    try:
        fill(files, data, run)
    except BaseException:
        server("kill9", data)
        raise
    shutil.copytree(data, files / "crashed")
    server("start", data)
    server("stop", data, "0")
    shutil.copytree(data, files / "clean")
    with open(files / "backup.tar", "wb") as out:
        subprocess.run(["tar", "-C", files / "backup", "-cf", "-", "."], check=True, stdout=out)
    bad = bytearray((files / "clean/shop/a.ibd").read_bytes())
    bad[4 * 16384 + 8000] ^= 0xFF
    (files / "bad.ibd").write_bytes(bad)
    shutil.copy(files / "clean/shop/a.frm", files / "bad.frm")
    shutil.rmtree(data)
    shutil.rmtree(files / ".data.server", ignore_errors=True)
    for vendor in VENDORS:
        living(files, vendor, run)


def living(files, vendor, run):
    """A datadir for a server that runs while it is backed up, and a full backup for increments."""
    live = files / vendor
    log = ["--innodb-redo-log-capacity=8M"] if vendor == "mysql" else ["--innodb-log-file-size=4M", "--innodb-undo-tablespaces=0"]
    server("init", live, *log, kind=vendor)
    server("start", live, kind=vendor)
    try:
        rows = ", ".join(f"({n}, '{n:060}')" for n in range(500))
        server("sql", live, kind=vendor, sql=f"""CREATE DATABASE shop; USE shop;
            CREATE TABLE a (id INT PRIMARY KEY, b VARCHAR(80), KEY (b)) ENGINE=InnoDB; INSERT INTO a VALUES {rows};
            CREATE TABLE i (id INT) ENGINE=MyISAM; INSERT INTO i VALUES (1);""")
        run("backup", live, "--to", files / f"{vendor}-backup", "--user", "root", "--socket", server("socket", live, kind=vendor))
        server("sql", live, kind=vendor, sql="UPDATE shop.a SET b = REVERSE(b) WHERE id < 200; FLUSH TABLES shop.a FOR EXPORT; UNLOCK TABLES;")
    finally:
        server("stop", live, kind=vendor)


def fill(files, data, run):
    """What is written while the server runs, which is killed at the end."""
    server("sql", data, sql="""CREATE DATABASE shop; USE shop;
        CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(80), KEY (a), KEY (b));
        INSERT INTO a (a, b) SELECT seq % 97, SHA2(seq, 256) FROM seq_1_to_3000;
        CREATE TABLE b (id INT PRIMARY KEY, c LONGTEXT); INSERT INTO b SELECT seq, REPEAT('x', 20000) FROM seq_1_to_5;
        CREATE TABLE c (id INT PRIMARY KEY) ROW_FORMAT=COMPRESSED; INSERT INTO c VALUES (1), (2);""")
    asked = ["--socket", server("socket", data), "--user", "root"]
    run("redo", "archive", data, "--to", files / "archive", "--segment-size", "1M", "--once", *asked)
    run("backup", data, "--to", files / "backup", *asked)
    server("sql", data, sql="USE shop; UPDATE shop.a SET a = a + 1 WHERE id % 7 = 0; FLUSH TABLES shop.a FOR EXPORT; UNLOCK TABLES;")
    run("backup", data, "--to", files / "increment", "--incremental-since", files / "backup", *asked)
    server("sql", data, sql="USE shop; INSERT INTO shop.c SELECT seq FROM seq_3_to_40; UPDATE shop.a SET a = a + 2 WHERE id % 5 = 0;")
    run("redo", "archive", data, "--to", files / "archive", "--segment-size", "1M", "--once", *asked)
    server("kill9", data)


def plain(text):
    """Output without times, rates and the path of the target."""
    text = re.sub(r"(?m)^(time|read|memory) .*$", "#", text)
    text = re.sub(r"\d[\d,.]* ?(ns|µs|us|ms|s|rows/s|[KMGT]?i?B/s)\b", "#", text)
    return re.sub(r"\d\d\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*", "#", text)


def tree(path):
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    lines = []
    for found in sorted(path.rglob("*")) if path.is_dir() else []:
        # What names the moment or the folder of the run.
        if found.is_file() and found.name not in ("innokit-backup.json", "ib_buffer_pool"):
            lines.append(f"{found.relative_to(path)} {hashlib.sha256(found.read_bytes()).hexdigest()}")
    return "\n".join(lines)


class Ran:
    def __init__(self, words, before=(), around=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="innokit-faults-", dir=SCRATCH))
        self.words, self.around = words, around
        self.before = around.before(self.folder) if around else before

    def word(self, word):
        if isinstance(word, Live):
            return str(FILES / word)
        if not isinstance(word, tuple):
            return str(self.folder / "out") if word == "OUT" else str(word)
        what, of = word
        if what == "SOCKET":
            return server("socket", FILES / of, kind=of)
        copy = self.folder / "copy" / of.name
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            (shutil.copytree if of.is_dir() else shutil.copy)(of, copy)
        return str(copy)

    def run(self):
        out = self.folder / "out"
        words = [self.word(word) for word in self.words]
        if self.around:
            words = self.around.words(words)
        began = time.monotonic()
        child = subprocess.Popen([*self.before, INNOKIT, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 cwd=self.folder, start_new_session=True, env={**ENVIRONMENT, **(self.around.variables if self.around else {})})
        try:
            stdout, stderr = child.communicate(timeout=LIMIT * (self.around.patience if self.around else 1))
            self.status = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            stdout, stderr = child.communicate()
            self.status = "hang"
        self.took = time.monotonic() - began
        self.stdout, self.stderr = (self.around.said(text) if self.around else text for text in
                                    (each.decode(errors="replace").replace(str(self.folder), "") for each in (stdout, stderr)))
        if self.is_live():
            self.result = self.proof(out)
        else:
            self.result = (plain(self.stdout), tree(out), tree(self.folder / "copy"))
        return self

    def is_live(self):
        return isinstance(self.words[-1], Live)

    def proof(self, out):
        """Of what a command took from a running server: "void", the rows, or what is wrong with it."""
        def ask(*words):
            done = subprocess.run([INNOKIT, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=ENVIRONMENT)
            return done.returncode, done.stdout + done.stderr
        if not out.exists():
            return "void"
        if self.words[0] == "redo":
            status, said = ask("redo", "verify", out)
            return "verified" if status == 0 else "void" if status == 2 and self.status != 0 else f"redo verify: status {status}: {said}"
        since = self.words.index("--incremental-since") + 1 if "--incremental-since" in self.words else None
        chain = [self.words[since], "--increment", out] if since else [out]
        status, said = ask("backup", "verify", *chain)
        if status == 2 or "is void" in said:
            return "void"
        restored = self.folder / "restored"
        if status == 0 and "--prepare" not in self.words:
            status, said = ask("restore", *chain, "--to", restored, "--progress", "never")
        elif status == 0:
            restored = out
        if status == 0:
            status, said = ask("table", "checksum", "--progress", "never", restored / "shop")
        shutil.rmtree(self.folder / "restored", ignore_errors=True)
        return plain(said).replace(str(self.folder), "") if status == 0 else f"what it left: status {status}: {said}"

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Around:
    """Surroundings of a run. `same`: the result must be that of the reference. `refused`: what is to be written cannot be."""

    def __init__(self, name, line="", same=True, refused="", may_be_killed=False, variables=(), at=None, patience=1, needs=lambda words: True):
        self.name, self.line, self.same, self.refused, self.may_be_killed = name, line, same, refused, may_be_killed
        self.variables, self.at, self.patience, self.needs = dict(variables), at, patience, needs

    def before(self, folder):
        # `$F` is the folder that the run writes to, "$@" the command.
        return ["bash", "-c", f"F=$0; {self.line}", str(folder)] if self.line else []

    def words(self, words):
        return [word.replace(str(FILES), str(self.at)) for word in words] if self.at else words

    def said(self, text):
        return text.replace(str(self.at), str(FILES)) if self.at else text


def writes(words):
    return "OUT" in words or any(isinstance(word, tuple) and word[0] == "COPY" for word in words)


def is_local(words):
    return not any(isinstance(word, Live) or str(word).startswith("s3://") for word in words)


def is_no_bucket(words):
    """Object stores refuse requests that are signed at another time than theirs."""
    return not any(str(word).startswith("s3://") for word in words)


def surroundings(mounted):
    """Of `mounted`, (options, mount point) of file systems that show the files."""
    go = 'exec "$@"'
    found = [
        Around("read-only target", """exec unshare --mount bash -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"' "$F" "$@\"""", refused="Read-only file system"),
        Around("deleted working directory", f'mkdir "$F/gone" && cd "$F/gone" && rmdir "$F/gone" && {go}'),
        *(Around(f"time zone {zone!r}", variables=[("TZ", zone)]) for zone in
          ["", ":/nowhere", "Pacific/Kiritimati", "garbage", "<+2359>-23:59:59", "EST5EDT,M3.2.0,M11.1.0", "x" * 5000]),
        # Before 1970, beyond 32 and 33 bits of seconds, and back by an hour with every look.
        *(Around(f"clock {name}", variables=[("LD_PRELOAD", CLOCK), ("INNOKIT_CLOCK", f"{base} {step}")], needs=is_no_bucket) for name, base, step in
          [("of 1935", -1_100_000_000, 0), ("of 2100", 4_102_444_800, 0), ("of 2300", 10_413_792_000, 0), ("going back", 1_800_000_000, -3600)] if CLOCK),
        Around("without io_uring", "exec strace -f --seccomp-bpf -qq -o /dev/null -e trace=io_uring_setup -e inject=io_uring_setup:error=EPERM \"$@\"",
               needs=lambda words: "uring" not in words),
        Around("standard output full", 'exec "$@" >/dev/full', same=False),
        Around("standard output closed", 'exec "$@" >&-', same=False),
        Around("standard error closed", 'exec "$@" 2>&-'),
        Around("standard input closed", 'exec "$@" <&-'),
        *(Around(f"{n} descriptors", f"ulimit -n {n}; {go}", same=False) for n in (4, 8, 12, 20, 40)),
        *(Around(f"files of {n} KiB", f"ulimit -f {n}; {go}", same=False, needs=writes) for n in (8, 64, 1024)),
        *(Around(f"address space of {n} MiB", f"ulimit -v {n << 10}; {go}", same=False, may_be_killed=True) for n in (60, 120, 200, 400)),
    ]
    for controller, limit, values in (("memory", "memory.limit_in_bytes", [8 << 20, 16 << 20, 32 << 20, 64 << 20]), ("pids", "pids.max", [1, 2, 4])):
        for value in values:
            group = control_group(controller, limit, value)
            if group:
                found.append(Around(f"control group with {limit} {value}", f'echo $$ >{group}/cgroup.procs && {go}', same=False,
                                    may_be_killed=controller == "memory"))
    found.extend(Around(f"FUSE {' '.join(options)}", at=at, patience=6, needs=is_local) for options, at in mounted)
    return found


GROUPS = []


def control_group(controller, limit, value):
    """A control group below our own, with a limit. None where they cannot be made. Version 1 has a hierarchy for each controller."""
    try:
        lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
        own = next((path for _, names, path in lines if controller in names.split(",")), None)
        if own is None:
            return None
        group = pathlib.Path(f"/sys/fs/cgroup/{controller}{own}/innokit-{os.getpid()}-{value}".replace("//", "/"))
        group.mkdir()
        GROUPS.append(group)
        (group / limit).write_text(str(value))
        return group
    except OSError:
        return None


class Mounts:
    """The files behind scripts/fuse.py, whose replies are short: none where it cannot be mounted."""

    def __init__(self, ways):
        self.running, self.made = [], []
        for options in ways:
            at = pathlib.Path(tempfile.mkdtemp(dir=SCRATCH))
            program = subprocess.Popen([pathlib.Path(__file__).with_name("fuse.py"), at, FILES, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if program.stdout.readline() == "ready\n":
                self.running.append(program)
                self.made.append((options, at))

    def end(self):
        for program in self.running:
            program.stdin.close()
            program.wait()


def built(source, *options):
    """A program or library made of a C file beside this one. None without a compiler."""
    made = pathlib.Path(SCRATCH) / pathlib.Path(source).stem
    try:
        subprocess.run(["cc", "-O1", *options, "-o", made, pathlib.Path(__file__).with_name(source)], check=True)
        return str(made)
    except (OSError, subprocess.CalledProcessError):
        return None


def counts(words):
    """How often each call is made by one thread at most, and how many of them the loader makes before the program begins."""
    with tempfile.NamedTemporaryFile(mode="r", dir=SCRATCH) as log:
        traced = ",".join(call for call in CALLS if call in KNOWN)
        ran = Ran(words, ["strace", "-f", "--seccomp-bpf", "-qq", "-o", log.name, "-e", f"trace={traced},poll"]).run()
        ran.end()
        made, loader, first = collections.Counter(), collections.Counter(), None
        for line in log:
            found = re.match(r"(\d+) +(\w+)\(", line)
            if not found:
                continue
            pid, call = found.groups()
            if first is None and call == "poll":
                first, loader = pid, collections.Counter({name: n for (who, name), n in made.items() if who == pid})
            made[pid, call] += 1
    most = collections.Counter()
    for (_, call), n in made.items():
        most[call] = max(most[call], n)
    del most["poll"]
    return most, loader


def cases(name, words, status):
    made, loader = counts(words)
    for call, n in sorted(made.items()):
        first = loader[call] + 1
        places = sorted({place for place in (first, first + 1, (first + n) // 2, n) if first <= place <= n})
        for error in ERRORS:
            if call in PLAUSIBLE.get(error, {call}) and not (call in NETWORK and error in FILES_ONLY):
                yield from ((name, words, status, call, error, place) for place in places)


def faults_of(case, reference):
    """What the run breaks of the law, or None."""
    name, words, expected, call, error, place = case
    around = call if isinstance(call, Around) else None
    if around:
        before = []
    elif error == "SHORT":
        before = [SHORTENER, str(NUMBERS[call]), str(place)]
    else:
        before = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={place}"]
    ran = Ran(words, before, around).run()
    try:
        said = ran.stdout + ran.stderr
        # No kernel lets a write of 8 bytes to a file of events (`eventfd`) fail, by which tokio wakes its threads. Some of them may sleep on.
        if call == "write" and "failed to wake I/O driver" in said:
            return IMPOSSIBLE, ran
        # Of a socket that has room: no event follows, which tokio would wait for. Each such request ends after 30 s and is sent again.
        if ran.status == "hang" and error == "EAGAIN" and not is_local(words) and call in SHORTENED | NETWORK:
            return IMPOSSIBLE, ran
        if ran.status == "hang":
            return "hangs", ran
        if ran.status == 127 and "shared libraries" in said:
            return None, ran
        # The standard library asserts that closing a folder succeeds. On Linux it does: close(2) returns what `flush` of the file system
        # returns, and no file system has one for folders.
        if call == "close" and "unexpected error during closedir" in said:
            return IMPOSSIBLE, ran
        if "panicked" in said:
            return f"status {ran.status}", ran
        # The system kills what takes more memory than it may (9), and Rust ends a program that gets none (6). Without address space a stack
        # cannot grow (11), nor can the program be loaded.
        is_killed = around and around.may_be_killed and ran.status in (-9, -6, 127)
        is_killed = is_killed or around and around.name.startswith("address space") and ran.status == -11
        if around and ran.status == 127:
            return None, ran
        if ran.status not in (0, 1, 2) and not is_killed:
            return f"status {ran.status}", ran
        if around and around.refused and writes(words):
            if ran.status != (1 if words[0] == "innochecksum" else 2) or around.refused not in said:
                return f"status {ran.status}, {around.refused!r} expected", ran
        elif around and around.same and ran.status != expected:
            return f"status {ran.status}", ran
        if is_killed and not writes(words):
            return None, ran
        if around and around.name.startswith("standard output") and ran.status != 2 and expected == 0 and reference.stdout:
            return f"status {ran.status} although its result is lost", ran
        if ran.status == 0 and around and around.name.startswith("standard output"):
            return None, ran
        if ran.status == 0 and (expected != 0 or ran.result != reference.result):
            return f"status 0 with another result{difference(ran, reference)}", ran
        if ran.is_live() and ran.result not in ("void", "verified", reference.result):
            return f"status {ran.status}, {ran.result}", ran
        # `innochecksum` has the statuses of the original, which is 1 for every error.
        if ran.status == 1 and expected != 1 and words[0] != "innochecksum":
            return "status 1, but no byte is wrong", ran
        # strace counts the calls of each thread: where one thread's output is refused, another one's words about it are refused too.
        is_mute = call in ("write", "writev") or around and around.name == "standard error closed"
        if ran.status == 2 and not said.strip() and not is_mute:
            return "status 2 without a word", ran
        if "move this directory away" in said:
            return "bad advice", ran
        if (ran.status == 2 or is_killed) and writes(words):
            again = Ran(words)
            again.folder.rmdir()
            again.folder = ran.folder
            again.run()
            # Where files were changed in place, the second run may find less to do, and say so.
            same = [again.result[1:] == reference.result[1:] if IN_PLACE & set(words) else again.result == reference.result]
            if again.status not in (0, 2) or again.status == 0 and not all(same):
                return f"the same command again: status {again.status}, another result{difference(again, reference)}", again
            # Only the words about a finished work were lost.
            is_done = not ran.is_live() and ran.result[1:] == reference.result[1:]
            if again.status == 2 and not is_done and (IN_PLACE & set(words) or words[0] == "redo"):
                return "the same command again is refused", again
            if again.status == 2 and name.startswith("table export"):
                return "the same command again is refused", again
        return None, ran
    finally:
        ran.end()


def difference(ran, reference):
    """The first line in which two results differ."""
    ours, theirs = (list(ran.result) if isinstance(ran.result, tuple) else [ran.result] for ran in (ran, reference))
    for one, other in zip("\n".join(ours).splitlines(), "\n".join(theirs).splitlines()):
        if one != other:
            return f": {one!r} instead of {other!r}"
    return ": a shorter or longer one"


def shortener():
    """The program that shortens calls, and the numbers of those that it can. None without a compiler or on another processor."""
    program = built("short.c")
    if not program or subprocess.run([program, "0", "1", "/bin/true"]).returncode != 0:
        return None, {}
    names = "".join(f"{call} SYS_{call}\n" for call in SHORTENED)
    numbers = subprocess.run(["cc", "-E", "-P", "-include", "sys/syscall.h", "-x", "c", "-"], input=names, text=True, check=True, stdout=subprocess.PIPE)
    return program, {call: int(number) for call, number in re.findall(r"^(\w+) (\d+)$", numbers.stdout, re.M)}


def main():
    global INNOKIT, SCRATCH, KNOWN, LIMIT, FILES, ENVIRONMENT, SHORTENER, NUMBERS, CLOCK
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--make", type=pathlib.Path)
    parser.add_argument("--set", type=pathlib.Path)
    parser.add_argument("--innokit", default="target/debug/innokit")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--only", default="")
    parser.add_argument("--call", default="")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--around", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    LIMIT = args.limit
    INNOKIT = str(pathlib.Path(args.innokit).resolve())
    if args.make:
        make(args.make.resolve(), INNOKIT)
    if not args.set:
        return 0 if args.make else (print(__doc__), 2)[1]
    KNOWN = set(CALLS)
    try:
        # Names differ between processors: strace says which of them it does not know.
        while True:
            tried = subprocess.run(["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=" + ",".join(sorted(KNOWN)), "true"],
                                   capture_output=True, text=True)
            unknown = re.search(r"invalid system call '(\w+)'", tried.stderr)
            if not unknown:
                break
            KNOWN.discard(unknown.group(1))
        if tried.returncode != 0:
            raise OSError(tried.stderr.strip())
    except OSError as error:
        print(f"faults.py: skipped: strace does not work here: {error}")
        return SKIPPED
    began = time.monotonic()
    FILES = args.set.resolve()
    ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("AWS_") and not name.lower().endswith("_proxy")}
    ENVIRONMENT.update(BUCKET_KEYS)
    machines, held = Machines(FILES), []
    with tempfile.TemporaryDirectory(prefix="innokit-faults.", dir=os.environ.get("TMPDIR")) as scratch:
        SCRATCH = scratch
        SHORTENER, NUMBERS = shortener()
        CLOCK = built("clock.c", "-shared", "-fPIC", "-ldl")
        mounts = Mounts([["--most", "4096"], ["--most", "5000"], ["--cached"]] if args.around else [])
        try:
            status = run(args, machines, surroundings(mounts.made) if args.around else [], began)
        finally:
            mounts.end()
            held = machines.end()
            for group in GROUPS:
                group.rmdir()
    for line in held:
        print(f"BROKEN {line}")
    return 1 if held else status


def run(args, machines, around, began):
    chosen, references = [], {}
    wanted = [entry for entry in commands(FILES) if args.only in entry[0]]
    broken_once = {(name, call, error) for name, call, errors in KNOWN_BROKEN for error in errors}
    if args.known:
        wanted = [entry for entry in wanted if any(entry[0] == name for name, *_ in (KNOWN_BROKEN_AROUND if args.around else KNOWN_BROKEN))]
    dice = random.Random(args.seed)
    if args.sample:
        dice.shuffle(wanted)
        # As many commands as cases, so that the sample does not spend its time on references.
        wanted = wanted[: max(1, args.sample // 4)]
    for name, words, status in wanted:
        machines.start(words)
        reference = Ran(words).run()
        reference.end()
        if reference.status != status:
            print(f"faults.py: {name} without a fault: status {reference.status}\n{reference.stdout}{reference.stderr}")
            return 2
        references[name] = reference
        if args.around:
            chosen.extend((name, words, status, one, "", "") for one in around if one.needs(words) and args.call in one.name)
        else:
            chosen.extend(case for case in cases(name, words, status) if args.call in case[3])
    chosen = [case for case in chosen if case[4] != "SHORT" or case[3] in NUMBERS]
    if args.known:
        chosen = [case for case in chosen if (case[0], case[3], case[4]) in broken_once or args.around and (case[0], case[3].name) in KNOWN_BROKEN_AROUND]
    dice.shuffle(chosen)
    chosen = chosen[: args.sample]
    part, parts = map(int, args.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    outcomes, broken, of_commands = collections.Counter(), [], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        def one(case):
            if time.monotonic() - began > args.seconds:
                return case, "left", None
            return (case, *faults_of(case, references[case[0]]))
        for case, fault, ran in pool.map(one, chosen):
            name, _, _, call, error, place = case
            text = f"{name}: {call.name}" if args.around else f"{name}: {call} {error} at {place}"
            if fault == "left":
                outcomes["left out"] += 1
                continue
            of_commands[name] += 1
            if fault == IMPOSSIBLE:
                outcomes[fault] += 1
                continue
            outcomes["broken" if fault else f"status {ran.status}"] += 1
            if fault:
                broken.append((text, fault))
                print(f"BROKEN {text}: {fault}\n    " + "\n    ".join((ran.stdout[-600:] + ran.stderr[-600:]).strip().splitlines()[-6:]), flush=True)
            elif args.verbose:
                print(f"{text}: status {ran.status}: {(ran.stderr or ran.stdout).strip().splitlines()[-1:]}", flush=True)
    if args.verbose:
        print("faults.py: " + ", ".join(f"{name} {n}" for name, n in sorted(of_commands.items())))
    print(f"faults.py: {len(chosen)} cases of {len(references)} commands in {time.monotonic() - began:.0f} s: " +
          ", ".join(f"{n} {what}" for what, n in sorted(outcomes.items())))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
