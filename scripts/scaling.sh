#!/usr/bin/env bash
# Compares the work of every command on FEW and on MANY tables: scaling.sh [FEW] [MANY]  (defaults 1,000 and 8,000)
#
# Sets: many folders (100 tables each), one folder, partitions; MariaDB and MySQL; and backups of the first. Counts CPU seconds, system calls (strace) and peak memory.
# Eight times the tables may take at most nine times the CPU and the system calls. Exit status 1 if one takes more.
#
# KINDS="mariadb" SHAPES="folders" limit it. INNOKIT is the program, built with the feature sql. Each command runs four times. It takes 6 GB in SCRATCH.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here few="${1:-1000}" many="${2:-8000}"
readonly innokit="${INNOKIT:-$here/../target/release/innokit}" scratch="${SCRATCH:-$here/../target/scaling}"
readonly kinds="${KINDS:-mariadb mysql}" shapes="${SHAPES:-folders one partitions}"
[ -x "$innokit" ] || { echo "scaling: $innokit is missing: build it, or name another in INNOKIT" >&2; exit 2; }
mkdir -p "$scratch"
failed=0

make_set() { # KIND SHAPE TABLES [--dirty N] -> path
    local kind="$1" shape="$2" tables="$3" out
    shift 3
    out="$scratch/$kind-$shape-$tables${1:+-dirty}"
    case "$shape" in
        folders) "$here/make-many-tables.sh" "$out" "$kind" "$tables" 100 "$@" ;;
        one) "$here/make-many-tables.sh" "$out" "$kind" "$tables" 1000000 "$@" ;;
        partitions) "$here/make-many-tables.sh" "$out" "$kind" "$tables" --partitions ;;
    esac >&2
    printf '%s' "$out"
}

# Where a command writes: an export into a directory, a recovery into none.
fresh() {
    rm -rf "$scratch/out"
    [[ " $* " != *" export "* ]] || mkdir "$scratch/out"
}

# CPU milliseconds, system calls and peak KiB of a command. Of three runs, the one with the least CPU: what else runs on the machine only adds.
measure() {
    local calls="$scratch/calls" times="$scratch/times"
    for _ in 1 2 3; do
        fresh "$@"
        /usr/bin/time -o "$times.one" -f '%U %S %M' "$@" >/dev/null 2>"$scratch/said" || { [ $? -lt 2 ] || { cat "$scratch/said" >&2; exit 2; }; }
        tail -n 1 "$times.one"
    done | awk '{ if (NR == 1 || $1 + $2 < least) { least = $1 + $2; line = $0 } } END { print line }' >"$times" || exit 2
    fresh "$@"
    strace -f -c -o "$calls" "$@" >/dev/null 2>&1 || true
    rm -rf "$scratch/out"
    awk -v calls="$(awk '$NF == "total" {print $4}' "$calls")" '{printf "%d %d %d\n", ($1 + $2) * 1000, calls, $3}' "$times"
}

compare() { # NAME FEW-SET MANY-SET WORDS... with SET in the place of the set
    local name="$1" of_few="$2" of_many="$3" a b
    shift 3
    a="$(measure "$innokit" "${@/#SET/$of_few}")"
    b="$(measure "$innokit" "${@/#SET/$of_many}")"
    awk -v name="$name" -v a="$a" -v b="$b" -v few="$few" -v many="$many" 'BEGIN {
        split(a, x, " "); split(b, y, " ")
        most = many / few * 9 / 8
        # The start of a process and the clock of the kernel are noise of 40 ms.
        bad = (y[1] > most * (x[1] + 40) || y[2] > most * x[2])
        printf "%-44s %8d ms %8d ms %5.1f %9d %9d %5.1f %7d MiB%s\n", name, x[1], y[1], y[1] / (x[1] + 1), x[2], y[2], y[2] / (x[2] + 1), y[3] / 1024, bad ? "  TOO MUCH" : ""
        exit bad
    }' || failed=1
}

# Backups of running servers, and what is done with them. A set has its socket, its backup and its stream beside it.
compare_backups() { # KIND FEW-SET MANY-SET
    local kind="$1" set
    for set in "$2" "$3"; do
        rm -rf "$set.backup" "$set.xb" "$set.spool" "$set.socket"
        "$here/server.sh" "$kind" start "$set"
        ln -s "$("$here/server.sh" "$kind" socket "$set")" "$set.socket"
        "$innokit" backup -q "$set" --to "$set.backup" --socket "$set.socket" --user root
        mkdir "$set.spool"
        "$innokit" backup -q "$set" --to - --spool "$set.spool" --socket "$set.socket" --user root >"$set.xb"
    done
    compare "$kind folders: backup" "$2" "$3" backup SET --to "$scratch/out" --socket SET.socket --user root
    "$here/server.sh" "$kind" stop "$2" 0
    "$here/server.sh" "$kind" stop "$3" 0
    compare "$kind folders: backup verify" "$2" "$3" backup verify SET.backup
    compare "$kind folders: restore" "$2" "$3" restore SET.backup --to "$scratch/out"
    compare "$kind folders: unpack" "$2" "$3" unpack SET.xb "$scratch/out"
    rm -rf "$2".{backup,xb,spool,socket} "$3".{backup,xb,spool,socket}
}

printf '%-44s %11s %11s %5s %9s %9s %5s %11s\n' "command" "CPU $few" "CPU $many" "ratio" "calls" "calls" "ratio" "peak"
for kind in $kinds; do
    for shape in $shapes; do
        [ "$shape" != partitions ] || [ "$many" -le 8192 ] || continue
        a="$(make_set "$kind" "$shape" "$few")" b="$(make_set "$kind" "$shape" "$many")"
        for words in "check" "check --live" "table check" "table check --extended" "table count" "table checksum" "table schema" "info" "redo info"; do
            # shellcheck disable=SC2086
            compare "$kind $shape: $words" "$a" "$b" $words SET
        done
        compare "$kind $shape: table export" "$a" "$b" table export --format jsonl -o "$scratch/out/" SET
    done
    compare_backups "$kind" "$(make_set "$kind" folders "$few")" "$(make_set "$kind" folders "$many")"
    a="$(make_set "$kind" folders "$few" --dirty "$few")" b="$(make_set "$kind" folders "$many" --dirty "$many")"
    compare "$kind folders, all changed: redo info" "$a" "$b" redo info SET
    compare "$kind folders, all changed: recover --to" "$a" "$b" recover --to "$scratch/out" SET
done
exit "$failed"
