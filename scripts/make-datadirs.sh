#!/usr/bin/env bash
# Makes datadirs with the two real servers, for tests: make-datadirs.sh [--with encrypted,compressed] OUT
#
#   {mysql,mariadb}-{4k,8k,16k,32k,64k}  every page size; row formats, compressed, partitioned, full-text, spatial, large
#                                        values, freed pages, undo; the 8k ones have a system tablespace of two files
#   mariadb-16k-crc32                    the older checksum scheme, change buffering on, undo inside the system tablespace
#   mysql-16k-innodb, mysql-16k-none     the older checksums, still written by MySQL on demand
#   {mysql,mariadb}-16k-crashed          killed under load; the redo log still has work to do
#   mysql-16k-tde                        only --with encrypted: all that MySQL encrypts, under two master keys
#   mariadb-16k-enc                      only --with encrypted: all that MariaDB encrypts, page-compressed or not
#   mariadb-16k-crc32-enc                the same with the older checksum scheme, in the cipher's other mode
#   {mysql,mariadb}-16k-compressed       only --with compressed: page compression, every algorithm
#   mariadb-16k-crc32-compressed         the same with the older checksum scheme
#
# Keys of no secrecy lie beside the encrypted ones: .NAME.server/keys, and what opens them in .NAME.server/filekey.
# All are cleanly shut down except the crashed ones: 4k, 16k and 64k slowly (purged and merged), the others fast.
# A finished datadir is kept until this script or its server changes. Two are made at a time.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here jobs_max=2 rows=20000
readonly keys_encrypted='U2FsdGVkX19x+gtSmGQyXqFh1au+IWMVZ/VcDWjeYlJDqY1AN29RNMQljq4GNqPkqVQ3QFPxLhjaSjjn7l7eFHPeh3CdU6sos/TiRdFVY0ozZkwb3+P26iMoYOHadGoAC2j8Rl8TfcvFO1Ds7iUGqw=='

die() { printf 'make-datadirs: %s\n' "$*" >&2; exit 2; }
server() { "$here/server.sh" "$@"; }

# --- SQL, the same words for both servers where they agree -----------------------------------------------------------------

# A table of numbers is the source of every other: the same rows on every run.
sql_numbers() {
    cat <<SQL
CREATE DATABASE shop;
CREATE DATABASE \`odd-name\`;
USE shop;
CREATE TABLE digits (d INT PRIMARY KEY);
INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
CREATE TABLE n (i INT PRIMARY KEY);
INSERT INTO n SELECT a.d + 10*b.d + 100*c.d + 1000*e.d + 10000*f.d FROM digits a, digits b, digits c, digits e, digits f
  WHERE 10000*f.d < $rows;
SQL
}

# sql_fill TABLE COUNT: id, a, b, c.
sql_fill() {
    printf "INSERT INTO %s (id, a, b, c) SELECT i, i*7919%%10007, CONCAT('name ', LEFT(SHA2(i, 256), 32)), REPEAT(LEFT(SHA2(i+1, 256), 32), 1+i%%6) FROM n WHERE i < %s;\n" \
        "$1" "$2"
}

readonly columns="id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(60) CHARACTER SET latin1, c TEXT"

# Every row format, with inserts, updates and deletes; one of them large enough for many extents.
sql_row_formats() {
    local format count
    for format in redundant compact dynamic; do
        count=4000
        [ $format != dynamic ] || count=$rows
        printf 'CREATE TABLE row_%s (%s, KEY (a), KEY (b, a)) ENGINE=InnoDB ROW_FORMAT=%s;\n' $format "$columns" $format
        sql_fill row_$format $count
        printf "UPDATE row_%s SET c = REPEAT('longer than it was ', 40), a = a+1 WHERE id%%7 = 0;\n" $format
        printf 'DELETE FROM row_%s WHERE id%%5 = 0;\n' $format
    done
}

# Compressed tables of every size that the page size allows: logical pages above 16 KiB allow none.
sql_compressed() {
    local page_kib="$1" key_block
    [ "$page_kib" -le 16 ] || return 0
    for key_block in 1 2 4 8 16; do
        [ "$key_block" -le "$page_kib" ] || break
        printf 'CREATE TABLE zip_%sk (%s, KEY (a), KEY (b)) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=%s;\n' \
            "$key_block" "$columns" "$key_block"
        sql_fill "zip_${key_block}k" 4000
        printf 'DELETE FROM zip_%sk WHERE id%%3 = 0;\n' "$key_block"
        printf "UPDATE zip_%sk SET b = CONCAT('new ', LEFT(SHA2(id*3, 256), 32)) WHERE id%%4 = 0;\n" "$key_block"
    done
    cat <<'SQL'
CREATE TABLE zip_blobs (id INT PRIMARY KEY, body LONGBLOB) ENGINE=InnoDB ROW_FORMAT=COMPRESSED;
INSERT INTO zip_blobs SELECT i, REPEAT(UNHEX(LEFT(SHA2(i, 256), 32)), 40*i*i) FROM n WHERE i < 30;
DELETE FROM zip_blobs WHERE id%4 = 1;
SQL
}

sql_special() {
    cat <<'SQL'
CREATE TABLE blobs (id INT PRIMARY KEY, body LONGBLOB, note TEXT) ENGINE=InnoDB;
INSERT INTO blobs SELECT i, REPEAT(LEFT(SHA2(i, 256), 32), 10*i*i), REPEAT('note ', i) FROM n WHERE i < 30;
UPDATE blobs SET body = REPEAT('shorter', 3000) WHERE id%5 = 2;
DELETE FROM blobs WHERE id%5 = 1;
CREATE TABLE blobs_compact (id INT PRIMARY KEY, body LONGBLOB) ENGINE=InnoDB ROW_FORMAT=COMPACT;
INSERT INTO blobs_compact SELECT id, body FROM blobs;
CREATE TABLE words (id INT PRIMARY KEY AUTO_INCREMENT, title VARCHAR(200), body TEXT, FULLTEXT KEY (title), FULLTEXT KEY (title, body)) ENGINE=InnoDB;
INSERT INTO words (title, body) SELECT CONCAT('title ', LEFT(SHA2(i, 256), 32)), CONCAT('some common words and ', LEFT(SHA2(i, 256), 32), ' ', LEFT(SHA2(i+1, 256), 32)) FROM n WHERE i < 500;
DELETE FROM words WHERE id%9 = 0;
CREATE TABLE places (id INT PRIMARY KEY, place POINT NOT NULL, SPATIAL KEY (place)) ENGINE=InnoDB;
INSERT INTO places SELECT i, ST_GeomFromText(CONCAT('POINT(', i%317, ' ', i%211, ')')) FROM n WHERE i < 3000;
DELETE FROM places WHERE id%6 = 0;
CREATE TABLE parts (id INT NOT NULL, a INT, b VARCHAR(60), PRIMARY KEY (id), KEY (a)) ENGINE=InnoDB
  PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN (2500), PARTITION rest VALUES LESS THAN MAXVALUE);
INSERT INTO parts SELECT i, i%50, LEFT(SHA2(i, 256), 32) FROM n WHERE i < 4000;
CREATE TABLE subparts (id INT NOT NULL, a INT NOT NULL, b VARCHAR(60), PRIMARY KEY (id, a)) ENGINE=InnoDB
  PARTITION BY RANGE (id) SUBPARTITION BY HASH (a) SUBPARTITIONS 2
  (PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO subparts SELECT i, i%50, LEFT(SHA2(i, 256), 32) FROM n WHERE i < 3000;
CREATE TABLE churn (id INT PRIMARY KEY, a INT, b VARCHAR(60), c VARCHAR(300), KEY by_a (a), KEY by_b (b)) ENGINE=InnoDB;
INSERT INTO churn SELECT i, i%1000, LEFT(SHA2(i, 256), 32), REPEAT('c', 250) FROM n WHERE i < 12000;
ALTER TABLE churn DROP INDEX by_b;
DELETE FROM churn WHERE id BETWEEN 2000 AND 11000;
CREATE TABLE emptied LIKE churn;
INSERT INTO emptied SELECT * FROM churn;
TRUNCATE TABLE emptied;
CREATE TABLE deleted LIKE churn;
INSERT INTO deleted SELECT * FROM churn;
DELETE FROM deleted;
CREATE TABLE instant (id INT PRIMARY KEY, a INT) ENGINE=InnoDB;
INSERT INTO instant SELECT i, i%10 FROM n WHERE i < 2000;
ALTER TABLE instant ADD COLUMN later VARCHAR(20) NOT NULL DEFAULT 'was not there', ALGORITHM=INSTANT;
INSERT INTO instant SELECT i, i%10, LEFT(LEFT(SHA2(i, 256), 32), 20) FROM n WHERE i BETWEEN 2000 AND 2499;
CREATE TABLE instant_dropped (id INT PRIMARY KEY, a INT, gone VARCHAR(20)) ENGINE=InnoDB;
INSERT INTO instant_dropped SELECT i, i%10, 'soon gone' FROM n WHERE i < 2000;
ALTER TABLE instant_dropped DROP COLUMN gone, ALGORITHM=INSTANT;
ALTER TABLE instant_dropped ADD COLUMN came_first INT FIRST, ALGORITHM=INSTANT;
INSERT INTO instant_dropped SELECT 1, i, i%10 FROM n WHERE i BETWEEN 2000 AND 2499;
CREATE TABLE virtuals (id INT PRIMARY KEY, a INT, twice INT GENERATED ALWAYS AS (a*2) VIRTUAL, stored_too INT GENERATED ALWAYS AS (a+1) STORED, KEY (twice)) ENGINE=InnoDB;
INSERT INTO virtuals (id, a) SELECT i, i%100 FROM n WHERE i < 3000;
ALTER TABLE virtuals ADD COLUMN thrice INT GENERATED ALWAYS AS (a*3) VIRTUAL;
CREATE TABLE `odd-name`.`tä ble-1` (id INT PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO `odd-name`.`tä ble-1` SELECT i FROM n WHERE i < 100;
CREATE TABLE types (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, bi BIGINT, f FLOAT, d DOUBLE,
  de DECIMAL(20,6), da DATE, t TIME(3), dt DATETIME(6), ts TIMESTAMP NULL, y YEAR, c CHAR(10), vc VARCHAR(500), bn BINARY(8), vb VARBINARY(40),
  e ENUM('red','green','blue'), s SET('a','b','c'), bt BIT(9), j JSON, u CHAR(12) CHARACTER SET utf8mb4) ENGINE=InnoDB;
INSERT INTO types (ti, si, mi, bi, f, d, de, da, t, dt, ts, y, c, vc, bn, vb, e, s, bt, j, u)
  SELECT i%100-50, i*3%65000, i*11-9000, i*1234567890123-7, i/3, i/7, i*1000/7, DATE '2001-02-03' + INTERVAL i DAY, SEC_TO_TIME(i*13),
  TIMESTAMP '1999-12-31 23:59:59.123456' + INTERVAL i HOUR, FROM_UNIXTIME(1000000000+i*1000), 1950+i%150, LEFT(LEFT(SHA2(i, 256), 32), i%11), REPEAT('v', i%400),
  LEFT(UNHEX(LEFT(SHA2(i, 256), 32)), 8), UNHEX(SHA2(i, 224)), 1+i%3, i%8, i%512, CONCAT('{"k": ', i, '}'), CONCAT('ä€', i) FROM n WHERE i < 1000;
SQL
}

# A table inside the system tablespace, large enough to reach its second file.
sql_system_space() {
    printf 'SET GLOBAL innodb_file_per_table = OFF;\n'
    printf 'CREATE TABLE inside_system (%s, KEY (b)) ENGINE=InnoDB;\n' "$columns"
    sql_fill inside_system 8000
    printf 'SET GLOBAL innodb_file_per_table = ON;\n'
}

# What only MySQL has: general tablespaces, plain and compressed, and an undo tablespace of one's own.
sql_mysql_only() {
    local page_kib="$1"
    cat <<'SQL'
CREATE TABLESPACE general ADD DATAFILE 'general.ibd' ENGINE=InnoDB;
CREATE TABLE in_general_1 (id INT PRIMARY KEY, a INT, b TEXT, KEY (a)) TABLESPACE general;
CREATE TABLE in_general_2 (id INT PRIMARY KEY, b VARCHAR(40), KEY (b)) TABLESPACE general ROW_FORMAT=COMPACT;
INSERT INTO in_general_1 SELECT i, i%77, REPEAT(LEFT(SHA2(i, 256), 32), 5) FROM n WHERE i < 3000;
INSERT INTO in_general_2 SELECT i, LEFT(SHA2(i, 256), 32) FROM n WHERE i < 2000;
DROP TABLE in_general_2;
CREATE TABLE in_general_3 (id INT PRIMARY KEY) TABLESPACE general;
CREATE UNDO TABLESPACE undo_extra ADD DATAFILE 'undo_extra.ibu';
SQL
    [ "$page_kib" -le 16 ] || return 0
    cat <<SQL
CREATE TABLESPACE general_zip ADD DATAFILE 'general_zip.ibd' FILE_BLOCK_SIZE=$((page_kib / 2))K;
CREATE TABLE in_general_zip (id INT PRIMARY KEY, b TEXT) TABLESPACE general_zip ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=$((page_kib / 2));
INSERT INTO in_general_zip SELECT i, REPEAT(LEFT(SHA2(i, 256), 32), 3) FROM n WHERE i < 2000;
SQL
}

sql_everything() {
    local kind="$1" page_kib="$2"
    sql_numbers
    sql_row_formats
    sql_compressed "$page_kib"
    sql_special
    sql_system_space
    if [ "$kind" = mysql ]; then sql_mysql_only "$page_kib"; fi
}

# A load without end, to be killed under: changes everywhere, small commits, tables that come and go. Before each round it says how far
# the log and its checkpoint are.
sql_load() {
    local i lsns
    printf -v lsns "'Innodb_%s'," lsn_current lsn_last_checkpoint redo_log_current_lsn redo_log_checkpoint_lsn
    printf 'SET GLOBAL innodb_flush_log_at_trx_commit = 1;\n'
    # Pages are written when they must be, not when there is time: else all of them may have been when the server is killed.
    printf 'SET GLOBAL innodb_adaptive_flushing = OFF, GLOBAL innodb_max_dirty_pages_pct = 99, GLOBAL innodb_max_dirty_pages_pct_lwm = 98, GLOBAL innodb_adaptive_flushing_lwm = 70;\n'
    for ((i = 1; i <= 3000; i++)); do
        printf "SHOW STATUS WHERE Variable_name IN (%s); DO SLEEP(0.05);\n" "${lsns%,}"
        printf "UPDATE row_dynamic SET a = a+1, c = REPEAT(LEFT(SHA2(a, 256), 32), 1+a%%9) WHERE id BETWEEN %s AND %s;\n" $((i * 37 % rows)) $((i * 37 % rows + 300))
        printf 'DELETE FROM row_compact WHERE id%%97 = %s;\n' $((i % 97))
        printf 'INSERT INTO churn SELECT i+%s, i, LEFT(SHA2(i, 256), 32), REPEAT(LEFT(SHA2(i, 256), 32), 5) FROM n WHERE i < 400;\n' $((100000 + i * 400))
        if [ $((i % 40)) -eq 0 ]; then
            printf 'CREATE TABLE late_%s LIKE row_dynamic; INSERT INTO late_%s SELECT * FROM row_dynamic WHERE id < 3000;\n' $i $i
        fi
    done
}

# Page compression by every algorithm; `prefix` goes before the tables' names.
sql_page_compressed() {
    local kind="$1" prefix="$2" algorithm
    if [ "$kind" = mysql ]; then
        for algorithm in zlib lz4; do
            printf "CREATE TABLE %spage_%s (%s, KEY (a), KEY (b, a)) ENGINE=InnoDB COMPRESSION='%s';\n" \
                "$prefix" $algorithm "$columns" $algorithm
            sql_fill "${prefix}page_$algorithm" 8000
        done
        printf "CREATE TABLE %spage_blobs (id INT PRIMARY KEY, body LONGBLOB) ENGINE=InnoDB COMPRESSION='zlib';\n" "$prefix"
    else
        for algorithm in zlib lz4 lzo lzma bzip2 snappy; do
            printf "SET GLOBAL innodb_compression_algorithm = '%s';\n" $algorithm
            printf 'CREATE TABLE %spage_%s (%s, KEY (a), KEY (b, a)) ENGINE=InnoDB PAGE_COMPRESSED=1;\n' \
                "$prefix" $algorithm "$columns"
            sql_fill "${prefix}page_$algorithm" 8000
            # The algorithm is the one in force when a page is written, not when its table was made.
            printf 'FLUSH TABLES %spage_%s FOR EXPORT; UNLOCK TABLES;\n' "$prefix" $algorithm
        done
        printf "CREATE TABLE %spage_blobs (id INT PRIMARY KEY, body LONGBLOB) ENGINE=InnoDB PAGE_COMPRESSED=1;\n" "$prefix"
    fi
    printf 'INSERT INTO %spage_blobs SELECT i, REPEAT(LEFT(SHA2(i, 256), 32), 10*i*i) FROM n WHERE i < 30;\n' "$prefix"
}

# Everything that the plain datadirs hold, encrypted: in MySQL by the default of new schemas and tablespaces, in MariaDB by the
# server's settings.
sql_encrypted() {
    local kind="$1" page_kib="$2"
    if [ "$kind" = mysql ]; then
        printf '%s;\n' 'SET default_table_encryption = ON' 'SET GLOBAL default_table_encryption = ON' \
            'SET GLOBAL innodb_undo_log_encrypt = ON' "ALTER TABLESPACE mysql ENCRYPTION = 'Y'"
    fi
    sql_numbers
    sql_row_formats
    # Tables made before keep their own keys, which the new master key wraps from now on.
    if [ "$kind" = mysql ]; then printf 'ALTER INSTANCE ROTATE INNODB MASTER KEY;\n'; fi
    sql_compressed "$page_kib"
    sql_special
    if [ "$kind" = mysql ]; then
        sql_mysql_only "$page_kib"
        sql_page_compressed mysql secret_
        printf "CREATE TABLE plain (%s) ENCRYPTION='N';\n" "$columns"
    else
        sql_system_space
        sql_page_compressed mariadb secret_
        printf 'CREATE TABLE other_key (%s, KEY (a)) ENCRYPTED=YES ENCRYPTION_KEY_ID=2;\n' "$columns"
        sql_fill other_key 4000
        printf 'CREATE TABLE plain (%s) ENCRYPTED=NO;\n' "$columns"
    fi
    sql_fill plain 1000
}

# --- Datadirs --------------------------------------------------------------------------------------------------------------

# Options for init, kept by server.sh for every start.
init_options() {
    local kind="$1" page_kib="$2" variant="$3"
    # MariaDB clears its folder of temporary tables when it starts, those of another server among them.
    printf '%s\n' "--innodb-page-size=${page_kib}k" "--tmpdir=$control/tmp"
    if [ "$page_kib" -eq 8 ]; then printf '%s\n' '--innodb-data-file-path=ibdata1:12M;ibdata2:4M:autoextend'; fi
    if [ "$kind" = mariadb ] && [ "$page_kib" -ne 4 ] && [ "$variant" != crc32 ]; then printf '%s\n' --innodb-undo-tablespaces=3; fi
    case "$kind-$variant" in
        mariadb-crc32*) printf '%s\n' --innodb-checksum-algorithm=crc32 --innodb-change-buffering=all ;;
        mysql-innodb | mysql-none) printf -- '--innodb-checksum-algorithm=%s\n' "$variant" ;;
    esac
    case "$kind-$variant" in
        mariadb-*compressed | mariadb-*enc) printf -- '--plugin-load-add=provider_%s\n' lz4 lzo lzma bzip2 snappy ;;
    esac
    case "$kind-$variant" in
        mariadb-*enc)
            printf '%s\n' --plugin-load-add=file_key_management "--loose-file-key-management-filename=$keys" \
                --innodb-encryption-threads=2 --innodb-encrypt-tables=ON --innodb-encryption-rotate-key-age=1 \
                --innodb-encrypt-log=ON
            ;;
    esac
    if [ "$variant" = crc32-enc ]; then
        printf '%s\n' --loose-file-key-management-encryption-algorithm=aes_ctr \
            "--loose-file-key-management-filekey=FILE:$control/filekey"
    fi
}

# MySQL finds its keyring by manifests: one beside the program that points to the datadir's, where the component is named.
mysql_keyring() {
    local datadir="$1" servers="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
    printf '{ "read_local_manifest": true }\n' >"$servers/mysql/usr/sbin/mysqld.my"
    printf '{ "read_local_config": true }\n' >"$servers/mysql/usr/lib/mysql/plugin/component_keyring_file.cnf"
    printf '{ "components": "file://component_keyring_file" }\n' >"$datadir/mysqld.my"
    printf '{ "path": "%s", "read_only": false }\n' "$keys" >"$datadir/component_keyring_file.cnf"
}

# make KIND PAGE_KIB VARIANT NAME
make() {
    local kind="$1" page_kib="$2" variant="$3" name="$4"
    local datadir="$out/$name" control="$out/.$name.server" keys options shutdown=1
    server "$kind" stop "$datadir"
    rm -rf "$datadir" "$control"
    mkdir -p "$control/tmp"
    keys="$control/keys"
    case "$variant" in
        enc) printf '1;770A8A65DA156D24EE2A093277530142\n2;18420B5CBA31CCDFFE9716E91EB61374D05914F3ADE23E03\n' >"$keys" ;;
        crc32-enc)
            # The same two keys, by `openssl enc -aes-256-cbc -md sha1 -pass pass:innokit`.
            printf '%s' "$keys_encrypted" | base64 -d >"$keys"
            printf 'innokit\n' >"$control/filekey"
            ;;
    esac
    mapfile -t options < <(init_options "$kind" "$page_kib" "$variant")
    # Whatever fails below leaves no server behind.
    trap 'server "$kind" stop "$datadir" || true' EXIT
    server "$kind" init "$datadir" "${options[@]}"
    if [ "$variant" = tde ]; then mysql_keyring "$datadir"; fi
    server "$kind" start "$datadir"
    case "$variant" in
        *compressed)
            sql_numbers
            sql_page_compressed "$kind" ''
            ;;
        tde | *enc) sql_encrypted "$kind" "$page_kib" ;;
        *) sql_everything "$kind" "$page_kib" ;;
    esac >"$control/made-by.sql"
    server "$kind" sql "$datadir" <"$control/made-by.sql" || die "$name: the SQL in $control/made-by.sql failed"
    if [ "$variant" = crashed ]; then
        crash "$kind" "$datadir"
    else
        case "$page_kib" in 4 | 16 | 64) shutdown=0 ;; esac
        server "$kind" stop "$datadir" "$shutdown"
    fi
    trap - EXIT
    # Three quarters of them are zeros that servers write ahead of use. Tests read them again and again, and memory holds only so much.
    find "$datadir" -type f -size +64k -exec fallocate --dig-holes {} \;
    printf '%s\n' "${stamps[$kind]}" >"$control/stamp"
    printf 'make-datadirs: %s made, %s\n' "$name" "$(du -sh "$datadir" | cut -f1)"
}

# Kills the server in the middle of a load, with half its log to recover from: not so full that it must write its pages before it dies.
crash() {
    local kind="$1" datadir="$2" name value current='' checkpoint=''
    # Its log is empty then, and nothing is left to purge: a fast shutdown leaves that to the next start, whose log would change tables
    # that the load does not touch, compressed ones among them, on some machines and not on others.
    server "$kind" stop "$datadir" 0
    server "$kind" start "$datadir"
    exec {load}< <(sql_load | server "$kind" sql "$datadir" --unbuffered --skip-column-names shop 2>/dev/null)
    until [ "${checkpoint:+$current}" ] && [ $((current - checkpoint)) -ge $((6 * 1024 * 1024)) ]; do
        read -r name value <&"$load" || die "$datadir: the load ended before the crash"
        case "$name" in *checkpoint*) checkpoint="$value" ;; *) current="$value" ;; esac
    done
    server "$kind" kill9 "$datadir"
    cat <&"$load" >/dev/null # it loses its server
    exec {load}<&-
}

# Runs `make` with at most jobs_max at a time; the first failure ends the run.
running=0
enqueue() {
    if [ "$running" -ge "$jobs_max" ]; then
        wait -n || die 'a datadir could not be made'
        running=$((running - 1))
    fi
    (make "$@") </dev/null &
    running=$((running + 1))
}

# Prints "kind page_kib variant name" for each datadir, the long ones first.
wanted() {
    local kind page
    for page in 4 8 16 32 64; do
        for kind in mysql mariadb; do printf '%s %s plain %s-%sk\n' $kind $page $kind $page; done
    done
    printf '%s\n' 'mariadb 16 crc32 mariadb-16k-crc32' 'mysql 16 innodb mysql-16k-innodb' 'mysql 16 none mysql-16k-none' \
        'mysql 16 crashed mysql-16k-crashed' 'mariadb 16 crashed mariadb-16k-crashed'
    case ",$with," in *,encrypted,*)
        printf '%s\n' 'mysql 16 tde mysql-16k-tde' 'mariadb 16 enc mariadb-16k-enc' 'mariadb 16 crc32-enc mariadb-16k-crc32-enc' ;;
    esac
    case ",$with," in *,compressed,*)
        printf '%s\n' 'mysql 16 compressed mysql-16k-compressed' 'mariadb 16 compressed mariadb-16k-compressed' \
            'mariadb 16 crc32-compressed mariadb-16k-crc32-compressed' ;;
    esac
}

with=''
if [ "${1:-}" = --with ]; then
    with="${2:-}"
    shift 2
fi
[ $# -eq 1 ] || die 'usage: make-datadirs.sh [--with encrypted,compressed] OUT'
mkdir -p "$1"
out="$(cd "$1" && pwd -P)"
exec 9>"$out/.lock"
flock 9 # two test runs that share OUT: the second finds the work done
# What the datadirs of a server depend on. Every test program runs this script, so that a look at what is there must take no time.
declare -A stamps
for kind in mysql mariadb; do
    stamps[$kind]="$( (cat "$here/make-datadirs.sh" "$here/server.sh"; server "$kind" version) | sha256sum | cut -d' ' -f1)"
done
while read -r kind page variant name; do
    stamp=
    read -r stamp 2>/dev/null <"$out/.$name.server/stamp" || true
    if [ "$stamp" != "${stamps[$kind]}" ] || [ ! -d "$out/$name" ]; then enqueue "$kind" "$page" "$variant" "$name"; fi
done < <(wanted)
while [ "$running" -gt 0 ]; do
    wait -n || die 'a datadir could not be made'
    running=$((running - 1))
done
