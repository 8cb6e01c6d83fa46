#!/usr/bin/env bash
# Tests the Python package with the libraries that its users have, and against real servers.
#
#   test-ecosystem.sh [pytest options]
#   test-ecosystem.sh --fetch             only fetch what the tests need
#
# Virtual environments are kept in ${INNOKIT_SERVERS:-~/.cache/innokit}/ecosystem: `build` has maturin, `full` has pyarrow, Polars, DuckDB,
# pandas 3 and pytest, `bare` has Polars, DuckDB and pytest but no pyarrow and no pandas, `cluster` has Spark, Ray and Daft with pandas 2.
# `oldest` and `newest` are like `bare`, with Python 3.10 and with the newest one on this machine, in PATH or in pyenv, if they exist.
# Spark needs Java 17 or later, which is installed if missing. Tests of buckets start an S3 server, which scripts/install-cloud.sh builds
# with Go. The wheel is built and tested by scripts/test-wheel.sh, then installed in each environment.
# INNOKIT_DATADIRS: datadirs of scripts/make-datadirs.sh; the tests that read them, or start servers, run only if it is set.
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=scripts/environments.sh
. scripts/environments.sh

# interpreters: every released python3 of this machine as VERSION PATH, oldest first.
interpreters() {
    local candidate
    for candidate in $(compgen -c python3. | grep -E '^python3\.[0-9]+$' | sort -u) "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
        "$candidate" -c 'import sys; v = sys.version_info; v[3] == "final" and print("%d.%d.%d" % v[:3], sys.executable)' 2>/dev/null || :
    done | sort -uV
}

build_environment
[ -z "${INNOKIT_DATADIRS:-}" ] || scripts/install-cloud.sh
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
environment full pyarrow polars duckdb pandas pytest
environment bare polars duckdb pytest
environment cluster pyspark 'ray[data]' daft pyarrow 'pandas<3' polars duckdb pytest
if ! command -v java >/dev/null && [ ! -x "${JAVA_HOME:-}/bin/java" ]; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "java is missing: install Java 17 or later, such as default-jre-headless"
    say "installing default-jre-headless"
    apt-get -qq install default-jre-headless >/dev/null || die "default-jre-headless cannot be installed"
fi

# The oldest supported Python and the newest one. Not every machine has more than one.
versions=()
readonly found="$(interpreters)"
oldest="$(grep -m 1 '^3\.10\.' <<<"$found" || :)"
newest="$(tail -n 1 <<<"$found")"
for name in oldest newest; do
    which="${!name}"
    [ -n "$which" ] || { say "no Python 3.10 here: not tested with it"; continue; }
    # Of another version: make it again.
    [ "$(cat "$home/$name/.version" 2>/dev/null)" = "$which" ] || rm -rf "${home:?}/$name"
    PYTHON="${which#* }" environment "$name" polars duckdb pytest
    printf '%s\n' "$which" >"$home/$name/.version"
    versions+=("$name")
done

if [ "${1:-}" = --fetch ]; then exit 0; fi

say "the wheel, compiled as the tests are"
scripts/test-wheel.sh quick
wheel=("$CARGO_TARGET_DIR"/wheels-test/innokit-*-abi3-*.whl)
for name in full bare cluster "${versions[@]}"; do
    "$home/$name/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "${wheel[0]}"
done

export INNOKIT_REPOSITORY="$PWD"
if [ -n "${INNOKIT_DATADIRS:-}" ]; then
    say "building the program"
    scripts/build.sh --quiet
    export INNOKIT_PROGRAM="$CARGO_TARGET_DIR/debug/innokit" # python -m innokit is compared with it
fi
readonly asked=("$@")
every_library() {
    say "with every library"
    "$home/full/bin/python" -m pytest -q python/tests "${asked[@]}"
}

some_libraries() {
    say "with Spark, Ray and Daft, and pandas 2"
    INNOKIT_CLUSTER=1 "$home/cluster/bin/python" -m pytest -q python/tests/test_{spark,ray,daft}.py \
        'python/tests/test_types.py::test_every_type_is_what_the_server_shows[mysql]' "${asked[@]}"
    say "without pyarrow and pandas"
    export INNOKIT_BARE=1
    "$home/bare/bin/python" -m pytest -q python/tests/test_without_pyarrow.py "${asked[@]}"
    for name in "${versions[@]}"; do
        say "with Python $(cut -d ' ' -f 1 "$home/$name/.version")"
        "$home/$name/bin/python" -m pytest -q python/tests/test_without_pyarrow.py python/tests/test_polars.py python/tests/test_command.py \
            "${asked[@]}"
    done
}

# Beside each other: each uses about one processor. What the second prints appears when it has ended.
second="$(mktemp)"
(set -e; some_libraries) >"$second" 2>&1 &
readonly beside=$!
status=0
# In a process of its own, in which a failure ends it: within `||` it would not.
(set -e; every_library) &
wait $! || status=$?
wait "$beside" || status=$?
cat "$second"
rm "$second"
exit "$status"
