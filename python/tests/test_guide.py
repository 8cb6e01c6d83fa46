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
    return readers_folder(tmp_path_factory.mktemp("guide"))


def readers_folder(folder):
    """The files of the guide's reader: last night's backup, and a damaged table of it."""
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


def run(guide, names, backups="/backups"):
    """Runs a guide's examples as one session, with `folder` for /backups. Returns how many there are."""
    text, examples = guide.read_text().replace("/backups", str(backups)), []
    for block in re.findall(r"```pycon\n(.*?)```", text, re.S):
        # Line numbers are the guide's.
        line = text[: text.index(block)].count("\n")
        parsed = doctest.DocTestParser().get_examples(block)
        for example in parsed:
            example.lineno += line
        examples += parsed
    session = doctest.DocTest(examples, names, guide.name, str(guide), 0, text)
    failures = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=failures.append)
    assert not failures, "".join(failures)
    return len(examples)


@needs_servers
@pytest.mark.filterwarnings("default")
def test_the_guide_is_true(folder, monkeypatch, tmp_path, buckets):
    said = server_says(tmp_path)
    buckets.put("guide/last-night/shop/row_dynamic.ibd", folder / "last-night/shop/row_dynamic.ibd")
    monkeypatch.chdir(folder)
    assert run(GUIDE, {"server_says": said, "bucket": "s3://lab/guide"}) >= 23


def test_the_guide_names_every_argument_and_exception():
    text = GUIDE.read_text()
    stubs = (pathlib.Path(innokit.__file__).parent / "_innokit.pyi").read_text()
    arguments = set(re.findall(r"^        (\w+):", stubs.split("def scan(")[1].split(") -> Scan")[0], re.M))
    assert {f"`{name}`" for name in arguments} <= set(re.findall(r"`\w+`", text))
    for name in innokit.__all__:
        if name.endswith(("Error", "Warning")) and name != "InnokitError":
            assert name in text, name


def test_no_block_is_left_out():
    """Every Python block is run; the others are shell commands."""
    fences = re.findall(r"^```(\w*)\n", GUIDE.read_text(), re.M)
    assert set(fences[::2]) <= {"pycon", "console", "python"} and "pycon" in fences
    assert fences.count("python") == 1, "what takes a cluster is run by test_ray.py"
    assert set(fences[1::2]) == {""}
