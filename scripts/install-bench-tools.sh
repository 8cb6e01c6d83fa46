#!/usr/bin/env bash
# Installs what only the benchmarks need: fio (the device's own limit), valgrind (instruction counts), and the peer `inno`
# of the crate innodb-utils into ${INNOKIT_SERVERS:-~/.cache/innokit}/inno/bin. Safe to run again. Root is needed for apt.
set -euo pipefail

readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
missing=()
for tool in fio valgrind; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if [ ${#missing[@]} -gt 0 ]; then
    printf 'install-bench-tools: installing %s\n' "${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
fi
if [ ! -x "$root/inno/bin/inno" ]; then
    printf 'install-bench-tools: building inno\n'
    cargo install --quiet --locked --root "$root/inno" --bin inno innodb-utils
fi
