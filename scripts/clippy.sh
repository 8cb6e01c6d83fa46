#!/usr/bin/env bash
# Stands in for rustc where `.ci/run` compiles our crates (RUSTC_WORKSPACE_WRAPPER=scripts/clippy.sh): clippy's driver compiles as rustc does,
# and its lints are errors. `cargo clippy` compiles nothing, so that everything would be gone through twice.
#
# CLIPPY_ARGS are its options, in its own spelling. They must be those of cargo's environment: with others, everything is compiled again.
#
# The command line's library is looked through a second time, without its features: with `cargo clippy --no-default-features` (`make lint`) that
# takes a hundred crates again.
set -euo pipefail

if [[ "${CARGO_PKG_NAME:-}" == innokit && " $* " == *" --crate-type lib "* && " $* " != *" --test "* ]]; then
    out="$(mktemp -d)"
    trap 'rm -rf "$out"' EXIT
    bare=()
    held=
    for argument in "$@"; do
        case "$held $argument" in
            "--cfg feature="*) held= ;;
            "--out-dir "*) bare+=(--out-dir "$out"); held= ;;
            *" --cfg" | *" --out-dir") held="$argument" ;;
            *)
                [ -z "$held" ] || bare+=("$held")
                held=
                case "$argument" in
                    --emit=*) bare+=(--emit=metadata) ;;
                    # Cargo would take what is written here for what it waits for.
                    --json=*) bare+=("${argument/,artifacts/}") ;;
                    incremental=*) bare+=("incremental=$out") ;;
                    *) bare+=("$argument") ;;
                esac
                ;;
        esac
    done
    clippy-driver "${bare[@]}"
fi
clippy-driver "$@"
