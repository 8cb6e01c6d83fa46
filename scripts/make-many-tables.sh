#!/usr/bin/env bash
# Makes a datadir with many small tables with a real server: make-many-tables.sh OUT KIND TABLES [PER_DATABASE] [--dirty N]
#
#   KIND            mariadb or mysql (as scripts/server.sh)
#   TABLES          how many tables
#   PER_DATABASE    how many of them in one database (default 100); more than TABLES: all in one folder
#   --dirty N       update N of them and kill the server before it flushes: the redo log holds changes to N tablespaces
#   --partitions    one table of TABLES partitions (at most 8,192) instead
#
# Every table has a secondary index and three rows. The server makes all of them, so its dictionary, ids and files are true.
# A finished datadir is kept: the same words again do nothing. One table takes 1 to 3 ms and, on disk, 64 to 112 KiB.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here
die() { printf 'make-many-tables: %s\n' "$*" >&2; exit 2; }
server() { "$here/server.sh" "$@"; }

words=() dirty=0 partitions=
while [ $# -gt 0 ]; do
    case "$1" in
        --dirty) [ $# -ge 2 ] || die "--dirty takes a number"; dirty="$2"; shift ;;
        --partitions) partitions=1 ;;
        -*) die "no such option: $1" ;;
        *) words+=("$1") ;;
    esac
    shift
done
[ ${#words[@]} -ge 3 ] && [ ${#words[@]} -le 4 ] || { sed -n '2,/^set -/{s/^# \{0,1\}//;/^set -/!p}' "$0" >&2; exit 2; }
readonly out="${words[0]}" kind="${words[1]}" tables="${words[2]}" each="${words[3]:-100}" dirty partitions
case "$kind" in mariadb | mysql) ;; *) die "KIND is mariadb or mysql" ;; esac
[[ $tables =~ ^[1-9][0-9]*$ && $each =~ ^[1-9][0-9]*$ && $dirty =~ ^[0-9]+$ ]] || die "TABLES, PER_DATABASE and N are numbers"
[ "$dirty" -le "$tables" ] || die "there are only $tables tables to change"

readonly stamp="$out/../.$(basename "$out").many"
readonly want="$kind $tables $each $dirty $partitions $(cksum <"$0")"
if [ -d "$out" ] && [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then exit 0; fi
[ ! -d "$out" ] || [ -e "$stamp" ] || [ -z "$(ls -A "$out")" ] || die "$out exists and was not made by this script"
rm -rf "$out" "$stamp"

# Nothing here outlives a power cut, so nothing waits for the disk.
options=(--innodb-flush-log-at-trx-commit=0 --innodb-flush-method=nosync --innodb-stats-auto-recalc=OFF
    --innodb-stats-persistent=OFF --innodb-buffer-pool-size=512M --table-open-cache=2000)
case "$kind" in
    mariadb) options+=(--innodb-log-file-size=256M --table-definition-cache=2000 --sync-frm=0) ;;
    mysql) options+=(--innodb-redo-log-capacity=512M --table-definition-cache=2000 --innodb-doublewrite=OFF --skip-log-bin) ;;
esac

readonly columns="id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(40), KEY by_a (a)"
name() { printf 'd%05d.t%06d' $(($1 / each)) "$1"; }

make_tables() {
    local at
    for ((at = 0; at < tables; at++)); do
        [ $((at % each)) -ne 0 ] || printf 'CREATE DATABASE d%05d;\n' $((at / each))
        printf 'CREATE TABLE %s (%s) ENGINE=InnoDB;\n' "$(name $at)" "$columns"
        printf "INSERT INTO %s VALUES (1,%d,'one'),(2,%d,'two'),(3,NULL,NULL);\n" "$(name $at)" "$at" $((at + 1))
    done
}

make_partitions() {
    printf "CREATE DATABASE d00000;\nCREATE TABLE d00000.parts (%s) ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS %s;\n" \
        "$columns" "$tables"
    printf "INSERT INTO d00000.parts VALUES (1,1,'one'),(2,2,'two'),(3,NULL,NULL);\n"
}

change_tables() {
    local at
    printf 'SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0;\nSET GLOBAL innodb_max_dirty_pages_pct = 99;\n'
    for ((at = 0; at < dirty; at++)); do
        printf 'UPDATE %s SET a = a + 7, b = "changed" WHERE id = 2;\n' "$(name $at)"
    done
    # Only what is in the log counts, and the log is written once a second.
    printf 'SET GLOBAL innodb_flush_log_at_trx_commit = 1;\nUPDATE %s SET a = a + 1 WHERE id = 1;\n' "$(name 0)"
}

server "$kind" init "$out" "${options[@]}"
trap 'server "$kind" kill9 "$out" >/dev/null 2>&1 || true' EXIT
server "$kind" start "$out"
if [ -n "$partitions" ]; then make_partitions; else make_tables; fi | server "$kind" sql "$out"
server "$kind" stop "$out" 0
if [ "$dirty" -gt 0 ]; then
    server "$kind" start "$out"
    change_tables | server "$kind" sql "$out"
    server "$kind" kill9 "$out"
fi
trap - EXIT
printf '%s' "$want" >"$stamp"
