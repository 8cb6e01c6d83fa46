#!/usr/bin/env bash
# Speed and cost of backups and of the redo archive, compared with cp and mariadb-backup: bench-backup.sh [DATA]
#
# DATA is target/bench by default. Each server has 2.2 GB there, made on first use; with copies it takes 14 GB of disk. It needs root, to drop
# the page cache, and a release build with the feature `sql`. PAIRS=5, KINDS='mariadb mysql' and PARTS='speed restore cost archive' can be set.
#
#   speed    a full backup of an idle server, cold, against `cp -r` of its datadir and against mariadb-backup
#   restore  restore and start of the server, against `mariadb-backup --prepare` and start, of backups taken under load, and restore alone
#            against `cp -r`; RESTORE_MEMORY='default 512M' can be set
#   cost     transactions per second during a backup
#   archive  transactions per second while the archiver runs
set -euo pipefail
# What is measured waits for the disk, as in production.
export SERVER_SYNC=1

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here repository="${here%/*}"
readonly data="${1:-${repository}/target/bench}"
readonly innokit="${INNOKIT:-${CARGO_TARGET_DIR:-$repository/target}/release/innokit}"
readonly pairs="${PAIRS:-5}"
# Rows per table in hundreds of thousands, with one table per connection of the load; seconds per measured rate.
readonly tables=4 batches=5 window_s=8
work="$(mktemp -d)"
readonly work
# No command here gives a verdict.
verdict_max=0
# shellcheck source=scripts/pairs.sh
. "$here/pairs.sh"

die() { printf 'bench-backup: %s\n' "$*" >&2; exit 2; }
server() { "$here/server.sh" "$kind" "$@"; }
mkdir -p "$data/.backup"
root="$(cd "$data/.backup" && pwd -P)"
readonly root
# The server being measured.
kind=

# Server options: a log large enough for the load, a buffer pool smaller than the tables, durable commits.
options() {
    printf '%s\n' --innodb-buffer-pool-size=1G --innodb-flush-log-at-trx-commit=1
    if [ "$kind" = mysql ]; then printf '%s\n' --innodb-redo-log-capacity=2G; else printf '%s\n' --innodb-log-file-size=1G; fi
}

start() {
    local -a given
    mapfile -t given < <(options)
    server start "$1" "${given[@]}"
}

# --- The data and the load -----------------------------------------------------------------------------------------------

sql_tables() {
    local table batch
    printf 'CREATE DATABASE bench; USE bench; CREATE TABLE digit (n INT NOT NULL PRIMARY KEY); INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);\n'
    for ((table = 1; table <= tables; table++)); do
        printf 'CREATE TABLE s%s (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT UNSIGNED NOT NULL, c VARCHAR(400) NOT NULL, pad VARCHAR(800) NOT NULL, KEY (k));\n' $table
        for ((batch = 0; batch < batches; batch++)); do
            cat <<SQL
INSERT INTO s$table (k, c, pad) SELECT CRC32(n), REPEAT(LEFT(SHA2(n, 256), 40), 8), REPEAT(LEFT(SHA2(n + 1, 256), 60), 10)
FROM (SELECT $batch * 100000 + a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n AS n FROM digit a, digit b, digit c, digit d, digit e ORDER BY 1) numbers;
SQL
        done
        # Transactions of four statements until the time is up. Unlike NOW, SYSDATE advances within a procedure.
        cat <<SQL
DELIMITER //
CREATE PROCEDURE work$table (seconds INT) BEGIN
    DECLARE until DATETIME(6) DEFAULT SYSDATE(6) + INTERVAL seconds SECOND;
    DECLARE one, two, three INT; -- RAND() in a condition would be called for each row
    WHILE SYSDATE(6) < until DO
        SET one = 1 + FLOOR(RAND() * 400000), two = 1 + FLOOR(RAND() * 400000), three = 1 + FLOOR(RAND() * 400000);
        START TRANSACTION;
        UPDATE s$table SET k = k + 1 WHERE id = one;
        UPDATE s$table SET c = REPEAT(LEFT(SHA2(two * one, 256), 40), 8) WHERE id = two;
        DELETE FROM s$table WHERE id = three;
        REPLACE INTO s$table (id, k, c, pad) VALUES (three, FLOOR(RAND() * 1000000), REPEAT('c', 320), REPEAT('pad', 200));
        COMMIT;
    END WHILE;
END//
DELIMITER ;
SQL
    done
}

make_data() {
    local datadir="$root/$kind" stamp
    stamp="$( (sql_tables; server version) | sha256sum | cut -d' ' -f1)"
    if [ "$(cat "$datadir.stamp" 2>/dev/null)" = "$stamp" ]; then return 0; fi
    server stop "$datadir"
    rm -rf "$datadir" "$root/.$kind.server" "$datadir.stamp"
    server init "$datadir"
    start "$datadir"
    sql_tables | server sql "$datadir"
    server stop "$datadir" 0
    [ "$(du -sb "$datadir" | cut -f1)" -ge 2000000000 ] || die "$kind made less than 2 GB"
    printf '%s\n' "$stamp" >"$datadir.stamp"
}

load=()
start_load() {
    local table
    for ((table = 1; table <= tables; table++)); do
        server sql "$root/$kind" bench -e "CALL work$table($1)" >/dev/null 2>&1 &
        load+=($!)
    done
}

stop_load() {
    [ ${#load[@]} -eq 0 ] || kill "${load[@]}" 2>/dev/null || true
    local ids
    ids="$(server sql "$root/$kind" -N -e "SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist WHERE db = 'bench'")"
    printf '%s\n' "$ids" | server sql "$root/$kind" --force 2>/dev/null || true
    wait "${load[@]}" 2>/dev/null || true
    load=()
}

ended() {
    local status=$?
    for kind in mariadb mysql; do
        [ ! -e "$root/.$kind.server/pid" ] || server stop "$root/$kind" || true
        [ ! -e "$root/.out.server/pid" ] || server stop "$root/out" 2>/dev/null || true
    done
    rm -rf "$work" "$root"/out "$root"/set "$root"/set-* "$root"/archive "$root"/copy
    exit $status
}
trap ended EXIT

# The server's commits so far, and the time in seconds.
commits() { printf '%s %s\n' "$(server sql "$root/$kind" -N -e "SHOW GLOBAL STATUS LIKE 'Handler_commit'" | cut -f2)" "$(date +%s.%N)"; }

# rate COMMAND...: "commits_per_second seconds" while the command runs.
rate() {
    local before
    before="$(commits)"
    "$@" >"$work/output" 2>&1 || { tail -5 "$work/output" >&2; die "failed: $*"; }
    printf '%s %s\n' "$before" "$(commits)" | awk '{ printf "%.1f %.2f\n", ($3 - $1) / ($4 - $2), $4 - $2 }'
}

# --- What is run ---------------------------------------------------------------------------------------------------------

ours() {
    rm -rf "$root/set"
    "$innokit" backup --user root --socket "$(server socket "$root/$kind")" --progress never --to "$root/set" "$root/$kind"
}
tool() {
    rm -rf "$root/set"
    server tool mariadb-backup --no-defaults --backup --user=root --socket="$(server socket "$root/$kind")" --datadir="$root/$kind" \
        --target-dir="$root/set" "$@"
}
copy() { rm -rf "$root/set" && cp -r "$root/$kind" "$root/set"; }
# cp leaves its copy in the page cache, so sync it: a backup is on the device when it ends.
copy_durably() { copy && sync -f "$root/set"; }
start_out() { start "$root/out"; }
stop_out() { server stop "$root/out" && rm -rf "$root/out" "$root/.out.server"; }

speed() {
    heading "Full backup of an idle $kind, $(du -sb "$root/$kind" | cut -f1) bytes, cold"
    start "$root/$kind"
    compare "\`cp -r\`, which leaves it in memory" cold ours copy
    compare "\`cp -r\` and \`sync\`" cold ours copy_durably
    [ "$kind" = mysql ] || compare '`mariadb-backup --backup`' cold ours tool
    rm -rf "$root/set"
    server stop "$root/$kind"
}

# Takes $root/set-$1 under load.
set_under_load() {
    start_load 3600
    sleep 20
    "$1" >"$work/output" 2>&1 || { tail -5 "$work/output" >&2; die "no backup to restore"; }
    stop_load
    mv "$root/set" "$root/set-$1"
}
# With $restore_memory, or with each program's default: 512M and 100M.
own_memory() { [ "$restore_memory" = default ] || printf -- '--memory\n%s\n' "$restore_memory"; }
tool_memory() { [ "$restore_memory" = default ] || printf -- '--use-memory=%s\n' "$restore_memory"; }
# shellcheck disable=SC2046 # words
restored() { "$innokit" restore $(own_memory) "$root/set-$1" --to "$root/out"; }
# In place, as `--prepare` works. The set is at $root/out already; the datadir gets another name and is given it back for the start.
# shellcheck disable=SC2046
moved() { "$innokit" restore $(own_memory) --move "$root/out" --to "$root/moved" && mv "$root/moved" "$root/out"; }
# shellcheck disable=SC2046
recovered() { "$innokit" recover $(own_memory) --in-place "$root/out"; }
# shellcheck disable=SC2046
prepared() { server tool mariadb-backup --no-defaults --prepare $(tool_memory) --target-dir="$root/out"; }
# As its manual says for a backup that is to be kept: prepare, then copy to the datadir.
prepared_and_copied() {
    prepared && mv "$root/out" "$root/prepared" &&
        server tool mariadb-backup --no-defaults --copy-back --target-dir="$root/prepared" --datadir="$root/out"
}
# The least that a restore can take which leaves the backup as it is.
restored_again() { rm -rf "$root/out" && restored ours; }
set_copied() { rm -rf "$root/out" && cp -r "$root/set-ours" "$root/out" && sync -f "$root/out"; }
# mariadb-backup can also restore by moving the backup, which is its cheapest way.
copy_of() { rm -rf "$root/out" && cp -r "$root/set-$1" "$root/out" && drop_caches; }

# "wall cpu": the time of a command and of the server's start on its result, and the command's own CPU time.
then_start() {
    local row
    row="$(timed "$@")"
    printf '%s %s\n' "$row" "$(timed start_out)" | awk '{ print $1 + $3, $2 }'
    stop_out
}

# restore_pairs NAME OURS SET THEIRS
restore_pairs() {
    local name="$1" pair row
    shift
    : >"$work/rows"
    for ((pair = 0; pair < pairs; pair++)); do
        if [ "$1" = restored ]; then drop_caches; else copy_of "$2"; fi
        row="$(then_start "$1" "$2")"
        copy_of tool
        printf '%s %s\n' "$row" "$(then_start "$3")" >>"$work/rows"
        rm -rf "$root/prepared"
    done
    row_of "$name"
    awk '{ printf "%s%.1f s to %.1f s", (NR > 1 ? ", " : "    seconds with the start: "), $1, $3 } END { print "" }' "$work/rows" >&2
}

restore() {
    local restore_memory
    if [ "$kind" = mysql ]; then return 0; fi
    start "$root/$kind"
    set_under_load ours
    set_under_load tool
    server stop "$root/$kind"
    heading "Restore and start of $kind, against \`mariadb-backup --prepare\` and start; cold; $("$innokit" redo info "$root/set-tool" | sed -n 's/^state *to recover: //p') in the tool's backup, $("$innokit" redo info "$root/set-ours" | sed -n 's/^state *to recover: //p') in ours"
    for restore_memory in ${RESTORE_MEMORY:-default 512M}; do
        restore_pairs "memory $restore_memory: the tool's backup, \`recover --in-place\` to \`--prepare\`" recovered tool prepared
        restore_pairs "memory $restore_memory: the tool's backup, \`restore\` to \`--prepare\` and \`--copy-back\`" restored tool prepared_and_copied
        restore_pairs "memory $restore_memory: each its own backup, \`restore --move\` to \`--prepare\`" moved ours prepared
        restore_pairs "memory $restore_memory: each its own backup, \`restore\` to \`--prepare\`, which copies nothing" restored ours prepared
    done
    restore_memory=default
    compare 'our own backup, `restore` to `cp -r` and `sync` of the set, without the start' cold restored_again set_copied
    rm -rf "$root"/set-* "$root/out"
}

# cost_row NAME COMMAND...: the rate during the command, as a share of the rate just before it.
cost_row() {
    local name="$1" pair
    shift
    : >"$work/rows"
    for ((pair = 0; pair < pairs; pair++)); do
        drop_caches
        sleep 2
        printf '%s %s\n' "$(rate sleep "$window_s")" "$(rate "$@")" >>"$work/rows"
        rm -rf "$root/set"
    done
    awk -v name="$name" '
        { share[NR] = $3 / $1; seconds[NR] = $4; lost[NR] = ($1 - $3) * $4; plain[NR] = $1 }
        function median(v, n,   i, j, t) {
            for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j-1]; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
            return (n % 2) ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
        }
        END { printf "| %s | %.0f | %.2f | %.1f | %.0f |\n", name, median(plain, NR), median(share, NR), median(seconds, NR), median(lost, NR) }' "$work/rows"
}

# Runs the archiver for one window.
beside_archiver() {
    timeout --preserve-status --signal=TERM "$window_s" "$innokit" redo archive --to "$root/archive" "$@" "$root/$kind"
}
asking() { beside_archiver --user root --socket "$(server socket "$root/$kind")"; }

# The table of `cost` or `archive`, whose rows the function $1 adds.
beside_load() {
    say
    say "### Commits per second of $kind under $tables connections, beside what is named"
    say
    say '| beside | commits/s without | share with it | seconds | commits lost by one run |'
    say '|---|---|---|---|---|'
    start "$root/$kind"
    start_load 3600
    sleep 3
    "$1"
    stop_load
    rm -rf "$root/archive"
    server stop "$root/$kind"
}
backup_rows() {
    cost_row 'nothing' sleep "$window_s"
    cost_row '`innokit backup`' ours
    cost_row '`innokit backup --rate 200M/s`' ours_rate
    [ "$kind" = mysql ] || cost_row '`mariadb-backup --backup`' tool
    cost_row '`cp -r` and `sync`' copy_durably
}
archive_rows() {
    cost_row 'nothing' sleep "$window_s"
    cost_row '`innokit redo archive`' beside_archiver
    cost_row '`innokit redo archive --socket`' asking
}
cost() { beside_load backup_rows; }
archive() { beside_load archive_rows; }
ours_rate() {
    rm -rf "$root/set"
    "$innokit" backup --user root --socket "$(server socket "$root/$kind")" --rate 200M/s --progress never --to "$root/set" "$root/$kind"
}

[ $can_drop = yes ] || die 'the page cache cannot be dropped by this user'
"$innokit" backup --help >/dev/null 2>&1 || die "$innokit has no backup: cargo build --release --features sql"
"$here/install-servers.sh"
say "$(nproc) cores, $(uname -m), $("$innokit" --version); load $(cut -d' ' -f1-3 /proc/loadavg)"
for kind in ${KINDS:-mariadb mysql}; do
    make_data
    say "$(server version)"
    for part in ${PARTS:-speed restore cost archive}; do "$part"; done
done
