#!/usr/bin/env bash
# Stands in for rustc when fuzz targets are compiled (scripts/fuzz.sh): rustc-coverage.sh RUSTC ARGUMENT... Our crates count which branches
# an input takes, so that libFuzzer sees what reaches further. Others, and build scripts, are compiled as they always are.
set -euo pipefail
case "${CARGO_PKG_NAME:-} $*" in
    innokit-*"--crate-name build_script_"*) ;;
    innokit-*"--crate-name "*)
        set -- "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
            -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1
        ;;
esac
exec "$@"
