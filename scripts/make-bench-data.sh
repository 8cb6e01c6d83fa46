#!/usr/bin/env bash
# Makes the data of the benchmarks with the real servers: make-bench-data.sh OUT
#
#   OUT/mysql-big.ibd, OUT/mariadb-big.ibd   one table of at least 1.6 GiB each, 16 KiB pages, cleanly shut down
#   OUT/many/t*.ibd                          5,000 tables of MySQL, 112 KiB each
#
# They are hard links into the datadirs OUT/.data/{mysql,mariadb}. Needs 5 GiB of disk. Kept until this script changes.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here tables=5000 connections=4 size_min=$((1024 * 1024 * 1024 * 16 / 10))
# Safety of the data being made is traded for speed; the files that result are those of a clean shutdown.
readonly quick=(--innodb-doublewrite=0 --innodb-buffer-pool-size=1G --innodb-io-capacity=20000 --innodb-io-capacity-max=40000)

die() { printf 'make-bench-data: %s\n' "$*" >&2; exit 2; }
server() { "$here/server.sh" "$@"; }

# Rows of about 2 KiB, doubled 19 times from one; the last step adds what is missing to 1.6 GiB.
sql_big() {
    cat <<'SQL'
CREATE DATABASE bench;
USE bench;
CREATE TABLE big (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL, b VARCHAR(100) NOT NULL, c VARCHAR(4000) NOT NULL, KEY (a)) ENGINE=InnoDB;
INSERT INTO big (a, b, c) VALUES (1, 'first', REPEAT('some text of a wide row, ', 80));
SQL
    local step
    for step in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
        printf "INSERT INTO big (a, b, c) SELECT id*7919%%1000003, CONCAT('row ', id, ' of step $step'), CONCAT('row ', id, ': ', REPEAT(LEFT(SHA2(id, 256), 50), 40)) FROM big;\n"
    done
    printf "INSERT INTO big (a, b, c) SELECT id*7919%%1000003, 'the rest', REPEAT(LEFT(SHA2(id, 256), 50), 40) FROM big WHERE id <= 330000;\n"
}

# The tables number $1, $1 + connections, ...
sql_many() {
    local i
    for ((i = $1; i < tables; i += connections)); do
        printf 'CREATE TABLE many.t%05d (id INT PRIMARY KEY, a INT, b VARCHAR(200)) ENGINE=InnoDB;\n' "$i"
        printf "INSERT INTO many.t%05d VALUES (1, %s, 'one'), (2, %s, 'two'), (3, 0, REPEAT('three', 30));\n" "$i" "$i" $((i * 7))
    done
}

make_big() {
    local kind="$1" datadir="$2"
    local -a options=("${quick[@]}")
    case "$kind" in
        mysql) options+=(--innodb-redo-log-capacity=2G) ;;
        mariadb) options+=(--innodb-log-file-size=1G) ;;
    esac
    server "$kind" stop "$datadir"
    rm -rf "$datadir" "${datadir%/*}/.$kind.server"
    server "$kind" init "$datadir"
    server "$kind" start "$datadir" "${options[@]}"
    sql_big | server "$kind" sql "$datadir"
    [ "$(stat -c %s "$datadir/bench/big.ibd")" -ge "$size_min" ] || die "$kind made a file that is too small"
}

make_many() {
    local datadir="$1" i pid pids=()
    server mysql sql "$datadir" -e 'CREATE DATABASE many'
    for ((i = 0; i < connections; i++)); do
        sql_many "$i" | server mysql sql "$datadir" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || die 'MySQL could not make the many tables'; done
}

main() {
    [ $# -eq 1 ] || die 'usage: make-bench-data.sh OUT'
    local out stamp kind
    mkdir -p "$1/.data"
    out="$(cd "$1" && pwd -P)"
    stamp="$( (cat "$here/make-bench-data.sh"; server mysql version; server mariadb version) | sha256sum | cut -d' ' -f1)"
    if [ "$(cat "$out/.data/stamp" 2>/dev/null)" = "$stamp" ]; then return 0; fi
    trap 'server mysql stop "'"$out"'/.data/mysql" || true; server mariadb stop "'"$out"'/.data/mariadb" || true' EXIT
    rm -rf "$out/many" "$out"/m*-big.ibd
    for kind in mysql mariadb; do
        make_big $kind "$out/.data/$kind"
        if [ $kind = mysql ]; then make_many "$out/.data/mysql"; fi
        server $kind stop "$out/.data/$kind"
        ln -f "$out/.data/$kind/bench/big.ibd" "$out/$kind-big.ibd"
        printf 'make-bench-data: %s-big.ibd made, %s\n' $kind "$(du -h "$out/$kind-big.ibd" | cut -f1)"
    done
    cp -al "$out/.data/mysql/many" "$out/many"
    printf '%s\n' "$stamp" >"$out/.data/stamp"
    printf 'make-bench-data: %s tables in many, %s\n' "$(find "$out/many" -name '*.ibd' | wc -l)" "$(du -sh "$out/many" | cut -f1)"
}

main "$@"
