#!/usr/bin/env python3
"""Lets system calls fail under every command, and holds the law of exit statuses.

    faults.py --make DIR                       a small set of MariaDB files: datadirs, a backup, an archive of redo, a damaged table
    faults.py --set DIR [options]              the faults
        --innokit PROGRAM    the program [target/debug/innokit]
        --sample N           N cases, chosen by --seed (all of them without)
        --seed N             [1]
        --only WORD          only commands whose name contains WORD
        --call NAME          only system calls whose name contains NAME
        --seconds N          begin no case after N seconds
        --jobs N             cases at once [2]
        --limit N            a run of N seconds hangs [10]
        --verbose            also print the cases that keep the law

Every command runs once without a fault, which gives the reference and the number of times each system call is made. Then it runs once for
each system call that it makes, each error, and the 1st, 2nd, middle and last occurrence. strace injects the error.

The law: status 0 only with the reference's result; status 1 only where bytes are wrong, which is in the damaged table alone; any other
failure is 2, with a sentence. No panic, no signal, no hang. What a failed run leaves is void or is repaired:
the same command again, without the fault, gives the reference's result or refuses with 2.

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
import subprocess
import sys
import tempfile
import time

ERRORS = ["EIO", "EACCES", "EMFILE", "ENOMEM", "EAGAIN", "ENOSPC", "ESTALE"]
# Calls that move bytes, name files or start threads. Memory is left out: Rust ends the process when the allocator has none.
CALLS = """open openat read pread64 readv preadv preadv2 write pwrite64 writev pwritev pwritev2 fstat stat lstat statx newfstatat lseek
    getdents64 fsync fdatasync ftruncate rename renameat renameat2 unlink unlinkat mkdir mkdirat rmdir link linkat symlink copy_file_range
    sendfile ioctl fallocate fadvise64 statfs fstatfs io_uring_setup io_uring_enter io_uring_register clone3 clone flock fcntl readlink
    readlinkat getcwd sched_getaffinity sysinfo pipe2 eventfd2 memfd_create cachestat syncfs sync_file_range sched_setaffinity ioprio_set
    chmod fchmod fchown fchownat utimensat close""".split()
# A call that only asks cannot run out of disk, and closing does not wait for descriptors.
PLAUSIBLE = {
    "ENOSPC": {"write", "pwrite64", "writev", "pwritev", "pwritev2", "openat", "open", "mkdir", "mkdirat", "ftruncate", "fallocate", "rename",
               "renameat", "renameat2", "link", "linkat", "symlink", "fsync", "fdatasync", "copy_file_range", "syncfs", "io_uring_setup"},
    "EMFILE": {"open", "openat", "io_uring_setup", "pipe2", "eventfd2", "memfd_create", "fcntl"},
}
LIMIT = 10
SKIPPED = 77
IMPOSSIBLE = "no kernel does this"


def commands(files):
    """Name, words, status without a fault. OUT is a path that does not exist yet, and whose content is part of the result."""
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
        ("unpack", ["unpack", files / "backup.tar", "OUT"], 0),
        ("innochecksum", ["innochecksum", table], 0),
    ]


def server(action, datadir, *options, sql=None):
    script = pathlib.Path(__file__).with_name("server.sh")
    done = subprocess.run([script, "mariadb", action, datadir, *options], input=sql, text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout.strip()


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
    text = re.sub(r"(?m)^(time|read) .*$", "#", text)
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
    def __init__(self, words, before=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="innokit-faults-", dir=SCRATCH))
        self.words, self.before = words, before

    def run(self):
        out = self.folder / "out"
        words = [str(out) if word == "OUT" else str(word) for word in self.words]
        began = time.monotonic()
        child = subprocess.Popen([*self.before, INNOKIT, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 cwd=self.folder, start_new_session=True)
        try:
            stdout, stderr = child.communicate(timeout=LIMIT)
            self.status = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            stdout, stderr = child.communicate()
            self.status = "hang"
        self.took = time.monotonic() - began
        self.stdout = stdout.decode(errors="replace").replace(str(out), "OUT")
        self.stderr = stderr.decode(errors="replace").replace(str(out), "OUT")
        self.result = (plain(self.stdout), tree(out)) if "OUT" in self.words else (plain(self.stdout), "")
        return self

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)


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
            if call in PLAUSIBLE.get(error, {call}):
                yield from ((name, words, status, call, error, place) for place in places)


def faults_of(case, reference):
    """What the run breaks of the law, or None."""
    name, words, expected, call, error, place = case
    before = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={place}"]
    ran = Ran(words, before).run()
    try:
        said = ran.stdout + ran.stderr
        if ran.status == "hang":
            return "hangs", ran
        if ran.status == 127 and "shared libraries" in said:
            return None, ran
        # The standard library asserts that closing a folder succeeds. On Linux it does: close(2) returns what `flush` of the file system
        # returns, and no file system has one for folders.
        if call == "close" and "unexpected error during closedir" in said:
            return IMPOSSIBLE, ran
        if ran.status not in (0, 1, 2) or "panicked" in said:
            return f"status {ran.status}", ran
        if ran.status == 0 and (expected != 0 or ran.result != reference.result):
            return "status 0 with another result", ran
        # `innochecksum` has the statuses of the original, which is 1 for every error.
        if ran.status == 1 and expected != 1 and name != "innochecksum":
            return "status 1, but no byte is wrong", ran
        if ran.status == 2 and not said.strip():
            return "status 2 without a word", ran
        if "move this directory away" in said:
            return "bad advice", ran
        if ran.status == 2 and "OUT" in words:
            again = Ran(words)
            again.folder.rmdir()
            again.folder = ran.folder
            again.run()
            if again.status not in (0, 2) or again.status == 0 and again.result != reference.result:
                return f"the same command again: status {again.status}, another result", again
            if again.status == 2 and name.startswith("table export"):
                return "the same command again is refused", again
        return None, ran
    finally:
        ran.end()


def main():
    global INNOKIT, SCRATCH, KNOWN, LIMIT
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--make", type=pathlib.Path)
    parser.add_argument("--set", type=pathlib.Path)
    parser.add_argument("--innokit", default="target/debug/innokit")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--call", default="")
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
    with tempfile.TemporaryDirectory(prefix="innokit-faults.", dir=os.environ.get("TMPDIR")) as scratch:
        SCRATCH = scratch
        chosen, references = [], {}
        wanted = [entry for entry in commands(args.set.resolve()) if args.only in entry[0]]
        dice = random.Random(args.seed)
        if args.sample:
            dice.shuffle(wanted)
            # As many commands as cases, so that the sample does not spend its time on references.
            wanted = wanted[: max(1, args.sample // 4)]
        for name, words, status in wanted:
            reference = Ran(words).run()
            reference.end()
            if reference.status != status:
                print(f"faults.py: {name} without a fault: status {reference.status}\n{reference.stdout}{reference.stderr}")
                return 2
            references[name] = reference
            chosen.extend(case for case in cases(name, words, status) if args.call in case[3])
        dice.shuffle(chosen)
        chosen = chosen[: args.sample]
        outcomes, broken, of_commands = collections.Counter(), [], collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            def one(case):
                if time.monotonic() - began > args.seconds:
                    return case, "left", None
                return (case, *faults_of(case, references[case[0]]))
            for case, fault, ran in pool.map(one, chosen):
                name, _, _, call, error, place = case
                text = f"{name}: {call} {error} at {place}"
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
