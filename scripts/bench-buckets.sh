#!/usr/bin/env bash
# Reads a bucket with everything that can, and compares: bench-buckets.sh [DATA] (default target/bench).
#
# The bucket is on a real S3 server of this machine, so the server takes its share of the two cores. It has one object of 1.7 GB, a table of
# 9,000,000 rows (scripts/make-rows-data.sh), and 10,000 tablespaces of some 330 KiB, three of which are damaged. Needs 8 GB of disk, Go and curl.
# PAIRS=5 and PARTS='download many table' can be set.
#
#   download   a check of the large object against plain parallel downloads of it, also with 20 ms of latency; its requests and its memory
#   many       a check of the 10,000 by the command line, by Spark and by Ray: the same verdicts; pairs
#   table      the table read whole by Spark and by Ray, one of whose workers is killed meanwhile: the same rows as the command line exports
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=scripts/environments.sh
. scripts/environments.sh

data="$(mkdir -p "${1:-target/bench}" && cd "${1:-target/bench}" && pwd -P)"
readonly data

scripts/install-servers.sh
scripts/install-cloud.sh
scripts/make-rows-data.sh "$data" mysql
environment cluster pyspark 'ray[data]' daft pyarrow 'pandas<3' polars duckdb pytest
scripts/wheel.sh "$(uname -m)"
"$home/cluster/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/innokit-*.whl
work="$(mktemp -d "$data/.buckets.XXXXXX")"
trap 'rm -rf "$work"' EXIT
INNOKIT_REPOSITORY="$PWD" "$home/cluster/bin/python" scripts/bench-buckets.py "$data/.rows/mysql/bench/rows.ibd" "$work" \
    "${PAIRS:-5}" "${PARTS:-download many table}"
