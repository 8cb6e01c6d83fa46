#!/usr/bin/env bash
# Builds the workspace's tests for AArch64 and runs them under QEMU's user emulation. Safe to run again, and quick then.
#
# The compiler is the toolchain in use where it has AArch64's standard library or can fetch it; the linker, the C library and the
# emulator are installed from Debian where they are missing (apt, as root). Where the library cannot be had, the whole toolchain
# is Debian's (testing), unpacked into ${INNOKIT_SERVERS:-~/.cache/innokit}/arm and entered with chroot, which needs root too.
# INNOKIT_ARM=debian asks for that way.
#
# What is left to `make test`, which runs the same code on this machine's own processor: tests that start real servers, read what
# they wrote or compare with their tools (those exist for this machine only), benchmarks (they would measure the emulator), tests
# that run the command or crash a device hundreds of times (emulation would take hours), those that read the counters of the block
# device, the command's peak of memory (it would be the emulator's), and the examples in the documentation.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh

readonly target=aarch64-unknown-linux-gnu
readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
readonly recipe=1 # raise it when the list of Debian's packages changes
readonly left_out=" bench index_pages innochecksum innochecksum_crash kinds live live_load log_writer_crash log_writer_reads logs \
memory recover redo_info same_answer streams table table_damage table_extended table_servers rewrite "

# Whether the toolchain in use can build for the target, after fetching what it lacks.
has_target() {
    local library
    library="$(rustc --print target-libdir --target "$target")"
    compgen -G "$library/libstd-*.rlib" >/dev/null || rustup target add "$target" >/dev/null 2>&1
}

install_tools() {
    command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null &&
        [ -e /usr/aarch64-linux-gnu/lib/libc.so ] && return
    needs_debian
    say "installing the linker, the C library and the emulator"
    apt-get -qq update || true # third parties' lists may fail; what matters is missed below
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user >/dev/null ||
        die "apt could not install gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user (is this root?)"
}

# Debian's own toolchain, for hosts whose toolchain has no library for the target.
unpack_toolchain() {
    local apt="$root/apt/arm"
    [ "$(cat "$root/arm/.stamp" 2>/dev/null)" = "$recipe" ] && return
    needs_debian
    say "fetching Debian's toolchain (400 MB)"
    # Testing rather than sid: there the library of one processor is never of another version than the compiler of the other.
    private_apt "$apt" testing
    printf 'APT::Architectures { "amd64"; "arm64"; };\n' >>"$apt/apt.conf"
    APT_CONFIG="$apt/apt.conf" apt-get -qq update 2>"$apt/update.log" || true
    APT_CONFIG="$apt/apt.conf" apt-get -qq install --download-only bash coreutils findutils gcc libc6-dev \
        rustc cargo libstd-rust-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user >/dev/null ||
        die "apt could not fetch Debian's toolchain; $(cat "$apt/update.log")"
    APT_CONFIG="$apt/apt.conf" apt-get -qq autoclean >/dev/null
    say "unpacking it"
    unpack "$apt" "$root/arm.new"
    ln -s gcc "$root/arm.new/usr/bin/cc" # what the package's script would do
    printf '%s\n' "$recipe" >"$root/arm.new/.stamp"
    rm -rf "$root/arm"
    mv "$root/arm.new" "$root/arm"
    rm -rf "$apt"
}

# Runs this script's second half inside the tree. The mounts are seen by nobody else and end with it.
enter_toolchain() {
    local cargo_home="${CARGO_HOME:-$HOME/.cargo}" target_dir="${CARGO_TARGET_DIR:-$PWD/target}"
    [ "$(id -u)" = 0 ] || die "the toolchain has no library for $target: run 'rustup target add $target', or this as root"
    unpack_toolchain
    mkdir -p "$target_dir"
    cargo fetch --quiet --locked # inside there is no way out
    # shellcheck disable=SC2016 # the dollars are for the inner shell
    unshare --mount bash -c '
        set -euo pipefail
        tree="$1"; shift
        for folder in /proc /dev /tmp "$@"; do
            mkdir -p "$tree$folder"
            mount --rbind "$folder" "$tree$folder"
        done
        exec chroot "$tree" /usr/bin/env -i PATH=/usr/bin:/bin HOME="$HOME" CARGO_HOME="$2" CARGO_TARGET_DIR="$3" \
            CARGO_NET_OFFLINE=true INNOKIT_ARM=inside "$1/scripts/test-arm.sh"
    ' bash "$root/arm" "$PWD" "$cargo_home" "$target_dir"
}

# Builds all tests at once, then runs those that are not left out.
run_tests() {
    local file name tests=()
    for file in crates/*/tests/*.rs; do
        name="$(basename "$file" .rs)"
        [[ "$left_out" == *" $name "* ]] || tests+=(--test "$name")
    done
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
    export CARGO_PROFILE_DEV_DEBUG=none                    # half the time to build and to link
    export INNOKIT_EMULATED=1                              # tests assert what an emulator lacks
    export PROPTEST_CASES="${PROPTEST_CASES:-64}"
    say "building, then running under $(qemu-aarch64 --version | head -n 1)"
    cargo test --locked --workspace --target "$target" --lib --bins "${tests[@]}"
}

case "${INNOKIT_ARM:-}" in
    inside) run_tests ;;
    debian) enter_toolchain ;;
    *)
        if has_target; then
            install_tools
            run_tests
        else
            enter_toolchain
        fi
        ;;
esac
