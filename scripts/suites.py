#!/usr/bin/env python3
"""Has a server make the tables of its own test suites, and compares what innokit reads of them with what the server shows.

    suites.py KIND [--suite NAME ...] [--file PATTERN] [--batch N] [--first N] [--limit N] [--dir DIR] [--keep]      KIND: mysql, mariadb or mariadb118

The statements of each test file run in a database of their own, one after the other, without what only a test driver can do: loops run once,
conditions always. What the file drops is renamed instead, so that its tables are all there at the end. Many statements fail, as many are
meant to. After each batch of files the server is stopped, and of every InnoDB table:

- `table check --extended` and `check` find nothing,
- `table checksum` is the server's CHECKSUM TABLE, unless it depends on virtual columns,
- `table schema` is SHOW CREATE TABLE (without what docs/schema.md names: AUTO_INCREMENT, AUTOEXTEND_SIZE, DATA DIRECTORY, and what the server
  computes when it prints an expression),
- rows as TSV are those of the server's INTO OUTFILE, in any order, unless the table has columns that are computed, rounded or hidden, or
  versions of its rows, or years of two digits,
- an empty server that takes `table schema` and `table export --format sql` has the same CHECKSUM TABLE (but with a multi-valued index MySQL
  sums addresses, the sum over virtual columns is not repeatable, and versions of rows cannot be inserted).

It needs scripts/install-servers.sh, scripts/install-suites.sh, and the program: INNOKIT=target/debug/innokit. Status 0 if nothing differed.
"""
import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from functools import reduce

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("INNOKIT_SERVERS", pathlib.Path.home() / ".cache/innokit"))
#: Suites of single servers and of their own formats. Others are about replication, variables, other engines.
SUITES = ("main", "innodb", "innodb_fts", "innodb_gis", "innodb_zip", "innodb_undo", "json", "gcol", "parts", "gis", "collations", "versioning",
          "vcol", "period", "sql_sequence", "engines/funcs", "engines/iuds", "compat/oracle", "encryption", "stress", "opt_trace", "jp",
          "funcs_1", "atomic", "mariabackup", "json_table", "multi_source", "unit", "secondary_engine", "information_schema", "heap", "maria")
#: Commands of the test driver. What follows them up to the delimiter is no statement.
COMMANDS = set("""append_file assert cat_file change_user character_set chmod close connect connection copy_file copy_files_wildcard dec
delimiter die diff_files dirty_close disable_abort_on_error disable_async_client disable_cursor_protocol disable_connect_log disable_info
disable_metadata disable_non_blocking_api disable_parsing disable_prepare_warnings disable_ps_protocol disable_ps2_protocol disable_query_log
disable_reconnect disable_result_log disable_rpl_parse disable_service_connection disable_session_track_info disable_testcase
disable_view_protocol disable_warnings disconnect echo enable_abort_on_error enable_async_client enable_connect_log enable_cursor_protocol
enable_info enable_metadata enable_non_blocking_api enable_parsing enable_prepare_warnings enable_ps_protocol enable_ps2_protocol
enable_query_log enable_reconnect enable_result_log enable_rpl_parse enable_service_connection enable_session_track_info enable_testcase
enable_view_protocol enable_warnings end end_timer error eval_result exec exec_in_background execw exit expr file_exists force-cpdir
force-rmdir horizontal_results inc let list_files list_files_append_file list_files_write_file lowercase_result mkdir move_file output
partially_sorted_result perl ping query query_attributes query_get_value query_horizontal query_vertical real_sleep reap remove_file
remove_files_wildcard replace_column replace_numeric_round replace_regex replace_result require reset_connection resume_test_log result
result_format rmdir rpl_sync save_master_pos send send_eval send_quit send_shutdown shutdown_server skip sleep sorted_result source
start_timer sync_slave_with_master sync_with_master system timer vertical_results wait_for_slave_to_stop write_file write_line
optimizer_trace evalp""".split())
#: Statements that are for another server than this one, or end it, or wait.
LEFT_OUT = re.compile(
    r"^\s*(shutdown|restart|kill|flush\s+tables\s+.*(read\s+lock|for\s+export)|lock\s+(instance|tables)|unlock|grant|revoke|create\s+(user|role|server)|"
    r"drop\s+(user|role|database|schema|server)|rename\s+user|alter\s+(user|instance|server)|set\s+password|install|uninstall|change\s+|start\s+(slave|replica|"
    r"group)|stop\s|reset\s|purge\s|clone\s|xa\s|begin\s+not|backup\s|set\s+(global|persist|@@global|@@persist|sql_log_bin|debug|session\s+debug|"
    r"@@debug|timestamp)|help\s|select\s+(sleep|benchmark|get_lock|release)|.*\b(sleep|benchmark|get_lock|wait_for_executed)\s*\(|show\s|explain\s|"
    r"analyze\s+format|do\s+sleep|create\s+(or\s+replace\s+)?event|alter\s+event|use\s+(mysql|sys)\b|.*\bmysql\.)", re.I | re.S)
DROP = re.compile(r"^\s*drop\s+tables?\s+(?:/\*.*?\*/\s*)?(?:if\s+exists\s+)?(.*?)\s*(?:restrict|cascade)?\s*$", re.I | re.S)
MADE = re.compile(r"^\s*create\s+(?:or\s+replace\s+)?(?:database|schema)\s+(?:if\s+not\s+exists\s+)?`?(\w+)`?(.*)$", re.I | re.S)
NAME = re.compile(r"^(?:(`(?:[^`]|``)*`|[\w$]+)\s*\.\s*)?(`(?:[^`]|``)*`|[\w$]+)$")
#: Types whose text is no text, or not the only one.
ODD = set("float double json binary varbinary tinyblob blob mediumblob longblob bit geometry point linestring polygon multipoint multilinestring "
          "multipolygon geometrycollection geomcollection vector".split())
#: Such a table has rows that it had, and columns that nothing shows; INSERT gives it neither.
VERSIONED = "WITH SYSTEM VERSIONING"
#: The sequence of a default.
NEXT_VALUE = re.compile(r"nextval\(`([^`]+)`\.`([^`]+)`\)")
#: What the server computes when it prints an expression: the file has the statement's own words (docs/schema.md).
COMPUTED = [(r"(?<=[a-z`)] in )\([^()]*\)", "(constants)"), (r"!(`[^`]+`)", r"\1 = 0"), (r"(weight_string\(.*?,)\d+\)", r"\1flags)")]
#: What the client says when its server is gone.
LOST = re.compile(rb"ERROR (2002|2006|2013|2026)")
#: Begins what a session says of the next table.
MARK = "next table of suites"
SYSTEM = "('mysql','sys','information_schema','performance_schema')"


class File:
    """The statements of one test file, each in bytes as latin1 text."""

    def __init__(self, path, root, number):
        self.path, self.root, self.number = path, root, number
        self.delimiter, self.variables = ";", {}
        self.databases, self.kept = {"test": f"s{number}"}, 0
        self.left = 20_000

    def statements(self):
        yield f"CREATE DATABASE s{self.number}; USE s{self.number}; SET NAMES utf8mb4;"
        for statement in self.read(self.path, 0):
            if not statement.strip() or LEFT_OUT.match(statement):
                continue
            self.left -= 1
            if self.left < 0:
                return
            yield from self.kept_instead(self.moved(statement))

    def read(self, path, depth):
        """The statements of a file and of those that it includes."""
        text = path.read_bytes().decode("latin1")
        at = 0
        while at < len(text):
            line_end = text.find("\n", at)
            line_end = len(text) if line_end < 0 else line_end
            line = text[at:line_end].strip()
            if not line or line.startswith("#"):
                at = line_end + 1
                continue
            if line.startswith("--"):
                at = line_end + 1
                words = line[2:].strip()
                if (words.split(None, 1) or [""])[0].lower() in ("write_file", "append_file", "perl"):
                    at = self.after_block(text, at)
                yield from self.command(words, depth)
                continue
            if line in ("{", "}"):
                at = line_end + 1
                continue
            end = self.end_of(text, at)
            words = text[at:end]
            at = end + len(self.delimiter)
            # A condition or a loop: its body as if it ran once.
            while True:
                words = words.strip()
                head = re.match(r"(?:(?:if|while)\s*\(.*?\)\s*\{|\}|#[^\n]*\n)", words, re.S)
                if not head:
                    break
                words = words[head.end():]
            first = (re.match(r"[a-z_-]+", words, re.I) or [""])[0].lower()
            if first in ("write_file", "append_file", "perl"):
                at = self.after_block(text, at)
            elif first in COMMANDS:
                yield from self.command(words, depth)
            elif first in ("eval", "evalp"):
                yield self.filled(words.split(None, 1)[1] if " " in words or "\n" in words else "")
            elif words and not words.startswith("--"):
                yield words

    def end_of(self, text, at):
        """The end of the statement at an offset: its delimiter outside of quotes."""
        quote = None
        while at < len(text):
            letter = text[at]
            if quote:
                if letter == "\\" and quote != "`":
                    at += 1
                elif letter == quote:
                    quote = None
            elif text.startswith(self.delimiter, at):
                return at
            elif letter in "'\"`":
                quote = letter
            elif letter == "#" or text.startswith("-- ", at):
                at = text.find("\n", at)
                if at < 0:
                    return len(text)
            at += 1
        return len(text)

    @staticmethod
    def after_block(text, at):
        found = re.compile(r"^EOF\s*$", re.M).search(text, at)
        return found.end() if found else len(text)

    def command(self, words, depth):
        words = words.strip().rstrip(";")
        name, _, rest = words.partition(" ")
        name, rest = name.lower(), rest.strip()
        if name == "delimiter":
            self.delimiter = rest.strip() or ";"
        elif name == "let" and "`" not in rest:
            key, _, value = rest.partition("=")
            self.variables[key.strip().lstrip("$")] = value.strip()
        elif name == "character_set":
            yield f"SET NAMES {rest}"
        elif name in ("eval", "evalp", "send", "send_eval", "query_vertical", "query_horizontal"):
            yield self.filled(rest)
        elif name == "source" and depth < 4:
            path = self.root / self.filled(rest).strip()
            if path.is_file() and not re.match(r"(have|not|no|wait|restart|shutdown|count|kill|start_mysqld|rpl|master|big|linux|default_)", path.name):
                delimiter = self.delimiter
                yield from self.read(path, depth + 1)
                self.delimiter = delimiter

    def filled(self, text):
        return re.sub(r"\$(\w+)", lambda found: self.variables.get(found[1], found[0]), text)

    def moved(self, statement):
        """The statement in databases that no other file uses."""
        made = MADE.match(statement)
        if made:
            name = f"s{self.number}_{len(self.databases)}_{made[1]}"[:60]
            self.databases[made[1]] = name
            return f"CREATE DATABASE `{name}` {made[2]}"
        for name, moved in self.databases.items():
            statement = re.sub(rf"\buse\s+`?{name}`?\s*$", f"USE `{moved}`", statement, flags=re.I)
            statement = re.sub(rf"(?<![\w$@.'\"/])`?{name}`?\s*\.\s*(?=[\w`])", f"`{moved}`.", statement)
        return statement

    def kept_instead(self, statement):
        """A table that would be dropped is renamed before."""
        dropped = DROP.match(statement)
        for name in dropped[1].split(",") if dropped else ():
            if NAME.match(name.strip()):
                self.kept += 1
                yield f"RENAME TABLE {name.strip()} TO kept.s{self.number}_{self.kept}"
        yield statement


class Server:
    def __init__(self, kind, datadir, options=()):
        self.kind, self.datadir, self.options = kind, datadir, list(options)

    def run(self, action, *words, stdin=b"", timeout=600, check=True):
        done = subprocess.run([HERE / "server.sh", self.kind, action, self.datadir, *words], input=stdin, capture_output=True, timeout=timeout)
        if check and done.returncode:
            sys.exit(f"suites: {action} of {self.kind}: {done.stderr.decode('latin1')[-2000:]}")
        return done.stdout

    def make(self):
        shutil.rmtree(self.datadir, ignore_errors=True)
        self.run("init")
        self.start()

    def start(self):
        self.run("start", *self.options)

    def ask(self, sql):
        """Rows as lists of text, in which tabs and line ends are escaped."""
        out = self.run("sql", "--batch", "--skip-column-names", "--default-character-set=utf8mb4", stdin=sql.encode())
        return [line.split("\t") for line in out.decode("utf8", "surrogateescape").split("\n") if line]

    def answers(self, sql):
        """What a session says after each `SELECT MARK, number`: the number, and the lines up to the next one, errors among them."""
        words = [HERE / "server.sh", self.kind, "sql", self.datadir, "--batch", "--skip-column-names", "--force", "--unbuffered", "--binary-mode",
                 "--default-character-set=utf8mb4", "--max-allowed-packet=1G"]
        done = subprocess.run(words, input=sql, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3600)
        told = []
        for line in done.stdout.decode("utf8", "surrogateescape").split("\n"):
            if line.startswith(f"{MARK}\t"):
                told.append((int(line.split("\t")[1]), []))
            elif line and told:
                told[-1][1].append(line)
        return told

    def take(self, statements, seconds):
        """Runs statements; which of them fail does not matter. Returns whether that was in time, and whether the server still answers."""
        # A delimiter of the client's, which no statement has.
        text = b"DELIMITER $$END$$\n" + b"".join(it.encode("latin1", "replace") + b"\n$$END$$\n" for it in statements)
        words = ["--force", "--default-character-set=utf8mb4", "--skip-reconnect", "--binary-mode", "--init-command=SET SESSION lock_wait_timeout=2, innodb_lock_wait_timeout=2"]
        if self.kind == "mysql":
            words.append("--commands")
        try:
            done = subprocess.run([HERE / "server.sh", self.kind, "sql", self.datadir, *words], input=text, capture_output=True, timeout=seconds)
            return True, not LOST.search(done.stderr) or self.is_up()
        except subprocess.TimeoutExpired:
            return False, self.is_up()

    def is_up(self):
        return subprocess.run([HERE / "server.sh", self.kind, "sql", self.datadir, "-e", "DO 0"], capture_output=True).returncode == 0


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def unescaped(text):
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "0": "\0"}.get(found[1], found[1]), text)


class Batch:
    """The tables that some files made, on a server of their own."""

    def __init__(self, kind, files, where, program, seconds):
        self.kind, self.files, self.where, self.program, self.seconds = kind, files, where, program, seconds
        quick = ["--innodb-buffer-pool-size=256M", "--secure-file-priv=", "--performance-schema=OFF", "--skip-log-bin", "--max-connections=50", "--max-allowed-packet=1G"]
        if kind == "mysql":
            quick += ["--innodb-redo-log-capacity=200M", "--mysqlx=OFF", "--max-execution-time=20000"]
        else:
            quick += ["--max-statement-time=10"]
        self.server = Server(kind, where / "data", quick)
        self.differences, self.unreadable = [], []
        self.counts = collections.Counter()

    def differ(self, table, what):
        self.differences.append((table, what))

    def make(self):
        self.server.make()
        self.server.ask("CREATE DATABASE kept;")
        for file in self.files:
            is_in_time, is_up = self.server.take(file.statements(), self.seconds)
            if not is_in_time:
                self.counts["files that took too long"] += 1
            if not is_up:
                self.counts["files that ended the server"] += 1
                self.server.run("stop", check=False)
                self.server.start()
            self.counts["files"] += 1

    def shown(self):
        """What the server shows of each table."""
        ask = self.server.ask
        # What a session left behind is rolled back, and what an event or a thread still does is waited for.
        tables = ask(f"SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') "
                     f"AND engine = 'InnoDB' AND table_schema NOT IN {SYSTEM} ORDER BY 1, 2")
        columns = collections.defaultdict(list)
        query = f"SELECT table_schema, table_name, column_name, data_type, extra FROM information_schema.columns WHERE table_schema NOT IN {SYSTEM} ORDER BY 1, 2, ordinal_position"
        for schema, table, *column in ask(query):
            columns[unescaped(schema), unescaped(table)].append([unescaped(it) for it in column])
        self.tables = {}
        outfiles = self.where / "outfiles"
        outfiles.mkdir()
        outfiles.chmod(0o777)
        # One session for all: a start of the client takes longer than most tables.
        questions, names = "SET time_zone = '+00:00';\n", []
        for number, (schema, table) in enumerate(tables):
            schema, table = unescaped(schema), unescaped(table)
            name = f"{quoted(schema)}.{quoted(table)}"
            names.append((schema, table))
            questions += (f"SELECT '{MARK}', {number};\nCHECKSUM TABLE {name};\nSHOW CREATE TABLE {name};\n"
                          f"SELECT * INTO OUTFILE '{outfiles}/{number}' CHARACTER SET utf8mb4 FROM {name};\n")
        for number, lines in self.server.answers(questions.encode()):
            rows = [line.split("\t") for line in lines if not line.startswith("ERROR")]
            (schema, table), refused = names[number], [line for line in lines if line.startswith("ERROR")]
            # The server itself cannot read it: its function is gone, its file was taken away by the test; discarded, or damaged by the test.
            if refused or len(rows) < 2 or rows[0][1] == "NULL" or not (outfiles / str(number)).exists():
                self.counts["tables that the server cannot read"] += 1
                self.unreadable.append((f"{schema}.{table}", " ".join(refused)[:200]))
                continue
            self.tables[schema, table] = dict(checksum=rows[0][1], create=unescaped(rows[1][1]), columns=columns[schema, table], outfile=outfiles / str(number))
        self.counts["tables"] += len(self.tables)

    def innokit(self, *words):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True)
        if done.returncode not in (0, 1, 2):
            self.differ("innokit", f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.decode('utf8', 'replace')[-1500:]}")
        return done

    def only_left_out(self, what, done):
        """What an export says is only which columns no file has, and which values another format needs."""
        known = ("left out, because the server computes them", "values ", "value ")
        lines = [line for line in done.stderr.decode("utf8", "replace").split("\n") if line and not any(it in line for it in known)]
        # Tables of which no file has a column: docs/export.md.
        hollow = {".".join(name) for name, shown in self.tables.items() if all("VIRTUAL" in extra for _, _, extra in shown["columns"])}
        refused = [line for line in lines if line.partition(": not exported: none of its columns")[0] in hollow]
        lines = [line for line in lines if line not in refused]
        if done.returncode not in ((2,) if refused else (0,)) or lines:
            self.differ(what, f"status {done.returncode}: " + "\n".join(lines)[:1500])

    def compare(self):
        datadir = self.server.datadir
        for words in (["check"], ["table", "check", "--extended"]):
            done = self.innokit(*words, "--json", datadir)
            try:
                report = json.loads(done.stdout)
            except ValueError:
                self.differ(" ".join(words), f"no JSON, status {done.returncode}: {done.stderr.decode('utf8', 'replace')[-500:]}")
                continue
            if done.returncode:
                for finding in report.get("findings", []):
                    self.differ(" ".join(words), json.dumps(finding)[:600])
                if not report.get("findings"):
                    self.differ(" ".join(words), f"status {done.returncode}: {done.stdout.decode('utf8', 'replace')[:800]}")
        self.compare_checksums(datadir)
        self.compare_schemas(datadir)
        self.compare_rows(datadir)
        self.compare_back()

    def compare_checksums(self, datadir):
        done = self.innokit("table", "checksum", "--json", datadir)
        found = {table["table"]: table for table in json.loads(done.stdout)["tables"]}
        for (schema, table), shown in self.tables.items():
            name = f"{schema}.{table}"
            ours = found.get(name)
            if ours is None:
                self.differ(name, "table checksum does not know it")
            elif ours.get("checksum") is None:
                why = ours.get("not_computable") or "damage"
                self.counts["checksums not computed: " + re.sub(r"[`'\"].*?[`'\"]|[\w$]+\.[\w$]+|\d+", "…", why)[:90]] += 1
                if "virtual" not in why:
                    self.differ(name, f"no checksum: {why} {ours.get('damage')}")
            elif str(ours["checksum"]) != shown["checksum"] and str(ours.get("checksum_without_generated")) != shown["checksum"]:
                self.differ(name, f"checksum {ours['checksum']}, the server's is {shown['checksum']}\n{shown['create']}")
            else:
                self.counts["checksums equal"] += 1

    def compare_schemas(self, datadir):
        done = self.innokit("table", "schema", "--json", datadir)
        found = {(table["schema"], table["table"]): table for table in json.loads(done.stdout)["tables"]}
        # Properties of the file, and a counter that MySQL keeps elsewhere: docs/schema.md.
        properties = r" AUTO_INCREMENT=\d+| /\*!80023 AUTOEXTEND_SIZE=\d+ \*/| DATA DIRECTORY ?= ?'[^']*'"
        without = lambda text: reduce(lambda text, rule: re.sub(*rule, text), COMPUTED, re.sub(properties, "", text))
        for name, shown in self.tables.items():
            ours = found.get(name)
            if ours is None:
                self.differ(".".join(name), "table schema does not know it")
            elif without(ours["create_table"] or "") != without(shown["create"]):
                self.differ(".".join(name), f"schema:\n{ours['create_table']}\nthe server's:\n{shown['create']}")
            else:
                self.counts["schemas equal"] += 1

    def compare_rows(self, datadir):
        out = self.where / "tsv"
        done = self.innokit("table", "export", "--format", "tsv", "-o", f"{out}/", datadir)
        self.only_left_out("export --format tsv", done)
        for (schema, table), shown in self.tables.items():
            kinds = {kind for _, kind, _ in shown["columns"]}
            extras = " ".join(extra for _, _, extra in shown["columns"])
            # A year has four digits in what innokit writes, however few the server shows.
            is_odd = kinds & ODD or VERSIONED in shown["create"] or " year(2)" in shown["create"]
            if "VIRTUAL" in extras or "INVISIBLE" in extras or is_odd:
                continue
            ours = out / f"{schema}.{table}.tsv".replace("/", "@002f")
            if not ours.exists():
                self.differ(f"{schema}.{table}", "no rows were exported")
                continue
            one, other = (sorted(path.read_bytes().replace(b"\\\n", b"\\n").split(b"\n")) for path in (ours, shown["outfile"]))
            if one != other:
                ours_only, theirs_only = collections.Counter(one), collections.Counter(other)
                gone, new = list(theirs_only - ours_only), list(ours_only - theirs_only)
                self.differ(f"{schema}.{table}", f"rows: {len(one)} and {len(other)} lines, ours {str(new[:2])[:400]}, the server's {str(gone[:2])[:400]}\n{shown['create']}")
            else:
                self.counts["tables of equal rows"] += 1

    def compare_back(self):
        datadir, out = self.server.datadir, self.where / "sql"
        schema = self.innokit("table", "schema", datadir).stdout
        done = self.innokit("table", "export", "--format", "sql", "-o", f"{out}/", datadir)
        self.only_left_out("export --format sql", done)
        back = Server(self.kind, self.where / "back", self.server.options)
        back.make()
        try:
            errors = self.load(back, b"SET sql_mode = 'ALLOW_INVALID_DATES', innodb_strict_mode = 0; \n" + self.anywhere(schema))
            # A default from a sequence that the file dropped: no server makes such a table again.
            used = {name: set(NEXT_VALUE.findall(shown["create"])) - self.tables.keys() for name, shown in self.tables.items()}
            without = {name for name, sequences in used.items() if sequences}
            gone = [f"'{database}.{name}' doesn't exist" for database, name in set().union(*used.values())]
            for line in [line for line in errors if not any(it in line for it in gone)][:20]:
                self.differ("table schema", f"the statements are refused: {line}")
            made = {(unescaped(a), unescaped(b)) for a, b in back.ask(f"SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN {SYSTEM}")}
            loads, names = b"SET foreign_key_checks = 0, unique_checks = 0;\n", list(self.tables)
            for number, (database, table) in enumerate(names):
                if VERSIONED in self.tables[database, table]["create"] or (database, table) in without:
                    continue
                file = out / f"{database}.{table}.sql".replace("/", "@002f")
                if (database, table) not in made:
                    self.differ(f"{database}.{table}", f"its statement makes no table:\n{self.tables[database, table]['create']}")
                elif not file.exists():
                    if any("VIRTUAL" not in extra for _, _, extra in self.tables[database, table]["columns"]):
                        self.differ(f"{database}.{table}", "no INSERTs were exported")
                else:
                    name = f"{quoted(database)}.{quoted(table)}"
                    loads += f"SELECT '{MARK}', {number};\nUSE {quoted(database)};\n".encode() + file.read_bytes() + f"\nCHECKSUM TABLE {name};\n".encode()
            for number, lines in back.answers(loads):
                name, shown = ".".join(names[number]), self.tables[names[number]]
                errors = [line for line in lines if line.startswith("ERROR")]
                if errors or not lines:
                    self.differ(name, f"its INSERTs are refused: {errors[:1]}\n{shown['create']}")
                    continue
                checksum = lines[-1].split("\t")[-1]
                # The server's own sum over virtual columns is another one each time.
                is_sum_kept = " array)" not in shown["create"] and not any("VIRTUAL" in extra for _, _, extra in shown["columns"])
                if checksum != shown["checksum"] and is_sum_kept:
                    self.differ(name, f"loaded again its checksum is {checksum}, the server's {shown['checksum']}\n{shown['create']}")
                else:
                    self.counts["tables loaded again"] += 1
        finally:
            back.run("stop", check=False)
            shutil.rmtree(back.datadir, ignore_errors=True)

    @staticmethod
    def anywhere(schema):
        """The statements without the tablespaces and the folders, which the new server does not have."""
        schema = re.sub(rb"/\*!50100 TABLESPACE `(?:[^`]|``)*` \*/ ", b"", schema)
        return re.sub(rb" (DATA|INDEX) DIRECTORY ?= ?'[^']*'", b"", schema)

    @staticmethod
    def load(server, sql):
        words = [HERE / "server.sh", server.kind, "sql", server.datadir, "--force", "--default-character-set=utf8mb4", "--binary-mode"]
        done = subprocess.run(words, input=sql, capture_output=True, timeout=600)
        return [line for line in done.stderr.decode("utf8", "replace").split("\n") if line.startswith("ERROR")]


def test_files(kind, suites):
    root = CACHE / "suites" / kind
    [found] = [path for path in (root / "usr").glob("**/mysql-test" if kind != "mariadb118" else "**/mariadb-test") if path.is_dir() and (path / "suite").is_dir()]
    for suite in suites:
        places = [found / "t", found / "main"] if suite == "main" else [found / "suite" / suite / "t", found / "suite" / suite]
        for place in places:
            for path in sorted(place.glob("*.test")):
                yield path, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["mysql", "mariadb", "mariadb118"])
    parser.add_argument("--suite", action="append")
    parser.add_argument("--file", default="*")
    parser.add_argument("--batch", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="the number of the first file, to go on where a run ended")
    parser.add_argument("--limit", type=int, default=1 << 30)
    parser.add_argument("--seconds", type=int, default=30, help="for the statements of one file")
    parser.add_argument("--dir", default="target/suites")
    parser.add_argument("--keep", action="store_true", help="the datadir of a batch with differences")
    asked = parser.parse_args()
    program = pathlib.Path(os.environ.get("INNOKIT", "target/debug/innokit")).resolve()
    files = [(path, root) for path, root in test_files(asked.kind, asked.suite or SUITES) if fnmatch.fnmatch(path.name, asked.file)]
    if not files:
        sys.exit("suites: no such files: run scripts/install-suites.sh first")
    files = [File(path, root, number) for number, (path, root) in enumerate(files)]
    counts, differences, started = collections.Counter(), 0, time.time()
    for at in range(asked.first, min(len(files), asked.first + asked.limit), asked.batch):
        where = pathlib.Path(asked.dir).resolve() / f"{asked.kind}.{at}"
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir(parents=True)
        where.chmod(0o755)
        batch = Batch(asked.kind, files[at:min(at + asked.batch, asked.first + asked.limit)], where, program, asked.seconds)
        try:
            batch.make()
            batch.shown()
            batch.server.run("stop", "0")
            batch.compare()
        finally:
            batch.server.run("stop", check=False)
        counts += batch.counts
        differences += len(batch.differences)
        for table, what in batch.differences:
            print(f"DIFFERS {asked.kind} {at} {table}: {what[:3000]}", flush=True)
        for table, what in batch.unreadable:
            print(f"unreadable {asked.kind} {at} {table}: {what!r}", flush=True)
        print(f"files {at} to {at + len(batch.files)} of {len(files)}, {time.time() - started:.0f} s: {dict(batch.counts)}", flush=True)
        if not (asked.keep and batch.differences):
            shutil.rmtree(where, ignore_errors=True)
    print(f"{asked.kind}: {differences} differences; {dict(counts)}")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
