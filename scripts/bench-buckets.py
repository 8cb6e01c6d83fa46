"""The measurements of bench-buckets.sh: bench-buckets.py TABLESPACE FOLDER PAIRS 'PART ...'"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import innokit
import innokit.ray
import polars
from pairs import medians, pairs, seconds

REPOSITORY = pathlib.Path(os.environ["INNOKIT_REPOSITORY"])
# The S3 server and the Spark cluster of the tests.
sys.path.insert(0, str(REPOSITORY / "python/tests"))
from buckets import Buckets  # noqa: E402
from clusters import Cluster  # noqa: E402

TABLESPACE, FOLDER, PAIRS, PARTS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split()
TABLE, OBJECT, MANY = "bench.rows", "s3://lab/rows.ibd", "s3://lab/many/"
FILES, DAMAGED = 10_000, (17, 4_711, 9_998)
LATENCY_MS = 20
#: Requests in flight, for all: as many as `innokit check` has with two workers.
CONNECTIONS = 16


def row(name, ours, peer):
    """Prints the medians of pairs and of their ratios."""
    mine, theirs, ratio = medians(pairs(ours, peer, PAIRS))
    print(f"| {name} | {mine:.2f} | {theirs:.2f} | {ratio:.2f} | {1 / ratio:.2f} |", flush=True)


def heading(title):
    print(f"\n### {title}\n\n| against | ours, s | peer, s | wall, innokit / peer | times as fast |\n|---|---|---|---|---|", flush=True)


def command(*arguments):
    """The command line: the output of a run that judged."""
    done = subprocess.run([sys.executable, "-m", "innokit", *arguments], stdout=subprocess.PIPE)
    assert done.returncode in (0, 1), (arguments, done.returncode)
    return done.stdout


def peak_memory(*arguments):
    """Of the command line, as it says itself, in MiB. (The system counts this process's memory too: a child has it until it starts.)"""
    done = subprocess.run([sys.executable, "-m", "innokit", *arguments, "-v"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return int(re.search(r"peak memory (\d+) MiB", done.stderr)[1])


# The peers


def curl(requests):
    """Sends requests, each a list of lines of a configuration file, many at once."""
    owner = f'{os.environ["AWS_ACCESS_KEY_ID"]}:{os.environ["AWS_SECRET_ACCESS_KEY"]}'
    common = ['aws-sigv4 = "aws:amz:us-east-1:s3"', f'user = "{owner}"', 'header = "x-amz-content-sha256: UNSIGNED-PAYLOAD"']
    common += ["fail", 'noproxy = "*"', 'output = "/dev/null"']
    config = "\nnext\n".join("\n".join(common + one) for one in requests)
    # Its progress meter cannot be silenced together with -Z.
    done = subprocess.run(["curl", "-Z", "--parallel-max", str(CONNECTIONS), "-K", "-"], input=config, text=True, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr[-1000:]


def download_by_curl(endpoint, part):
    """Reads the object in ranges of as many bytes."""
    size = TABLESPACE.stat().st_size
    ranges = [f'range = "{start}-{min(start + part, size) - 1}"' for start in range(0, size, part)]
    curl([[f'url = "{endpoint}/lab/rows.ibd"', one] for one in ranges])


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def latency(buckets):
    """The address of the server behind a proxy that delays what it sends."""
    program = pathlib.Path(buckets.program).with_name("toxiproxy")
    port, listen = free_port(), f"127.0.0.1:{free_port()}"
    api = f"http://127.0.0.1:{port}"
    proxy = subprocess.Popen([program, "-host", "127.0.0.1", "-port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tell(path, document):
        request = urllib.request.Request(api + path, json.dumps(document).encode(), {"Content-Type": "application/json"})
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).close()

    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                tell("/proxies", {"name": "s3", "listen": listen, "upstream": f"127.0.0.1:{buckets.port}", "enabled": True})
                break
            except OSError:
                assert time.monotonic() < deadline, "the proxy never listened"
                time.sleep(0.1)
        tell("/proxies/s3/toxics", {"name": "slow", "type": "latency", "stream": "downstream", "attributes": {"latency": LATENCY_MS}})
        yield f"http://{listen}"
    finally:
        proxy.kill()
        proxy.wait()


# The parts


def download(buckets):
    check = ["check", "--progress", "never", OBJECT]
    ours = lambda: command(*check)  # noqa: E731
    buckets.requests()
    memory = peak_memory(*check)
    asked = buckets.requests()
    size = TABLESPACE.stat().st_size
    least = -(-size // (8 << 20))
    print(f"A check of {size} bytes: {asked.reads} range requests (in ranges of 8 MiB: {least}), {asked.others} others; peak memory {memory} MiB")
    assert asked.reads <= least + 1 and memory < 200
    with latency(buckets) as slow:
        # curl takes minutes for ranges of 1 MiB from afar.
        for title, endpoint, parts in (("on this machine", os.environ["AWS_ENDPOINT_URL"], (1, 8, 64)), (f"{LATENCY_MS} ms away", slow, (8, 64))):
            buckets.set("AWS_ENDPOINT_URL", endpoint)
            heading(f"A check of one large object, {title}, against downloads to /dev/null")
            for part in parts:
                row(f"`curl --parallel`, {CONNECTIONS} ranges of {part} MiB at once", ours, lambda: download_by_curl(endpoint, part << 20))
    buckets.set("AWS_ENDPOINT_URL", f"http://127.0.0.1:{buckets.port}")


def make_many(buckets):
    """Puts the tablespaces into the bucket."""
    folder, kinds = FOLDER / "many", []
    folder.mkdir()
    for vendor in ("mysql-9.7", "mariadb-10.11"):
        for kind in ("compact", "dynamic", "redundant"):
            packed = REPOSITORY / f"fixtures/{vendor}/{kind}-16k.ibd.zst"
            if packed.exists():
                kinds.append(FOLDER / f"{vendor}-{kind}.ibd")
                subprocess.run(["zstd", "-q", "-d", "-f", packed, "-o", kinds[-1]], check=True)
    assert len(kinds) >= 4
    for number in range(FILES):
        path, kind = folder / f"t{number:05}.ibd", kinds[number % len(kinds)]
        if number in DAMAGED:
            content = bytearray(kind.read_bytes())
            content[4 * 16384 + 9000] ^= 0x55
            path.write_bytes(content)
        else:
            os.link(kind, path)
    target = f'{os.environ["AWS_ENDPOINT_URL"]}/lab/many/'
    curl([[f'url = "{target}"', f'upload-file = "{path}"'] for path in sorted(folder.iterdir())])
    shutil.rmtree(folder)


def verdict_of(documents):
    """Files, pages and findings of reports, however many there are."""
    files, pages, found = set(), 0, set()
    for document in documents:
        files |= {file["path"] for file in document["files"]}
        pages += sum(file["pages"] for file in document["files"])
        found |= {(finding["path"], finding["page"], finding["reason"]) for finding in document["findings"]}
    return len(files), pages, found


def many(buckets, spark, ray):
    make_many(buckets)
    print(f"\n{FILES} tablespaces are in the bucket", flush=True)

    def by_command():
        return verdict_of([json.loads(command("check", "--progress", "never", "--json", MANY))])

    @ray.remote
    def part_of(number, parts):
        return innokit.check(MANY, part=(number, parts), threads=1).to_json()

    def by_ray(parts=4):
        return verdict_of(map(json.loads, ray.get([part_of.remote(number, parts) for number in range(1, parts + 1)])))

    def checks(**options):
        return spark.read.format("innodb_check").options(**options).load(MANY)

    def by_spark():
        files = checks(files="true").where("unit = 'pages'").selectExpr("count(distinct path) files", "sum(pages) pages")
        [sums] = files.collect()
        found = {(one.path, one.page, one.reason) for one in checks().collect()}
        return sums.files, sums.pages, found

    by_cli = by_command()
    assert by_cli[0] == FILES and {pathlib.Path(path).name for path, _, _ in by_cli[2]} == {f"t{number:05}.ibd" for number in DAMAGED}, by_cli
    for name, other in (("Ray", by_ray()), ("Spark", by_spark())):
        assert other == by_cli, (name, other, by_cli)
    print(f"The command line, Spark and Ray agree: {by_cli[0]} files, {by_cli[1]} pages, {len(by_cli[2])} findings")
    heading(f"A check of {FILES} objects, the command line against")
    row("Spark, two workers of one core", by_command, lambda: checks().collect())
    row("Ray, two workers", by_command, by_ray)


def comparable(kind):
    """A type that all writers' columns can be cast to: Spark has no unsigned integers, and times of its own unit."""
    if kind.is_integer():
        return polars.Int64
    if kind == polars.Datetime:
        return polars.Datetime("us")
    return polars.String if kind in (polars.Categorical, polars.Enum) else kind


def same_rows(name, parquet, expected, types):
    """Fails unless both folders of Parquet have the same rows, a million keys at a time."""
    compared = 0
    for start in range(0, 9_000_000, 1_000_000):
        def rows(path):
            scan = polars.scan_parquet(f"{path}/*.parquet").filter(polars.col("id").cast(polars.Int64).is_between(start, start + 999_999))
            return scan.select(polars.col(column).cast(kind) for column, kind in types.items()).sort("id").collect()

        ours, theirs = rows(parquet), rows(expected)
        assert ours.height == 1_000_000 and ours.equals(theirs), (name, start)
        compared += ours.height
    print(f"{name}: {compared} rows of {len(types)} columns equal what the command line exports", flush=True)


def killed_meanwhile(job, victims):
    """Runs a job, and kills one of its workers once it has been busy for a while. Returns the seconds."""
    done, failed = threading.Event(), []

    def run():
        try:
            job()
        except BaseException as error:  # noqa: BLE001 told below
            failed.append(error)
        finally:
            done.set()

    began = time.perf_counter()
    threading.Thread(target=run, daemon=True).start()
    killed = None
    while not done.wait(0.2) and killed is None:
        busy = sorted(victims())
        if busy and time.perf_counter() - began > 8:
            killed = busy[0]
            os.kill(killed, signal.SIGKILL)
    assert killed is not None, "the job was over before a worker could be killed"
    done.wait()
    assert not failed, failed
    assert killed not in victims(), "it was killed"
    return time.perf_counter() - began


def table(cluster, ray):
    spark = cluster.session
    exported = FOLDER / "cli"
    exported.mkdir()
    took = seconds(lambda: command("table", "export", "--progress", "never", "--format", "parquet", "-o", str(exported / "rows.parquet"), OBJECT))
    count = json.loads(command("table", "count", "--progress", "never", "--json", OBJECT))
    [rows_there] = [index["rows"] for index in count["files"][0]["indexes"] if index["kind"] == "clustered"]
    assert rows_there == 9_000_000, count
    print(f"\nThe command line: {took:.1f} s to Parquet; it counts {rows_there} rows")
    schema = polars.scan_parquet(exported / "rows.parquet").collect_schema()
    widened = {name: comparable(kind) for name, kind in schema.items()}
    frame = spark.read.format("innodb").option("table", TABLE).option("target_bytes", str(64 << 20)).load(OBJECT)
    target = FOLDER / "spark"
    took = killed_meanwhile(lambda: frame.write.parquet(str(target)), cluster.executors)
    print(f"Spark, an executor killed meanwhile: {took:.1f} s to Parquet")
    same_rows("Spark", target, exported, widened)
    shutil.rmtree(target)
    took = seconds(lambda: frame.write.format("noop").mode("overwrite").save())
    print(f"Spark, all columns of all rows: {took:.1f} s, {9 / took:.2f} million rows/s")

    def workers():
        listed = subprocess.run(["pgrep", "-f", "^ray::.*(Read|Write)"], stdout=subprocess.PIPE, text=True).stdout
        return {int(pid) for pid in listed.split()}

    target = FOLDER / "ray"
    read = lambda: innokit.ray.read_innodb(OBJECT, TABLE, override_num_blocks=32)  # noqa: E731
    took = killed_meanwhile(lambda: read().write_parquet(str(target)), workers)
    print(f"Ray, a worker killed meanwhile: {took:.1f} s to Parquet")
    same_rows("Ray", target, exported, widened)
    shutil.rmtree(target)

    def read_whole():
        assert sum(batch.num_rows for batch in read().iter_batches(batch_format="pyarrow", batch_size=None)) == 9_000_000

    took = seconds(read_whole)
    print(f"Ray, all columns of all rows: {took:.1f} s, {9 / took:.2f} million rows/s")


def main():
    buckets = Buckets(FOLDER)
    # Directly: the tests' relay counts bytes in Python.
    buckets.set("AWS_ENDPOINT_URL", f"http://127.0.0.1:{buckets.port}")
    cluster = None
    try:
        if {"download", "table"} & set(PARTS):
            buckets.put("rows.ibd", TABLESPACE)
        if "download" in PARTS:
            download(buckets)
        if {"many", "table"} & set(PARTS):
            import ray

            ray.init(num_cpus=2, include_dashboard=False, object_store_memory=1 << 30, log_to_driver=False, logging_level="ERROR")
            ray.data.DataContext.get_current().enable_progress_bars = False
            cluster = Cluster(FOLDER / "cluster")
            cluster.connect()
        if "many" in PARTS:
            many(buckets, cluster.session, ray)
        if "table" in PARTS:
            table(cluster, ray)
    finally:
        if cluster is not None:
            cluster.close()
        buckets.close()


main()
