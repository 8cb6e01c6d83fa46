#!/usr/bin/env bash
# Stands in for rustdoc where `cargo test --doc` runs the examples (RUSTDOC=scripts/rustdoc.sh): first writes the documentation of the same
# crate, with every warning an error. `cargo doc` takes another kind of its dependencies than tests do, and would go through 400 crates again
# that have just been compiled.
set -euo pipefail

arguments=()
tests=
after=
for argument in "$@"; do
    case "$after$argument" in
        --test) tests=1 ;;
        --no-run) ;;
        --test-run-directory | --test-args | --test-runtool | --test-runtool-arg) after=value: ;;
        value:*) after= ;;
        *) arguments+=("$argument") ;;
    esac
done
if [ -n "$tests" ]; then
    out="$(mktemp -d)"
    trap 'rm -rf "$out"' EXIT
    rustdoc "${arguments[@]}" --out-dir "$out" -D warnings
fi
rustdoc "$@"
