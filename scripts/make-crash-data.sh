#!/usr/bin/env bash
# Makes datadirs of servers that were killed with much to recover, for scripts/bench.sh: make-crash-data.sh OUT [KIND...]
#
#   OUT/.crash/KIND    mariadb and mysql, if none is named: a table of 2 GB, rows of it changed all over when the server was killed. At
#                      least 450 MB of redo since the checkpoint, over more than 100,000 pages, none of which the server had written
#
# Recover a copy of it: the datadir itself stays as it was left. Needs 4 GB of disk for each. Kept until this script or the server changes.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here batches=60 redo_min=$((450 * 1000 * 1000))
# Safety of the data being made is traded for speed; and the server writes no page before it must, so that its redo piles up.
readonly quick=(--innodb-doublewrite=0 --innodb-buffer-pool-size=3G --innodb-adaptive-flushing=OFF --innodb-max-dirty-pages-pct=99
    --innodb-max-dirty-pages-pct-lwm=98)
# The server being crashed.
kind=

die() { printf 'make-crash-data: %s\n' "$*" >&2; exit 2; }
server() { "$here/server.sh" "$kind" "$@"; }

# MySQL flushes as soon as its log is fuller than it likes, so that its log is larger.
log_size() { if [ "$kind" = mysql ]; then printf -- --innodb-redo-log-capacity=4G; else printf -- --innodb-log-file-size=1G; fi; }

# Prints a line "NAME BYTES": how much of the log is after the checkpoint.
sql_age() {
    if [ "$kind" = mariadb ]; then
        printf "SHOW GLOBAL STATUS LIKE 'Innodb_checkpoint_age';\n"
        return
    fi
    cat <<'SQL'
SELECT 'age', SUM(IF(variable_name = 'Innodb_redo_log_current_lsn', variable_value, -variable_value)) DIV 1 FROM performance_schema.global_status
WHERE variable_name IN ('Innodb_redo_log_current_lsn', 'Innodb_redo_log_checkpoint_lsn');
SQL
}

# 100,000 rows a batch.
sql_table() {
    local batch
    cat <<'SQL'
CREATE DATABASE bench;
USE bench;
CREATE TABLE digit (n INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
CREATE TABLE crash (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, a INT UNSIGNED NOT NULL, b VARCHAR(60) NOT NULL, c VARCHAR(400) NOT NULL, KEY (a)) ENGINE=InnoDB;
SQL
    for ((batch = 0; batch < batches; batch++)); do
        cat <<SQL
INSERT INTO crash (id, a, b, c) SELECT n, CRC32(n) >> 4, CONCAT('row ', n, ' of the table'), REPEAT(LEFT(SHA2(n, 256), 40), 6)
FROM (SELECT $batch * 100000 + a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n AS n
    FROM digit a, digit b, digit c, digit d, digit e ORDER BY 1) numbers;
SQL
    done
}

# Changes in rows all over the table, 100,000 of them a round of one row in 60 of each page: some as they lie, some with their index.
sql_changes() {
    local round
    printf 'USE bench;\n'
    for ((round = 0; round < 1000; round++)); do
        cat <<SQL
UPDATE crash SET b = CONCAT('changed ', id, ' in $round'), a = IF(id % 4 = 0, a ^ 1193046, a) WHERE id % 59 = $round % 59;
SQL
        sql_age
    done
}

# Kills the server when enough redo has piled up.
crash() {
    local datadir="$1" name age=0
    exec {load}< <(sql_changes | server sql "$datadir" --unbuffered --skip-column-names 2>/dev/null)
    until [ "$age" -ge "$redo_min" ]; do
        read -r name age <&"$load" || die "the load ended before the crash, with $name $age"
    done
    server kill9 "$datadir"
    cat <&"$load" >/dev/null # it loses its server
    exec {load}<&-
}

# Makes $1/.crash/$kind.
make_one() {
    local datadir stamp
    mkdir -p "$1/.crash"
    datadir="$(cd "$1/.crash" && pwd -P)/$kind"
    stamp="$( (cat "$here/make-crash-data.sh"; server version) | sha256sum | cut -d' ' -f1)"
    if [ "$(cat "$datadir.stamp" 2>/dev/null)" = "$stamp" ]; then return 0; fi
    trap 'server stop "'"$datadir"'" || true' EXIT
    server stop "$datadir"
    rm -rf "$datadir" "${datadir%/*}/.$kind.server" "$datadir.stamp"
    server init "$datadir"
    server start "$datadir" "${quick[@]}" "$(log_size)"
    sql_table | server sql "$datadir"
    # Its pages are written and its log is empty: what follows is all that there is to recover.
    server stop "$datadir" 0
    server start "$datadir" "${quick[@]}" "$(log_size)"
    crash "$datadir"
    trap - EXIT
    # Its spare log files hold nothing, and it makes others.
    rm -f "$datadir"/#innodb_redo/*_tmp
    printf '%s\n' "$stamp" >"$datadir.stamp"
    printf 'make-crash-data: made %s, %s\n' "$kind" "$(du -sh "$datadir" | cut -f1)"
}

main() {
    [ $# -ge 1 ] || die 'usage: make-crash-data.sh OUT [KIND...]'
    local out="$1"
    shift
    [ $# -ge 1 ] || set -- mariadb mysql
    for kind in "$@"; do
        case "$kind" in mariadb | mysql) make_one "$out" ;; *) die "$kind: not a kind of server" ;; esac
    done
}

main "$@"
