#!/usr/bin/env bash
# Builds versitygw, an S3 server over a directory, and toxiproxy, which delays, cuts and breaks its connections for tests.
#
# They are Go modules of fixed versions, built into ${INNOKIT_SERVERS:-~/.cache/innokit}/cloud: no service, nothing of the host is changed,
# no root. Go is installed from Debian if missing (as root). Safe to run again, and quick then.
set -euo pipefail

readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
readonly versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0
readonly toxiproxy=github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
die() { say "$*" >&2; exit 2; }

main() {
    local tree="$root/cloud" recipe="$versitygw $toxiproxy"
    mkdir -p "$root"
    exec 9>"$root/.cloud.lock"
    flock 9 # two runs at once: the second finds the work done
    [ "$(cat "$tree/.stamp" 2>/dev/null)" = "$recipe" ] && return
    if ! command -v go >/dev/null; then
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "Go is needed to build the S3 server of the tests: install it (Debian: golang-go)"
        say "installing golang-go"
        apt-get -qq install golang-go >/dev/null || die "golang-go cannot be installed"
    fi
    rm -rf "$tree.new"
    mkdir -p "$tree.new"
    say "building versitygw and toxiproxy"
    GOBIN="$tree.new" go install "$versitygw" >"$root/cloud.log" 2>&1 || die "$(cat "$root/cloud.log")"
    GOBIN="$tree.new" go install "$toxiproxy" >"$root/cloud.log" 2>&1 || die "$(cat "$root/cloud.log")"
    mv "$tree.new/server" "$tree.new/toxiproxy"
    rm -f "$root/cloud.log"
    printf '%s\n' "$recipe" >"$tree.new/.stamp"
    rm -rf "$tree"
    mv "$tree.new" "$tree"
    say "ready in $tree"
}

main "$@"
