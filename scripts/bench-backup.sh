#!/usr/bin/env bash
# The tables on backups in docs/benchmarks.md, on this machine: bench-backup.sh [DATA] (default target/bench, filled on first use; each
# server's tables are of 2.2 GB, and there must be room for three copies).
#
# In pairs, as bench.sh does it. Needs a release build with the feature `sql`, and root, which can drop the page cache.
# PAIRS=5, PARTS='speed restore cost' and BACKUP_KINDS='mariadb mysql' can be set.
# shellcheck disable=SC2016 # backticks are Markdown here
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here repository="${here%/*}"
readonly data="${1:-${repository}/target/bench}"
readonly innokit="${INNOKIT:-${CARGO_TARGET_DIR:-$repository/target}/release/innokit}"
pairs="${PAIRS:-5}"
work="$(mktemp -d)"
readonly work tables=8 rows=1048576 connections=4 seconds="${SECONDS_PER_RUN:-12}"
trap 'rm -rf "$work"' EXIT

# shellcheck source=scripts/pairs.sh
. "$here/pairs.sh"
[ $can_drop = yes ] || { say 'bench-backup: the page cache cannot be dropped by this user' >&2; exit 2; }
"$here/install-servers.sh"

server() { "$here/server.sh" "$kind" "$@"; }

# --- The servers ---------------------------------------------------------------------------------------------------------

# What a server in production has: a commit is durable, and the log is larger than what a backup takes.
options() {
    printf '%s\n' --innodb-flush-log-at-trx-commit=1 --innodb-buffer-pool-size=1G --innodb-io-capacity=2000
    if [ "$kind" = mysql ]; then printf '%s\n' --innodb-redo-log-capacity=2G; else printf '%s\n' --innodb-log-file-size=2G; fi
}

# A transaction changes two rows, and replaces a third one. Each connection works in tables of its own, so that none waits for another.
sql_of_load() {
    cat <<'SQL'
DELIMITER //
CREATE PROCEDURE work(mine INT, seconds INT)
BEGIN
    DECLARE until_then DATETIME(6) DEFAULT NOW(6) + INTERVAL seconds SECOND;
    DECLARE done INT DEFAULT 0;
    SET @table = CONCAT('t', mine);
    SET @one = CONCAT('UPDATE ', @table, ' SET k = k + 1 WHERE id = ?');
    SET @two = CONCAT('UPDATE ', @table, ' SET c = SHA2(RAND(), 512) WHERE id = ?');
    SET @three = CONCAT('REPLACE INTO ', @table, ' (id, k, c, pad) VALUES (?, ?, SHA2(RAND(), 512), SHA2(RAND(), 256))');
    PREPARE one FROM @one;
    PREPARE two FROM @two;
    PREPARE three FROM @three;
    WHILE SYSDATE(6) < until_then DO
        SET @a = 1 + FLOOR(RAND() * 1048576), @b = 1 + FLOOR(RAND() * 1048576), @c = 1 + FLOOR(RAND() * 1048576);
        START TRANSACTION;
        EXECUTE one USING @a;
        EXECUTE two USING @b;
        EXECUTE three USING @c, @a;
        COMMIT;
        SET done = done + 1;
    END WHILE;
    SELECT done;
END//
DELIMITER ;
SQL
}

make_tables() {
    local table
    printf 'CREATE DATABASE bench; USE bench;\n'
    sql_of_load
    for ((table = 0; table < tables; table++)); do
        printf 'CREATE TABLE t%s (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(128) NOT NULL, pad CHAR(64) NOT NULL, KEY (k)) ENGINE=InnoDB;\n' "$table"
        if [ "$table" -gt 0 ]; then
            printf 'INSERT INTO t%s SELECT * FROM t0;\n' "$table"
            continue
        fi
        printf "INSERT INTO t0 VALUES (1, RAND() * %s, SHA2(RAND(), 512), SHA2(RAND(), 256));\n" "$rows"
        for ((have = 1; have < rows; have *= 2)); do
            printf 'INSERT INTO t0 SELECT id + %s, RAND() * %s, SHA2(RAND(), 512), SHA2(RAND(), 256) FROM t0;\n' "$have" "$rows"
        done
    done
}

# Makes the datadir of $kind unless it is there.
have_data() {
    local stamp
    stamp="$(cat "$0" "$here/server.sh" | cksum)"
    [ "$(cat "$data/.backup/$kind.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    server stop "$data/.backup/$kind"
    rm -rf "$data/.backup/$kind" "$data/.backup/.$kind.server"
    mkdir -p "$data/.backup"
    mapfile -t with < <(options)
    server init "$data/.backup/$kind" "${with[@]}"
    server start "$data/.backup/$kind" --innodb-flush-log-at-trx-commit=0
    make_tables | server sql "$data/.backup/$kind"
    server stop "$data/.backup/$kind" 0
    printf '%s' "$stamp" >"$data/.backup/$kind.stamp"
}

# --- What is run ---------------------------------------------------------------------------------------------------------

readonly ours="$data/.backup/ours" theirs="$data/.backup/theirs" archive="$data/.backup/archive"

ours_backup() { "$innokit" backup --progress never --user root --socket "$socket" --to "$ours" "$data/.backup/$kind"; }
cp_backup() { cp -r "$data/.backup/$kind" "$theirs"; }
tool_backup() {
    server tool mariadb-backup --no-defaults --backup --user=root --socket="$socket" --datadir="$data/.backup/$kind" --target-dir="$theirs"
}
clear() { rm -rf "$ours" "$theirs" "$archive" "$data/.backup/out" "$data/.backup/.out.server" "$data/.backup/.ours.server" "$data/.backup/.theirs.server"; }

# What `compare` runs, each into a directory that is not there yet and with what it wrote on the disk: a backup in memory is none.
durable_ours() { ours_backup && sync; }
durable_cp() { cp_backup && sync; }
durable_tool() { tool_backup && sync; }

# compare_fresh NAME FUNCTION_A FUNCTION_B: as `compare`, cold; before each, what is left of the one before is removed.
compare_fresh() {
    local pair row
    : >"$work/rows"
    for ((pair = 0; pair < pairs; pair++)); do
        clear && drop_caches
        row="$(timed "$2")"
        clear && drop_caches
        printf '%s %s\n' "$row" "$(timed "$3")" >>"$work/rows"
    done
    clear
    row_of "$1"
}

# A backup of a server that has nothing else to do.
speed() {
    heading "\`innokit backup\` of $kind at rest, $(du -sh --apparent-size "$data/.backup/$kind" | cut -f1), cold, until it is on the disk"
    compare_fresh '`cp -r` of the same files, which proves nothing' durable_ours durable_cp
    if [ "$kind" != mysql ]; then compare_fresh '`mariadb-backup --backup`' durable_ours durable_tool; fi
}

# Starts the load, in the background; the number of transactions of each connection comes into $work/done.
start_load() {
    local connection
    : >"$work/done"
    for ((connection = 0; connection < connections; connection++)); do
        server sql "$data/.backup/$kind" -N bench -e "CALL work($connection, $1)" >>"$work/done" &
    done
}

# Transactions per second beside the command "$@", which is run again and again while the load lasts.
rate_beside() {
    local until=$((SECONDS + seconds)) load
    clear
    start_load "$seconds"
    load="$(jobs -p)"
    while [ "$1" != nothing ] && [ "$SECONDS" -lt "$until" ]; do
        clear
        "$@" >"$work/beside" 2>&1 || { cat "$work/beside" >&2; exit 1; }
    done
    # shellcheck disable=SC2086 # several pids
    wait $load
    awk -v seconds="$seconds" '{ done += $1 } END { printf "%.0f\n", done / seconds }' "$work/done"
}

ours_archive() {
    timeout -s INT "$seconds" "$innokit" redo archive --user root --socket "$socket" --to "$archive" "$data/.backup/$kind" || [ $? -eq 124 ]
}

# cost_of NAME COMMAND: how much of its transactions per second the server keeps beside it.
cost_of() {
    local pair
    for ((pair = 0; pair < pairs; pair++)); do
        printf '%s %s\n' "$(rate_beside "$2")" "$(rate_beside nothing)"
    done | awk '{ print $1 / $2 }' | sort -n |
        awk -v name="$1" '{ v[NR] = $1 } END { printf "| %s | %.0f%% | %.0f%% | %.0f%% |\n", name, 100 * v[1], 100 * v[int((NR + 1) / 2)], 100 * v[NR] }'
}

# Transactions of four connections beside a backup that is taken again and again, and beside the archiver.
cost() {
    say
    say "### Transactions per second that $kind keeps, of those without anything beside it"
    say
    say '| beside | lowest | median | highest |'
    say '|---|---|---|---|'
    rate_beside nothing >/dev/null
    cost_of '`innokit backup`, again and again' ours_backup
    if [ "$kind" != mysql ]; then cost_of '`mariadb-backup --backup`, again and again' tool_backup; fi
    cost_of '`innokit redo archive`' ours_archive
}

started_on() {
    server start "$1" "--innodb-buffer-pool-size=1G" "$(options | tail -1)"
    server kill9 "$1"
}

ours_ready() { "$innokit" recover --in-place --memory 1G "$ours" && started_on "$ours"; }
tool_ready() {
    server tool mariadb-backup --no-defaults --prepare --use-memory=1G --target-dir="$theirs" && started_on "$theirs"
}
ours_restored() { "$innokit" restore --memory 1G --to "$data/.backup/out" "$ours" && started_on "$data/.backup/out"; }
tool_restored() {
    server tool mariadb-backup --no-defaults --prepare --use-memory=1G --target-dir="$theirs" &&
        server tool mariadb-backup --no-defaults --copy-back --target-dir="$theirs" --datadir="$data/.backup/out" && started_on "$data/.backup/out"
}

# Brings $1 back to what it was when the backup ended.
again() {
    rm -rf "$data/.backup/out" "$data/.backup/.out.server" "$1" "$data/.backup/.$(basename "$1").server"
    cp -r "$1.kept" "$1"
    drop_caches
}

# restore_pairs NAME FUNCTION_A FUNCTION_B
restore_pairs() {
    local pair row
    : >"$work/rows"
    for ((pair = 0; pair < pairs; pair++)); do
        again "$ours"
        row="$(timed "$2")"
        again "$theirs"
        printf '%s %s\n' "$row" "$(timed "$3")" >>"$work/rows"
    done
    row_of "$1"
}

# Two backups of one server under the same load, each until a server has started on it.
restore() {
    [ "$kind" != mysql ] || return 0
    clear
    rm -rf "$ours.kept" "$theirs.kept"
    local taker load
    for taker in ours_backup tool_backup; do
        start_load "$((seconds * 2))"
        load="$(jobs -p)"
        sleep "$seconds"
        "$taker" >"$work/beside" 2>&1 || { cat "$work/beside" >&2; exit 1; }
        # shellcheck disable=SC2086 # several pids
        wait $load
    done
    server stop "$data/.backup/$kind"
    mv "$ours" "$ours.kept"
    mv "$theirs" "$theirs.kept"
    heading "From a backup to a server that answers, $kind, cold: $("$innokit" redo info "$ours.kept" | sed -n 's/^state *//p')"
    restore_pairs '`mariadb-backup --prepare` and the start, in place' ours_ready tool_ready
    restore_pairs '`mariadb-backup --prepare`, `--copy-back` and the start' ours_restored tool_restored
    clear
    rm -rf "$ours.kept" "$theirs.kept"
}

for kind in ${BACKUP_KINDS:-mariadb mysql}; do
    have_data
    server start "$data/.backup/$kind"
    # Named as server.sh names it.
    socket="/tmp/innokit-$(id -u)-$(cd "$data/.backup/$kind" && printf '%s' "$(pwd -P)" | cksum | cut -d' ' -f1).sock"
    for part in ${PARTS:-speed cost restore}; do "$part"; done
    server stop "$data/.backup/$kind"
done
