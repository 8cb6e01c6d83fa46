#!/usr/bin/env bash
# The tests of what a change touches, without servers: quick.sh [BASE, default main or its upstream]
# A change is what differs from BASE, committed or not. Prints what it leaves to `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

base="${1:-}"
if [ -z "$base" ]; then
    base="$(git rev-parse --abbrev-ref '@{upstream}' 2>/dev/null || echo main)"
    [ "$(git rev-parse HEAD)" != "$(git rev-parse "$base")" ] || base=HEAD
fi
mapfile -t files < <({ git diff --name-only "$(git merge-base HEAD "$base")"; git ls-files -o --exclude-standard; } | sort -u)

# Programs of the command line's tests that ask most of a folder of `inspect` or `recovery`; other folders are asked by `check`.
program_of() {
    case "$1" in
        archive | backup | recover) echo "$1" ;;
        restore | manifest* | redo_batch*) echo recover ;;
        table | rows | schema | tree) echo table ;;
        unpack | innochecksum) echo streams ;;
        *) echo check ;;
    esac
}

declare -A packages=() programs=()
for file in "${files[@]}"; do
    case "$file" in
        crates/inspect/src/* | crates/recovery/src/*)
            file="${file#crates/}"
            folder="${file#*/src/}"
            packages[${file%%/*}]=1
            programs[$(program_of "${folder%%/*}")]=1
            ;;
        crates/innokit/tests/*/*.rs)
            folder="${file#crates/innokit/tests/}"
            if [ -e "crates/innokit/tests/${folder%%/*}/main.rs" ]; then programs[${folder%%/*}]=1; else programs[all]=1; fi
            ;;
        crates/innokit/*) programs[check]=1; programs[house]=1 ;;
        crates/*/*) file="${file#crates/}"; packages[${file%%/*}]=1 ;;
        *.md) programs[house]=1 ;;
    esac
done
[ "${#packages[@]}${#programs[@]}" != 00 ] || { echo "quick: nothing that tests of the Rust crates cover differs from $base"; exit 0; }

features=(--features "$(scripts/build.sh --features)")
unset INNOKIT_DATADIRS
started="$(date +%s)"
ran=()
if [ ${#packages[@]} -gt 0 ]; then
    names=()
    for crate in "${!packages[@]}"; do names+=(-p "innokit-$crate"); ran+=("innokit-$crate"); done
    "${CARGO:-cargo}" test --quiet "${names[@]}" --lib --tests
fi
if [ ${#programs[@]} -gt 0 ]; then
    names=()
    if [ -n "${programs[all]:-}" ]; then names=(--tests); ran+=("innokit"); else
        for program in "${!programs[@]}"; do names+=(--test "$program"); ran+=("innokit --test $program"); done
    fi
    "${CARGO:-cargo}" test --quiet -p innokit "${features[@]}" "${names[@]}"
fi
printf 'quick: %s s; ran %s\n' "$(($(date +%s) - started))" "$(printf '%s, ' "${ran[@]}" | sed 's/, $//')"
touched=()
for crate in "${!packages[@]}"; do touched+=("innokit-$crate"); done
dependents="$("${CARGO:-cargo}" metadata --format-version 1 --no-deps 2>/dev/null | python3 -c '
import json, sys
touched = set(sys.argv[1:])
packages = json.load(sys.stdin)["packages"]
grown = True
reached = set(touched)
while grown:
    more = {p["name"] for p in packages if any(d["name"] in reached for d in p["dependencies"])} - reached
    reached |= more
    grown = bool(more)
print(" ".join(sorted(reached - touched)))' "${touched[@]}")"
printf 'quick: left to make test: %s tests that need real servers; the other tests of: %s\n' \
    "$(grep -rhc '^ *#\[cfg_attr(not(servers), ignore' crates/*/tests crates/*/src | awk '{ n += $1 } END { print n }')" "${dependents:-no other crate}"
