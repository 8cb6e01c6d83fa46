# The AArch64 toolchain; sourced by the scripts that build for it, after scripts/debian.sh.
# shellcheck shell=bash
readonly cache="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
readonly arm_recipe=1 # raise it when the list of Debian's packages changes

# Whether the toolchain in use can build for the target $1, after fetching what it lacks.
has_target() {
    local library
    library="$(rustc --print target-libdir --target "$1")"
    compgen -G "$library/libstd-*.rlib" >/dev/null || rustup target add "$1" >/dev/null 2>&1
}

# The linker, the C library and the emulator.
install_arm_tools() {
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
    local apt="$cache/apt/arm"
    [ "$(cat "$cache/arm/.stamp" 2>/dev/null)" = "$arm_recipe" ] && return
    needs_debian
    say "fetching Debian's toolchain (400 MB)"
    # Testing rather than sid: in testing, one architecture's library always has the version of the other's compiler.
    private_apt "$apt" testing
    printf 'APT::Architectures { "amd64"; "arm64"; };\n' >>"$apt/apt.conf"
    APT_CONFIG="$apt/apt.conf" apt-get -qq update 2>"$apt/update.log" || true
    APT_CONFIG="$apt/apt.conf" apt-get -qq install --download-only bash coreutils findutils gcc libc6-dev \
        rustc cargo libstd-rust-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user >/dev/null ||
        die "apt could not fetch Debian's toolchain; $(cat "$apt/update.log")"
    APT_CONFIG="$apt/apt.conf" apt-get -qq autoclean >/dev/null
    say "unpacking it"
    unpack "$apt" "$cache/arm.new"
    ln -s gcc "$cache/arm.new/usr/bin/cc" # what the package's script would do
    printf '%s\n' "$arm_recipe" >"$cache/arm.new/.stamp"
    rm -rf "$cache/arm"
    mv "$cache/arm.new" "$cache/arm"
    rm -rf "$apt"
}

# Runs the script $1 of this repository inside the tree, with INNOKIT_ARM=inside. The mounts are private and end with it.
enter_toolchain() {
    local script="$1" cargo_home="${CARGO_HOME:-$HOME/.cargo}" target_dir="${CARGO_TARGET_DIR:-$PWD/target}"
    [ "$(id -u)" = 0 ] || die "the toolchain has no library for AArch64: run 'rustup target add', or this as root"
    unpack_toolchain
    mkdir -p "$target_dir"
    cargo fetch --quiet --locked # inside there is no way out
    # shellcheck disable=SC2016 # the dollars are for the inner shell
    unshare --mount bash -c '
        set -euo pipefail
        tree="$1" script="$2"; shift 2
        for folder in /proc /dev /tmp "$@"; do
            mkdir -p "$tree$folder"
            mount --rbind "$folder" "$tree$folder"
        done
        exec chroot "$tree" /usr/bin/env -i PATH=/usr/bin:/bin HOME="$HOME" CARGO_HOME="$2" CARGO_TARGET_DIR="$3" \
            CARGO_NET_OFFLINE=true INNOKIT_ARM=inside INNOKIT_ARM_CRATES="${INNOKIT_ARM_CRATES:-}" "$1/$script"
    ' bash "$cache/arm" "$script" "$PWD" "$cargo_home" "$target_dir"
}
