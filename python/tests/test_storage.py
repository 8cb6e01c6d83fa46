"""Tables in buckets of a real S3 server: the same rows as from files. Storage errors are never reported as damaged data."""

import concurrent.futures
import multiprocessing
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import innokit
import innokit.polars
import polars
import pytest
from buckets import OWNER, READER
from conftest import DATADIRS, break_page, needs_servers, units

BACKUPS = pathlib.Path(DATADIRS or "")
BACKUP = BACKUPS / "mysql-16k"
TABLE, FILE = "shop.row_dynamic", BACKUP / "shop/row_dynamic.ibd"
# A table larger than a few requests of 1 MiB, with many pages of level 1.
pytestmark = pytest.mark.filterwarnings("default")


def sent(split):
    """A split as another process receives it."""
    return pickle.loads(pickle.dumps(split))


def refused(reason, url):
    return pytest.raises(innokit.StorageError, check=lambda error: (error.reason, error.url) == (reason, url))


@needs_servers
@pytest.mark.parametrize("name", ["mysql-16k", "mariadb-8k"])
def test_a_backup_in_a_bucket_has_the_rows_of_its_files(buckets, name):
    here = innokit.open(BACKUPS / name)
    there = innokit.open(buckets.link(name, BACKUPS / name))
    assert there.tables() == here.tables() and len(here.tables()) >= 5
    assert not there.unread
    for table in here.tables():
        one, other = here.table(table), there.table(table)
        rows = polars.DataFrame(one)
        assert polars.DataFrame(other.scan(threads=2)).equals(rows), table
        assert other.count() == rows.height
        for n in (1, 3):
            splits = [sent(split) for split in other.splits(n)]
            assert polars.concat([polars.DataFrame(split) for split in splits]).equals(rows), f"{table} in {n}"
    table = there.table(TABLE)
    assert table.checksum() == here.table(TABLE).checksum()
    assert sum(sent(split).checksum() for split in table.splits(7)) % 2**32 == table.checksum()


@pytest.fixture
def outsider(buckets):
    """Nothing in the environment says how to reach the buckets, or who asks. What would say so."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")
    said = {name: os.environ[name] for name in names}
    for name in names:
        buckets.set(name, None)
    yield {"key": OWNER[0], "secret": OWNER[1], "endpoint_url": said["AWS_ENDPOINT_URL"], "region": "us-east-1"}
    for name, value in said.items():
        buckets.set(name, value)


@needs_servers
def test_a_call_brings_its_own_credentials(buckets, outsider):
    url = buckets.put("own/row_dynamic.ibd", FILE)
    rows = polars.DataFrame(innokit.open(FILE).table(TABLE))
    table = innokit.open(url, storage_options=outsider).table(TABLE)
    # A second call with others neither gets at the rows nor disturbs the first.
    for wrong in ({"secret": "wrong"}, {"key": None, "secret": None, "anon": True}):
        options = {name: value for name, value in {**outsider, **wrong}.items() if value is not None}
        with refused("denied", url):
            innokit.open(url, storage_options=options)
    assert polars.DataFrame(table).equals(rows)
    assert polars.DataFrame(sent(table.splits(3)[0])).equals(rows[: table.splits(3)[0].count()])
    assert innokit.polars.scan_innodb(url, TABLE, storage_options=outsider).collect().equals(rows)
    assert innokit.check(url, storage_options=outsider).ok
    assert not innokit.check(url, storage_options={**outsider, "secret": "wrong"}).ok


@needs_servers
def test_options_that_are_none(buckets, outsider):
    url = buckets.put("own/none.ibd", FILE)
    with pytest.raises(ValueError, match="there is no storage option `sekret`"):
        innokit.open(url, storage_options={**outsider, "sekret": "abc"})
    with pytest.raises(ValueError, match="for URLs only"):
        innokit.open(FILE, storage_options=outsider)
    # Half a pair of keys from the call, half from the environment: that is nobody.
    buckets.sign_in(OWNER)
    with pytest.raises(innokit.StorageError) as said:
        innokit.open(url, storage_options={"key": "stranger", "endpoint_url": outsider["endpoint_url"]})
    assert "AWS_SECRET_ACCESS_KEY" in str(said.value) or "secret" in str(said.value).lower()


@needs_servers
def test_calls_with_different_credentials_do_not_share_what_they_see(buckets, outsider):
    url = buckets.put("own/shared.ibd", FILE)
    nobody = {"anon": True, "endpoint_url": outsider["endpoint_url"], "region": "us-east-1"}

    def ask(number):
        try:
            return innokit.open(url, storage_options=nobody if number % 2 else outsider).table(TABLE).count()
        except innokit.StorageError as error:
            return error.reason

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(64)))
    count = innokit.open(FILE).table(TABLE).count()
    assert answers == [count, "denied"] * 32


@needs_servers
def test_a_split_says_which_object_it_is_of_and_reads_its_pages_only(buckets):
    url = buckets.put("splits/row_dynamic.ibd", FILE)
    table = innokit.open(url).table(TABLE)
    rows, size = polars.DataFrame(table), FILE.stat().st_size
    splits = table.splits(8)
    assert len(splits) == 8 and {path for split in splits for path in split.paths} == {url}
    state = splits[3].__reduce__()[1][0].decode()
    assert url in state and '"e_tag"' in state and OWNER[1] not in state
    frames = []
    for split in splits:
        split = sent(split)
        buckets.requests()
        scan = split.scan()
        frames.append(polars.DataFrame(scan))
        asked = buckets.requests()
        # The first block defines the table. Whole blocks between a split's leaves may contain leaves of its neighbours.
        assert asked.others == 0, "nothing is looked up or listed"
        assert 1 <= asked.reads <= 6 and asked.bytes < size / 3, asked
        assert scan.bytes_read < 1.3 * split.nbytes
    assert polars.concat(frames).equals(rows)
    buckets.requests()
    assert polars.DataFrame(table.scan(["id"], key_range=(100, 199))).height == 80
    asked = buckets.requests()
    assert asked.others == 0 and asked.reads <= 3, asked


@needs_servers
def test_what_is_not_there_is_missing(buckets):
    buckets.put("there/row_dynamic.ibd", FILE)
    for url in ("s3://lab/not/there.ibd", "s3://lab/not/", "s3://no-such-bucket/t.ibd"):
        with refused("missing", url):
            innokit.open(url)
        report = innokit.check(url)
        assert report.exit_status == 2 and report.files == 0
        assert polars.DataFrame(report)["severity"].to_list() == ["undecided"]
    # Missing objects are looked up again.
    with refused("missing", "s3://lab/later.ibd"):
        innokit.open("s3://lab/later.ibd")
    buckets.put("later.ibd", FILE)
    assert innokit.open("s3://lab/later.ibd").tables() == [TABLE]
    for url in ("hdfs://lab/t.ibd", "http://lab/t.ibd"):
        with refused("other", url):
            innokit.open(url)
    with pytest.raises(ValueError, match="not to a URL"):
        innokit.open("s3://lab/there/").table(TABLE).write_parquet("s3://lab/there/t.parquet")


@needs_servers
def test_what_is_forbidden_is_denied_until_the_account_changes(buckets):
    url = buckets.put("denied/row_dynamic.ibd", FILE)
    table = innokit.open(url).table(TABLE)
    [split] = table.splits(1)
    buckets.sign_in(READER)
    try:
        with refused("denied", url):
            innokit.open(url)
        with refused("denied", url):
            sent(split).count()
        report = innokit.check(url)
        assert report.exit_status == 2 and "403" in polars.DataFrame(report)["message"][0]
        # One of two objects is readable. The other is no reason to refuse everything.
        buckets.put("denied/more/compact.ibd", BACKUP / "shop/row_compact.ibd")
        buckets.allow([("s3:ListBucket", "lab"), ("s3:GetObject", "lab/denied/more/*")])
        with pytest.warns(innokit.UnreadWarning, match=r"denied/row_dynamic.ibd: .*access is denied \(403\)"):
            db = innokit.open("s3://lab/denied/")
        assert db.tables() == ["shop.row_compact"]
    finally:
        buckets.sign_in(OWNER)
    assert sent(split).count() == innokit.open(url).table(TABLE).count() == 16000


@needs_servers
def test_an_object_that_is_replaced_is_refused_and_never_damaged(buckets, tmp_path):
    url = buckets.put("changed/t.ibd", FILE)
    db = innokit.open(url)
    table = db.table(TABLE)
    splits = [pickle.dumps(split) for split in table.splits(4)]
    known = pickle.loads(splits[0])
    assert known.count() > 0
    buckets.put("changed/t.ibd", BACKUP / "shop/row_compact.ibd")
    # Read by another process, by a table opened earlier, by a split read earlier.
    for read in (pickle.loads(splits[1]).count, pickle.loads(splits[2]).scan, table.count, table.checksum, known.count, lambda: table.splits(3)):
        with refused("changed", url) as raised:
            read()
        assert "it changed while it was read" in str(raised.value)
    scan = table.scan()
    with pytest.raises(Exception, match="it changed while it was read"):
        polars.DataFrame(scan)
    assert (scan.error.reason, scan.error.url, scan.damage) == ("changed", url, None)
    with refused("changed", url):
        table.write_parquet(tmp_path / "none.parquet")
    assert list(tmp_path.iterdir()) == []
    # Opened again it is the new one. The old one is still refused.
    new = innokit.open(BACKUP / "shop/row_compact.ibd").table("shop.row_compact").count()
    assert innokit.open(url).table("shop.row_compact").count() == new > 0
    with refused("changed", url):
        pickle.loads(splits[3]).scan()
    with refused("changed", url):
        table.count()
    buckets.delete("changed/t.ibd")
    with refused("missing", url):
        pickle.loads(splits[3]).scan()


@needs_servers
def test_a_server_that_is_gone_is_unreachable_and_asked_again_later(buckets):
    url = buckets.put("gone/row_dynamic.ibd", FILE)
    table = innokit.open(url).table(TABLE)
    [split] = table.splits(1)
    buckets.stop()
    try:
        with refused("unreachable", url):
            innokit.open(url)
        with refused("unreachable", url):
            table.count()
        with refused("unreachable", url):
            sent(split).scan()
        report = innokit.check(url)
        assert report.exit_status == 2 and "no useful answer" in polars.DataFrame(report)["message"][0]
    finally:
        buckets.start()
    assert sent(split).count() == innokit.open(url).table(TABLE).count() == 16000


@needs_servers
def test_damage_in_a_bucket_is_damage(buckets, tmp_path):
    torn = shutil.copy(FILE, tmp_path)
    [(_, pages)] = units(innokit.open(torn).table(TABLE).splits(1)[0])
    break_page(torn, pages[20])
    url = buckets.put("torn/row_dynamic.ibd", torn)
    table = innokit.open(url).table(TABLE)
    with pytest.raises(innokit.DamageError) as raised:
        table.count()
    assert (raised.value.path, raised.value.page, raised.value.offset) == (url, pages[20], pages[20] * 16384)
    scan = table.scan(on_damage="skip")
    with pytest.warns(innokit.DamageWarning, match=f"page {pages[20]}"):
        rest = polars.DataFrame(scan)
    assert 15000 < rest.height < 16000 and scan.error is None
    for level in ("pages", "trees"):
        here, there = innokit.check(torn, level=level), innokit.check(url, level=level)
        assert (there.exit_status, there.files, there.pages, len(there)) == (1, here.files, here.pages, len(here))
        same = [column for column in polars.DataFrame(here).columns if column not in ("path", "message")]
        assert polars.DataFrame(there).select(same).equals(polars.DataFrame(here).select(same))
        assert set(polars.DataFrame(there)["path"]) == {url}


@needs_servers
def test_a_check_of_a_bucket_is_that_of_its_files(buckets):
    url = buckets.link("mysql-16k", BACKUP)
    here, there = innokit.check(BACKUP), innokit.check(url)
    assert there.ok and (there.files, there.pages) == (here.files, here.pages)
    parts = [innokit.check(url, part=(number, 3)) for number in (1, 2, 3)]
    assert all(part.ok for part in parts) and sum(part.pages for part in parts) == here.pages
    # A failure in one bucket is not attributed to another.
    assert innokit.check("s3://lab/not/there").exit_status == 2
    assert innokit.check(url, part=(1, 50)).ok


@needs_servers
def test_the_command_line_reads_buckets(buckets):
    url = buckets.put("command/row_dynamic.ibd", FILE)
    done = subprocess.run([sys.executable, "-m", "innokit", "table", "count", url], capture_output=True, text=True)
    assert done.returncode == 0 and "16000" in done.stdout.replace(",", "").replace(" ", ""), done
    done = subprocess.run([sys.executable, "-m", "innokit", "check", "-v", url], capture_output=True, text=True)
    assert done.returncode == 0 and "object storage:" in done.stdout + done.stderr, done
    done = subprocess.run([sys.executable, "-m", "innokit", "check", "s3://lab/none"], capture_output=True, text=True)
    assert done.returncode == 2 and "there is no object of this name" in done.stdout + done.stderr, done


@needs_servers
def test_polars_queries_a_bucket(buckets):
    url = buckets.put("polars/row_dynamic.ibd", FILE)
    here, there = (innokit.polars.scan_innodb(path, TABLE, key_range=(100, 199)) for path in (FILE, url))
    query = polars.col("a") > 5000
    assert there.filter(query).collect().equals(here.filter(query).collect()) and there.collect().height == 80


def in_another_process(method, split):
    """A spawned process may use Polars. A forked one may not, because it has none of its threads."""
    return split.count() if method == "fork" else polars.DataFrame(split).height


@needs_servers
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_other_processes_read_splits(buckets, method):
    url = buckets.put("processes/row_dynamic.ibd", FILE)
    table = innokit.open(url).table(TABLE)
    splits = table.splits(4)
    # This process has threads and connections before it forks.
    assert table.count() == 16000
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert sum(pool.map(in_another_process, [method] * 4, splits, timeout=120)) == 16000
    assert table.count() == 16000


@needs_servers
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_reads_what_its_parent_has_open(buckets):
    table = innokit.open(buckets.put("forked/row_dynamic.ibd", FILE)).table(TABLE)
    assert table.count() == 16000
    child = os.fork()
    if child == 0:
        # The exit status is the only way for this process to report what it saw.
        try:
            os._exit(0 if table.count() == 16000 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert table.count() == 16000


@needs_servers
def test_threads_read_the_same_bucket(buckets):
    url = buckets.put("threads/row_dynamic.ibd", FILE)
    splits = innokit.open(url).table(TABLE).splits(6)

    def read(number):
        if number % 3 == 0:
            return innokit.open(url).table(TABLE).count()
        return sum(sent(split).count() for split in splits[number % 2 :: 2])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(read, range(12)))
    assert counts[0::3] == [16000] * 4
    halves = {sum(split.count() for split in splits[half::2]) for half in (0, 1)}
    assert set(counts[1::3]) | set(counts[2::3]) == halves and sum(halves) == 16000
