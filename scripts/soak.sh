#!/usr/bin/env bash
# Repeats the random parts of the tests until SECONDS have passed: soak.sh [SECONDS, default 600]
#
# Each round crashes logs on the simulated device with a new seed, kills servers under load and recovers what they left,
# kills recovery itself and cuts its power, checks datadirs while servers write to them, exports random tables, fuzzes, and lets
# system calls fail. A round
# that fails ends the run and prints how to repeat it. It needs the datadirs of `make test`, and INNOKIT_DATADIRS set to their path.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${INNOKIT_DATADIRS:?run make soak, which makes the datadirs and says where they are}"

readonly end=$(($(date +%s) + ${1:-600}))
round=0

# Runs "$@" unless the time is up.
step() {
    [ "$(date +%s)" -lt "$end" ] || return 0
    printf 'round %s: %s\n' "$round" "$*"
    if ! env "$@" >target/soak.log 2>&1; then
        tail -n 60 target/soak.log >&2
        printf 'soak.sh: failed in round %s: %s\n' "$round" "$*" >&2
        exit 1
    fi
}

mkdir -p target
while [ "$(date +%s)" -lt "$end" ]; do
    round=$((round + 1))
    seed=$((RANDOM * 32768 + RANDOM))
    step FLOW_SEED=$seed..$((seed + 2000)) cargo test --quiet -p innokit-flow --test log_writer_crash
    step PROPTEST_CASES=2000 cargo test --quiet -p innokit-format -p innokit-redo -p innokit-logs
    step INNOKIT_RECOVER_CRASHES=5 INNOKIT_MYSQL_CRASHES=5 INNOKIT_RECOVER_KILLS=20 INNOKIT_RECOVER_POWER_CUTS=100 \
        cargo test --quiet -p innokit-recovery --test recover
    step INNOKIT_LIVE_SECONDS=60 cargo test --quiet -p innokit --test check live_load::
    step INNOKIT_RANDOM_TABLES=$seed..$((seed + 4)) cargo test --quiet -p innokit --test table rows_random::
    step INNOKIT_RANDOM_CRASHES=$seed..$((seed + 4)) cargo test --quiet -p innokit --test recover recover_random::
    step INNOKIT_SOAK=1 cargo test --quiet -p innokit --test streams innochecksum_crash::
    step scripts/fuzz.sh 20
    step scripts/faults.sh --around --seed "$seed"
    # All of it, in an order of this round, for half of the time that is left: with SECONDS=10800 the first round runs it to its end.
    step scripts/faults.sh --seed "$seed" --seconds $(((end - $(date +%s)) / 2 + 60))
done
printf 'soak.sh: %s rounds, nothing failed\n' "$round"
