#!/usr/bin/env bash
# Builds everything that is tested, at once: build.sh [options of `cargo build`]
# Every test takes its programs from this build, so its packages and features stand here alone: with others, cargo compiles much of it again.
# build.sh --features prints the features.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly features=innokit/parquet,innokit/sql,innokit/cloud,innokit/mount
if [ "${1:-}" = --features ]; then echo "$features"; exit 0; fi
exec "${CARGO:-cargo}" build --workspace --all-targets --features "$features" "$@"
