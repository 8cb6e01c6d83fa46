"""Real servers write the tables and say what is in them. See scripts/test-ecosystem.sh."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(os.environ.get("INNOKIT_REPOSITORY") or pathlib.Path(__file__).parents[2])
DATADIRS = os.environ.get("INNOKIT_DATADIRS")
TYPES = REPOSITORY / "crates/innokit/tests/rows"
# Expressions that show a column's value without loss, for rows/readers.py.
sys.path.insert(0, str(TYPES))

# These need engines that only one environment has.
collect_ignore = [] if os.environ.get("INNOKIT_CLUSTER") else ["test_spark.py", "test_ray.py", "test_daft.py"]
KINDS = ("mysql", "mariadb", "mariadb118")
VECTORS = (
    "CREATE TABLE ty.vec (id INT PRIMARY KEY, v VECTOR(3), w VECTOR(4)); "
    "INSERT INTO ty.vec VALUES (1, VEC_FromText('[1,2.5,-3]'), NULL), (2, NULL, VEC_FromText('[0.1,1e10,3e-10,4]'));"
)

# Keys of every kind, for splits. A page of `deep` holds five keys, so it has more than 256 pages of level 1.
KEYS = """
CREATE DATABASE sp; USE sp;
CREATE TABLE digits (d INT PRIMARY KEY); INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
CREATE TABLE n (i INT PRIMARY KEY);
INSERT INTO n SELECT a.d + 10*b.d + 100*c.d + 1000*e.d + 10000*f.d FROM digits a, digits b, digits c, digits e, digits f WHERE f.d < 2;
CREATE TABLE deep (k VARBINARY(2900) PRIMARY KEY, v INT) CHARACTER SET latin1;
INSERT INTO deep SELECT RPAD(LPAD(i, 6, '0'), 2900, 'k'), i FROM n WHERE i < 8000 ORDER BY i;
CREATE TABLE composite (a INT, b VARCHAR(20), v VARCHAR(200), PRIMARY KEY (a, b));
INSERT INTO composite SELECT i%100, CONCAT('b', i), REPEAT(CHAR(97+i%26), 150) FROM n;
CREATE TABLE pairs (a INT, b VARBINARY(20), v INT, PRIMARY KEY (a, b));
INSERT INTO pairs SELECT i%100, CONCAT('it''s, ', i), i FROM n WHERE i < 9000;
CREATE TABLE `signed` (id INT PRIMARY KEY, v VARCHAR(200));
INSERT INTO `signed` SELECT i*7 - 70000, REPEAT('s', 150) FROM n;
CREATE TABLE texts (k VARCHAR(60) CHARACTER SET utf8mb4 PRIMARY KEY, v INT);
INSERT INTO texts SELECT CONCAT(ELT(1+i%4, 'Ä', 'a', 'Z', 'é'), LEFT(SHA2(i, 256), 40)), i FROM n WHERE i < 9000;
CREATE TABLE descending (id INT, v VARCHAR(200), PRIMARY KEY (id DESC));
INSERT INTO descending SELECT i, REPEAT('d', 100) FROM n WHERE i < 9000;
CREATE TABLE nokey (a INT, b VARCHAR(100));
INSERT INTO nokey SELECT i%7, REPEAT('n', 90) FROM n WHERE i < 9000;
CREATE TABLE parted (id INT PRIMARY KEY, v VARCHAR(100)) PARTITION BY RANGE (id)
  (PARTITION none VALUES LESS THAN (0), PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN (9000), PARTITION rest VALUES LESS THAN MAXVALUE);
INSERT INTO parted SELECT i, REPEAT('p', 90) FROM n WHERE i < 15000;
CREATE TABLE outside (id INT PRIMARY KEY, b LONGBLOB, v INT);
INSERT INTO outside SELECT i, REPEAT(UNHEX(LEFT(SHA2(i, 256), 32)), 50*(i%90)), i FROM n WHERE i < 900;
CREATE TABLE nothing (id INT PRIMARY KEY, v TEXT);
CREATE TABLE deleted (id INT PRIMARY KEY, v VARCHAR(100));
INSERT INTO deleted SELECT i, REPEAT('x', 90) FROM n WHERE i < 9000;
DELETE FROM deleted WHERE id%3 = 0;
"""


def needs_servers(function):
    return pytest.mark.skipif(not DATADIRS, reason="needs real servers: make test-ecosystem")(function)


def shown(kind, column):
    """The expression that shows a column's value without loss."""
    text = "char varchar tinytext text mediumtext longtext enum set json inet4 inet6".split()
    if kind in ("float", "double"):
        return f"{column}+0e0"
    if kind == "bit":
        return f"{column}+0"
    if kind in text:
        return f"HEX(CONVERT({column} USING utf8mb4))"
    if kind in "uuid tinyint smallint mediumint int bigint decimal year date time datetime timestamp".split():
        return column
    return f"HEX({column})"


@dataclasses.dataclass
class Said:
    """A server's answers about a table."""

    columns: list  # name, type, declaration
    rows: list  # a list of fields each, as text
    count: int
    checksum: int | None


class Server:
    def __init__(self, kind, folder):
        self.kind, self.datadir = kind, folder / "data"
        self.run("init")
        self.run("start")

    def run(self, action, *arguments, text=None):
        command = [REPOSITORY / "scripts/server.sh", self.kind, action, self.datadir, *arguments]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True, encoding="utf-8")
        return done.stdout

    def sql(self, text):
        return self.run("sql", "--batch", "--skip-column-names", text=text)

    def lines(self, text):
        # Only a newline ends a line, not everything that Python would accept.
        return self.sql(text).split("\n")[:-1]

    def said(self, schema):
        """All tables of a schema, by name."""
        names = self.lines(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}' ORDER BY 1")
        sums = self.lines("".join(f"CHECKSUM TABLE `{schema}`.`{name}`;" for name in names))
        counts = self.lines("".join(f"SELECT COUNT(*) FROM `{schema}`.`{name}`;" for name in names))
        columns = {name: [] for name in names}
        for line in self.lines(
            "SELECT table_name, column_name, data_type, column_type FROM information_schema.columns "
            f"WHERE table_schema = '{schema}' AND extra NOT LIKE '%VIRTUAL%' AND column_name NOT IN ('row_start', 'row_end') "
            "ORDER BY table_name, ordinal_position"
        ):
            name, *column = line.split("\t")
            columns[name].append(column)
        # In one session, with a line between tables that cannot be a row.
        selects = "SET time_zone = '+00:00';"
        for name in names:
            select = ",".join(shown(kind, "`" + column.replace("`", "``") + "`") for column, kind, _ in columns[name])
            selects += f"SELECT '\1'; SELECT {select} FROM `{schema}`.`{name}`;"
        rows = [[]]
        for line in self.lines(selects):
            if line == "\1":
                rows.append([])
            else:
                rows[-1].append(line.split("\t"))
        all_said = {}
        for name, checksum, count, of_table in zip(names, sums, counts, rows[1:], strict=True):
            checksum = checksum.split("\t")[1]
            value = None if checksum == "NULL" else int(checksum)
            all_said[name] = Said(columns[name], of_table, int(count), value)
        return all_said


@dataclasses.dataclass
class Written:
    """The datadir of a stopped server, and the server's answers about its tables."""

    kind: str
    datadir: pathlib.Path
    types: dict
    keys: dict

    def copy(self, table, folder):
        """One table with everything that a reader needs, in its own folder. Returns the tablespace."""
        schema, name = table.split(".")
        (folder / schema).mkdir(parents=True)
        for file in [*self.datadir.glob(f"{schema}/{name}.*"), *self.datadir.glob("ibdata*")]:
            if self.kind != "mysql" or file.suffix == ".ibd":
                shutil.copy(file, folder / file.relative_to(self.datadir))
        return folder / schema / f"{name}.ibd"


def written(kind, folder):
    server = Server(kind, folder)
    try:
        own = (TYPES / ("mysql.sql" if kind == "mysql" else "mariadb.sql")).read_text(encoding="utf-8")
        own += VECTORS if kind == "mariadb118" else ""
        server.run("sql", "--force", text=(TYPES / "tables.sql").read_text(encoding="utf-8") + own)
        server.sql(KEYS)
        result = Written(kind, server.datadir, server.said("ty"), server.said("sp"))
        server.run("stop", "0")
        return result
    finally:
        server.run("stop")


@pytest.fixture(scope="session")
def datadirs(tmp_path_factory):
    """Each server's datadir, created when first needed."""
    known = {}

    def of(kind):
        if kind not in known:
            known[kind] = written(kind, tmp_path_factory.mktemp(kind))
        return known[kind]

    return of


@pytest.fixture(params=KINDS)
def server(request, datadirs):
    """Every type and every kind of key, written by each server."""
    return datadirs(request.param)


@pytest.fixture
def mysql(datadirs):
    """The same from one server, for tests that do not depend on it."""
    return datadirs("mysql")


@pytest.fixture(scope="session")
def buckets(tmp_path_factory):
    """An S3 server that this process and its children find through their environment."""
    from buckets import Buckets

    server = Buckets(tmp_path_factory.mktemp("s3"))
    yield server
    server.close()


def break_page(path, page, page_size=16384):
    """Changes bytes in the middle of a page without updating its checksum, as a disk does: the times of the file stay."""
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(page * page_size + page_size // 2)
        before = file.read(8)
        file.seek(-8, os.SEEK_CUR)
        file.write(bytes(byte ^ 0x55 for byte in before))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def units(split):
    """The pages that a split names, from its pickled form."""
    import json

    state = json.loads(split.__reduce__()[1][0])
    return [(part["level"], part["units"]) for part in state["split"]["parts"]]


def hinted(function):
    """The arguments of a function according to the type hints of its module."""
    import ast
    import inspect

    tree = ast.parse(pathlib.Path(inspect.getsourcefile(function)).with_suffix(".pyi").read_text())
    [node] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function.__name__]
    return [argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]]
