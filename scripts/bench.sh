#!/usr/bin/env bash
# The table of docs/benchmarks.md, on this machine: bench.sh [DATA] (default target/bench, made on first use; 17 GB of disk).
#
# Every comparison is in pairs, A B A B ..., in one run; what is printed is the median of the pairs' ratios, because the
# machine's speed drifts and bare seconds mean little. "cold" needs root: the page cache is dropped before every command.
# PAIRS=7 and PARTS='hot cold readahead small_files cpu_per_gib table scan cores rows recover device throttled' can be set; `device` alone needs
# neither servers nor their data, `table` needs the fragmented tables only, `rows` its own, `scan` and `cores` both, `recover` the crashed
# datadirs, `throttled` all three. THROTTLED='simulated wide devices memory' names its parts.
# FAST_INNOCHECKSUM names the binary of neoremind/fast_innochecksum, which `cold` then measures too: it is in no registry.
# INNOKIT names another binary: `rows` compares Parquet too where it is built with that feature.
# shellcheck disable=SC2016 # backticks are Markdown here
set -euo pipefail
# What is measured waits for the disk, as in production.
export SERVER_SYNC=1

here="$(cd "$(dirname "$0")" && pwd -P)"
readonly here repository="${here%/*}"
readonly data="${1:-${repository}/target/bench}"
readonly innokit="${INNOKIT:-${CARGO_TARGET_DIR:-$repository/target}/release/innokit}"
pairs="${PAIRS:-7}"
work="$(mktemp -d)"
readonly work
trap 'rm -rf "$work"' EXIT

# shellcheck source=scripts/pairs.sh
. "$here/pairs.sh"

parts="${PARTS:-hot cold readahead small_files cpu_per_gib table scan cores rows recover device throttled}"
if [ "$parts" != device ]; then
    "$here/install-servers.sh"
    case " $parts " in *' table '* | *' scan '* | *' cores '* | *' throttled '*) "$here/make-frag-data.sh" "$data" ;; esac
    case " $parts " in *' rows '* | *' scan '* | *' cores '* | *' throttled '*) "$here/make-rows-data.sh" "$data" ;; esac
    case " $parts " in *' recover '*) read -ra kinds <<<"${RECOVER_KINDS:-mariadb mysql}" && "$here/make-crash-data.sh" "$data" "${kinds[@]}" ;; esac
    case " $parts " in *' throttled '*) "$here/make-crash-data.sh" "$data" mariadb ;; esac
    case " $parts " in *' hot '* | *' cold '* | *' readahead '* | *' small_files '* | *' cpu_per_gib '*)
        "$here/install-bench-tools.sh"
        "$here/make-bench-data.sh" "$data"
        ;;
    esac
    read -ra my <<<"$("$here/server.sh" mysql command innochecksum)"
    read -ra ma <<<"$("$here/server.sh" mariadb command innochecksum)"
fi
readonly inno="${INNOKIT_SERVERS:-$HOME/.cache/innokit}/inno/bin/inno"
readonly mysql_big="$data/mysql-big.ibd" mariadb_big="$data/mariadb-big.ibd" many="$data/many"

# --- What is run ---------------------------------------------------------------------------------------------------------

ours_mysql() { "$innokit" check --progress never "$mysql_big"; }
ours_mariadb() { "$innokit" check --progress never "$mariadb_big"; }
ours_direct() { "$innokit" check --progress never --io direct "$mysql_big"; }
ours_many() { "$innokit" check --progress never "$many"; }
mysql_crc32() { "${my[@]}" -C crc32 "$mysql_big"; }
mysql_default() { "${my[@]}" "$mysql_big"; }
mariadb_own() { "${ma[@]}" "$mariadb_big"; }
mariadb_mysql() { "${ma[@]}" "$mysql_big"; }
inno_mysql() { "$inno" checksum -f "$mysql_big"; }
fast_one() { "$FAST_INNOCHECKSUM" "$mysql_big"; }
fast_all() { "$FAST_INNOCHECKSUM" -n "$(nproc)" "$mysql_big"; }
cat_big() { cat "$mysql_big"; }
cat_many() { cat "$many"/*.ibd; }
loop_mysql() { for file in "$many"/*.ibd; do "${my[@]}" -C crc32 "$file"; done; }
loop_mariadb() { for file in "$many"/*.ibd; do "${ma[@]}" "$file"; done; }

# fio FILE MEMORY BLOCK DEPTH: bytes per second of a sequential direct read, cold, as fio itself counts them.
fio_rate() {
    drop_caches
    fio --name=limit --filename="$1" --readonly --rw=read --direct=1 --mem="$2" --bs="$3" --iodepth="$4" \
        --ioengine=io_uring --output-format=json 2>/dev/null |
        awk -F: '/"bw_bytes"/ && !seen++ { gsub(/[ ,]/, "", $2); print $2 }'
}

# The best of fio's settings for the file, as "MEMORY BLOCK DEPTH". Huge pages for its buffers if available: with small
# ones a request is split by the device's segment limit, and fio loses a third or more.
fio_best() {
    local file="$1" memory bs depth
    for memory in malloc shmhuge; do
        for bs in 512k 1m 4m; do
            for depth in 8 16 32; do
                printf '%s %s %s %s\n' "$(fio_rate "$file" $memory $bs $depth)" $memory $bs $depth
            done
        done
    done | sort -n | tail -1 | cut -d' ' -f2-
}

# Bytes per second of a cold check, as it counts them itself.
our_rate() {
    drop_caches
    "$innokit" check --json "$1" | awk -F: -v bytes="$(stat -c %s "$1")" '/"seconds"/ { printf "%.0f\n", bytes / $2 }'
}

# --- The tables ----------------------------------------------------------------------------------------------------------

hot() {
    heading "In the page cache: $(stat -c %s "$mysql_big") bytes (MySQL's file), $(stat -c %s "$mariadb_big") bytes (MariaDB's)"
    compare 'MySQL `innochecksum -C crc32`, its file' hot ours_mysql mysql_crc32
    compare 'MariaDB `innochecksum`, its file' hot ours_mariadb mariadb_own
    compare 'MariaDB `innochecksum`, MySQL'\''s file' hot ours_mysql mariadb_mysql
    compare 'MySQL `innochecksum` (default)' hot ours_mysql mysql_default
    compare '`inno checksum`' hot ours_mysql inno_mysql
    compare '`cat`' hot ours_mysql cat_big
}

cold() {
    peers_cold
    share_of_device
}

readahead() { python3 "$here/bench-readahead.py" "$mysql_big" "$pairs" "$innokit" "${my[*]}"; }

peers_cold() {
    heading 'Cold'
    compare 'MySQL `innochecksum -C crc32`, its file' cold ours_mysql mysql_crc32
    compare 'MariaDB `innochecksum`, its file' cold ours_mariadb mariadb_own
    compare '`inno checksum`' cold ours_mysql inno_mysql
    if [ -z "${FAST_INNOCHECKSUM:-}" ]; then return; fi
    compare '`fast_innochecksum`' cold ours_mysql fast_one
    compare "\`fast_innochecksum -n $(nproc)\`" cold ours_mysql fast_all
}

share_of_device() {
    local file huge pair settings
    huge="$(cat /proc/sys/vm/nr_hugepages)"
    echo 160 >/proc/sys/vm/nr_hugepages || true
    say
    say '### Share of the device: innokit / `fio`, bytes per second, cold, pair by pair'
    say
    say '| file | best settings of `fio` | lowest | median | highest |'
    say '|---|---|---|---|---|'
    for file in "$mysql_big" "$mariadb_big"; do
        settings="$(fio_best "$file")"
        for ((pair = 0; pair < pairs; pair++)); do
            # shellcheck disable=SC2086 # three words
            printf '%s %s\n' "$(our_rate "$file")" "$(fio_rate "$file" $settings)"
        done | awk '{ print $1 / $2 }' | sort -n |
            awk -v name="$(basename "$file")" -v settings="$settings" '{ v[NR] = $1 } END {
                printf "| %s | %s | %.0f%% | %.0f%% | %.0f%% |\n", name, settings, 100 * v[1], 100 * v[int((NR + 1) / 2)], 100 * v[NR] }'
    done
    echo "$huge" >/proc/sys/vm/nr_hugepages || true
}

small_files() {
    heading '5,000 tablespaces of 112 KiB in one directory, in the page cache'
    compare '`cat` of them all' hot ours_many cat_many
    pairs=2
    compare 'a loop of MySQL `innochecksum -C crc32`' hot ours_many loop_mysql
    compare 'a loop of MariaDB `innochecksum`' hot ours_many loop_mariadb
    if [ $can_drop = yes ]; then
        heading '5,000 tablespaces of 112 KiB, cold'
        compare '`cat` of them all' cold ours_many cat_many
    fi
}

cpu_per_gib() {
    say
    say '### CPU, direct'
    say
    local run
    for ((run = 0; run < pairs; run++)); do timed ours_direct; done | awk '{ print $2 }' | sort -n >"$work/cpu"
    awk -v bytes="$(stat -c %s "$mysql_big")" '{ v[NR] = $1 } END {
        printf "%.3f CPU seconds per GiB, user and system, median of %d runs with `--io direct`\n", v[int((NR + 1) / 2)] / (bytes / 2^30), NR }' "$work/cpu"
}

# CPU seconds of a process so far, user and system.
cpu_of() { awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / tick }' "/proc/$1/stat"; }

# One CHECK TABLE by a server that has just started, cold: "wall cpu", the server's own.
server_check() {
    local kind="$1" datadir="$data/.frag/$1" pid before wall
    "$here/server.sh" "$kind" start "$datadir" --innodb-buffer-pool-size=1G
    pid="$(cat "$data/.frag/.$kind.server/pid")"
    before="$(cpu_of "$pid")"
    drop_caches
    wall="$(timed "$here/server.sh" "$kind" sql "$datadir" -e 'CHECK TABLE bench.frag' | cut -d' ' -f1)"
    printf '%s %s\n' "$wall" "$(awk -v a="$(cpu_of "$pid")" -v b="$before" 'BEGIN { print a - b }')"
    "$here/server.sh" "$kind" sql "$datadir" -e 'CHECK TABLE bench.digit' | grep -q OK
    "$here/server.sh" "$kind" stop "$datadir"
}

ours_frag() { "$innokit" table check "$data/.frag/$frag_kind/bench/frag.ibd"; }

# `table check` against each server's CHECK TABLE on that server's own fragmented table, cold.
table() {
    local frag_kind pair row peak
    [ $can_drop = yes ] || { say 'Not measured: the page cache cannot be dropped by this user.'; return; }
    heading "\`innokit table check\` of a fragmented table: $(stat -c %s "$data/mysql-frag.ibd") bytes (MySQL's file), $(stat -c %s "$data/mariadb-frag.ibd") bytes (MariaDB's), cold"
    for frag_kind in mysql mariadb; do
        : >"$work/rows"
        for ((pair = 0; pair < pairs; pair++)); do
            drop_caches
            row="$(timed ours_frag)"
            printf '%s %s\n' "$row" "$(server_check $frag_kind)" >>"$work/rows"
        done
        row_of "\`CHECK TABLE\` of $frag_kind"
    done
    say
    for frag_kind in mysql mariadb; do
        peak="$("$innokit" table check -v "$data/.frag/$frag_kind/bench/frag.ibd" 2>&1 >/dev/null | sed -n 's/.*peak memory \([0-9]*\) MiB/\1/p')"
        say "Peak memory of \`table check\` on $frag_kind's: $peak MiB"
        [ "$peak" -lt 256 ] || { say 'bench: that is not below 256 MiB' >&2; exit 1; }
    done
}

# rows_of_server STATEMENT: "wall cpu" of the server's own process for one statement; rows_kind says which server.
rows_of_server() {
    local pid before wall
    pid="$(cat "$data/.rows/.$rows_kind.server/pid")"
    before="$(cpu_of "$pid")"
    wall="$(timed "$here/server.sh" "$rows_kind" sql "$data/.rows/$rows_kind" -e "$1" | cut -d' ' -f1)"
    printf '%s %s\n' "$wall" "$(awk -v a="$(cpu_of "$pid")" -v b="$before" 'BEGIN { print a - b }')"
}

ours_checksum() { "$innokit" table checksum --progress never --threads "$rows_threads" "$rows_file"; }
ours_export() { "$innokit" table export --progress never --threads "$rows_threads" --format "$1" -o "$rows_out" "$rows_file"; }
ours_csv() { rm -f "$rows_out" && ours_export csv; }
ours_parquet() { rm -f "$rows_out" && ours_export parquet; }
one_worker() { local rows_threads=1; "$@"; }
one_checksum() { one_worker ours_checksum; }
one_csv() { one_worker ours_csv; }

# The same value and the same bytes are what makes the times comparable.
rows_same() {
    local ours theirs
    ours="$(ours_checksum 2>/dev/null | awk '{ print $2 }')"
    theirs="$("$here/server.sh" "$rows_kind" sql "$data/.rows/$rows_kind" -N -e 'CHECKSUM TABLE bench.rows' | awk '{ print $2 }')"
    [ "$ours" = "$theirs" ] || { say "bench: the checksum is $ours, the server's is $theirs" >&2; exit 1; }
    cmp "$rows_out" "$rows_theirs" || { say 'bench: the rows are not those of the server' >&2; exit 1; }
}

start_rows_server() {
    "$here/server.sh" "$rows_kind" start "$data/.rows/$rows_kind" --innodb-buffer-pool-size=2500M --default-time-zone=+00:00
}

# rows_of_server on a server that has just started, with the page cache dropped: the cost of a statement's first run.
rows_of_cold_server() {
    start_rows_server
    drop_caches
    rows_of_server "$1"
    "$here/server.sh" "$rows_kind" stop "$data/.rows/$rows_kind"
}

# against_server NAME hot|cold FUNCTION STATEMENT: alternates ours with the server's statement; a hot server is already running.
against_server() {
    local pair row theirs=rows_of_server
    [ "$2" = hot ] || theirs=rows_of_cold_server
    : >"$work/rows"
    for ((pair = 0; pair < pairs; pair++)); do
        [ "$2" = hot ] || drop_caches
        row="$(timed "$3")"
        rm -f "$rows_theirs"
        printf '%s %s\n' "$row" "$("$theirs" "$4")" >>"$work/rows"
    done
    row_of "$1"
}

# `table checksum` and `table export` against the server's own statements: hot, with everything in memory (its buffer pool, our page cache, and
# the output of both if there is a file system in memory, since otherwise the device would decide), and cold.
rows() {
    local rows_kind rows_file rows_out rows_theirs rows_threads peak memory=/dev/shm checksum='CHECKSUM TABLE bench.rows' csv
    [ -w "$memory" ] || memory="$data/.rows"
    rows_out="$memory/innokit-rows-ours" rows_theirs="$memory/innokit-rows-theirs"
    csv="SELECT * FROM bench.rows INTO OUTFILE '$rows_theirs' FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'"
    rows_threads="$(nproc)"
    heading "\`innokit table checksum\` and \`table export\`: 9,000,000 rows of 15 columns, hot unless said; load $(cut -d' ' -f1-3 /proc/loadavg)"
    for rows_kind in mysql mariadb; do
        rows_file="$data/.rows/$rows_kind/bench/rows.ibd"
        start_rows_server
        cat "$rows_file" >/dev/null
        rows_of_server "$checksum" >/dev/null
        against_server "\`CHECKSUM TABLE\` of $rows_kind" hot ours_checksum "$checksum"
        against_server "CSV: \`SELECT ... INTO OUTFILE\` of $rows_kind" hot ours_csv "$csv"
        rows_same
        "$here/server.sh" "$rows_kind" stop "$data/.rows/$rows_kind"
        rm -f "$rows_theirs"
        compare "\`table checksum\` with one worker, $rows_kind" hot ours_checksum one_checksum
        compare "CSV with one worker, $rows_kind" hot ours_csv one_csv
        if ours_parquet >/dev/null 2>&1; then
            compare "Parquet / CSV, $rows_kind" hot ours_parquet ours_csv
        fi
        rm -f "$rows_out"
        peak="$("$innokit" table export -v --progress never --format csv -o "$rows_out" "$rows_file" 2>&1 >/dev/null | sed -n 's/.*peak memory \([0-9]*\) MiB/\1/p')"
        if [ $can_drop = yes ]; then
            against_server "cold: \`CHECKSUM TABLE\` of $rows_kind" cold ours_checksum "$checksum"
            against_server "cold: CSV: \`SELECT ... INTO OUTFILE\` of $rows_kind" cold ours_csv "$csv"
            rm -f "$rows_theirs"
        fi
        say "| peak memory of CSV, $rows_kind: $peak MiB | | | |"
        [ "$peak" -lt 512 ] || { say 'bench: that is not below 512 MiB' >&2; exit 1; }
        rm -f "$rows_out"
    done
}

# A cold copy of the crashed datadir of $recover_kind, in $data/.crash/$1. With holes only where the server's files have some: a hole in each
# half-empty page (cp --sparse=always) splits every request, and has to be filled by the next write.
crashed_copy() {
    rm -rf "$data/.crash/$1"
    cp -r "$data/.crash/$recover_kind" "$data/.crash/$1"
    # The file system may still be telling the device of the blocks of the copy before.
    sync
    sleep 5
    drop_caches
}

ours_recover() { "$innokit" recover --in-place --memory "$recover_memory" "$data/.crash/ours"; }
# From its start until it answers, with the log size that it was killed with.
server_recover() { start_of_server "$data/.crash/theirs"; }
server_after_ours() { start_of_server "$data/.crash/ours"; }
start_of_server() {
    local size=--innodb-log-file-size=1G
    [ "$recover_kind" = mariadb ] || size=--innodb-redo-log-capacity=4G
    # With little memory a server's own recovery takes minutes.
    SERVER_WAIT_START=900 "$here/server.sh" "$recover_kind" start "$1" "$size" --innodb-buffer-pool-size="$recover_memory"
}

# Kills the server on $data/.crash/$1, and prints the CPU seconds that it used.
cpu_of_killed() {
    cpu_of "$(cat "$data/.crash/.$1.server/pid")"
    "$here/server.sh" "$recover_kind" kill9 "$data/.crash/$1"
}

# One pair, "wall cpu wall cpu": `recover` and the server's start on its result; the server's start on what the crash left.
recover_pair() {
    local ours started cpu theirs
    crashed_copy ours
    ours="$(timed ours_recover)"
    started="$(timed server_after_ours | cut -d' ' -f1)"
    cpu="$(cpu_of_killed ours)"
    rm -rf "$data/.crash/ours"
    crashed_copy theirs
    theirs="$(timed server_recover | cut -d' ' -f1)"
    printf '%s %s %s %s %s\n' "$ours" "$started" "$cpu" "$theirs" "$(cpu_of_killed theirs)" >>"$work/recover"
    rm -rf "$data/.crash/theirs"
}

# `recover` against the server's own recovery of copies of one crashed datadir, each with the same memory; then idea by idea.
# RECOVER_KINDS='mariadb mysql' and RECOVER_MEMORY='128M 512M 1G 3G' can be set.
recover() {
    local recover_kind recover_memory pair
    [ $can_drop = yes ] || { say 'Not measured: the page cache cannot be dropped by this user.'; return; }
    for recover_kind in ${RECOVER_KINDS:-mariadb mysql}; do
        heading "\`innokit recover\` and the start of $recover_kind on the result, against its start on the crashed datadir: $("$innokit" redo info "$data/.crash/$recover_kind" | sed -n 's/^state *to recover: //p'), $("$innokit" redo info "$data/.crash/$recover_kind" | sed -n 's/^after it *//p')"
        # The first is the server's default; with the last it keeps every page in memory.
        for recover_memory in ${RECOVER_MEMORY:-128M 512M 1G 3G}; do
            : >"$work/recover"
            for ((pair = 0; pair < pairs; pair++)); do recover_pair; done
            awk '{ printf "%s%.1f + %.1f s to %.1f s", (NR > 1 ? ", " : "`recover` + start to the server: "), $1, $3, $5 } END { print "" }' "$work/recover" >&2
            awk '{ print $1 + $3, $2 + $4, $5, $6 }' "$work/recover" >"$work/rows"
            row_of "start of the server, both with $recover_memory of memory"
            awk '{ print $1, $2, $5, $6 }' "$work/recover" >"$work/rows"
            row_of "the same, \`recover\` alone"
        done
    done
    share_of_device_in_recovery
    rm -rf "$data/.crash/ours" "$data/.crash/theirs" "$data/.crash/.ours.server" "$data/.crash/.theirs.server"
    [ -d "$data/.crash/mariadb" ] || return 0
    say
    say '### `innokit bench recover`'
    say
    "$innokit" bench recover --progress never --rounds "$pairs" --on-device "$data/.crash" "$data/.crash/mariadb" | sed 's/^/    /'
}

# The seconds that fio needs for the I/O that no recovery can avoid, on the copy `ours`: it reads the log and the changed pages and,
# at the same time, writes as many pages as have changed and syncs them. It does so in file order, which no recovery can.
fio_recover() {
    local bytes pages
    bytes="$("$innokit" redo info --json "$data/.crash/$recover_kind" | sed -n 's/^  "bytes": \([0-9]*\),*$/\1/p' | head -1)"
    pages="$("$innokit" redo info --json "$data/.crash/$recover_kind" | sed -n 's/^  "pages": \([0-9]*\),*$/\1/p' | head -1)"
    drop_caches
    fio --filename="$data/.crash/ours/bench/crash.ibd" --direct=1 --ioengine=io_uring --bs=1m --iodepth=16 --end_fsync=1 \
        --name=read --rw=read --io_size=$((bytes + pages * 16384)) \
        --name=write --rw=write --io_size=$((pages * 16384)) --output-format=json 2>/dev/null |
        awk -F: '/"job_runtime"/ { gsub(/[ ,]/, "", $2); if ($2 > most) most = $2 } END { print most / 1000 }'
}

# `recover` with memory for every page, against fio, pair by pair.
share_of_device_in_recovery() {
    local recover_kind recover_memory=3G pair ours device
    if ! command -v fio >/dev/null; then say 'bench: fio is not installed: the share of the device is not measured' >&2; return; fi
    say
    say '### Share of the device in a recovery with 3G of memory: seconds of `fio` / seconds of `innokit recover`, cold, pair by pair'
    say
    say '| datadir | seconds of both | lowest | median | highest |'
    say '|---|---|---|---|---|'
    for recover_kind in ${RECOVER_KINDS:-mariadb mysql}; do
        for ((pair = 0; pair < pairs; pair++)); do
            crashed_copy ours
            ours="$(timed ours_recover | cut -d' ' -f1)"
            device="$(fio_recover)"
            printf '%s %s\n' "$device" "$ours"
        done | awk '{ print $1 / $2, $1, $2 }' | sort -n |
            awk -v name="$recover_kind" '{ v[NR] = $1; both = both (NR > 1 ? ", " : "") sprintf("%.1f to %.1f", $2, $3) } END {
                printf "| %s | %s | %.0f%% | %.0f%% | %.0f%% |\n", name, both, 100 * v[1], 100 * v[int((NR + 1) / 2)], 100 * v[NR] }'
    done
}

# Every kind of read-ahead, ours and the servers' beside it; then ours alone on MySQL's fragmented table and on an aged one.
scan() {
    python3 "$here/bench-scan.py" "$data" "$pairs" "$innokit"
    say
    say '### `innokit bench scan`'
    say
    "$innokit" bench scan --progress never --rounds "$pairs" "$data/.frag/mysql/bench/frag.ibd" | sed 's/^/    /'
    say
    "$innokit" bench scan --progress never --rounds "$pairs" --aged 1G "$data" | sed 's/^/    /'
}

# One worker and two on the same table.
cores() { python3 "$here/bench-cores.py" "$data" "$pairs" "$innokit"; }

# Devices that the kernel makes slow, two devices at once, and a file larger than memory.
throttled() {
    local part groups=()
    for part in ${THROTTLED:-simulated wide devices memory}; do
        case "$part" in
            wide)
                "$here/make-datadirs.sh" --with encrypted,compressed "$repository/target/datadirs"
                python3 "$here/bench-wide.py" "$pairs" "$innokit" "$repository/target/datadirs/mariadb-16k-crashed"
                ;;
            *) groups+=("$part") ;;
        esac
    done
    [ ${#groups[@]} -gt 0 ] || return 0
    if [ ! -w /sys/fs/cgroup/blkio ] || [ ! -w /sys/fs/cgroup/memory ]; then
        say 'Not measured on a slow device: it takes root and control groups of version 1.'
        return
    fi
    python3 "$here/bench-throttled.py" "$data" "$pairs" "$innokit" "${groups[*]}"
}

# The median, and the lowest and the highest, of one number a line.
spread() {
    sort -n | awk '{ v[NR] = $1 } END { printf "%.0f%% | %.0f%% | %.0f%%", 100 * v[1], 100 * v[int((NR + 1) / 2)], 100 * v[NR] }'
}

# Prefix of both commands in the comparison with fio, if permitted, so that other programs do not take the processor from either.
first=(env)
if chrt -f 10 true 2>/dev/null; then first=(chrt -f 10); fi
readonly first

# our_pattern DIR ACCESS ORDER BLOCK DEPTH: bytes per second, as `bench device` counts them.
our_pattern() {
    "${first[@]}" "$innokit" bench device "$1" --json --size 1G --seconds 1 --io direct --engine uring --threads 1 \
        --access "$2" --order "$3" --block-size "$4" --depth "$5" |
        awk -F: '/"bytes_per_second": \{/ { inside = 1 } inside && /"median"/ { gsub(/[ ,]/, "", $2); print $2; exit }'
}

# fio_pattern DIR MEMORY ACCESS ORDER BLOCK DEPTH: the same by fio, and in the same way: a file just written, three measurements of a
# second, the median; buffers are registered with the kernel; completions are reaped and resubmitted in batches. (By
# default fio reaps one at a time. Then sequential blocks reach the device one by one, while the kernel merges ours.)
fio_pattern() {
    local file="$1/fio-file" rw="$3" run
    [ "$4" = sequential ] || rw="rand$3"
    dd if="$1/random" of="$file" bs=4M conv=fsync status=none
    for run in 1 2 3; do
        "${first[@]}" fio --name="pattern-$run" --filename="$file" --size=1G --rw="$rw" --direct=1 --mem="$2" --bs="$5" --iodepth="$6" \
            --iodepth_batch="$6" --iodepth_batch_complete_min=1 --iodepth_batch_complete_max="$6" --ioengine=io_uring --fixedbufs \
            --runtime=1 --time_based --end_fsync=1 --randrepeat=0 --output-format=json 2>/dev/null |
            awk -F: -v access="$3" '$1 ~ "\"" access "\"" { inside = 1 } inside && /"bw_bytes"/ { gsub(/[ ,]/, "", $2); print $2; exit }'
    done | sort -n | sed -n 2p
    rm -f "$file"
}

# device_pair NUMBER DIR MEMORY ACCESS ORDER BLOCK DEPTH: innokit / fio; each goes first in every other pair.
device_pair() {
    local number="$1" dir="$2" memory="$3" ours fios
    shift 3
    [ $((number % 2)) = 1 ] || ours="$(our_pattern "$dir" "$@")"
    fios="$(fio_pattern "$dir" "$memory" "$@")"
    [ $((number % 2)) = 0 ] || ours="$(our_pattern "$dir" "$@")"
    awk -v ours="$ours" -v fios="$fios" 'BEGIN { if (fios + 0 == 0) exit 1; print ours / fios }'
}

# `bench device` and fio in pairs, with the same pattern on files of the same size in the same directory. Both have buffers in huge
# pages if available, because that decides how many memory segments a block has for the device.
device() {
    local dir="$data/device" huge memory=malloc access order block depth pair
    command -v fio >/dev/null || { say 'Not measured against fio: it is not installed.'; return; }
    mkdir -p "$dir"
    huge="$(cat /proc/sys/vm/nr_hugepages)"
    if { echo 160 >/proc/sys/vm/nr_hugepages; } 2>/dev/null; then memory=shmhuge; fi
    head -c 1G /dev/urandom >"$dir/random" && sync
    say
    say "### \`innokit bench device\` / \`fio\` on the same pattern: 1 GiB, direct, io_uring, one thread, fio's buffers: $memory"
    say
    say '| pattern | block | depth | lowest | median | highest |'
    say '|---|---|---|---|---|---|'
    while read -r access order block depth; do
        for ((pair = 0; pair < pairs; pair++)); do
            device_pair "$pair" "$dir" $memory "$access" "$order" "$block" "$depth"
        done | spread >"$work/row"
        say "| $order $access | $block | $depth | $(cat "$work/row") |"
    done <<<'read sequential 1M 16
read sequential 64K 8
read random 16K 1
read random 16K 32
write sequential 1M 16
write random 16K 32'
    rm -rf "$dir"
    echo "$huge" 2>/dev/null >/proc/sys/vm/nr_hugepages || true
}

if [ "$parts" = device ]; then
    say "$(nproc) cores, $(uname -m), $("$innokit" --version), $(fio --version 2>/dev/null || true)"
else
    say "$(nproc) cores, $(uname -m), $("$innokit" --version), $("$here/server.sh" mysql version), $("$here/server.sh" mariadb version)"
fi
for part in $parts; do
    if [[ "$part" =~ ^(cold|readahead)$ ]] && [ $can_drop = no ]; then
        say 'Not measured cold: the page cache cannot be dropped by this user.'
    else
        "$part"
    fi
done
