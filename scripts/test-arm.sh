#!/usr/bin/env bash
# Builds the workspace's tests for AArch64 and runs them under QEMU's user emulation. Safe to run again, and quick then.
# INNOKIT_ARM_CRATES="format flow" builds and runs those of these crates only.
#
# The compiler is the toolchain in use if it has AArch64's standard library or can fetch it. The linker, the C library and the
# emulator are installed from Debian if missing (apt, as root). If the library is not available, the whole toolchain
# is Debian's (testing), unpacked into ${INNOKIT_SERVERS:-~/.cache/innokit}/arm and entered with chroot, which needs root too.
# INNOKIT_ARM=debian forces that.
#
# Left to `make test`, which runs the same code on this machine's own processor: tests that start real servers, read what
# they wrote or compare with their tools (those exist for this machine only), benchmarks (they would measure the emulator), tests
# that run the command or crash a device hundreds of times (emulation would take hours), those that read the counters of the block
# device, the command's peak of memory (it would be the emulator's), the models of what threads share (they try every order of their steps
# on any processor), and the examples in the documentation.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=scripts/arm.sh
. scripts/arm.sh

readonly target=aarch64-unknown-linux-gnu
readonly left_out=" bench models index_pages innochecksum innochecksum_crash kinds live live_load log_writer_crash log_writer_reads logs \
memory recover redo_info same_answer streams table table_damage table_extended table_servers rewrite all_well bounds catalog \
header_fields live_words not_run pending rows_damage rows_servers space_management table_schema tar verdict watching guides prometheus parts crates structure \
other_log backups backups_packed increments archive backup "

# Builds all tests at once, then runs those that are not left out.
run_tests() {
    local crate file name crates=() tests=() skipped=()
    for crate in ${INNOKIT_ARM_CRATES:-$(ls crates)}; do
        crates+=(--package "$(sed -n '0,/^name/s/^name = "\(.*\)"/\1/p' "crates/$crate/Cargo.toml")")
        for file in "crates/$crate"/tests/*.rs; do
            name="$(basename "$file" .rs)"
            [[ "$left_out" == *" $name "* || ! -e "$file" ]] || tests+=(--test "$name")
        done
    done
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
    export CARGO_PROFILE_DEV_DEBUG=none                    # half the time to build and to link
    export INNOKIT_EMULATED=1                              # tests assert what an emulator lacks
    export PROPTEST_CASES="${PROPTEST_CASES:-64}"
    say "building, then running under $(qemu-aarch64 --version | head -n 1)"
    cargo test --locked "${crates[@]}" --target "$target" --lib --bins "${tests[@]}"
    [[ " ${crates[*]} " == *" innokit "* ]] || return 0
    # Its programs have a folder each. Of their files, the same are left out.
    tests=()
    for file in crates/innokit/tests/*/main.rs; do
        name="$(basename "$(dirname "$file")")"
        [ "$name" = bench ] || tests+=(--test "$name")
    done
    for name in $left_out; do skipped+=(--skip "$name::"); done
    cargo test --locked --package innokit --target "$target" "${tests[@]}" -- "${skipped[@]}"
}

case "${INNOKIT_ARM:-}" in
    inside) run_tests ;;
    debian) enter_toolchain scripts/test-arm.sh ;;
    *)
        if has_target "$target"; then
            install_arm_tools
            run_tests
        else
            enter_toolchain scripts/test-arm.sh
        fi
        ;;
esac
