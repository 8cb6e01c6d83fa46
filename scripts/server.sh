#!/usr/bin/env bash
# Runs the real servers that scripts/install-servers.sh fetched, each on a datadir of its own.
#
#   server.sh KIND init   DATADIR [server options]   make a datadir; the options are kept for every start
#   server.sh KIND start  DATADIR [server options]   returns when it answers; silent unless it fails
#   server.sh KIND sql    DATADIR [client options]   statements from standard input, or -e 'SQL'
#   server.sh KIND stop   DATADIR [0|1|2]            clean shutdown, with that innodb_fast_shutdown
#   server.sh KIND kill9  DATADIR                    as a power cut would
#   server.sh KIND innochecksum ARGS                 the server's own tool, on paths of this host
#   server.sh KIND tool NAME ARGS                    any other program of that server (ibd2sdi, mariadb-backup)
#   server.sh KIND command NAME                      the words that run that program, for use without this script
#   server.sh KIND socket DATADIR                    the path of the socket on which it listens
#   server.sh KIND version                           one line
#
# KIND is mysql (9.7), mysql80 (8.0.15), mysql56 (5.6.24), mariadb (10.11), mariadb105, mariadb114 or mariadb118. mysql80 and mysql56 have no
# programs besides the server, mariadb114 few.
#
# SERVER_SYNC=1: the server waits for the disk, as it does in production. Tests do without.
#
# A server listens on a socket in /tmp only and is stopped by its pid. What belongs to running it (options, pid, log) lies
# beside the datadir in .NAME.server, so that the datadir holds nothing but the server's own files.
# Exit status: 0 done, 2 failed; `sql`, `innochecksum` and `tool` pass on the program's own.
set -euo pipefail

readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
# A start may include crash recovery: scripts/bench.sh sets more.
readonly wait_start_s="${SERVER_WAIT_START:-120}" wait_stop_s=300

die() { printf 'server.sh: %s\n' "$*" >&2; exit 2; }
usage() { sed -n '2,/^set -/{s/^# \{0,1\}//;/^set -/!p}' "$0" >&2; exit 2; }

[ $# -ge 2 ] || usage
readonly kind="$1"
action="$2"
shift 2
case "$kind" in mysql | mysql80 | mysql56 | mariadb | mariadb105 | mariadb114 | mariadb118) ;; *) usage ;; esac
is_mysql() { [[ $kind == mysql* ]]; }
readonly tree="$root/$kind"
[ -e "$tree/.stamp" ] || die "$kind is not here: run scripts/install-servers.sh first"

# Runs a program of the server's tree through that tree's own loader and libraries. The loader's other name, in lib64, may be a link
# that leads to the host's. mysql80, mysql56 and mariadb114 come without a C library, and use that
# of mariadb.
base="$tree"
case "$kind" in mysql80 | mysql56 | mariadb114) base="$root/mariadb" ;; esac
libraries=("$base"/usr/lib/*-linux-gnu)
loader=("${libraries[0]}"/ld-linux*.so.* "$base"/lib64/ld-linux*.so.* "$base"/lib/ld-linux*.so.*)
for candidate in "${loader[@]}"; do [ -e "$candidate" ] && break; done
readonly via=("$candidate" --library-path "${libraries[0]}:$tree/usr/lib")
# MariaDB 11 named the folder of messages and SQL after itself.
share="$tree/usr/share/mysql"
[ -d "$share" ] || share="$tree/usr/share/mariadb"
readonly share

# Servers of tests do not sync: see scripts/nosync.c. SERVER_SYNC=1, for benches, has them do it.
served=("${via[@]}")
[ -n "${SERVER_SYNC:-}" ] || [ ! -e "$root/nosync.so" ] || served+=(--preload "$root/nosync.so")
readonly served

program() {
    local name="$1" dir
    for dir in sbin bin; do
        if [ -x "$tree/usr/$dir/$name" ]; then
            printf '%s' "$tree/usr/$dir/$name"
            return
        fi
    done
    die "$kind has no program named $name"
}

# Sets datadir, control and socket for the datadir $1.
locate() {
    local path="${1:-}" parent=. sum
    [ -n "$path" ] || usage
    path="${path%/}"
    [[ $path != */* ]] || parent="${path%/*}/"
    [ -d "$parent" ] || mkdir -p "$parent"
    parent="$(cd "$parent" && pwd -P)"
    datadir="$parent/${path##*/}"
    control="$parent/.${path##*/}.server"
    # A socket's path is limited to about a hundred bytes, whatever the datadir's is.
    read -r sum _ < <(printf '%s' "$datadir" | cksum)
    socket="/tmp/innokit-$EUID-$sum.sock"
}

# Options of both servers: small, quiet, fast. A crash of the machine may lose data, a crash of the server must not. Each has a
# temporary directory of its own: MariaDB clears what it finds there when it starts.
common_options() {
    printf '%s\n' --no-defaults "--basedir=$tree/usr" "--lc-messages-dir=$share" \
        "--character-sets-dir=$share/charsets" "--plugin-dir=$tree/usr/lib/mysql/plugin" \
        "--datadir=$datadir" "--tmpdir=$control" --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0 \
        --innodb-buffer-pool-dump-at-shutdown=OFF --innodb-buffer-pool-load-at-startup=OFF --performance-schema=OFF \
        --innodb-fast-shutdown=1 --max-allowed-packet=64M --secure-file-priv=
    # Servers refuse to run as root unless told so. Tests read the data as root, and it is of no value to anyone else.
    [ "$EUID" -ne 0 ] || printf '%s\n' --user=root
    if is_mysql; then
        local log_size=--innodb-redo-log-capacity=16M
        [ "$kind" = mysql ] || log_size=--innodb-log-file-size=8M # two files
        if [ "$kind" = mysql56 ]; then
            printf '%s\n' "$log_size" --innodb-file-format=Barracuda --innodb-large-prefix=ON --explicit-defaults-for-timestamp
            return
        fi
        printf '%s\n' --disable-log-bin --mysqlx=OFF "$log_size" --auto-generate-certs=OFF --log-error-verbosity=2
    else
        # The third option skips the syncs of definitions and of Aria, which take most of the time of DDL. InnoDB still syncs. Without the
        # last, MariaDB 11.4 and later search for an RSA key at every start, for up to ten seconds.
        printf '%s\n' --skip-log-bin --innodb-log-file-size=16M --debug-no-sync --skip-ssl
    fi
}

# Sets `options` to the command line of the server; those of init come before those given now, so that the latter win.
server_options() {
    mapfile -t options < <(common_options)
    if [ -s "$control/options" ]; then
        local kept
        mapfile -t kept <"$control/options"
        options+=("${kept[@]}")
    fi
    options+=("$@")
}

# Prints the pid of the server on this datadir, if any. A pid that now belongs to another program is not ours.
running_pid() {
    local pid='' word words=()
    read -r pid 2>/dev/null <"$control/pid" || true
    [ -n "$pid" ] && [ -r "/proc/$pid/cmdline" ] || return 0
    mapfile -d '' words 2>/dev/null <"/proc/$pid/cmdline" || true
    for word in "${words[@]}"; do
        if [ "$word" = "--datadir=$datadir" ]; then printf '%s' "$pid"; fi
    done
}

# Whether the process $1 still has its files, and with them its locks: when it dies, its command line goes first, and its first thread
# may be a zombie before the others are.
has_files() {
    local task line state
    # No other program is run for this: a server has dozens of threads, and is asked ten times a second.
    for task in "/proc/$1/task"/*/stat; do
        line=
        read -r line 2>/dev/null <"$task" || true
        line="${line##*) }"
        state="${line%% *}"
        if [ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ]; then return 0; fi
    done
    return 1
}

# Waits until the process $1 is gone, at most $2 seconds.
wait_gone() {
    local pid="$1" tenths=$(($2 * 10))
    while has_files "$pid"; do
        tenths=$((tenths - 1))
        [ "$tenths" -gt 0 ] || return 1
        sleep 0.1
    done
}

client() {
    local name=mysql options=(--no-defaults --socket="$socket" --user=root --default-character-set=utf8mb4)
    case "$kind" in
        mysql80)
            "$0" mysql tool mysql "${options[@]}" "$@"
            return
            ;;
        mysql56) # MySQL's own client of today knows no more how it asks for a password
            "$0" mariadb tool mariadb "${options[@]}" --skip-ssl "$@"
            return
            ;;
    esac
    if ! is_mysql; then
        name=mariadb
        options+=(--skip-ssl)
    fi
    "${via[@]}" "$(program "$name")" "${options[@]}" --character-sets-dir="$share/charsets" "$@"
}

# MariaDB's own init script assumes an installed server. These are the files that it executes.
mariadb_system_tables() {
    local prefix="$share/mysql"
    [ -e "${prefix}_system_tables.sql" ] || prefix="$share/mariadb"
    printf '%s\n' 'CREATE DATABASE IF NOT EXISTS mysql;' 'USE mysql;' 'SET @auth_root_socket=NULL;'
    cat "${prefix}_system_tables.sql" "${prefix}_performance_tables.sql" "${prefix}_system_tables_data.sql" \
        "$share/maria_add_gis_sp_bootstrap.sql"
}

# Nothing reads a new datadir before the server that makes it has exited, so it need not sync.
make_mysql() {
    if [ "$kind" = mysql56 ]; then
        cp -a "$tree/datadir/." "$datadir"
        return
    fi
    "${served[@]}" "$(program mysqld)" "${options[@]}" --innodb-flush-method=nosync --initialize-insecure \
        >"$control/log" 2>&1 </dev/null ||
        fail "MySQL could not make $datadir"
}

make_mariadb() {
    mariadb_system_tables | "${served[@]}" "$(program mariadbd)" "${options[@]}" --bootstrap --silent-startup \
        --log-warnings=0 --enforce-storage-engine= --net-buffer-length=16K >"$control/log" 2>&1 ||
        fail "MariaDB could not make $datadir"
}

# Servers take seconds to make a datadir, so they make one for each set of options, and the others are copies. Only the UUIDs of MySQL must
# differ: the server makes a new one when it starts without.
make_datadir() {
    local kept='' sum make=make_mariadb
    ! is_mysql || make=make_mysql
    # With paths among them they are one caller's: the same datadir is not asked for again.
    if [[ $* != */* ]]; then
        sum="${options[*]}"
        sum="${sum//"$datadir"/}"
        read -r sum _ < <(printf '%s' "${sum//"$control"/}" | cksum)
        kept="$tree/.datadirs/$sum" # a new version of the server replaces the tree
    fi
    if [ -n "$kept" ] && [ -d "$kept" ]; then
        cp -a --sparse=always "$kept/." "$datadir"
        return
    fi
    $make
    action="init, without a datadir to copy"
    [ -n "$kept" ] || return 0
    # Others may be doing the same. The first to be done is in time for the next.
    mkdir -p "$tree/.datadirs"
    cp -a --sparse=always "$datadir" "$kept.$$"
    rm -f "$kept.$$/auto.cnf"
    mv -T "$kept.$$" "$kept" 2>/dev/null || rm -rf "$kept.$$"
}

do_init() {
    locate "${1:-}"
    shift
    [ -z "$(ls -A "$datadir" 2>/dev/null)" ] || die "$datadir is not empty"
    mkdir -p "$datadir" "$control"
    rm -f "$control/options" "$control/pid"
    server_options "$@"
    make_datadir "$@"
    if [ $# -gt 0 ]; then printf '%s\n' "$@" >"$control/options"; fi
}

fail() {
    tail -n 30 "$control/log" >&2 || true
    die "$1; the end of its log is above"
}

do_start() {
    locate "${1:-}"
    shift
    [ -d "$datadir" ] || die "$datadir does not exist"
    mkdir -p "$control"
    [ -z "$(running_pid)" ] || return 0
    local name=mysqld pid tenths=$((wait_start_s * 10))
    is_mysql || name=mariadbd
    # The options given now win: `--skip-networking=OFF --bind-address=127.0.0.1 --port=N` has it listen on a port too.
    server_options --skip-networking "$@"
    rm -f "$socket" "$socket.lock"
    # Its own session, so that the server survives the caller's terminal or job.
    setsid "${served[@]}" "$(program "$name")" "${options[@]}" --socket="$socket" \
        --pid-file="$control/server.pid" >"$control/log" 2>&1 </dev/null 9>&- &
    pid=$!
    printf '%s\n' "$pid" >"$control/pid"
    until [ -S "$socket" ] && client -e 'DO 1' >/dev/null 2>&1; do
        kill -0 "$pid" 2>/dev/null || fail "$kind did not start on $datadir"
        tenths=$((tenths - 1))
        [ "$tenths" -gt 0 ] || fail "$kind on $datadir did not answer within $wait_start_s s"
        sleep 0.1
    done
}

do_stop() {
    locate "${1:-}"
    local pid
    pid="$(running_pid)"
    [ -n "$pid" ] || return 0
    if [ -n "${2:-}" ]; then client -e "SET GLOBAL innodb_fast_shutdown = $2"; fi
    kill -TERM "$pid"
    wait_gone "$pid" "$wait_stop_s" || fail "$kind on $datadir did not stop within $wait_stop_s s"
    rm -f "$control/pid" "$socket" "$socket.lock"
}

do_kill9() {
    locate "${1:-}"
    local pid
    pid="$(running_pid)"
    [ -n "$pid" ] || die "no $kind runs on $datadir"
    kill -KILL "$pid"
    wait_gone "$pid" 30 || die "$kind with pid $pid would not die"
    rm -f "$control/pid" "$socket" "$socket.lock"
}

do_tool() {
    local name="${1:-}"
    [ -n "$name" ] || usage
    shift
    exec "${via[@]}" "$(program "$name")" "$@"
}

# scripts/test.sh says how long servers took.
timed() {
    local started=$EPOCHREALTIME
    "$@"
    [ -z "${INNOKIT_TIMES:-}" ] ||
        printf '%s %s\n' "$(((${EPOCHREALTIME/[^0-9]/} - ${started/[^0-9]/}) / 1000))" "$action" >>"$INNOKIT_TIMES/servers"
}

case "$action" in
    init) timed do_init "$@" ;;
    start) timed do_start "$@" ;;
    stop) timed do_stop "$@" ;;
    kill9) do_kill9 "$@" ;;
    sql)
        locate "${1:-}"
        shift
        timed client "$@"
        ;;
    socket)
        locate "${1:-}"
        printf '%s\n' "$socket"
        ;;
    innochecksum) do_tool innochecksum "$@" ;;
    tool) do_tool "$@" ;;
    command) printf '%s ' "${via[@]}" "$(program "${1:-}")" ;;
    version)
        name=mysqld
        is_mysql || name=mariadbd
        (do_tool "$name" --no-defaults --version) | sed "s|^.*/$name *Ver|$name Ver|"
        ;;
    *) usage ;;
esac
