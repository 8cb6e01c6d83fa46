"""The rows of a bench's document that have both: how long a simulated device takes, and how long the real one took."""


def check_rows(found):
    real = {}
    for row in found["table"]:
        if row["way"] == "direct":
            real[row["block_size"], row["depth"]] = found["bytes"] / row["bytes_per_second"]["median"]
    for row in found["simulated"]["rows"]:
        key = row["block_size"], row["depth"]
        if key in real:
            yield f"check, blocks of {key[0] >> 10}K, {key[1]} in flight", row["requests"], row["seconds"], real[key]


def scan_rows(found):
    (index,) = found["indexes"]
    real = {row["policy"]: row["seconds"]["median"] for row in index["rows"] if row["way"] == "direct"}
    for row in index["simulated"]["rows"]:
        yield f"scan, {row['policy']}", row["requests"], row["seconds"], real[row["policy"]]


def recover_rows(found):
    for row in found["steps"]:
        simulated = row["simulated"]
        if simulated:
            requests = simulated["reads"] + simulated["writes"]
            yield f"recover, {row['step']}", requests, simulated["seconds"], row["seconds"]["median"]


#: What is filled in recycled space, in the document's simulated rows and in its measured ones.
FILLS = {"nothing": "naive", "first_touch": "zero_fill", "whole": "whole"}


def log_rows(found):
    real = {row["method"]: row["commits_per_second"]["median"] for row in found["one_caller"] if row["ground"] == "recycled"}
    for row in found["simulated"]["commits"]:
        method = FILLS[row["fill"]]
        yield f"log, {method}", row["writes"] + row["syncs"] + row["hidden_reads"], row["seconds"], row["commits"] / real[method]


#: By what only the document of that bench has.
ROWS = {"table": check_rows, "indexes": scan_rows, "steps": recover_rows, "one_caller": log_rows}


def rows_of(document):
    """What was done, with how many requests, the simulated device's seconds, and the real one's."""
    (rows,) = (rows for name, rows in ROWS.items() if name in document)
    return rows(document)
