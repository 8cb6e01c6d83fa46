"""`python -m innokit` and the script `innokit` behave like the program: the same output, exit status, and death by a signal."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading

import pytest
from conftest import DATADIRS, break_page

PROGRAM = os.environ.get("INNOKIT_PROGRAM")
SCRIPT = pathlib.Path(sysconfig.get_path("scripts")) / "innokit"
MODULE = [sys.executable, "-m", "innokit"]
TABLE = "mysql-16k/shop/row_dynamic.ibd"
PAGE_SIZE = 16384
# More than a pipe holds, so once this is written, the reader has begun.
MORE_THAN_A_PIPE = 4 << 20

needs_program = pytest.mark.skipif(not (PROGRAM and DATADIRS), reason="needs the program and real files: make test-ecosystem")
each_way = pytest.mark.parametrize("command", [[PROGRAM], MODULE], ids=["program", "module"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An intact table, a damaged one, and a file name that is not valid text, in the working directory."""
    table = pathlib.Path(DATADIRS) / TABLE
    for name in (b"sound.ibd", b"damaged.ibd", b"\xff.ibd"):
        shutil.copy(table, os.fsencode(tmp_path) + b"/" + name)
    break_page(tmp_path / "damaged.ibd", 5)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command, arguments, **options):
    done = subprocess.run([*command, *arguments], stdin=subprocess.DEVNULL, timeout=120, **options)
    return done.returncode, done.stdout, done.stderr


def captured(command, arguments, **options):
    status, *printed = run(command, arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    return status, *map(without_times, printed)


def without_times(printed):
    """Output without what differs from run to run: times, rates, the demo's folder."""
    times = rb'"started_at": ?"[^"]*"|"seconds": ?[0-9.e-]+|time=[0-9.]+s|[0-9.,]+ (s\b|[kMG]?B/s|rows/s)|[0-9]+% I/O wait|\.tmp\w{6}'
    return re.sub(times, b"TIME", printed)


# Arguments with the expected status, and words that show that the case works.
CASES = [
    (["check", "sound.ibd"], 0, b"all well"),
    (["check", "damaged.ibd"], 1, b"page 5"),
    (["check", "--json", "damaged.ibd"], 1, b'"exit_status": 1'),
    (["check", "--json-lines", "damaged.ibd"], 1, b'"event":"finding"'),
    (["check", "--level", "structure", "--tables", "damaged.ibd", "sound.ibd"], 1, b"row_dynamic"),
    (["check", "--nagios", "damaged.ibd"], 2, b"INNOKIT CRITICAL"),
    (["check", b"\xff.ibd"], 0, b"all well"),
    (["check", "missing.ibd"], 2, b"NOT ALL COULD BE VERIFIED"),
    (["check", "--json", "missing.ibd"], 2, b'"exit_status": 2'),
    (["table", "count", "sound.ibd"], 0, b"16,000 rows"),
    (["table", "count", "damaged.ibd"], 1, b"page 5"),
    (["table", "check", "sound.ibd"], 0, b"all well"),
    (["table", "checksum", "sound.ibd"], 0, b"shop.row_dynamic"),
    (["table", "export", "sound.ibd"], 0, b"11047"),
    (["table", "schema", "sound.ibd"], 0, b"CREATE TABLE"),
    (["info", "sound.ibd"], 0, b"DYNAMIC"),
    (["info", "--json", "damaged.ibd"], 1, b"row_dynamic"),
    (["innochecksum", "sound.ibd"], 0, b""),
    (["innochecksum", "damaged.ibd"], 1, b"checksum mismatch"),
    (["innochecksum", "--help"], 0, b"innochecksum"),
    (["--help"], 0, b"Usage: innokit [OPTIONS] <COMMAND>"),
    (["help", "table", "count"], 0, b"Usage: innokit table count"),
    (["--version"], 0, b"innokit 0."),
    (["man", "check"], 0, b".TH innokit-check"),
    (["completions", "bash"], 0, b"complete -F"),
    (["demo"], 0, b"page 5"),
    ([], 2, b"Usage: innokit [OPTIONS] <COMMAND>"),
    (["check"], 2, b"Usage: innokit check"),
    (["check", "--no-such-option", "sound.ibd"], 2, b"--no-such-option"),
    (["check", "--json", "--no-such-option"], 2, b'"result": "error"'),
    (["check", "--nagios", "--no-such-option"], 3, b"INNOKIT UNKNOWN"),
]


@needs_program
@pytest.mark.parametrize(("arguments", "status", "words"), CASES, ids=lambda value: repr(value)[:60])
def test_it_prints_what_the_program_prints(folder, arguments, status, words):
    expected = captured([PROGRAM], arguments)
    assert expected[0] == status and words in expected[1] + expected[2], expected
    assert captured(MODULE, arguments) == expected
    assert captured([SCRIPT], arguments) == expected


def test_it_asks_for_servers_as_the_program_does(tmp_path):
    backup = ["backup", "--socket", tmp_path / "none", "--to", tmp_path / "to", tmp_path]
    status, printed, errors = captured(MODULE, backup)
    assert status == 2 and b"no server answers at" in printed + errors, (printed, errors)


@needs_program
def test_it_writes_the_files_that_the_program_writes(folder):
    for name, command in (("program", [PROGRAM]), ("module", MODULE)):
        export = ["table", "export", "--format", "parquet", "--threads", "1", "-o", f"{name}.parquet", "sound.ibd"]
        assert run(command, export)[0] == 0
        assert run(command, ["check", "--metrics", f"{name}.prom", "sound.ibd"], stdout=subprocess.DEVNULL)[0] == 0
    assert (folder / "program.parquet").read_bytes() == (folder / "module.parquet").read_bytes() != b""
    names = [set(re.findall(r"^\w+", (folder / f"{name}.prom").read_text(), re.M)) for name in ("program", "module")]
    assert names[0] == names[1] != set()


@needs_program
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_that_are_no_text_are_found(folder, locale):
    environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    status, printed, _ = captured(MODULE, ["info", b"\xff.ibd"], env=environment)
    assert status == 0 and b"shop.row_dynamic" in printed


@needs_program
def test_it_goes_by_the_name_of_the_original(folder):
    """Called `innochecksum` it acts like the original, under any other name like itself."""
    for name in ("innochecksum", "other"):
        (folder / "a").mkdir(exist_ok=True)
        (folder / "b").mkdir(exist_ok=True)
        (folder / "a" / name).symlink_to(PROGRAM)
        (folder / "b" / name).symlink_to(SCRIPT)
        for arguments in (["--help"], ["sound.ibd"], ["damaged.ibd"]):
            expected, found = (captured([folder / place / name], arguments) for place in ("a", "b"))
            assert tuple(part.replace(b"/b/", b"/a/") for part in found[1:]) == expected[1:]
            assert found[0] == expected[0]
    assert b"Usage: other [OPTIONS] <COMMAND>" in captured([folder / "b/other"], ["--help"])[1]


@needs_program
@pytest.mark.parametrize("arguments", [case[0] for case in CASES if case[2] and b"missing.ibd" not in map(os.fsencode, case[0])], ids=repr)
def test_a_reader_that_is_gone_is_no_defect(folder, arguments):
    """No traceback, no panic, and the same verdict, as in `innokit check ... | head -1`."""
    found = []
    for command in ([PROGRAM], MODULE, [SCRIPT]):
        reader, writer = os.pipe()
        os.close(reader)
        status, _, errors = run(command, arguments, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert b"Traceback" not in errors and b"panicked" not in errors and b"Broken pipe" not in errors, errors
        found.append((status, without_times(errors)))
    assert found[0] == found[1] == found[2]


@needs_program
@each_way
def test_a_reader_may_leave_in_the_middle(folder, command):
    process = subprocess.Popen([*command, "table", "export", "sound.ibd"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # More rows than a pipe holds.
    assert process.stdout.readline().startswith(b"1,7919,")
    process.stdout.close()
    # Its reader has gone: that is no error to speak of, and not "all well".
    assert process.wait(60) == 2 and process.stderr.read() == b""
    process.stderr.close()


@needs_program
@each_way
def test_a_full_disk_is_not_all_well(folder, command):
    for arguments in (["check", "sound.ibd"], ["info", "sound.ibd"], ["table", "count", "sound.ibd"], ["man"]):
        with open("/dev/full", "wb") as full:
            status, _, errors = run(command, arguments, stdout=full, stderr=subprocess.PIPE)
        assert status == 2 and b"No space left on device" in errors and errors.count(b"\n") == 1, (arguments, errors)
    with open("/dev/full", "wb") as full:
        assert run(command, ["check", "--nagios", "sound.ibd"], stdout=full)[0] == 3


class Endless:
    """A command that has begun to read standard input."""

    def __init__(self, command, arguments):
        self.table = (pathlib.Path(DATADIRS) / TABLE).read_bytes()
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen([*command, *arguments], start_new_session=True, **pipes)
        self.process.stdin.write(self.table[:MORE_THAN_A_PIPE])
        self.process.stdin.flush()

    def feed(self):
        """The rest, then the same over and over while it is read."""
        try:
            self.process.stdin.write(self.table[MORE_THAN_A_PIPE:])
            while True:
                self.process.stdin.write(self.table)
        except BrokenPipeError:
            pass

    def ended(self):
        """Status and output. Standard input stays open even if Popen manages it."""
        stdin, self.process.stdin = self.process.stdin, None
        try:
            printed, errors = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
            try:
                stdin.close()
            except BrokenPipeError:
                pass
        return self.process.returncode, printed, errors


@needs_program
@each_way
def test_the_first_signal_stops_a_check_which_reports_what_it_has(folder, command):
    for number in (signal.SIGINT, signal.SIGTERM):
        check = Endless(command, ["check", "--json", "-"])
        check.process.send_signal(number)
        feeder = threading.Thread(target=check.feed)
        feeder.start()
        feeder.join(60)
        status, printed, errors = check.ended()
        assert status == 130 and errors == b"", errors
        assert b'"incomplete": true' in printed and b'"result": "incomplete"' in printed


@needs_program
@each_way
def test_the_second_signal_ends_a_check_that_waits(folder, command):
    check = Endless(command, ["check", "-"])
    # Two signals may arrive as one, or the first before the command waits, so repeat until it ends.
    for _ in range(600):
        check.process.send_signal(signal.SIGINT)
        try:
            check.process.wait(0.1)
            break
        except subprocess.TimeoutExpired:
            pass
    status, _, errors = check.ended()
    assert (status, errors) == (130, b"")


@needs_program
@each_way
def test_a_signal_ends_a_command_that_has_nothing_to_report(folder, command):
    original = Endless(command, ["innochecksum", "-"])
    original.process.send_signal(signal.SIGINT)
    status, printed, errors = original.ended()
    assert status == -signal.SIGINT and b"Traceback" not in errors and b"KeyboardInterrupt" not in errors


@needs_program
@each_way
def test_a_signal_that_the_caller_ignores_stays_ignored(folder, command):
    # As with `nohup`, and for a job that a shell script starts with `&`.
    original = Endless(["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command], ["innochecksum", "-"])
    original.process.send_signal(signal.SIGINT)
    original.process.stdin.write(original.table[MORE_THAN_A_PIPE:])
    original.process.stdin.close()
    assert original.process.wait(60) == 0
    original.process.stdout.close()
    original.process.stderr.close()


def python(code, *arguments):
    return run([sys.executable, "-c", code], map(str, arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_panic_is_a_status_and_a_message():
    status, printed, errors = python("import innokit, sys; sys.exit(innokit._innokit._panicking_run())")
    # 101, as for any Rust program. Earlier output is not lost.
    assert (status, printed) == (101, b"half a line")
    assert b"panicked" in errors and b"a command that tests made panic" in errors and b"Traceback" not in errors


@needs_program
def test_other_threads_run_meanwhile(folder):
    """A Python thread writes the command's input: neither would end if the command kept the GIL."""
    code = """
        import innokit, os, sys, threading
        reader, writer = os.pipe()
        os.dup2(reader, 0)
        def write():
            with open("sound.ibd", "rb") as table, open(writer, "wb") as pipe:
                pipe.write(table.read())
        threading.Thread(target=write).start()
        sys.exit(innokit._innokit._run(["innokit", "check", "-"]))
    """
    status, printed, errors = python("if True:" + code)
    assert status == 0 and b"all well" in printed, errors
