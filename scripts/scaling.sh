#!/usr/bin/env bash
# Compares the work of every command on FEW and on MANY tables: scaling.sh [FEW] [MANY]  (defaults 1,000 and 8,000)
#
# Sets: many folders (100 tables each), one folder, partitions; MariaDB and MySQL; and backups of the first. Counts CPU seconds, system calls
# (strace), peak memory, and how often a table's file is opened. Eight times the tables may take at most nine times the CPU and the system
# calls, and no file may be opened more than 16 times: for its head, its dictionary or definition, its pages, the comparison; and its copy, if
# it is copied, to write it, to compare it, to apply changes in two passes, of which each opens again what had to make room for others.
# Exit status 1 if one takes more.
#
# KINDS="mariadb" SHAPES="folders" limit it, SHAPES="" to backups and recovery. INNOKIT is the program, built with the feature sql. Each
# command runs five times. It takes 8 GB in SCRATCH and 1.5 GB in OUT, which is in memory: ext4 passes over the inodes of files that were
# just deleted, those of the run before, one by one for each new file, and that is as much CPU time as all the rest.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here few="${1:-1000}" many="${2:-8000}"
readonly innokit="${INNOKIT:-$here/../target/release/innokit}" scratch="${SCRATCH:-$here/../target/scaling}"
readonly kinds="${KINDS:-mariadb mysql}" shapes="${SHAPES-folders one partitions}" openings_max=16
out="${OUT:-$(mktemp -d /dev/shm/innokit-scaling.XXXXXX)}/out"
readonly out
[ -x "$innokit" ] || { echo "scaling: $innokit is missing: build it, or name another in INNOKIT" >&2; exit 2; }
mkdir -p "$scratch"
trap 'rm -rf "$out" "$out".*; rmdir "$(dirname "$out")" 2>/dev/null || :' EXIT
failed=0

make_set() { # KIND SHAPE TABLES [--dirty N] -> path
    local kind="$1" shape="$2" tables="$3" set
    shift 3
    set="$scratch/$kind-$shape-$tables${1:+-dirty}"
    case "$shape" in
        folders) "$here/make-many-tables.sh" "$set" "$kind" "$tables" 100 "$@" ;;
        one) "$here/make-many-tables.sh" "$set" "$kind" "$tables" 1000000 "$@" ;;
        partitions) "$here/make-many-tables.sh" "$set" "$kind" "$tables" --partitions ;;
    esac >&2
    printf '%s' "$set"
}

# Where a command writes: an export into a directory, a recovery into none.
fresh() {
    rm -rf "$out"
    [[ " $* " != *" export "* ]] || mkdir "$out"
}

# CPU milliseconds, system calls, peak KiB and the most openings of one tablespace. Of three runs, the one with the least CPU: what else runs on
# the machine only adds.
measure() {
    local calls="$out.calls" times="$out.times" opened="$out.opened"
    for _ in 1 2 3; do
        fresh "$@"
        /usr/bin/time -o "$times.one" -f '%U %S %M' "$@" >/dev/null 2>"$out.said" || { [ $? -lt 2 ] || { cat "$out.said" >&2; exit 2; }; }
        tail -n 1 "$times.one"
    done | awk '{ if (NR == 1 || $1 + $2 < least) { least = $1 + $2; line = $0 } } END { print line }' >"$times" || exit 2
    fresh "$@"
    strace -f -c -o "$calls" "$@" >/dev/null 2>&1 || true
    fresh "$@"
    strace -f --seccomp-bpf -e trace=open,openat,openat2 -o "$opened" "$@" >/dev/null 2>&1 || true
    rm -rf "$out"
    # The names of tables differ between folders too.
    awk -v calls="$(awk '$NF == "total" {print $4}' "$calls")" -v opened="$(most_opened "$opened")" \
        '{printf "%d %d %d %d\n", ($1 + $2) * 1000, calls, $3, opened}' "$times"
}

most_opened() {
    awk 'match($0, /[^"\/]*\.ibd"/) && !/resumed>/ { n = ++count[substr($0, RSTART, RLENGTH)]; if (n > most) most = n } END { print most + 0 }' "$1"
}

compare() { # NAME FEW-SET MANY-SET WORDS... with SET in the place of the set
    local name="$1" of_few="$2" of_many="$3" a b
    shift 3
    a="$(measure "$innokit" "${@/#SET/$of_few}")"
    b="$(measure "$innokit" "${@/#SET/$of_many}")"
    awk -v name="$name" -v a="$a" -v b="$b" -v few="$few" -v many="$many" -v openings="$openings_max" 'BEGIN {
        split(a, x, " "); split(b, y, " ")
        most = many / few * 9 / 8
        # The start of a process and the clock of the kernel are noise of 40 ms.
        bad = (y[1] > most * (x[1] + 40) || y[2] > most * x[2] || y[4] > openings)
        printf "%-44s %8d ms %8d ms %5.1f %9d %9d %5.1f %7d MiB %6d%s\n", name, x[1], y[1], y[1] / (x[1] + 1), x[2], y[2], y[2] / (x[2] + 1), y[3] / 1024, y[4], bad ? "  TOO MUCH" : ""
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
        "$innokit" backup --progress never "$set" --to "$set.backup" --socket "$set.socket" --user root
        mkdir "$set.spool"
        "$innokit" backup --progress never "$set" --to - --spool "$set.spool" --socket "$set.socket" --user root >"$set.xb"
    done
    compare "$kind folders: backup" "$2" "$3" backup SET --to "$out" --socket SET.socket --user root
    "$here/server.sh" "$kind" stop "$2" 0
    "$here/server.sh" "$kind" stop "$3" 0
    compare "$kind folders: backup verify" "$2" "$3" backup verify SET.backup
    compare "$kind folders: restore" "$2" "$3" restore SET.backup --to "$out"
    compare "$kind folders: unpack" "$2" "$3" unpack SET.xb "$out"
    rm -rf "$2".{backup,xb,spool,socket} "$3".{backup,xb,spool,socket}
}

printf '%-44s %11s %11s %5s %9s %9s %5s %11s %6s\n' "command" "CPU $few" "CPU $many" "ratio" "calls" "calls" "ratio" "peak" "opened"
for kind in $kinds; do
    for shape in $shapes; do
        [ "$shape" != partitions ] || [ "$many" -le 8192 ] || continue
        a="$(make_set "$kind" "$shape" "$few")" b="$(make_set "$kind" "$shape" "$many")"
        for words in "check" "check --live" "table check" "table check --extended" "table count" "table checksum" "table schema" "info" "redo info"; do
            # shellcheck disable=SC2086
            compare "$kind $shape: $words" "$a" "$b" $words SET
        done
        compare "$kind $shape: table export" "$a" "$b" table export --format jsonl -o "$out/" SET
    done
    compare_backups "$kind" "$(make_set "$kind" folders "$few")" "$(make_set "$kind" folders "$many")"
    a="$(make_set "$kind" folders "$few" --dirty "$few")" b="$(make_set "$kind" folders "$many" --dirty "$many")"
    compare "$kind folders, all changed: redo info" "$a" "$b" redo info SET
    compare "$kind folders, all changed: recover --to" "$a" "$b" recover --to "$out" SET
done
exit "$failed"
