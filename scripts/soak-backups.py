#!/usr/bin/env python3
"""Takes backups beside statements that define tables, and compares every restored server with what the source must have held.

    soak-backups.py KIND [--seconds N] [--backups N] [--seed N] [--dir DIR]      KIND: mysql or mariadb

Three connections run a matrix of statements and locks (ALTERS) in random order, one changes rows. Transaction N of the latter changes rows
that follow from N, and adds N to a ledger. So the ledger of a restored server says which rows it must have. Each is read through every index
(FORCE INDEX, MEMBER OF, MATCH, MBRContains), and CHECK TABLE EXTENDED is asked. Every third backup is also restored to a later moment of its
redo archive; if that is refused, to the LSN that the refusal names. Every third gets an increment, which is restored with it.

It needs the servers of scripts/install-servers.sh, and the program: INNOKIT=target/debug/innokit. Status 0 if nothing differed.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TABLES, ROWS = 3, 1200
DONE = "that was all"
LOCKS = ["NONE", "SHARED", "EXCLUSIVE"]


def alters(kind):
    """(name, statement, undo): `{t}` is the table."""
    found = []
    for lock in LOCKS:
        found += [
            (f"key {lock}", f"ALTER TABLE {{t}} ADD KEY ka (a), ALGORITHM=INPLACE, LOCK={lock}", "ALTER TABLE {t} DROP KEY ka"),
            (f"unique {lock}", f"ALTER TABLE {{t}} ADD UNIQUE KEY ku (b, id), ALGORITHM=INPLACE, LOCK={lock}", "ALTER TABLE {t} DROP KEY ku"),
            (f"force {lock}", f"ALTER TABLE {{t}} FORCE, ALGORITHM=INPLACE, LOCK={lock}", "DO 0"),
            (f"stored and key {lock}", f"ALTER TABLE {{t}} ADD COLUMN s INT NOT NULL DEFAULT 3, ADD KEY ks (s, a), ALGORITHM=INPLACE, LOCK={lock}",
             "ALTER TABLE {t} DROP COLUMN s, DROP KEY ks"),
            (f"two keys {lock}", f"ALTER TABLE {{t}} ADD KEY ka (a, b), ADD KEY kb (b), ALGORITHM=INPLACE, LOCK={lock}",
             "ALTER TABLE {t} DROP KEY ka, DROP KEY kb"),
        ]
        if lock != "NONE":
            found.append((f"virtual and key {lock}",
                          f"ALTER TABLE {{t}} ADD COLUMN v INT AS (a + 1) VIRTUAL, ADD KEY kv (v), LOCK={lock}", "ALTER TABLE {t} DROP COLUMN v"))
            found.append((f"fulltext {lock}", f"ALTER TABLE {{t}} ADD FULLTEXT KEY ft (txt), LOCK={lock}", "ALTER TABLE {t} DROP KEY ft"))
            found.append((f"spatial {lock}", f"ALTER TABLE {{t}} ADD SPATIAL KEY sp (g), LOCK={lock}", "ALTER TABLE {t} DROP KEY sp"))
            found.append((f"copy {lock}", f"ALTER TABLE {{t}} ADD KEY ka (a), ALGORITHM=COPY, LOCK={lock}",
                          "ALTER TABLE {t} DROP KEY ka, ALGORITHM=COPY") if lock == "SHARED" else
                         (f"copy {lock}", "ALTER TABLE {t} ADD KEY kb (b, a), ALGORITHM=COPY, LOCK=EXCLUSIVE", "ALTER TABLE {t} DROP KEY kb"))
    found += [
        ("optimize", "OPTIMIZE TABLE {t}", "DO 0"),
        ("instant column", "ALTER TABLE {t} ADD COLUMN i INT DEFAULT 9, ALGORITHM=INSTANT", "ALTER TABLE {t} DROP COLUMN i"),
        ("new table", "CREATE TABLE {t}_new (id INT PRIMARY KEY, a INT, KEY ka (a)); INSERT INTO {t}_new SELECT id, id FROM {t}", "DROP TABLE {t}_new"),
        ("select into", "CREATE TABLE {t}_sel (KEY ka (a)) SELECT id, id AS a FROM {t}; ALTER TABLE {t}_sel ADD KEY kb (id)", "DROP TABLE {t}_sel"),
        ("truncate", "CREATE TABLE {t}_tr LIKE {t}; INSERT INTO {t}_tr (id, a, b, j, txt, g) SELECT id, a, b, j, txt, g FROM {t} LIMIT 300; TRUNCATE {t}_tr",
         "DROP TABLE {t}_tr"),
        ("rename", "RENAME TABLE {t} TO {t}_away", "RENAME TABLE {t}_away TO {t}"),
    ]
    if kind == "mysql":
        for lock in ["SHARED", "EXCLUSIVE"]:
            found.append((f"functional {lock}", f"ALTER TABLE {{t}} ADD KEY kf ((a * 2)), LOCK={lock}", "ALTER TABLE {t} DROP KEY kf"))
            found.append((f"multi-valued {lock}", f"ALTER TABLE {{t}} ADD KEY km ((CAST(j->'$' AS UNSIGNED ARRAY))), LOCK={lock}",
                          "ALTER TABLE {t} DROP KEY km"))
    return found


def values(n, row):
    """What transaction n writes into a row: a, b, j, txt, x."""
    return n, f"{n:06}{'x' * (n % 60)}", [n % 100, 1000 + row], f"common word{n % 20} some", (n * 7 + row) % 100


def update(n):
    """The table of transaction n, and its rows."""
    pick = random.Random(n)
    return n % TABLES, sorted({pick.randrange(ROWS) for _ in range(5)})


def expected(upto):
    """The rows of each table after transaction `upto`."""
    tables = [{row: values(0, row) for row in range(ROWS)} for _ in range(TABLES)]
    for n in range(1, upto + 1):
        table, rows = update(n)
        for row in rows:
            tables[table][row] = values(n, row)
    return tables


class Server:
    def __init__(self, kind, data):
        self.kind, self.data = kind, data

    def script(self, action, *options, stdin=""):
        ran = subprocess.run([HERE / "server.sh", self.kind, action, self.data, *options], input=stdin, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE if action in ("sql", "socket") else None)
        if ran.returncode:
            raise RuntimeError(f"{action} {self.data}: status {ran.returncode} {ran.stderr or ''}")
        return ran.stdout


class Session:
    def __init__(self, server, database="shop"):
        self.client = subprocess.Popen([HERE / "server.sh", server.kind, "sql", server.data, "-N", "-n", "--force", database],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ask(self, statements):
        self.client.stdin.write(f"{statements};\nSELECT '{DONE}';\n")
        self.client.stdin.flush()
        lines = []
        for line in self.client.stdout:
            if line.rstrip("\n") == DONE:
                return lines
            if "Can't connect" in line or "server has gone away" in line or "Lost connection" in line:
                break
            lines.append(line.rstrip("\n"))
        raise RuntimeError(f"the connection ended at {statements[:200]}: {lines}")

    def end(self):
        self.client.stdin.close()
        self.client.wait()


class Load:
    """The threads that change things. They stand still while the gate is closed."""

    def __init__(self, kind, server, seed):
        self.kind, self.server, self.committed = kind, server, 0
        self.gate, self.stop, self.busy, self.problems = threading.Event(), False, 0, []
        self.changed, self.only_logged = threading.Condition(), False
        self.did = collections.Counter()
        self.exists = [{} for _ in range(TABLES)]
        self.threads = [threading.Thread(target=self.rows, daemon=True)]
        self.threads += [threading.Thread(target=self.define, args=(i, random.Random(seed + i)), daemon=True) for i in range(TABLES)]
        self.gate.set()
        for thread in self.threads:
            thread.start()

    def step(self, act):
        self.gate.wait()
        with self.changed:
            self.busy += 1
        try:
            act()
        finally:
            with self.changed:
                self.busy -= 1
                self.changed.notify_all()

    def pause(self):
        self.gate.clear()
        with self.changed:
            self.changed.wait_for(lambda: self.busy == 0)

    def rows(self):
        session = Session(self.server)

        def one():
            n = self.committed + 1
            table, rows = update(n)
            text = "BEGIN;"
            for row in rows:
                a, b, j, txt, x = values(n, row)
                text += f"UPDATE t_{table} SET a={a}, b='{b}', j='{json.dumps(j)}', txt='{txt}', g=POINT({x}, {row}) WHERE id={row};"
            said = session.ask(text)
            if said:  # the table is renamed just now, or the definition changed
                session.ask("ROLLBACK")
                time.sleep(0.02)
                return
            said = session.ask(f"INSERT INTO ledger VALUES ({n}); COMMIT")
            if said:
                self.problems.append(f"transaction {n}: {said}")
                raise RuntimeError(said)
            self.committed = n
        while not self.stop:
            self.step(one)
            time.sleep(0.003)
        session.end()

    def define(self, table, pick):
        session, todo = Session(self.server), []
        while not self.stop:
            if not todo:
                todo = alters(self.kind)
                pick.shuffle(todo)
            name, statement, undo = todo.pop()
            if self.only_logged and self.kind == "mysql" and not name.startswith(("copy", "instant", "new", "rename", "truncate")):
                continue

            def one(words):
                said = [line for line in session.ask(words.format(t=f"t_{table}")) if line.startswith("ERROR")]
                if not said:
                    self.did[name] += 1
            self.step(lambda: one(statement))
            if not name.startswith("rename"):
                time.sleep(pick.choice([0, 0.05, 0.3]))
            self.step(lambda: one(undo))
        session.end()

    def end(self):
        self.stop = True
        self.gate.set()
        for thread in self.threads:
            thread.join()


def innokit(*words, cwd):
    program = os.environ.get("INNOKIT", HERE.parent / "target/debug/innokit")
    ran = subprocess.run([program, *map(str, words)], cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return ran.returncode, ran.stdout + ran.stderr


def lsn(session, kind):
    if kind == "mysql":
        return int(session.ask("SELECT JSON_EXTRACT(storage_engines, '$.InnoDB.LSN') FROM performance_schema.log_status")[0])
    return int(session.ask("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'")[0].split()[-1])


def differences(kind, out, least, most):
    """What is wrong with a restored datadir, as sentences."""
    server, wrong = Server(kind, out), []
    try:
        server.script("start")
    except RuntimeError as error:
        return [f"the server does not start: {error}"]
    session = Session(server)
    try:
        upto, count = (int(v or 0) for v in session.ask("SELECT IFNULL(MAX(n), 0), COUNT(*) FROM ledger")[0].split("\t"))
        if upto != count or not least <= upto <= most:
            wrong.append(f"the ledger ends at {upto} with {count} rows; it was between {least} and {most}")
        names = session.ask("SELECT table_name FROM information_schema.tables WHERE table_schema='shop' AND table_name NOT IN ('ledger')")
        for table, rows in enumerate(expected(upto)):
            name = next((name for name in names if name in (f"t_{table}", f"t_{table}_away")), None)
            if name is None:
                wrong.append(f"t_{table} is missing: {names}")
                continue
            wrong += compared(session, name, rows)
        for name in names:
            wrong += indexes_of_others(session, name) if re.search("_(new|sel|tr)$", name) else []
        for name in names + ["ledger"]:
            for _ in range(20):  # purge may remove what CHECK TABLE counts
                said = [line for line in session.ask(f"CHECK TABLE {name} EXTENDED") if not line.endswith("\tOK")]
                if not said:
                    break
                time.sleep(0.3)
            wrong += [f"CHECK TABLE {name}: {line}" for line in said]
    except (RuntimeError, ValueError, IndexError) as error:
        wrong.append(f"asking the restored server: {error!r}")
    finally:
        try:
            session.end()
            server.script("stop")
        except Exception as error:  # it may have stopped itself
            wrong.append(f"stopping: {error}")
    return wrong


def indexes(session, name):
    asked = session.ask("SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema='shop' AND table_name="
                        f"'{name}' ORDER BY 1")
    return [index for index in asked if index != "PRIMARY"]


def indexes_of_others(session, name):
    asked = "SELECT COUNT(*), IFNULL(SUM(id), 0) FROM {} {}"
    wrong, rows = [], session.ask(asked.format(name, ""))
    for index in indexes(session, name):
        if index in ("ft", "sp", "km", "kf"):
            continue
        column = {"kb": "b" if name.endswith("_tr") else "id", "ku": "b", "ks": "s", "kv": "v"}.get(index, "a")
        said = session.ask(asked.format(name, f"FORCE INDEX ({index}) WHERE {column} IS NOT NULL"))
        if said != rows:
            wrong.append(f"{name}, index {index}: {said}, should be {rows}")
    return wrong


def compared(session, name, rows):
    wrong = []
    read = session.ask(f"SELECT id, a, b, j, txt, ST_X(g) FROM {name} ORDER BY id")
    for line in read:
        id_, a, b, j, txt, x = line.split("\t")
        if (int(a), b, json.loads(j), txt, int(float(x))) != rows.get(int(id_)):
            return [f"{name}: row {line}, should be {rows.get(int(id_))}"]
    if len(read) != len(rows):
        wrong.append(f"{name}: {len(read)} rows, should be {len(rows)}")
    present = indexes(session, name)
    everything = [str(len(rows)), str(sum(a for a, *_ in rows.values()))]
    conditions = {"ka": "a >= 0", "ku": "b >= ''", "kb": "b >= ''", "ks": "s = 3", "kv": "v >= 1", "kf": "a * 2 >= 0"}
    for index in present:
        if index in conditions:
            for ask in (f"SELECT COUNT(*), SUM(a) FROM {name} FORCE INDEX ({index}) WHERE {conditions[index]}",
                        f"SELECT COUNT(*), {everything[1]} FROM {name} FORCE INDEX ({index}) WHERE {conditions[index]}"):
                said = session.ask(ask)
                if said != ["\t".join(everything)]:
                    wrong.append(f"{name}, index {index}: {said}, should be {everything}")
        elif index == "km":
            for value in range(0, 100, 7):
                said = session.ask(f"SELECT COUNT(*) FROM {name} FORCE INDEX (km) WHERE {value} MEMBER OF (j->'$')")
                right = sum(value in j for _, _, j, _, _ in rows.values())
                if said != [str(right)]:
                    wrong.append(f"{name}, index km: {said} for {value}, should be {right}")
        elif index == "ft":
            for word in range(0, 20, 3):
                said = session.ask(f"SELECT COUNT(*) FROM {name} WHERE MATCH (txt) AGAINST ('+word{word}' IN BOOLEAN MODE)")
                right = sum(f"word{word} " in txt for _, _, _, txt, _ in rows.values())
                if said != [str(right)]:
                    wrong.append(f"{name}, index ft: {said} for word{word}, should be {right}")
        elif index == "sp":
            for x in range(0, 100, 10):
                box = f"ST_GeomFromText('POLYGON(({x} -1,{x + 9} -1,{x + 9} {ROWS},{x} {ROWS},{x} -1))')"
                said = session.ask(f"SELECT COUNT(*) FROM {name} FORCE INDEX (sp) WHERE MBRIntersects({box}, g)")
                right = sum(x <= at <= x + 9 for *_, at in rows.values())
                if said != [str(right)]:
                    wrong.append(f"{name}, index sp: {said} for {x}, should be {right}")
    return wrong


def begun(kind, data):
    """A new server with the tables."""
    server = Server(kind, data)
    server.script("init", "--innodb-redo-log-capacity=256M" if kind == "mysql" else "--innodb-log-file-size=256M")
    server.script("start")
    server.script("sql", stdin="CREATE DATABASE shop")
    session = Session(server)
    geometry = "POINT NOT NULL SRID 0" if kind == "mysql" else "POINT NOT NULL"
    text = "CREATE TABLE ledger (n INT PRIMARY KEY);"
    for table in range(TABLES):
        text += f"CREATE TABLE t_{table} (id INT PRIMARY KEY, a INT, b VARCHAR(100), j JSON, txt TEXT, g {geometry}) ENGINE=InnoDB;"
        rows = []
        for row in range(ROWS):
            a, b, j, txt, x = values(0, row)
            rows.append(f"({row},{a},'{b}','{json.dumps(j)}','{txt}',POINT({x},{row}))")
        text += f"INSERT INTO t_{table} VALUES {','.join(rows)};"
    said = session.ask(text)
    if said:
        raise RuntimeError(f"making the tables: {said[:5]}")
    session.end()
    return server


class Soak:
    def __init__(self, options):
        self.kind, self.options, self.root = options.kind, options, pathlib.Path(options.dir).resolve()
        self.counts, self.failures, self.did = collections.Counter(), [], collections.Counter()
        self.pick = random.Random(options.seed)
        self.end = time.time() + options.seconds

    def log(self, text):
        print(time.strftime("%H:%M:%S"), self.kind, text, flush=True)

    def fail(self, what, wrong, keep):
        self.failures.append((what, wrong))
        self.log(f"FAILED {what}: {wrong}")
        kept = self.root / f"failed-{len(self.failures)}"
        kept.mkdir(exist_ok=True)
        (kept / "why").write_text("\n".join([what, *wrong]))
        if len(self.failures) <= 3:
            for path in keep:
                if path.exists():
                    shutil.copytree(path, kept / path.name, dirs_exist_ok=True)

    def judge(self, what, out, least, most, keep, how=""):
        wrong = differences(self.kind, out, least, most)
        shutil.rmtree(out.parent / f".{out.name}.server", ignore_errors=True)
        if wrong:
            self.fail(what, [how, *wrong], keep)
        else:
            self.counts[what + " equal"] += 1
        shutil.rmtree(out, ignore_errors=True)

    def restored_to_moment(self, session, load, set_, folder, archiver):
        time.sleep(self.pick.choice([0.1, 0.5, 1.5]))
        least, at = load.committed, lsn(session, self.kind)
        most = load.committed + 1
        time.sleep(0.3)
        load.pause()
        session.ask("FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS")
        for _ in range(600):
            _, report = innokit("redo", "verify", "--json", "redo", cwd=folder)
            if json.loads(report)["ranges"][-1]["end_lsn"] >= at:
                break
            time.sleep(0.1)
        archiver.terminate()
        archiver.wait()
        out, asked = folder / "out", set()
        while True:
            status, said = innokit("restore", "--redo", "redo", "--until", at, "--to", "out", set_.name, cwd=folder)
            if status == 0:
                break
            self.counts["moments refused"] += 1
            named = re.findall(r"--until (\d+)", said)
            shutil.rmtree(out, ignore_errors=True)
            if status != 2 or not named or int(named[-1]) in asked:
                self.fail("moment", [f"status {status}, no way out at {at}: {said}"], [set_, folder / "redo"])
                return
            at, least, most = int(named[-1]), 0, most
            asked.add(at)
        self.judge("moment", out, least, most, [set_, folder / "redo"], f"--until {at}")

    def archiver(self, folder):
        """Follows the log until it is stopped, and has begun when this returns."""
        shutil.rmtree(folder / "redo", ignore_errors=True)
        program = os.environ.get("INNOKIT", HERE.parent / "target/debug/innokit")
        words = [program, "redo", "archive", "--user", "root", "--socket", self.socket, "--to", "redo", "data"]
        archiver = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (folder / "redo/marks").exists() or not list((folder / "redo").glob("redo.*")):
            time.sleep(0.05)
        time.sleep(0.3)
        return archiver

    def server(self, number):
        folder = self.root / f"server-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        server = begun(self.kind, folder / "data")
        self.socket = server.script("socket").strip()
        session = Session(server)
        load = Load(self.kind, server, self.options.seed * 1000 + number * 10)
        try:
            for index in range(self.options.each):
                if time.time() > self.end or self.counts["backup equal"] >= self.options.backups:
                    return
                self.one(session, load, folder, index)
                if load.problems:
                    self.fail("load", load.problems, [])
                    return
        finally:
            load.end()
            self.did += load.did
            session.end()
            server.script("kill9")
            shutil.rmtree(folder)

    def increment(self, load, set_, folder, index):
        time.sleep(self.pick.choice([0.1, 0.6, 1.2]))
        more, least = folder / "more", load.committed
        status, said = innokit("backup", "--incremental-since", set_.name, "--user", "root", "--socket", self.socket, "--to", "more", "data", cwd=folder)
        most = load.committed + 1
        if status:
            self.counts[f"increment status {status}"] += 1
            if status == 1 or "take the backup again" not in said:
                self.fail("increment", [f"status {status}: {said}"], [set_, more])
        else:
            load.pause()
            status, said = innokit("restore", "--increment", "more", "--to", "out", set_.name, cwd=folder)
            if status:
                self.fail("increment", [f"restore, status {status}: {said}"], [set_, more])
            else:
                self.judge("increment", folder / "out", least, most, [set_, more])
        shutil.rmtree(more, ignore_errors=True)

    def one(self, session, load, folder, index):
        with_moment = index % 3 == 2
        set_ = folder / "set"
        load.gate.set()
        time.sleep(self.pick.choice([0, 0.2, 0.7, 1.5]))
        archiver = self.archiver(folder) if with_moment else None
        least = load.committed
        status, said = innokit("backup", "--user", "root", "--socket", self.socket, "--to", "set", "data", cwd=folder)
        most = load.committed + 1
        if status:
            self.counts[f"backup status {status}"] += 1
            self.log(f"backup: status {status}: {said.strip()[-600:]}")
            if archiver:
                archiver.terminate()
                archiver.wait()
            if status == 1 or "take the backup again" not in said:
                self.fail("backup", [f"status {status}: {said}"], [set_])
            shutil.rmtree(set_, ignore_errors=True)
            return
        load.only_logged = with_moment and self.pick.random() < 0.6
        if with_moment:
            self.restored_to_moment(session, load, set_, folder, archiver)
            load.only_logged = False
        if index % 3 == 1:
            self.increment(load, set_, folder, index)
        load.pause()
        status, said = innokit("restore", "--to", "out", set_.name, cwd=folder)
        if status:
            self.fail("restore", [f"status {status}: {said}"], [set_])
        else:
            self.judge("backup", folder / "out", least, most, [set_])
        shutil.rmtree(set_, ignore_errors=True)
        total = sum(self.counts.values())
        if total % 5 == 0:
            self.log(dict(self.counts))

    def run(self):
        number = 0
        while time.time() < self.end and self.counts["backup equal"] < self.options.backups and len(self.failures) < 10:
            number += 1
            self.server(number)
        self.log(f"statements: {dict(self.did)}")
        self.log(f"{dict(self.counts)}, {len(self.failures)} failures, seed {self.options.seed}")
        return 1 if self.failures else 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("kind", choices=["mysql", "mariadb"])
    options.add_argument("--seconds", type=int, default=600)
    options.add_argument("--backups", type=int, default=10_000)
    options.add_argument("--each", type=int, default=12, help="backups of each server")
    options.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    options.add_argument("--dir", default="target/soak-backups")
    sys.exit(Soak(options.parse_args()).run())


main()
