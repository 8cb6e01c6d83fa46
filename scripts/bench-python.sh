#!/usr/bin/env bash
# Reads a table into a DataFrame with the Python package and through a running MySQL: bench-python.sh [DATA] (default target/bench).
#
# Makes the wheel, the table (scripts/make-rows-data.sh: 9,000,000 rows of 15 columns, 1.7 GB) and a virtual environment with the peers.
# ROWS=2000000 and PAIRS=5 can be set: pandas creates an object for nearly every value. The server has the table in its buffer pool, we have it in
# the page cache. It prints medians of the ratios within pairs, and of our rows per second.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=scripts/environments.sh
. scripts/environments.sh

data="$(mkdir -p "${1:-target/bench}" && cd "${1:-target/bench}" && pwd -P)"
readonly data datadir="$data/.rows/mysql"
scripts/install-servers.sh
scripts/make-rows-data.sh "$data" mysql
environment bench connectorx polars pandas pyarrow sqlalchemy pymysql cryptography
scripts/wheel.sh "$(uname -m)"
"$home/bench/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/innokit-*.whl

stop() { scripts/server.sh mysql stop "$datadir"; }
trap stop EXIT
scripts/server.sh mysql start "$datadir" --innodb-buffer-pool-size=3G
"$home/bench/bin/python" scripts/bench-python.py "$datadir" "$(scripts/server.sh mysql socket "$datadir")" "${ROWS:-2000000}" "${PAIRS:-5}"
