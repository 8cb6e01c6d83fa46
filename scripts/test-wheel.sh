#!/usr/bin/env bash
# Tests the wheel of the last commit: test-wheel.sh [quick]
#
# - Built twice, in two folders, with another umask, language and time zone, it has the same bytes; so has the one for AArch64.
# - It needs no newer glibc than its tag says.
# - The one for AArch64 reads a table in Debian's Python for that processor, under emulation. It takes root to install the emulator.
# - It installs in a clean virtual environment and in a bare Debian bookworm, without an index, and reads a table there. The bare system takes
#   Debian's apt and root; without them this part is left out, and says so.
# - Its library finds every libc symbol in glibc 2.31 too, if scripts/install-servers.sh has fetched a server with that version.
#
# quick: the files of the work tree, compiled as the tests are and mostly with them: every crate is compiled for both at once. It is for this
# machine only, so what is said of glibc is left out. It is kept in target/wheels-test, where scripts/test-ecosystem.sh takes it from, and made
# anew unless it is of the same commit without changes. A second run waits for the first.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=scripts/environments.sh
. scripts/environments.sh
# shellcheck source=scripts/arm.sh
. scripts/arm.sh

target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd -P)"
readonly target work="$target/test-wheel"
# Processors to build for, by Rust's names; this machine's is the first.
architectures=("$(uname -m)")

# build FOLDER: the wheels of a clone there.
build() {
    mkdir -p "$1"
    git clone --quiet --no-hardlinks . "$1/clone"
    CARGO_TARGET_DIR="$1/target" "$1/clone/scripts/wheel.sh" "${architectures[@]}" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "the build in $1 failed"; }
}

# build_with_tests: the wheel around what `make test` compiles. maturin asks cargo for a library of a given profile; the wrapper answers with the
# one of the tests' build.
build_with_tests() {
    mkdir -p "$work/one/target/wheels"
    cat >"$work/cargo" <<END
#!/usr/bin/env bash
[ "\$1" = rustc ] || exec cargo "\$@"
CARGO=cargo exec "$PWD/scripts/build.sh" --message-format json-render-diagnostics
END
    chmod +x "$work/cargo"
    CARGO="$work/cargo" "$home/build/bin/maturin" build --quiet --manifest-path python/Cargo.toml --profile dev --locked --compatibility linux \
        --out "$work/one/target/wheels" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "maturin failed"; }
}

again() {
    local architecture
    say "building each wheel again"
    (umask 077; TZ=Pacific/Auckland LC_ALL=C.UTF-8 build "$work/in/another/directory")
    for architecture in "${architectures[@]}"; do
        take "$architecture"
        cmp "$wheel" "$work/in/another/directory/target/wheels/$(basename "$wheel")" || die "the second build has other bytes"
        say "again: $(basename "$wheel") has the same bytes"
    done
}

# take ARCHITECTURE: its wheel and the library in it, for the tests that follow.
take() {
    wheel="$(echo "$work"/one/target/wheels/innokit-*"_$1.whl")"
    rm -rf "$work/library"
    "$home/build/bin/python" -m zipfile -e "$wheel" "$work/library"
    library="$work/library/innokit/_innokit.abi3.so"
}

# newest_glibc: the newest glibc version that the library requires.
newest_glibc() {
    readelf --version-info --wide "$library" | grep -o 'GLIBC_[0-9.]*' | cut -c 7- | sort -uV | tail -n 1
}

# fits TAG: whether a system with this tag has everything that the library requires.
fits() {
    local allowed="${1#manylinux_}"
    [ "$(printf '%s\n' "${allowed/_/.}" "$(newest_glibc)" | sort -V | tail -n 1)" = "${allowed/_/.}" ]
}

tag() {
    local tag unknown
    tag="$(grep -o 'manylinux_[0-9]*_[0-9]*' <<<"$(basename "$wheel")" | head -n 1)"
    [ -n "$(newest_glibc)" ] || die "the library asks for no version of glibc: is it read right?"
    fits "$tag" || die "tagged $tag, but needs glibc $(newest_glibc)"
    ! fits manylinux_2_4 || die "the library needs glibc $(newest_glibc), and is said to run with 2.4: this check is of no use"
    # Libraries that every Linux with glibc has. Python itself is not linked: the process provides it.
    unknown="$(readelf --dynamic --wide "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -Ev '^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-x86-64|ld-linux-aarch64)\.so\.[0-9]+$' || :)"
    [ -z "$unknown" ] || die "the library needs $unknown, which not every system has"
    say "tag: $tag; the library needs glibc $(newest_glibc)"
}

# An older system's loader refuses a library that requires newer versions before it looks up any symbol.
old_glibc() {
    local tree="$home/../mariadb105/usr/lib/x86_64-linux-gnu" missing
    if [ ! -e "$tree/ld-linux-x86-64.so.2" ]; then say "older glibc: none here, not tried"; return; fi
    "$tree/ld-linux-x86-64.so.2" --library-path "$tree" --list "$library" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; die "an older glibc does not load the library"; }
    missing="$(grep -E 'not found|GLIBC' "$work/log" || :)"
    [ -z "$missing" ] || die "with an older glibc: $missing"
    # The library itself prints its version; its loader learnt to do so only later.
    say "older glibc: loaded by $("$tree/ld-linux-x86-64.so.2" --library-path "$tree" "$tree/libc.so.6" | head -n 1)"
}

# What a user does, in the folder $1 with the wheel and a table: the shortest session of docs/python.md.
# shellcheck disable=SC2016 # the dollars are for the shell inside
readonly as_user='
set -eu
cd "$1"
python3 -m venv clean
clean/bin/pip install --quiet --disable-pip-version-check --no-index ./innokit-*.whl
clean/bin/pip check --disable-pip-version-check
clean/bin/python -c "
import innokit
table = innokit.open(\"blobs.ibd\").table(\"fx.blobs\")
assert table.count() == 18, table.count()
assert type(table.scan().__arrow_c_stream__()).__name__ == \"PyCapsule\"
assert innokit.check(\"blobs.ibd\").ok
print(innokit.__file__, innokit.__version__)
"
clean/bin/innokit demo | grep "damaged.ibd: page 5 .*: damage: "
clean/bin/python -m innokit table count blobs.ibd
'

# lay FOLDER: the wheel and a table of 18 rows.
lay() {
    rm -rf "$1"
    mkdir -p "$1"
    cp "$wheel" "$1"
    zstd -q -d -c fixtures/mysql-9.7/blobs-16k.ibd.zst >"$1/blobs.ibd"
}

venv() {
    lay "$work/user"
    env -i PATH="$PATH" HOME="$work/user" sh -c "$as_user" sh "$work/user" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; die "in a clean virtual environment: failed"; }
    say "venv: $(python3 --version): installed and works"
}

# make_bare ARCHITECTURE TREE: Debian's Python and nothing else, unpacked. The architecture has Debian's name.
make_bare() {
    local apt="$home/apt-bookworm" bare="$2"
    [ ! -e "$bare/.made" ] || return 0
    say "fetching a bare bookworm with Python for $1"
    rm -rf "$apt"
    private_apt "$apt" bookworm
    printf 'APT::Architecture "%s"; APT::Architectures { "%s"; };\n' "$1" "$1" >>"$apt/apt.conf"
    APT_CONFIG="$apt/apt.conf" apt-get -qq update 2>"$apt/update.log" || true
    APT_CONFIG="$apt/apt.conf" apt-get -qq install --download-only bash coreutils grep python3 python3-venv >/dev/null ||
        die "apt could not fetch Python; $(cat "$apt/update.log")"
    unpack "$apt" "$bare"
    ln -sf bash "$bare/usr/bin/sh"
    mkdir -p "$bare/dev" "$bare/tmp"
    rm -rf "$apt"
    touch "$bare/.made"
}

chroots() {
    local root="$work/bookworm"
    if [ "$(id -u)" != 0 ] || [ ! -r "$keyring" ]; then say "chroot: left out, because it takes root and Debian's apt"; return; fi
    # Bookworm's glibc. A wheel for users needs less, what is built for this machine may need more.
    if ! fits manylinux_2_36; then say "chroot: left out, because this machine's glibc is newer than bookworm's"; return; fi
    make_bare "$(dpkg --print-architecture)" "$home/bookworm"
    rm -rf "$root"
    cp -a "$home/bookworm" "$root"
    lay "$root/user"
    # shellcheck disable=SC2016 # the dollars are for the inner shell
    unshare --mount --pid --fork bash -c '
        mkdir -p "$1/proc"; mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"
        exec chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/user /bin/sh -c "$2" sh /user
    ' bash "$root" "$as_user" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "in a bare system: failed"; }
    say "chroot: bare bookworm, $(grep -o '/user/clean.*' "$work/log" | head -n 1): installed and works"
    rm -rf "$root"
}

# The emulator runs one program at a time, so there is no pip: the wheel is unpacked.
arm() {
    local tree="$home/bookworm-arm64"
    take aarch64
    tag
    install_arm_tools
    make_bare arm64 "$tree"
    lay "$work/user"
    PYTHONHOME="$tree/usr" PYTHONPATH="$work/library" qemu-aarch64 -L "$tree" "$tree"/usr/bin/python3.[0-9]* -c '
import platform, sys
import innokit
table = innokit.open(sys.argv[1]).table("fx.blobs")
assert table.count() == 18, table.count()
assert innokit.check(sys.argv[1]).ok
print(platform.machine(), innokit.__version__)
' "$work/user/blobs.ibd" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "on AArch64: failed"; }
    say "AArch64, under emulation: $(cat "$work/log"): works"
}

case "${1:-}" in
    "") [ "$(uname -m)" = aarch64 ] || architectures+=(aarch64) ;;
    quick) ;;
    *) die "no '$1': see this script's head" ;;
esac
if ! command -v zstd >/dev/null; then
    needs_debian
    apt-get -qq install -y zstd >/dev/null || die "apt could not install zstd (is this root?)"
fi
if [ "${1:-}" = quick ]; then
    exec 9>"$target/wheels-test.lock"
    flock 9
    commit="$(git rev-parse HEAD)"
    [ -z "$(git status --porcelain)" ] || commit="changed since $commit, $(date)"
    if [ "$(cat "$target/wheels-test/commit" 2>/dev/null)" = "$commit" ]; then
        say "the wheel of this commit is there"
        exit 0
    fi
fi
rm -rf "$work"
mkdir -p "$work"
build_environment
say "building: ${architectures[*]}"
if [ "${1:-}" = quick ]; then
    build_with_tests
    take "${architectures[0]}"
else
    build "$work/one"
    again
    take "${architectures[0]}"
    tag
    old_glibc
fi
venv
chroots
[ ${#architectures[@]} = 1 ] || arm
if [ "${1:-}" = quick ]; then
    rm -rf "$target/wheels-test"
    mkdir "$target/wheels-test"
    cp "$wheel" "$target/wheels-test"
    printf '%s\n' "$commit" >"$target/wheels-test/commit"
fi
rm -rf "$work"
