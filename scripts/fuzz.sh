#!/usr/bin/env bash
# Runs every fuzz target for a few seconds on the kept corpus: fuzz.sh [SECONDS for each, default 5]
# TOTAL=60 shares a minute out among them, at least a second each: what it takes does not grow with their number. That is the part
# of CI, which tries the same inputs in each run (a fixed seed, and the kept corpus of a fresh clone is empty): a commit is not
# refused for what chance found in code that it does not touch. Without TOTAL each run tries others.
#
# A target is libFuzzer with the compiler's coverage and no sanitizer, which any stable toolchain can build: all parsers are
# safe Rust, where bugs show as panics and assertions. (`cargo +nightly fuzz run TARGET` adds the address sanitizer.)
# It starts from fuzz/seeds/TARGET in the repository, which includes inputs that once failed. New inputs that reach further go to
# fuzz/corpus/TARGET and are kept from run to run; failing inputs go to fuzz/artifacts/TARGET.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds="${1:-5}"
seed=0
if [ -n "${TOTAL:-}" ]; then
    seconds=$((TOTAL * $(nproc) / $(find fuzz_targets -name '*.rs' | wc -l)))
    [ "$seconds" -ge 1 ] || seconds=1
    seed=1
fi
readonly seconds seed

# The tests' versions, and what only the targets use.
cp ../Cargo.lock .
# Only our crates are compiled for it: the others come from the tests' build, in the same target folder and with the same profile.
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-../target}" RUSTC_WRAPPER="$PWD/../scripts/rustc-coverage.sh" cargo build --quiet --profile dev
programs="$(cd "${CARGO_TARGET_DIR:-../target}/debug" && pwd)"

# A target uses one core.
run_target() {
    local name="$1"
    mkdir -p "corpus/$name" "artifacts/$name" "seeds/$name"
    if ! "$programs/$name" -max_total_time="$seconds" -seed="$seed" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="artifacts/$name/" "corpus/$name" "seeds/$name" >"artifacts/$name.log" 2>&1; then
        tail -n 40 "artifacts/$name.log" >&2
        printf 'fuzz.sh: %s failed; the input is in fuzz/artifacts/%s\n' "$name" "$name" >&2
        return 1
    fi
    printf '%s: %s runs, %s inputs kept\n' "$name" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "artifacts/$name.log")" "$(find "corpus/$name" -type f | wc -l)"
}
export -f run_target
export programs seconds seed
# shellcheck disable=SC2016 # the dollar is for the inner shell
find fuzz_targets -name '*.rs' -exec basename -a -s .rs {} + | sort | xargs -n 1 -P "$(nproc)" bash -c 'set -euo pipefail; run_target "$1"' _
