#!/usr/bin/env bash
# Fetches Debian's strace, which scripts/faults.py has inject faults, and prints the folder of the program. Prints nothing if it is installed.
#
# It is unpacked, not installed, into ${INNOKIT_SERVERS:-~/.cache/innokit}/strace: nothing of the host is changed, no root. Safe to run again,
# and quick then.
set -euo pipefail

readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
readonly recipe=1 # raise it when the list of packages changes
# shellcheck source=scripts/debian.sh
. "$(dirname "$0")/debian.sh"

main() {
    command -v strace >/dev/null && return
    local tree="$root/strace" apt="$root/apt/strace" release
    mkdir -p "$root"
    exec 9>"$root/.strace.lock"
    flock 9 # two runs at once: the second finds the work done
    if [ "$(cat "$tree/.stamp" 2>/dev/null)" != "$recipe" ]; then
        needs_debian
        # The host's own release: its programs are for the host's C library.
        # shellcheck source=/dev/null
        release="$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")"
        private_apt "$apt" "$release"
        say "fetching packages" >&2
        APT_CONFIG="$apt/apt.conf" apt-get -qq update >"$apt/apt.log" 2>&1 || true # what matters is missed below
        # What strace is linked with on most processors, and xz's library for that.
        (cd "$apt/cache/archives" && APT_CONFIG="$apt/apt.conf" apt-get -qq download strace libunwind8 liblzma5 >>"$apt/apt.log" 2>&1) ||
            die "$(cat "$apt/apt.log")"
        unpack "$apt" "$tree.new"
        # Beside its libraries, wherever the tree lies.
        mkdir -p "$tree.new/bin"
        printf '%s\n' '#!/bin/sh' 'tree="$(dirname "$0")/.."' \
            'LD_LIBRARY_PATH="$(echo "$tree"/usr/lib/*-linux-gnu):$(echo "$tree"/lib/*-linux-gnu)" exec "$tree/usr/bin/strace" "$@"' \
            >"$tree.new/bin/strace"
        chmod +x "$tree.new/bin/strace"
        printf '%s\n' "$recipe" >"$tree.new/.stamp"
        rm -rf "$tree"
        mv "$tree.new" "$tree"
        rm -rf "$apt"
    fi
    printf '%s\n' "$tree/bin"
}

main "$@"
