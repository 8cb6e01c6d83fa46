#!/usr/bin/env bash
# Fetches the servers' own test files for scripts/suites.py: install-suites.sh KIND, of mysql, mariadb or mariadb118. Into
# ${INNOKIT_SERVERS:-~/.cache/innokit}/suites/KIND, from the same release of Debian as the server. Safe to run again.
set -euo pipefail
# shellcheck source=scripts/debian.sh
. "$(dirname "$0")/debian.sh"

readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}/suites"
case "${1:-}" in
    mysql) release=sid package=mysql-testsuite ;;
    mariadb) release=bookworm package=mariadb-test-data ;;
    mariadb118) release=trixie package=mariadb-test-data ;;
    *) die "usage: install-suites.sh mysql|mariadb|mariadb118" ;;
esac
readonly suite="$root/$1" packages="$root/apt.$1"
[ ! -e "$suite/.stamp" ] || exit 0
needs_debian
private_apt "$packages" "$release"
say "fetching $package"
APT_CONFIG="$packages/apt.conf" apt-get -qq update >"$packages/apt.log" 2>&1 || true # what matters is missed below
(cd "$packages/cache/archives" && APT_CONFIG="$packages/apt.conf" apt-get -qq download "$package" >/dev/null 2>>"$packages/apt.log") || die "$(cat "$packages/apt.log")"
rm -rf "$suite"
unpack "$packages" "$suite"
touch "$suite/.stamp"
rm -rf "$packages"
say "ready in $suite"
