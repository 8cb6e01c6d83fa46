#!/usr/bin/env bash
# Fetches Debian's Prometheus, its promtool and node_exporter, which a test has scrape what `innokit check --metrics` writes.
#
# They are unpacked, not installed, into ${INNOKIT_SERVERS:-~/.cache/innokit}/prometheus: no service, nothing of the host is changed, no root.
# The programs need the C library only, which is the host's. Safe to run again, and quick then.
set -euo pipefail

readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
readonly recipe=1 # raise it when the list of packages changes
# shellcheck source=scripts/debian.sh
. "$(dirname "$0")/debian.sh"

main() {
    local tree="$root/prometheus" apt="$root/apt/prometheus" release
    mkdir -p "$root"
    exec 9>"$root/.prometheus.lock"
    flock 9 # two runs at once: the second finds the work done
    [ "$(cat "$tree/.stamp" 2>/dev/null)" = "$recipe" ] && return
    needs_debian
    # The host's own release: its programs are for the host's C library.
    # shellcheck source=/dev/null
    release="$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")"
    private_apt "$apt" "$release"
    say "fetching packages"
    APT_CONFIG="$apt/apt.conf" apt-get -qq update >"$apt/apt.log" 2>&1 || true # what matters is missed below
    (cd "$apt/cache/archives" && APT_CONFIG="$apt/apt.conf" apt-get -qq download prometheus prometheus-node-exporter \
        >>"$apt/apt.log" 2>&1) || die "$(cat "$apt/apt.log")"
    unpack "$apt" "$tree.new"
    printf '%s\n' "$recipe" >"$tree.new/.stamp"
    rm -rf "$tree"
    mv "$tree.new" "$tree"
    rm -rf "$apt"
    say "ready in $tree"
}

main "$@"
