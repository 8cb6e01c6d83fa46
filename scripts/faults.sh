#!/usr/bin/env bash
# Builds innokit, makes the files once, and runs scripts/faults.py on them with the options given: faults.sh [--sample N] [--only WORD] ...
set -euo pipefail
cd "$(dirname "$0")/.."

readonly files=target/tmp/faults-set
added="$(scripts/install-strace.sh)"
PATH="${added:+$added:}$PATH"
cargo build --quiet -p innokit --features parquet,sql,cloud
if [ ! -e "$files/bad.ibd" ]; then
    rm -rf "$files" "${files%/*}/.${files##*/}.server"
    scripts/install-servers.sh
    mkdir -p "${files%/*}"
    scripts/faults.py --make "$files"
fi
status=0
scripts/faults.py --set "$files" "$@" || status=$?
# Without strace or ptrace there is nothing to run.
[ "$status" = 77 ] || exit "$status"
