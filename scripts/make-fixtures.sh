#!/usr/bin/env bash
# Makes fixtures/{mysql-9.7,mariadb-10.11}: small tablespaces written by the real servers, compressed, with a manifest; then
# fixtures/broken from them by scripts/break-fixture.sh. The committed files are the output of this script.
#
#   make-fixtures.sh [--force]     does nothing if the manifests are of this very script
#
# Every file passes its own server's innochecksum before it is taken. LSNs differ from run to run, rows do not.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here fixtures="${here%/*}/fixtures"
readonly page_sizes_kib='4 8 16 32 64'

die() { printf 'make-fixtures: %s\n' "$*" >&2; exit 2; }
server() { "$here/server.sh" "$@"; }
folder_of() { case "$1" in mysql) printf mysql-9.7 ;; mariadb) printf mariadb-10.11 ;; esac; }

# --- SQL -------------------------------------------------------------------------------------------------------------------

readonly columns="id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(40) CHARACTER SET latin1, c TEXT"

sql_numbers() {
    printf '%s\n' 'CREATE DATABASE fx; USE fx;' 'CREATE TABLE d (d INT PRIMARY KEY);' \
        'INSERT INTO d VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);' 'CREATE TABLE n (i INT PRIMARY KEY);' \
        'INSERT INTO n SELECT a.d + 10*b.d + 100*c.d + 1000*e.d FROM d a, d b, d c, d e;'
}

# sql_table NAME ROWS OPTIONS: repetitive text, so that the fixture compresses well.
sql_table() {
    printf 'CREATE TABLE fx.%s (%s, KEY (a), KEY (b)) ENGINE=InnoDB %s;\n' "$1" "$columns" "$3"
    printf "INSERT INTO fx.%s SELECT i, i*7919%%10007, CONCAT('name ', i*31%%997), REPEAT(CONCAT('text of row ', i, '. '), 12) FROM fx.n WHERE i < %s;\n" "$1" "$2"
    printf 'DELETE FROM fx.%s WHERE id%%10 = 3;\n' "$1"
}

# sql_zip NAME KEY_BLOCK_KIB ROWS: text that the server cannot compress away, for ten pages in use.
sql_zip() {
    printf 'CREATE TABLE fx.%s (%s, KEY (a)) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=%s;\n' "$1" "$columns" "$2"
    printf "INSERT INTO fx.%s SELECT i, i*7919%%10007, CONCAT('name ', i), CONCAT(SHA2(i, 256), SHA2(i+1, 256)) FROM fx.n WHERE i < %s;\n" "$1" "$3"
}

sql_blobs() {
    printf '%s\n' 'CREATE TABLE fx.blobs (id INT PRIMARY KEY, body LONGBLOB) ENGINE=InnoDB;' \
        "INSERT INTO fx.blobs SELECT i, REPEAT(CONCAT('body of row ', i, '. '), 300*i) FROM fx.n WHERE i BETWEEN 1 AND 20;" \
        'DELETE FROM fx.blobs WHERE id%7 = 0;'
}

sql_spatial() {
    printf '%s\n' 'CREATE TABLE fx.spatial_points (id INT PRIMARY KEY, place POINT NOT NULL, SPATIAL KEY (place)) ENGINE=InnoDB;' \
        "INSERT INTO fx.spatial_points SELECT i, ST_GeomFromText(CONCAT('POINT(', i%31, ' ', i%23, ')')) FROM fx.n WHERE i < 700;"
}

sql_general() {
    printf '%s\n' "CREATE TABLESPACE general ADD DATAFILE 'general.ibd' ENGINE=InnoDB;"
    sql_table general_1 400 'TABLESPACE general'
    sql_table general_2 300 'TABLESPACE general ROW_FORMAT=COMPACT'
}

# --- Taking a file ---------------------------------------------------------------------------------------------------------

# take KIND NAME FILE PAGE_KIB PHYSICAL_KIB ALGORITHM OPTIONS SQL [COMMAND]: verifies, compresses, writes a manifest entry.
take() {
    local kind="$1" name="$2" file="$3" page_kib="$4" physical_kib="$5" algorithm="$6" options="$7" sql="$8" command="${9:-}"
    local folder bytes
    folder="$work/$(folder_of "$kind")"
    bytes="$(stat -c %s "$file")"
    # MariaDB's tool calls the legacy doublewrite area of a sound system tablespace corrupt; the server never reads it as pages.
    if [ "$kind-$name" != mariadb-system-16k ]; then
        server "$kind" innochecksum "$file" || die "$kind: $name does not pass innochecksum"
    fi
    zstd -q -19 -f "$file" -o "$folder/$name.ibd.zst"
    chmod 644 "$folder/$name.ibd.zst" # zstd copies the mode of the server's file
    {
        printf '[[fixture]]\nfile = "%s.ibd.zst"\n' "$name"
        printf "server = \"%s\"\noptions = \"%s\"\nsql = '''\n%s'''\n" "$(server "$kind" version)" "$options" "$sql"
        [ -z "$command" ] || printf 'command = "%s"\n' "$command"
        printf 'sha256 = "%s"\n' "$(sha256sum <"$file" | cut -d' ' -f1)"
        printf 'page_size = %s\nphysical_page_size = %s\n' $((page_kib * 1024)) $((physical_kib * 1024))
        printf 'pages = %s\nalgorithm = "%s"\n\n' $((bytes / physical_kib / 1024)) "$algorithm"
    } >"$folder/$name.toml"
}

# rewrite NAME TO_NAME ALGORITHM PAGE_KIB PHYSICAL_KIB OPTIONS SQL: a MySQL file with its checksums rewritten by MySQL's tool.
rewrite() {
    local from="$1" name="$2" algorithm="$3" page_kib="$4" physical_kib="$5" options="$6" sql="$7" copy
    copy="$work/$name.copy"
    cp "$from" "$copy"
    server mysql innochecksum --no-check --write="$algorithm" "$copy"
    take mysql "$name" "$copy" "$page_kib" "$physical_kib" "$algorithm" "$options" "$sql" \
        "innochecksum --no-check --write=$algorithm"
    rm "$copy"
}

# --- The servers -----------------------------------------------------------------------------------------------------------

# Prints "NAME TABLE PHYSICAL_KIB SQL-WORDS..." for each table of a datadir of that page size; make_datadir runs the words.
tables_of() {
    local kind="$1" page_kib="$2" rows key_block
    rows=$((page_kib * 50))
    printf '%s\n' "dynamic-${page_kib}k dyn $page_kib sql_table dyn $rows ROW_FORMAT=DYNAMIC"
    if [ "$kind" = mariadb ]; then printf '%s\n' "dynamic-${page_kib}k-crc32 dyn_crc32 $page_kib sql_table dyn_crc32 $rows ROW_FORMAT=DYNAMIC"; fi
    case "$page_kib" in
        4) printf '%s\n' 'zip-2k-of-4k zip_2 2 sql_zip zip_2 2 150' 'zip-4k-of-4k zip_4 4 sql_zip zip_4 4 250' ;;
        16)
            printf '%s\n' 'redundant-16k redundant_ 16 sql_table redundant_ 600 ROW_FORMAT=REDUNDANT' \
                'compact-16k compact_ 16 sql_table compact_ 600 ROW_FORMAT=COMPACT' 'blobs-16k blobs 16 sql_blobs' \
                'spatial-16k spatial_points 16 sql_spatial'
            for key_block in 1 2 4 8 16; do
                printf '%s\n' "zip-${key_block}k zip_$key_block $key_block sql_zip zip_$key_block $key_block $((60 + key_block * 50))"
            done
            if [ "$kind" = mysql ]; then printf '%s\n' 'general-16k general 16 sql_general'; fi
            ;;
    esac
}

# A table of MariaDB made while innodb_checksum_algorithm=crc32 has the older checksums; compressed ones always have them.
algorithm_of() {
    case "$1-$2" in mariadb-*-crc32 | mariadb-zip-* | mysql-*) printf crc32 ;; mariadb-*) printf full_crc32 ;; esac
}

# make_datadir KIND PAGE_KIB
make_datadir() {
    local kind="$1" page_kib="$2" datadir="$work/$1-$2k" options="--innodb-page-size=$2k" name table physical words sql file
    local -a init=("$options")
    if [ "$kind" = mariadb ]; then init+=(--innodb-undo-tablespaces=3); fi
    server "$kind" init "$datadir" "${init[@]}"
    server "$kind" start "$datadir"
    sql_numbers | server "$kind" sql "$datadir"
    while read -r name table physical words; do
        # shellcheck disable=SC2086 # a function and its arguments
        sql="$($words)"
        case "$name" in dynamic-*-crc32) sql="SET GLOBAL innodb_checksum_algorithm=crc32;"$'\n'"$sql"$'\n'"SET GLOBAL innodb_checksum_algorithm=full_crc32;" ;; esac
        server "$kind" sql "$datadir" <<<"$sql"
        printf '%s\n' "$sql" >"$work/$kind-$name.sql"
    done < <(tables_of "$kind" "$page_kib")
    server "$kind" stop "$datadir" 0
    while read -r name table physical words; do
        file="$datadir/fx/$table.ibd"
        [ "$name" != general-16k ] || file="$datadir/general.ibd"
        take "$kind" "$name" "$file" "$page_kib" "$physical" "$(algorithm_of "$kind" "$name")" "${init[*]}" "$(cat "$work/$kind-$name.sql")"$'\n'
        rewrites "$kind" "$name" "$file" "$page_kib" "$physical" "${init[*]}"
    done < <(tables_of "$kind" "$page_kib")
    if [ "$page_kib" -eq 16 ]; then
        take_system "$kind" "$datadir" "${init[*]}"
        take_updated "$kind" "$datadir" "${init[*]}"
    fi
    rm -rf "$datadir"
}

rewrites() {
    local kind="$1" name="$2" file="$3" page_kib="$4" physical="$5" options="$6" algorithm
    case "$kind-$name" in
        mysql-dynamic-* | mysql-zip-1k | mysql-zip-2k | mysql-zip-8k)
            for algorithm in innodb none; do
                rewrite "$file" "$name-$algorithm" $algorithm "$page_kib" "$physical" "$options" "$(cat "$work/$kind-$name.sql")"$'\n'
            done
            ;;
    esac
}

take_system() {
    local kind="$1" datadir="$2" options="$3" algorithm=crc32 undo=undo_001
    local sql="-- as after the statements of every other 16k fixture of this folder"$'\n'
    if [ "$kind" = mariadb ]; then algorithm=full_crc32 undo=undo001; fi
    take "$kind" system-16k "$datadir/ibdata1" 16 16 $algorithm "$options" "$sql"
    take "$kind" undo-16k "$datadir/$undo" 16 16 $algorithm "$options" "$sql"
    if [ "$kind" = mysql ]; then take mysql dictionary-16k "$datadir/mysql.ibd" 16 16 crc32 "$options" "$sql"; fi
}

# The same table after an update: the other half of a torn page.
take_updated() {
    local kind="$1" datadir="$2" options="$3" update="UPDATE fx.dyn SET c = REPEAT('after the update ', 15);"
    server "$kind" start "$datadir"
    server "$kind" sql "$datadir" -e "$update"
    server "$kind" stop "$datadir" 0
    take "$kind" dynamic-16k-updated "$datadir/fx/dyn.ibd" 16 16 "$(algorithm_of "$kind" dynamic-16k)" "$options" \
        "$(cat "$work/$kind-dynamic-16k.sql")"$'\n'"$update"$'\n'
}

# --- All of it -------------------------------------------------------------------------------------------------------------

main() {
    local recipe kind page_kib folder pids=() pid manifest
    recipe="$(sha256sum <"$here/make-fixtures.sh" | cut -d' ' -f1)"
    if [ "${1:-}" != --force ] && grep -qsF "$recipe" "$fixtures/mysql-9.7/MANIFEST.toml" &&
        grep -qsF "$recipe" "$fixtures/mariadb-10.11/MANIFEST.toml"; then
        exec "$here/break-fixture.sh"
    fi
    command -v zstd >/dev/null || die 'zstd is needed: apt-get install zstd'
    work="$(mktemp -d "${TMPDIR:-/var/tmp}/innokit-fixtures.XXXXXX")"
    trap 'stop_all; rm -rf "$work"' EXIT
    for kind in mysql mariadb; do mkdir -p "$work/$(folder_of $kind)"; done
    for page_kib in $page_sizes_kib; do
        pids=()
        for kind in mysql mariadb; do
            (trap - EXIT; make_datadir $kind "$page_kib") </dev/null &
            pids+=($!)
        done
        for pid in "${pids[@]}"; do wait "$pid" || die "the fixtures with ${page_kib}k pages could not be made"; done
        printf 'make-fixtures: %sk pages done\n' "$page_kib"
    done
    for kind in mysql mariadb; do
        folder="$work/$(folder_of $kind)"
        manifest="$folder/MANIFEST.toml"
        {
            printf '# Tablespaces written by a real server. Made by scripts/make-fixtures.sh; do not edit.\n'
            printf '# sha256 and pages are of the uncompressed file; algorithm is the checksum on its pages.\n'
            printf 'recipe = "%s"\n\n' "$recipe"
            cat "$folder"/*.toml
        } >"$work/manifest"
        rm "$folder"/*.toml
        mv "$work/manifest" "$manifest"
        rm -rf "${fixtures:?}/$(folder_of $kind)"
        mkdir -p "$fixtures"
        cp -r "$folder" "$fixtures/"
    done
    "$here/break-fixture.sh"
    printf 'make-fixtures: %s in %s\n' "$(du -sh "$fixtures" | cut -f1)" "${fixtures##*/}"
}

# Whatever failed leaves no server behind.
stop_all() {
    local kind page_kib
    for kind in mysql mariadb; do
        for page_kib in $page_sizes_kib; do
            [ ! -d "$work/$kind-${page_kib}k" ] || server $kind stop "$work/$kind-${page_kib}k" || true
        done
    done
}

main "$@"
