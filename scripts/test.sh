#!/usr/bin/env bash
# Runs every test of the Rust crates, then prints the slowest programs and tests and where the time went: test.sh FEATURES
# `make test` has fetched the servers and set INNOKIT_DATADIRS before.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly features="$1"
INNOKIT_TIMES="$(mktemp -d)"
export INNOKIT_TIMES
trap 'rm -rf "$INNOKIT_TIMES"' EXIT
host="$(rustc -vV | sed -n 's/^host: //p')"
runner="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER"

# slowest FILE: its ten greatest lines. No `head`: it would end `sort` by a signal, and with it this script.
slowest() { sort -rn "$1" | awk 'NR <= 10 { ms = $1; $1 = ""; printf "  %7.1f s %s\n", ms / 1000, $0 }'; }

report() {
    local log
    for log in "$INNOKIT_TIMES"/*.log; do
        sed -n "s/^test \(.*\) \.\.\. [a-zA-Z]* <\([0-9.]*\)s>\$/\2 \1/p" "$log" |
            awk -v program="$(basename "$log" | sed 's/-[0-9a-f]*\.log$//')" '{ print $1 * 1000, program "::" $2 }'
    done >"$INNOKIT_TIMES/tests"
    touch "$INNOKIT_TIMES/servers"
    printf '\nThe slowest programs:\n'
    slowest <(sed 's/-[0-9a-f]*$//' "$INNOKIT_TIMES/programs")
    printf 'The slowest tests (up to %s run beside each other):\n' "${RUST_TEST_THREADS:-$(nproc)}"
    slowest "$INNOKIT_TIMES/tests"
    printf 'Where the time went:\n  %7.1f s building\n  %7.1f s testing; within it, added up over the tests that run beside each other:\n' \
        "$((built - started))" "$(($(date +%s) - built))"
    awk '{ sum[$2] += $1; count[$2]++ } END { for (action in sum) printf "  %7.1f s %d times server.sh %s\n", sum[action] / 1000, count[action], action }' \
        "$INNOKIT_TIMES/servers" | sort -rn
}

started="$(date +%s)"
"${CARGO:-cargo}" test --workspace --features "$features" --no-run
built="$(date +%s)"
status=0
env "$runner=$PWD/scripts/timed.sh" "${CARGO:-cargo}" test --workspace --features "$features" --no-fail-fast || status=$?
report
exit "$status"
