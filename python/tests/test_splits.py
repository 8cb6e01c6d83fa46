"""Splits together are the table, each can be read alone, in other processes too."""

import concurrent.futures
import multiprocessing
import os
import pathlib
import pickle
import shutil

import innokit
import polars
import pytest
from conftest import DATADIRS, break_page, needs_servers, units

COUNTS = (1, 2, 7, 64)


def together(splits, **options):
    return polars.concat([polars.DataFrame(split.scan(**options)) for split in splits])


@needs_servers
def test_union_of_splits_is_the_table_and_what_the_server_says(server):
    db = innokit.open(server.datadir)
    for name, said in server.keys.items():
        table = db.table(f"sp.{name}")
        scan = table.scan()
        whole = polars.DataFrame(scan)
        assert whole.height == said.count == table.count()
        assert table.checksum() == said.checksum
        for n in COUNTS:
            splits = [pickle.loads(pickle.dumps(split)) for split in table.splits(n)]
            assert 1 <= len(splits) <= n
            # In key order, like the whole scan.
            assert together(splits).equals(whole), f"{name} in {n}"
            assert sum(split.count() for split in splits) == said.count, f"{name} in {n}"
            assert sum(split.checksum() for split in splits) % 2**32 == said.checksum, f"{name} in {n}"


@needs_servers
def test_types_survive_splits(server):
    """All sorts of tables: partitions, columns added later, off-page values, history rows."""
    db = innokit.open(server.datadir)
    for name, said in server.types.items():
        table = db.table(f"ty.{name}")
        for n in (1, 7):
            splits = [pickle.loads(pickle.dumps(split)) for split in table.splits(n)]
            assert together(splits).equals(polars.DataFrame(table)), f"{name} in {n}"
            assert sum(split.count() for split in splits) == said.count, f"{name} in {n}"


@needs_servers
def test_a_split_reads_its_pages_only(mysql):
    table = innokit.open(mysql.datadir).table("sp.deep")
    whole = table.scan()
    assert polars.DataFrame(whole).height == 8000
    splits = table.splits(64)
    assert len(splits) == 64
    assert all(level == 1 for split in splits for level, _ in units(split))
    read = []
    for split in splits:
        scan = split.scan()
        polars.DataFrame(scan)
        read.append(scan.bytes_read)
    # Its pages of level 1 and the leaves below them.
    assert sum(read) == whole.bytes_read
    assert max(read) < 2 * whole.bytes_read / 64
    assert max(read) < 1.6 * min(read)
    sizes = [split.nbytes for split in splits]
    assert max(sizes) < 1.5 * min(sizes)
    assert 0.8 < sum(sizes) / whole.bytes_read < 1.2
    by_size = table.splits(target_bytes=1 << 20)
    assert all(split.nbytes <= 1.1 * (1 << 20) for split in by_size)
    assert polars.concat([polars.DataFrame(split) for split in by_size]).height == 8000


@needs_servers
def test_a_column_or_a_range_of_keys_reads_less(mysql):
    db = innokit.open(mysql.datadir)
    scan, narrow = db.table("sp.outside").scan(), db.table("sp.outside").scan(["v", "id"])
    assert polars.DataFrame(narrow).equals(polars.DataFrame(scan).select(["v", "id"]))
    assert narrow.bytes_read * 10 < scan.bytes_read
    table = db.table("sp.signed")
    frame = polars.DataFrame(table)
    for low, high in ((-500, 500), (None, -69_000), (69_000, None), (1, 1), (900_000, None)):
        kept = frame.filter((polars.col("id") >= (low or -(2**31))) & (polars.col("id") <= (2**31 if high is None else high)))
        ranged = table.scan(key_range=(low, high))
        assert polars.DataFrame(ranged).equals(kept), (low, high)
        splits = table.splits(5, key_range=(low, high))
        assert together(splits).equals(kept), (low, high)
        assert sum(split.count() for split in splits) == kept.height
        assert sum(split.nbytes for split in splits) <= kept.height * 250 + 3 * 16384
    pairs = db.table("sp.pairs")
    rows = polars.DataFrame(pairs).select("a", polars.col("b").cast(polars.Binary), "v").rows()
    for low, high in (((5, "it's, 3"), (7, b"it's, 5")), ((5,), (6,)), (None, (3, "it's, 8")), (5, (5, "it's, 4"))):
        pair = [bound if isinstance(bound, tuple) else (bound,) for bound in (low or (), high)]
        first, last = (tuple(value.encode() if isinstance(value, str) else value for value in bound) for bound in pair)
        expected = [v for a, b, v in rows if (not low or (a, b)[: len(first)] >= first) and (a, b)[: len(last)] <= last]
        assert polars.DataFrame(pairs.scan(["v"], key_range=(low, high)))["v"].to_list() == expected and expected, (low, high)
    with pytest.raises(ValueError, match="the key has 2 columns, and the range 3"):
        pairs.scan(key_range=((1, "b", 3), None))
    with pytest.raises(ValueError, match="key column b is ordered by its collation"):
        db.table("sp.composite").scan(key_range=((1, "b"), None))
    text = db.table("sp.deep")
    assert polars.DataFrame(text.scan(["v"], key_range=(b"007000", b"007010")))["v"].to_list() == list(range(7000, 7010))


@needs_servers
def test_keys_are_named(server):
    db = innokit.open(server.datadir)
    for name, key in (("composite", ["a", "b"]), ("signed", ["id"]), ("descending", ["id"]), ("parted", ["id"]), ("nokey", [])):
        assert db.table(f"sp.{name}").key == key


@needs_servers
def test_limits_and_batches(mysql):
    table = innokit.open(mysql.datadir).table("sp.composite")
    whole = polars.DataFrame(table)
    for limit in (0, 1, 1000, 10**9):
        assert polars.DataFrame(table.scan(limit=limit)).equals(whole.head(limit))
    for threads in (1, 3, None):
        assert polars.DataFrame(table.scan(threads=threads)).equals(whole)
    pyarrow = pytest.importorskip("pyarrow")
    for batch_size in (1, 777, 65536):
        batches = pyarrow.RecordBatchReader.from_stream(table.scan(batch_size=batch_size)).read_all().to_batches()
        sizes = [batch.num_rows for batch in batches]
        assert sum(sizes) == whole.height
        # One thread reads one range, so only the last batch is smaller.
        assert all(size == batch_size for size in sizes[:-1]) and 0 < sizes[-1] <= batch_size
        batches = pyarrow.RecordBatchReader.from_stream(table.scan(batch_size=batch_size, threads=2)).read_all().to_batches()
        assert max(batch.num_rows for batch in batches) <= batch_size


def in_another_process(method, split):
    """A spawned process may use Polars. A forked one may not, because it has none of its threads."""
    return split.count(threads=2) if method == "fork" else polars.DataFrame(split.scan(["v"])).height


@needs_servers
@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_other_processes_read_splits(mysql, method):
    table = innokit.open(mysql.datadir).table("sp.deep")
    # This process has read with threads before it forks.
    assert table.scan(limit=1).__arrow_c_stream__() is not None
    assert table.count(threads=2) == 8000
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert sum(pool.map(in_another_process, [method] * 4, table.splits(4))) == 8000


@needs_servers
def test_a_file_that_changes_or_goes_is_refused(mysql, tmp_path):
    path = mysql.copy("sp.signed", tmp_path)
    split = innokit.open(tmp_path).table("sp.signed").splits(3)[1]
    assert split.count() > 0
    sent = pickle.dumps(split)
    shutil.copy(mysql.datadir / "sp/composite.ibd", path)
    with pytest.raises(innokit.InnokitError, match="it has changed since the split was made"):
        pickle.loads(sent).count()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(sent).scan()
    with pytest.raises(ValueError, match="not a split"):
        innokit._innokit._split_from_state(b"{}")


@needs_servers
def test_damage_in_a_split_is_raised_or_skipped(server, tmp_path):
    path = server.copy("sp.signed", tmp_path)
    table = innokit.open(tmp_path).table("sp.signed")
    before = table.splits(7)
    [(level, pages)] = units(before[2])
    assert level == 0
    page = pages[5]
    sound = polars.DataFrame(before[2]).height
    break_page(path, page)
    splits = table.splits(7)
    for number, split in enumerate(splits):
        if number != 2:
            assert polars.DataFrame(split.scan(on_damage="skip")).height == split.count() > 0
            continue
        with pytest.raises(innokit.DamageError) as raised:
            split.count()
        error = raised.value
        assert (error.path, error.page, error.offset) == (str(path), page, page * 16384)
        assert f"page {page} is damaged" in str(error) and f"byte {page * 16384}" in str(error)
        scan = split.scan()
        with pytest.raises(Exception, match=f"page {page} is damaged"):
            polars.DataFrame(scan)
        [told] = scan.damage
        assert (told.page, told.offset) == (page, page * 16384)
        skipping = split.scan(on_damage="skip")
        with pytest.warns(innokit.DamageWarning, match=f"page {page} is damaged"):
            rest = polars.DataFrame(skipping).height
        assert 0 < rest < sound and skipping.rows_read == rest
        assert [told.page for told in skipping.damage] == [page]
    with pytest.raises(innokit.DamageError, match=f"page {page}"):
        table.checksum()


@needs_servers
def test_a_split_needs_nothing_but_its_pages(mysql, tmp_path):
    """All other leaves are damaged, and the page above them, since the split was made."""
    path = mysql.copy("sp.signed", tmp_path)
    splits = innokit.open(tmp_path).table("sp.signed").splits(5)
    expected, sent, status = polars.DataFrame(splits[2]), pickle.dumps(splits[2]), os.stat(path)
    others = {page for split in splits if split is not splits[2] for _, pages in units(split) for page in pages}
    others.add(next(page for page in range(3, 20) if level_of(path, page) == 1))
    for page in others:
        break_page(path, page)
    # Splits of changed files are refused.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert polars.DataFrame(pickle.loads(sent)).equals(expected) and expected.height > 1000
    with pytest.raises(innokit.DamageError):
        pickle.loads(pickle.dumps(splits[1])).count()


@needs_servers
def test_damage_above_the_leaves(server, tmp_path):
    path = server.copy("sp.signed", tmp_path)
    table = innokit.open(tmp_path).table("sp.signed")
    expected = polars.DataFrame(table)
    state = units(table.splits(1)[0])
    leaves = {page for _, pages in state for page in pages}
    root = next(page for page in range(3, 20) if page not in leaves and level_of(path, page) == 1)
    break_page(path, root)
    with pytest.raises(innokit.DamageError) as raised:
        table.splits(7)
    assert raised.value.page == root
    with pytest.raises(innokit.DamageError):
        table.count()
    # Only a scan of the whole table searches for unreachable leaves.
    with pytest.warns(innokit.DamageWarning, match=f"page {root}"):
        found = polars.DataFrame(table.scan(on_damage="skip"))
    assert found.sort("id").equals(expected)


def level_of(path, page):
    """The level of an index page; -1 for others."""
    with open(path, "rb") as file:
        file.seek(page * 16384)
        head = file.read(80)
    is_index = int.from_bytes(head[24:26], "big") == 17855
    return int.from_bytes(head[64:66], "big") if is_index else -1


ALL_KINDS = ("mysql-8k", "mariadb-8k", "mysql-64k", "mariadb-4k", "mysql-16k-compressed", "mariadb-16k-compressed")


@needs_servers
@pytest.mark.parametrize("name", ALL_KINDS)
def test_all_sorts_of_files(name):
    """Shared, general and system tablespaces, one of them of two files; compressed tables; every page size."""
    db = innokit.open(pathlib.Path(DATADIRS) / name)
    assert len(db.tables()) >= 5
    for name in db.tables():
        table = db.table(name)
        count = table.count()
        splits = [pickle.loads(pickle.dumps(split)) for split in table.splits(3)]
        assert sum(split.count() for split in splits) == count, name
        assert sum(polars.DataFrame(split).height for split in splits) == count, name
        try:
            checksum = table.checksum()
        except innokit.InnokitError as error:
            assert "virtual" in str(error)
            continue
        assert sum(split.checksum() for split in splits) % 2**32 == checksum, name


@needs_servers
@pytest.mark.parametrize("name", ["mysql-16k-tde", "mariadb-16k-enc", "mariadb-16k-crc32-enc"])
def test_keys_go_with_splits(name):
    base = pathlib.Path(DATADIRS) / f".{name}.server"
    if name.startswith("mysql"):
        keys = {"keyring": base / "keys"}
    else:
        # The key file may be encrypted itself.
        opener = base / "filekey"
        keys = {"key_file": (base / "keys", f"FILE:{opener}") if opener.exists() else base / "keys"}
    with pytest.warns(innokit.UnreadWarning, match="encrypted"):
        locked = innokit.open(pathlib.Path(DATADIRS) / name)
    db = innokit.open(pathlib.Path(DATADIRS) / name, **keys)
    assert set(locked.tables()) < set(db.tables())
    for name in set(db.tables()) - set(locked.tables()):
        table = db.table(name)
        splits = [pickle.loads(pickle.dumps(split)) for split in table.splits(3)]
        assert sum(split.count() for split in splits) == table.count(), name
