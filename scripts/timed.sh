#!/usr/bin/env bash
# Cargo's runner for scripts/test.sh: timed.sh PROGRAM ARGS. Runs a test program and keeps what it printed, with the time of each test,
# in a file of the folder INNOKIT_TIMES.
set -uo pipefail

# `--report-time` is not stable. The variable only tells the program that it may be used: nothing is compiled here.
options=(-Z unstable-options --report-time)
started=$EPOCHREALTIME
RUSTC_BOOTSTRAP=1 "$1" "${options[@]}" "${@:2}" | tee "$INNOKIT_TIMES/$(basename "$1").log"
status=$?
printf '%s %s\n' "$(((${EPOCHREALTIME/[^0-9]/} - ${started/[^0-9]/}) / 1000))" "$(basename "$1")" >>"$INNOKIT_TIMES/programs"
exit "$status"
