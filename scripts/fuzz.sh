#!/usr/bin/env bash
# Runs every fuzz target for some seconds on the corpus that is kept: fuzz.sh [SECONDS for each, 5 if not given]
#
# A target is libFuzzer with the compiler's coverage and without a sanitizer, which any stable toolchain can build: all parsers are
# safe Rust, whose mistakes are panics and assertions. (`cargo +nightly fuzz run TARGET` adds the address sanitizer.)
# It starts from fuzz/seeds/TARGET, which is kept in the repository (what once failed is there too). New inputs that reach further go to
# fuzz/corpus/TARGET and stay there from run to run; what fails is in fuzz/artifacts/TARGET.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

readonly seconds="${1:-5}"
readonly coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
target="$(rustc -vV | sed -n 's/^host: //p')"
readonly target

# With --target the flags are for the targets alone, and not for build scripts, which have no libFuzzer to count for them.
RUSTFLAGS="${RUSTFLAGS:-} $coverage --cfg fuzzing -Cdebug-assertions -Ccodegen-units=1" cargo build --quiet --release --target "$target"

# A target uses one core.
run_target() {
    local name="$1"
    mkdir -p "corpus/$name" "artifacts/$name" "seeds/$name"
    if ! "target/$target/release/$name" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="artifacts/$name/" "corpus/$name" "seeds/$name" >"artifacts/$name.log" 2>&1; then
        tail -n 40 "artifacts/$name.log" >&2
        printf 'fuzz.sh: %s failed; the input is in fuzz/artifacts/%s\n' "$name" "$name" >&2
        return 1
    fi
    printf '%s: %s runs, %s inputs kept\n' "$name" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "artifacts/$name.log")" "$(find "corpus/$name" -type f | wc -l)"
}
export -f run_target
export target seconds
# shellcheck disable=SC2016 # the dollar is for the inner shell
find fuzz_targets -name '*.rs' -exec basename -a -s .rs {} + | sort | xargs -n 1 -P "$(nproc)" bash -c 'set -euo pipefail; run_target "$1"' _
