"""The examples of docs/python.md print what the guide shows."""

import doctest
import pathlib
import re
import shutil

import innokit
import pytest
from conftest import DATADIRS, REPOSITORY, Server, break_page, needs_servers, units

GUIDE = REPOSITORY / "docs/python.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the guide's reader has: last night's backup, a table of it that is torn, and what the server says of one."""
    folder = tmp_path_factory.mktemp("guide")
    backup = pathlib.Path(DATADIRS) / "mysql-16k"
    (folder / "last-night").symlink_to(backup)
    (folder / "torn").mkdir()
    shutil.copy(backup / "shop/row_dynamic.ibd", folder / "torn")
    [(_, pages)] = units(innokit.open(folder / "torn").table("shop.row_dynamic").splits(1)[0])
    break_page(folder / "torn/row_dynamic.ibd", pages[20])
    return folder


def server_says(folder):
    """A server on a copy of the backup."""
    shutil.copytree(pathlib.Path(DATADIRS) / "mysql-16k", folder / "data")
    server = Server.__new__(Server)
    server.kind, server.datadir = "mysql", folder / "data"
    try:
        server.run("start")
        return dict(line.split("\t") for line in server.lines("CHECKSUM TABLE shop.row_dynamic;"))
    finally:
        server.run("stop")
        shutil.rmtree(folder / "data")


@needs_servers
@pytest.mark.filterwarnings("default")
def test_the_guide_is_true(folder, monkeypatch, tmp_path):
    said = server_says(tmp_path)
    monkeypatch.chdir(folder)
    text = GUIDE.read_text()
    blocks = re.findall(r"```pycon\n(.*?)```", text, re.S)
    assert len(blocks) >= 5
    # As one session, at the lines of the guide.
    examples = []
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        parsed = doctest.DocTestParser().get_examples(block)
        for example in parsed:
            example.lineno += line
        examples += parsed
    session = doctest.DocTest(examples, {"server_says": said}, "python.md", str(GUIDE), 0, text)
    failures = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=failures.append)
    assert not failures, "".join(failures)
    assert len(examples) >= 20


def test_the_guide_names_every_argument_and_exception():
    text = GUIDE.read_text()
    stubs = (pathlib.Path(innokit.__file__).parent / "_innokit.pyi").read_text()
    arguments = set(re.findall(r"^        (\w+):", stubs.split("def scan(")[1].split(") -> Scan")[0], re.M))
    assert {f"`{name}`" for name in arguments} <= set(re.findall(r"`\w+`", text))
    for name in innokit.__all__:
        if name.endswith(("Error", "Warning")) and name != "InnokitError":
            assert name in text, name


def test_no_block_is_left_out():
    """Each block of Python is one of those that are run; the others are commands of a shell."""
    fences = re.findall(r"^```(\w*)\n", GUIDE.read_text(), re.M)
    assert set(fences[::2]) <= {"pycon", "console"} and "pycon" in fences
    assert set(fences[1::2]) == {""}
