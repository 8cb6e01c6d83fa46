#!/usr/bin/env bash
# Makes one table of many column types by each server for scripts/bench.sh: make-rows-data.sh OUT [KIND ...], mysql and mariadb if not given
#
#   OUT/.rows/{mysql,mariadb}/bench/rows.ibd   at least 1.5 GB each: 9,000,000 rows of about 190 bytes in the order of their key
#
# The columns are those of an order line: numbers, DECIMAL, DATE, DATETIME, TIMESTAMP, ENUM, CHAR, VARCHAR, and NULLs.
# The datadirs stay, shut down cleanly, for the servers' own CHECKSUM TABLE. Needs 4 GB of disk. Kept until this script or a server changes.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here batches=90 size_min=$((3 * 1000 * 1000 * 1000 / 2))
# Safety of the data being made is traded for speed; the files that result are those of a clean shutdown.
readonly quick=(--innodb-doublewrite=0 --innodb-buffer-pool-size=256M --innodb-io-capacity=20000 --innodb-io-capacity-max=40000)

die() { printf 'make-rows-data: %s\n' "$*" >&2; exit 2; }
server() { "$here/server.sh" "$@"; }

sql_rows() {
    local batch
    cat <<'SQL'
CREATE DATABASE bench;
USE bench;
CREATE TABLE digit (n INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
CREATE TABLE `rows` (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, part INT NOT NULL, supplier INT UNSIGNED NULL, line TINYINT NOT NULL, quantity DECIMAL(15,2) NOT NULL,
  price DECIMAL(15,2) NOT NULL, discount DECIMAL(5,4) NULL, weight DOUBLE NOT NULL, state ENUM('open','sent','back') NOT NULL, shipped DATE NULL, ordered DATETIME NOT NULL,
  changed TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00', mode CHAR(10) NOT NULL, name VARCHAR(60) NOT NULL, comment VARCHAR(200) NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
SQL
    for ((batch = 0; batch < batches; batch++)); do
        cat <<SQL
INSERT INTO \`rows\` SELECT n, n * 7919 % 2000003, IF(n % 10 = 3, NULL, n * 31 % 100003), n % 7 + 1, n * 17 % 5001 / 100, n * 104729 % 10000019 / 100,
  IF(n % 5 = 0, NULL, n % 1001 / 10000), n / 8, n % 3 + 1, IF(n % 11 = 0, NULL, '2015-01-01' + INTERVAL n % 3000 DAY), '2018-01-01' + INTERVAL n * 61 SECOND,
  '2019-01-02' + INTERVAL n * 13 SECOND, ELT(n % 4 + 1, 'AIR', 'TRUCK', 'RAIL', 'REG AIR'), CONCAT('item ', n, ' of the catalogue'),
  IF(n % 8 = 0, NULL, REPEAT('carefully packed; ', n % 7 + 1))
FROM (SELECT $batch * 100000 + a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n AS n
    FROM digit a, digit b, digit c, digit d, digit e) numbers ORDER BY n;
SQL
    done
}

make_rows() {
    local kind="$1" datadir="$2"
    local -a options=("${quick[@]}")
    case "$kind" in
        mysql) options+=(--innodb-redo-log-capacity=1G) ;;
        mariadb) options+=(--innodb-log-file-size=1G) ;;
    esac
    server "$kind" stop "$datadir"
    rm -rf "$datadir" "${datadir%/*}/.$kind.server"
    server "$kind" init "$datadir"
    server "$kind" start "$datadir" "${options[@]}"
    sql_rows | server "$kind" sql "$datadir" || die "$kind could not fill the table"
    # All that waits for purge is purged, so that nothing changes the file when the server starts again.
    server "$kind" stop "$datadir" 0
    [ "$(stat -c %s "$datadir/bench/rows.ibd")" -ge "$size_min" ] || die "$kind made a file that is too small"
}

main() {
    [ $# -ge 1 ] || die 'usage: make-rows-data.sh OUT [KIND ...]'
    local out stamp kind
    mkdir -p "$1/.rows"
    out="$(cd "$1" && pwd -P)"
    shift
    [ $# -gt 0 ] || set -- mysql mariadb
    for kind in "$@"; do
        stamp="$( (cat "$here/make-rows-data.sh"; server "$kind" version) | sha256sum | cut -d' ' -f1)"
        [ "$(cat "$out/.rows/stamp.$kind" 2>/dev/null)" != "$stamp" ] || continue
        # shellcheck disable=SC2064 # expanded now
        trap "server $kind stop '$out/.rows/$kind' || true" EXIT
        make_rows "$kind" "$out/.rows/$kind"
        trap - EXIT
        printf 'make-rows-data: the table of %s made, %s\n' "$kind" "$(du -h "$out/.rows/$kind/bench/rows.ibd" | cut -f1)"
        printf '%s\n' "$stamp" >"$out/.rows/stamp.$kind"
    done
}

main "$@"
