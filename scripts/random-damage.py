#!/usr/bin/env python3
"""Damages copies of a datadir at random, one way at a time, and lists what `innokit check --level structure` does not notice.

    random-damage.py KIND DATADIR [--count N] [--seed S] [--only N ...] [--dir DIR]      KIND: mysql, mariadb, mariadb118: the server of the datadir

The server of KIND goes on with a copy of the datadir (rows, tables and indexes come and go), so that there are files and pages of yesterday too.
Each damage is what a disk, a file system, a copy or a person may do: bits, sectors, pages that were lost, torn, or written elsewhere; files that were
cut, shifted, repeated, swapped, removed, renamed, or are of yesterday. What is not noticed is repeated on the server: it starts and checks every table.
docs/faults.md says what of it no file can tell. Status 0 if the server accepted all that was not noticed.

It needs scripts/install-servers.sh, and the program: INNOKIT=target/debug/innokit.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = 16384
SECTOR = 512
TODAY = """CREATE DATABASE IF NOT EXISTS later; USE later;
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(200), KEY (a), KEY (b)) ENGINE=InnoDB;
INSERT INTO t (a, b) SELECT i, REPEAT(i, 30) FROM shop.n WHERE i < 4000;
UPDATE shop.row_dynamic SET a = a + 7, c = REPEAT('new', 300) WHERE id % 3 = 0; DELETE FROM shop.row_compact WHERE id % 4 = 1;
INSERT INTO shop.row_redundant (id, a, b, c) SELECT 100000 + i, i, 'more', REPEAT('m', 200) FROM shop.n WHERE i < 3000;
ALTER TABLE shop.row_compact ADD KEY later (b, a);"""


def run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=False, **more)


class Lab:
    def __init__(self, kind, datadir, folder, seed):
        self.kind, self.folder, self.random = kind, folder, random.Random(seed)
        self.yesterday, self.today, self.now = folder / "yesterday", folder / "today", folder / "now"
        shutil.copytree(datadir, self.yesterday, symlinks=True)
        shutil.copytree(datadir, self.today, symlinks=True)
        self.server(self.today, "start")
        self.server(self.today, "sql", TODAY)
        self.server(self.today, "stop", "0")
        shutil.copytree(self.today, self.now, symlinks=True)
        names = [path.relative_to(self.today) for path in sorted(self.today.rglob("*")) if path.is_file()]
        wanted = (".ibd", ".frm", ".par", ".isl")
        self.names = [name for name in names if name.suffix in wanted or name.name.startswith(("ibdata", "undo", "#ib_redo"))
                      or name.name == "ib_logfile0"]
        self.names = [name for name in self.names if not name.name.startswith(("ibtmp", "temp_")) and not name.name.endswith("_tmp") and name.parts[0] != "sys"]
        self.spaces = [name for name in self.names if name.suffix == ".ibd" or name.name.startswith(("ibdata", "undo"))]

    def server(self, data, action, text=""):
        words = [HERE / "server.sh", self.kind, action, data] + ([text] if action == "stop" else [])
        done = run(words, input=text if action == "sql" else "")
        if done.returncode:
            raise RuntimeError(f"{action}: {done.stderr}")
        return done.stdout

    def restore(self, touched):
        for name in touched:
            path = self.now / name
            if (self.today / name).exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.today / name, path)
            elif path.exists():
                path.unlink()

    def verdict(self):
        done = run([os.environ.get("INNOKIT", "target/debug/innokit"), "check", "--level", "structure", "--json", self.now])
        document = json.loads(done.stdout)
        return done.returncode, document

    def judged(self):
        """What the server says of the copy: an empty string if it starts and finds every table sound."""
        copy = self.folder / "judged"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.now, copy, symlinks=True)
        try:
            self.server(copy, "start")
            tables = self.server(copy, "sql", "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables "
                                 "WHERE engine = 'InnoDB' AND table_schema NOT IN ('mysql', 'sys')").split("\n")[1:]
            said = self.server(copy, "sql", "".join(f"CHECK TABLE {name};" for name in tables if name))
            self.server(copy, "stop", "0")
        except RuntimeError as error:
            run([HERE / "server.sh", self.kind, "kill9", copy])
            return str(error)[-1500:]
        bad = [line for line in said.split("\n") if "\t" in line and not line.endswith("\tOK") and "Msg_text" not in line]
        return "; ".join(bad[:3])

    # --- the ways ------------------------------------------------------------------------------------------------------------

    def space(self):
        return self.random.choice(self.spaces)

    def page(self, name):
        """A page that holds something: of the others nobody knows what they should hold."""
        bytes_ = (self.today / name).read_bytes()
        written = [number for number in range(len(bytes_) // PAGE) if any(bytes_[number * PAGE:number * PAGE + 64])]
        return self.random.choice(written), bytes_

    def put(self, name, at, content):
        with open(self.now / name, "r+b") as file:
            file.seek(at)
            file.write(content)
        return [name]

    def bit(self):
        name = self.space()
        page, bytes_ = self.page(name)
        at = page * PAGE + self.random.randrange(PAGE)
        return self.put(name, at, bytes([bytes_[at] ^ 1 << self.random.randrange(8)]))

    def sectors(self):
        name = self.space()
        page, _ = self.page(name)
        at = page * PAGE + self.random.randrange(PAGE // SECTOR) * SECTOR
        return self.put(name, at, self.random.choice([b"\0", b"\xff", self.random.randbytes(1)]) * SECTOR * self.random.choice([1, 8]))

    def zero_page(self):
        name = self.space()
        page, _ = self.page(name)
        return self.put(name, page * PAGE, b"\0" * PAGE)

    def elsewhere(self):
        """A page written over another, of the same file or of another."""
        source, target = self.space(), self.space()
        page, bytes_ = self.page(source)
        at, _ = self.page(target)
        return self.put(target, at * PAGE, bytes_[page * PAGE:(page + 1) * PAGE])

    def both(self):
        return [name for name in self.spaces if (self.yesterday / name).exists()]

    def old_page(self):
        """A write that was lost."""
        for _ in range(100):
            name = self.random.choice(self.both())
            old, new = (self.yesterday / name).read_bytes(), (self.today / name).read_bytes()
            changed = [at for at in range(0, min(len(old), len(new)), PAGE) if old[at:at + PAGE] != new[at:at + PAGE] and any(old[at:at + 64])]
            if changed:
                at = self.random.choice(changed)
                return self.put(name, at, old[at:at + PAGE])
        return []

    def torn(self):
        for _ in range(100):
            name = self.random.choice(self.both())
            old, new = (self.yesterday / name).read_bytes(), (self.today / name).read_bytes()
            changed = [at for at in range(0, min(len(old), len(new)), PAGE) if old[at:at + PAGE] != new[at:at + PAGE]]
            if changed:
                at, cut = self.random.choice(changed), SECTOR * self.random.randrange(1, PAGE // SECTOR)
                if old[at:at + cut] != new[at:at + cut] and old[at + cut:at + PAGE] != new[at + cut:at + PAGE]:
                    return self.put(name, at, old[at:at + cut])
        return []

    def cut(self):
        name = self.random.choice(self.names)
        length = (self.now / name).stat().st_size
        step = self.random.choice([1, SECTOR, PAGE])
        os.truncate(self.now / name, self.random.randrange(0, max(1, length // step)) * step)
        return [name]

    def shifted(self):
        name = self.space()
        bytes_ = (self.now / name).read_bytes()
        by = PAGE * self.random.choice([1, 2, 3, 4, 5, 8])
        (self.now / name).write_bytes(self.random.choice([bytes_[by:], b"\0" * by + bytes_, bytes_[:by] + bytes_]) or b"\0")
        return [name]

    def repeated(self):
        name = self.space()
        bytes_ = (self.now / name).read_bytes()
        page = PAGE * self.random.randrange(len(bytes_) // PAGE)
        again = bytes_[page:page + PAGE]
        (self.now / name).write_bytes(bytes_[:page] + again + bytes_[page:])
        return [name]

    def swapped(self):
        counts = collections.Counter(name.suffix for name in self.names if name.suffix)
        suffix = self.random.choice(sorted(suffix for suffix, count in counts.items() if count > 1))
        one, two = self.random.sample([name for name in self.names if name.suffix == suffix], 2)
        shutil.copy2(self.today / two, self.now / one)
        shutil.copy2(self.today / one, self.now / two)
        return [one, two]

    def removed(self):
        name = self.random.choice(self.names)
        (self.now / name).unlink()
        return [name]

    def renamed(self):
        name = self.random.choice(self.names)
        to = name.with_name("x" + name.name)
        (self.now / name).rename(self.now / to)
        return [name, to]

    def old_file(self):
        old = [name for name in self.names if (self.yesterday / name).exists()
               and (self.yesterday / name).read_bytes() != (self.today / name).read_bytes()]
        name = self.random.choice(old)
        shutil.copy2(self.yesterday / name, self.now / name)
        return [name]

    def damage(self, number):
        ways = [self.bit, self.sectors, self.zero_page, self.elsewhere, self.old_page, self.torn, self.cut, self.shifted, self.repeated,
                self.swapped, self.removed, self.renamed, self.old_file]
        way = ways[number % len(ways)]
        return way.__name__, way()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("datadir", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*", help="judge only the damages of these numbers")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path(os.environ.get("TMPDIR", "/tmp")))
    args = parser.parse_args()
    folder = args.dir / f"random-damage-{args.kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lab = Lab(args.kind, args.datadir, folder, args.seed)
    status, document = lab.verdict()
    if status:
        print(f"the sound datadir has status {status}", json.dumps(document["findings"])[:2000])
        return 1
    noticed, missed, minded = collections.Counter(), [], 0
    for number in range(args.count):
        way, touched = lab.damage(number)
        if not touched or all((lab.now / name).exists() and (lab.today / name).exists()
                              and (lab.now / name).read_bytes() == (lab.today / name).read_bytes() for name in touched):
            noticed["no change"] += 1
            continue
        if args.only and number not in args.only:
            lab.restore(touched)
            continue
        status, document = lab.verdict()
        if status:
            noticed[f"{way}: {status}"] += 1
        else:
            notes = sorted({finding["reason"] for finding in document["findings"]})
            server = lab.judged()
            minded += bool(server)
            missed.append((number, way, [str(name) for name in touched], notes, server))
            print("not noticed:", *missed[-1], flush=True)
        lab.restore(touched)
    for way, count in sorted(noticed.items()):
        print(f"{count:4}  {way}")
    print(f"{args.kind}: {args.count} damages, {len(missed)} not noticed, of which the server minds {minded}")
    shutil.rmtree(folder)
    return 1 if minded else 0


if __name__ == "__main__":
    sys.exit(main())
