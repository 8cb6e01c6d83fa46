#!/usr/bin/env bash
# Makes one fragmented table by each server for scripts/bench.sh: make-frag-data.sh OUT
#
#   mysql-frag.ibd mariadb-frag.ibd   about 1.7 GB each: rows of about 200 bytes, inserted by two connections in random order of their
#                                     primary key, so that neighbours of the tree are scattered over the file; the same for index a
#
# The datadirs stay, shut down cleanly, for the servers' own CHECK TABLE; the files are hard links into OUT/.frag/{mysql,mariadb}.
# Needs 5 GB of disk. Kept until this script or a server changes.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here connections=2 batches=26 size_min=$((3 * 1024 * 1024 * 1024 / 2))
# Safety of the data being made is traded for speed; the files that result are those of a clean shutdown.
readonly quick=(--innodb-doublewrite=0 --innodb-buffer-pool-size=2500M --innodb-io-capacity=20000 --innodb-io-capacity-max=40000)

die() { printf 'make-frag-data: %s\n' "$*" >&2; exit 2; }
server() { "$here/server.sh" "$@"; }

sql_table() {
    cat <<'SQL'
CREATE DATABASE bench;
USE bench;
CREATE TABLE digit (n INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
CREATE TABLE frag (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, a INT UNSIGNED NOT NULL, b VARCHAR(60) NOT NULL, c VARCHAR(400) NOT NULL, KEY (a)) ENGINE=InnoDB;
SQL
}

# 100,000 rows a batch: the batches number $1, $1 + connections, ...
sql_rows() {
    local batch
    printf 'USE bench;\n'
    for ((batch = $1; batch < batches * connections; batch += connections)); do
        cat <<SQL
INSERT INTO bench.frag (id, a, b, c) SELECT CONV(LEFT(SHA2(n, 256), 15), 16, 10), CONV(RIGHT(SHA2(n, 256), 7), 16, 10), CONCAT('row ', n, ' of the table'), REPEAT(LEFT(SHA2(n, 256), 40), 4)
FROM (SELECT $batch * 100000 + a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n AS n
    FROM bench.digit a, bench.digit b, bench.digit c, bench.digit d, bench.digit e) numbers;
SQL
    done
}

make_frag() {
    local kind="$1" datadir="$2" i pid pids=()
    local -a options=("${quick[@]}")
    case "$kind" in
        mysql) options+=(--innodb-redo-log-capacity=2G) ;;
        mariadb) options+=(--innodb-log-file-size=1G) ;;
    esac
    server "$kind" stop "$datadir"
    rm -rf "$datadir" "${datadir%/*}/.$kind.server"
    server "$kind" init "$datadir"
    server "$kind" start "$datadir" "${options[@]}"
    sql_table | server "$kind" sql "$datadir"
    for ((i = 0; i < connections; i++)); do
        sql_rows "$i" | server "$kind" sql "$datadir" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || die "$kind could not fill the table"; done
    # All that waits for purge is purged, so that nothing changes the file when the server starts again.
    server "$kind" stop "$datadir" 0
    [ "$(stat -c %s "$datadir/bench/frag.ibd")" -ge "$size_min" ] || die "$kind made a file that is too small"
}

main() {
    [ $# -eq 1 ] || die 'usage: make-frag-data.sh OUT'
    local out stamp kind
    mkdir -p "$1/.frag"
    out="$(cd "$1" && pwd -P)"
    stamp="$( (cat "$here/make-frag-data.sh"; server mysql version; server mariadb version) | sha256sum | cut -d' ' -f1)"
    if [ "$(cat "$out/.frag/stamp" 2>/dev/null)" = "$stamp" ]; then return 0; fi
    trap 'server mysql stop "'"$out"'/.frag/mysql" || true; server mariadb stop "'"$out"'/.frag/mariadb" || true' EXIT
    rm -f "$out"/m*-frag.ibd
    for kind in mysql mariadb; do
        make_frag $kind "$out/.frag/$kind"
        ln -f "$out/.frag/$kind/bench/frag.ibd" "$out/$kind-frag.ibd"
        printf 'make-frag-data: %s-frag.ibd made, %s\n' $kind "$(du -h "$out/$kind-frag.ibd" | cut -f1)"
    done
    printf '%s\n' "$stamp" >"$out/.frag/stamp"
}

main "$@"
