#!/usr/bin/env bash
# Runs every test of the Rust crates, then prints the slowest programs and tests and where the time went.
# `make test` has fetched the servers and set INNOKIT_DATADIRS, the folder of the datadirs, which are made here while the compiler works.
#
# Two programs run beside each other: tests wait for servers a third of the time, and a program's last test leaves a processor idle.
# INNOKIT_LANES says how many otherwise. What a program prints appears when it has ended.
set -euo pipefail
cd "$(dirname "$0")/.."

features="$(scripts/build.sh --features)"
readonly features
INNOKIT_TIMES="$(mktemp -d)"
export INNOKIT_TIMES
clean_up() {
    rm -rf "$INNOKIT_TIMES"
    # What is in it goes with it.
    [ -z "${in_memory:-}" ] || { umount --lazy "$in_memory" 2>/dev/null || :; rmdir "$in_memory"; }
}
trap clean_up EXIT
# Those that take longest begin first, so that none is left alone at the end.
readonly longest="recovery/recover innokit/backup innokit/check innokit/recover innokit/table innokit/archive innokit/streams redo/redo_apply"

# slowest FILE: its ten greatest lines. No `head`: it would end `sort` by a signal, and with it this script.
slowest() { sort -rn "$1" | awk 'NR <= 10 { ms = $1; $1 = ""; printf "  %7.1f s %s\n", ms / 1000, $0 }'; }

report() {
    local log
    for log in "$INNOKIT_TIMES"/*.log; do
        sed -n "s/^test \(.*\) \.\.\. [a-zA-Z]* <\([0-9.]*\)s>\$/\2 \1/p" "$log" |
            awk -v program="$(basename "$log" .log)" '{ print $1 * 1000, program "::" $2 }'
    done >"$INNOKIT_TIMES/tests"
    touch "$INNOKIT_TIMES/servers"
    printf '\nThe slowest programs (two beside each other):\n'
    slowest "$INNOKIT_TIMES/programs"
    printf 'The slowest tests (up to %s of a program run beside each other):\n' "${RUST_TEST_THREADS:-$(nproc)}"
    slowest "$INNOKIT_TIMES/tests"
    printf 'Where the time went:\n  %7.1f s building, and making datadirs\n  %7.1f s testing; within it, added up over the tests that run beside each other:\n' \
        "$((built - started))" "$(($(date +%s) - built))"
    awk '{ ms = $1; $1 = ""; sum[$0] += ms; count[$0]++ } END { for (action in sum) printf "  %7.1f s %d times server.sh%s\n", sum[action] / 1000, count[action], action }' \
        "$INNOKIT_TIMES/servers" | sort -rn
}

# Of cargo's messages, the test programs as CRATE/NAME, FOLDER, FILE, the longest first.
programs() {
    python3 -c '
import json, os, sys
longest = sys.argv[1].split()
found = []
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message.get("profile", {}).get("test"):
        folder = os.path.dirname(message["manifest_path"])
        kind = message["target"]["kind"][0]
        name = message["target"]["name"] if kind == "test" else kind
        found.append((os.path.basename(folder) + "/" + name, folder, message["executable"]))
found.sort(key=lambda it: (longest.index(it[0]) if it[0] in longest else len(longest), it[0]))
for it in found:
    print("\t".join(it))
' "$longest"
}

# run_program NAME, FOLDER, FILE as one word: from the crate's folder, as cargo does.
run_program() {
    local name folder file status=0 started=$EPOCHREALTIME
    IFS=$'\t' read -r name folder file <<<"$1"
    local log="$INNOKIT_TIMES/${name//\//::}.log"
    # `--report-time` is not stable. The variable only tells the program that it may be used: nothing is compiled here.
    (cd "$folder" && CARGO_MANIFEST_DIR="$folder" RUSTC_BOOTSTRAP=1 "$file" -Z unstable-options --report-time) >"$log" 2>&1 || status=$?
    printf '%s %s\n' "$(((${EPOCHREALTIME/[^0-9]/} - ${started/[^0-9]/}) / 1000))" "$name" >>"$INNOKIT_TIMES/programs"
    [ "$status" = 0 ] || printf '%s ended with %s\n' "$name" "$status" >>"$INNOKIT_TIMES/failed"
    (
        flock 9
        printf '\n     Running %s\n' "$name"
        cat "$log"
    ) 9>"$INNOKIT_TIMES/lock"
}
export -f run_program

# In memory if there is enough of it: innokit syncs what it writes, and on a disk that others use the tests would wait for that most of the
# time. Tests of reading and writing itself use the folder of the build. Direct I/O must work there, as it does on disks.
# Not in /dev/shm: MariaDB takes a log there for persistent memory and maps it, so that threads write it side by side. A killed server then
# leaves holes in it, which no disk has.
if [ "$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -ge 12 ]; then
    in_memory="$(mktemp -d /tmp/innokit-tests.XXXXXX)"
    if mount -t tmpfs -o size=10g,mode=1777 innokit "$in_memory" 2>/dev/null; then
        if dd if=/dev/zero of="$in_memory/direct" bs=4096 count=1 oflag=direct status=none 2>/dev/null; then export TMPDIR="$in_memory"; fi
        rm -f "$in_memory/direct"
    fi
fi

started="$(date +%s)"
scripts/make-datadirs.sh --with encrypted,compressed "$INNOKIT_DATADIRS" >"$INNOKIT_TIMES/datadirs" 2>&1 &
readonly making=$!
trap 'kill "$making" 2>/dev/null || :; clean_up' EXIT
scripts/build.sh
"${CARGO:-cargo}" test --workspace --features "$features" --no-run --message-format=json 2>/dev/null | programs >"$INNOKIT_TIMES/list"
[ -s "$INNOKIT_TIMES/list" ] || { echo "test.sh: cargo names no test program" >&2; exit 2; }
wait "$making" || { cat "$INNOKIT_TIMES/datadirs" >&2; exit 2; }
built="$(date +%s)"
# shellcheck disable=SC2016 # the dollar is for the inner shell
tr '\n' '\0' <"$INNOKIT_TIMES/list" |
    xargs -0 -n 1 -P "${INNOKIT_LANES:-2}" bash -c 'set -euo pipefail; run_program "$1"' _
status=0
"${CARGO:-cargo}" test --workspace --features "$features" --doc || status=$?
report
if [ -e "$INNOKIT_TIMES/failed" ]; then
    printf 'Failed:\n' >&2
    sed 's/^/  /' "$INNOKIT_TIMES/failed" >&2
    status=1
fi
exit "$status"
