#!/usr/bin/env bash
# Builds Python wheels of the last commit into target/wheels: wheel.sh [x86_64] [aarch64]. Without an argument, for this machine's processor.
# docs/python.md says how to install them.
#
# The same commit gives the same bytes, wherever the clone is: the source is what git has of the commit, every date is the commit's, and
# paths are mapped to fixed ones. scripts/test-wheel.sh tests that. The compilers must be the same. Needs Python and Rust; maturin and
# Zig are fetched from PyPI into ${INNOKIT_SERVERS:-~/.cache/innokit}/ecosystem. Neither root nor a container. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=scripts/environments.sh
. scripts/environments.sh
# shellcheck source=scripts/arm.sh
. scripts/arm.sh

target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd -P)"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
readonly target work="$target/wheel" wheels="$target/wheels"
readonly source="$work/source"
# The oldest glibc that Rust's standard library supports. Zig links against it, however new this machine's is.
readonly tag=manylinux_2_17
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

# The source is the commit, not the work tree: nobody else could build uncommitted changes.
export_source() {
    [ -z "$(git status --porcelain)" ] || say "uncommitted changes are left out"
    rm -rf "$source"
    mkdir -p "$source"
    # -m: files are as new as this run, so that cargo never takes an older build for up to date.
    git archive HEAD | tar -x -m -C "$source"
    cp "$source"/LICENSE-* "$source/python"
}

# build ARCHITECTURE, by Rust's name
build() {
    local triple="$1-unknown-linux-gnu" cargo_home="${CARGO_HOME:-$HOME/.cargo}" flags
    has_target "$triple" || die "no standard library for $triple: rustup could not add it"
    flags="--remap-path-prefix=$work=/build --remap-path-prefix=$source=/innokit --remap-path-prefix=$cargo_home=/cargo"
    flags+=" --remap-path-prefix=$(rustc --print sysroot)=/rust -Clink-arg=-Wl,--build-id=none"
    say "building for $tag, $1"
    rm -rf "$work/out"
    (
        cd "$source/python"
        export RUSTFLAGS="$flags" "CFLAGS_${triple//-/_}=-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$work=/build"
        export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$work/build"
        # maturin finds Zig as a module of the first interpreter in PATH.
        PATH="$home/build/bin:$PATH" maturin build --quiet --profile dist --locked --zig --target "$triple" --compatibility "$tag" --out "$work/out"
    )
}

main() {
    local architecture
    [ $# -gt 0 ] || set -- "$(uname -m)"
    for architecture in "$@"; do
        case "$architecture" in x86_64 | aarch64) ;; *) die "no wheels are built for $architecture" ;; esac
    done
    build_environment
    export_source
    rm -rf "$wheels"
    mkdir -p "$wheels"
    for architecture in "$@"; do
        build "$architecture"
        "$home/build/bin/python" scripts/settle-wheel.py "$work"/out/innokit-*.whl "$wheels" "$source" "$work" "${CARGO_HOME:-$HOME/.cargo}"
    done
    say "done: $(echo "$wheels"/*.whl)"
}

main "$@"
