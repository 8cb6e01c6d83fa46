#!/usr/bin/env bash
# Makes fixtures/scattered: a table of MySQL's whose rows came in random order of their keys, so that neighbours of its trees lie all
# over the file, with a manifest like those of make-fixtures.sh. The committed files are the output of this script.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here folder="${here%/*}/fixtures/scattered"
work="$(mktemp -d "${TMPDIR:-/var/tmp}/innokit-scattered.XXXXXX")"
readonly work
trap '"$here/server.sh" mysql stop "$work/data" || true; rm -rf "$work"' EXIT

# Repetitive text, so that the fixture compresses well.
sql() {
    cat <<'SQL'
CREATE TABLE fx.scattered (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, a INT UNSIGNED NOT NULL, b VARCHAR(250) NOT NULL, c VARCHAR(2000) NOT NULL, KEY a_b (a, b)) ENGINE=InnoDB CHARACTER SET latin1 COLLATE latin1_bin;
INSERT INTO fx.scattered SELECT CONV(LEFT(SHA2(i, 256), 15), 16, 10), CONV(RIGHT(SHA2(i, 256), 7), 16, 10), REPEAT('b', 240), REPEAT('some text of a row. ', 75) FROM (SELECT a.d + 10*b.d + 100*c.d + 1000*e.d AS i FROM fx.d a, fx.d b, fx.d c, fx.d e ORDER BY i) numbers;
SQL
}

"$here/server.sh" mysql init "$work/data"
"$here/server.sh" mysql start "$work/data" --innodb-buffer-pool-size=256M --innodb-redo-log-capacity=256M
{
    printf '%s\n' 'CREATE DATABASE fx; USE fx;' 'CREATE TABLE d (d INT PRIMARY KEY);' \
        'INSERT INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);'
    sql
} | "$here/server.sh" mysql sql "$work/data"
"$here/server.sh" mysql stop "$work/data" 0
"$here/server.sh" mysql innochecksum "$work/data/fx/scattered.ibd"
mkdir -p "$folder"
zstd -q -19 --long=27 -f "$work/data/fx/scattered.ibd" -o "$folder/scattered-16k.ibd.zst"
chmod 644 "$folder/scattered-16k.ibd.zst"
{
    printf '# A tablespace written by a real server. Made by scripts/make-scan-fixture.sh; do not edit.\n\n'
    printf '[[fixture]]\nfile = "scattered-16k.ibd.zst"\nserver = "%s"\n' "$("$here/server.sh" mysql version)"
    printf "sql = '''\n%s\n'''\n" "$(sql)"
    printf 'sha256 = "%s"\n' "$(sha256sum <"$work/data/fx/scattered.ibd" | cut -d' ' -f1)"
    printf 'page_size = 16384\nphysical_page_size = 16384\npages = %s\nalgorithm = "crc32"\n' \
        $(($(stat -c %s "$work/data/fx/scattered.ibd") / 16384))
} >"$folder/MANIFEST.toml"
