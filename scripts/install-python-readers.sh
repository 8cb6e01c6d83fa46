#!/usr/bin/env bash
# Installs the readers that `make test` holds Parquet and Arrow files against: pyarrow, DuckDB and Polars, in a virtual environment of
# their own, ${INNOKIT_SERVERS:-~/.cache/innokit}/python-readers. Nothing is installed on the system.
#
# Safe to run again: a finished environment has a stamp and is left alone, an unfinished one is made again.
set -euo pipefail

readonly recipe=1 # raise it when the list below changes
readonly packages=(pyarrow duckdb polars)
readonly home="${INNOKIT_SERVERS:-$HOME/.cache/innokit}/python-readers"

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
die() { say "$*" >&2; exit 2; }

if [ "$(cat "$home/.stamp" 2>/dev/null)" = "$recipe" ]; then
    exit 0
fi
command -v python3 >/dev/null || die "python3 is missing: install the packages python3 and python3-venv"
rm -rf "$home"
mkdir -p "$(dirname "$home")"
if ! log="$(python3 -m venv "$home" 2>&1)"; then
    rm -rf "$home"
    # Debian keeps it in a package of its own.
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "python3 -m venv fails: install the package python3-venv: $log"
    say "installing python3-venv"
    apt-get -qq install python3-venv >/dev/null || die "python3-venv cannot be installed"
    python3 -m venv "$home"
fi
say "fetching ${packages[*]}"
"$home/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" || die "pip cannot install ${packages[*]}"
printf '%s\n' "$recipe" >"$home/.stamp"
say "ready in $home"
