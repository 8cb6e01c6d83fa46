#!/usr/bin/env bash
# Tests the packages that scripts/dist.sh left in target/packages: test-dist.sh [STEP...]
#
#   sums      SHA256SUMS matches
#   chroots   the .deb in a bare Debian bookworm (glibc 2.36) and a bare bullseye (2.31): install, demo, a real datadir of each server, a
#             man page, an option completed in bash, removal
#   empty     the tarball and the .rpm in directories that hold nothing else
#   image     the Dockerfile, built by Buildah (which needs no service), and the demo in a container of it
#   arm       AArch64's binary under emulation, and its packages' contents
#   again     the same commit built from another directory, with another umask, language and time zone, gives the same bytes
#   speed     not by default: `check` of 5,000 tables, static against dynamic, in pairs (prints ratios, judges nothing)
#
# Needs Debian and root (debootstrap, chroot), and INNOKIT_DATADIRS as `make test` does. `again` takes as long as `make dist`, which is
# why none of this is in .ci/run. Safe to run again: bare systems are kept in ${INNOKIT_SERVERS:-~/.cache/innokit}/packaging.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh

target="$(cd "${CARGO_TARGET_DIR:-target}" && pwd)"
readonly target packages="$target/packages" work="$target/test-dist"
readonly roots="${INNOKIT_SERVERS:-$HOME/.cache/innokit}/packaging/roots"
readonly datadirs="${INNOKIT_DATADIRS:-$target/datadirs}"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
readonly version

# expect WHAT PATTERN FILE: FILE has a line that matches.
expect() { grep -q -- "$2" "$3" || { tail -n 40 "$3" >&2; die "$1: no line matches '$2'"; }; }

sums() { (cd "$packages" && sha256sum --quiet --check SHA256SUMS) && say "sums: $(wc -l <"$packages/SHA256SUMS") files"; }

# bare RELEASE: a minimal Debian, with man and bash-completion as most hosts have them.
bare() {
    local release="$1" site
    [ -e "$roots/$release/.made" ] && return
    needs_debian
    if ! command -v debootstrap >/dev/null; then
        apt-get -qq update || true
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends debootstrap >/dev/null ||
            die "apt could not install debootstrap (is this root?)"
    fi
    say "making a bare $release"
    site="$(sources_for "$release" | awk '$4 == "'"$release"'" { print $3; exit }')"
    rm -rf "${roots:?}/$release"
    mkdir -p "$roots"
    debootstrap --variant=minbase --include=man-db,bash-completion --keyring="$keyring" "$release" "$roots/$release" "$site" \
        >"$roots/$release.log" 2>&1 || { tail -n 20 "$roots/$release.log" >&2; die "debootstrap of $release failed"; }
    touch "$roots/$release/.made"
}

# What a user does, inside the bare system.
# shellcheck disable=SC2016 # the dollars are for the shell inside
readonly as_user='
set -eu
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin MANPAGER=cat
case "$1" in
    install) for tool in cargo rustc; do ! command -v $tool; done; dpkg -i /innokit.deb; dpkg -V innokit; innokit --version; ldd --version | head -n 1 ;;
    demo) innokit demo ;;
    check) innokit check "/datadirs/$2" ;;
    man) man innokit-table-check ;;
    complete)
        . /usr/share/bash-completion/bash_completion
        _completion_loader innokit || [ $? = 124 ] # what it returns when it found the file that the package installed
        COMP_WORDS=(innokit check --nag) COMP_CWORD=2 COMP_LINE="innokit check --nag" COMP_POINT=19
        function="$(complete -p innokit | sed "s/.*-F \([^ ]*\).*/\1/")"
        set +eu
        "$function" innokit --nag check
        echo "completed: ${COMPREPLY[*]}"
        ;;
    remove) dpkg -r innokit; ! command -v innokit; ! ls /usr/share/man/man1/innokit* 2>/dev/null ;;
esac'

# inside ROOT STEP [ARGUMENT]: a step of the script above in that system. Its mounts end with it.
inside() {
    local root="$1"
    shift
    # shellcheck disable=SC2016 # the dollars are for the inner shell
    unshare --mount --pid --fork bash -c 'mount -t proc proc "$1/proc" && exec chroot "$1" /usr/bin/env -i HOME=/root TERM=dumb /bin/bash -c "$2" bash "${@:3}"' \
        bash "$root" "$as_user" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "$(basename "$root"): '$*' failed"; }
}

chroots() {
    local release root name
    for release in bookworm bullseye; do
        bare "$release"
        root="$work/$release"
        rm -rf "$root"
        cp -a "$roots/$release" "$root"
        cp "$packages/innokit_${version}_amd64.deb" "$root/innokit.deb"
        mkdir "$root/datadirs"
        inside "$root" install
        expect install "^innokit $version" "$work/log"
        say "$release, $(tail -n 1 "$work/log"): installed"
        inside "$root" demo
        expect demo 'damaged.ibd: page 5 .*: damage: ' "$work/log"
        for name in mysql-16k mariadb-16k; do
            [ -d "$datadirs/$name" ] || die "no $datadirs/$name: run make datadirs"
            cp -a "$datadirs/$name" "$root/datadirs/$name"
            inside "$root" check "$name"
            expect check '^result .*' "$work/log"
            say "$release, $name: $(grep -E '^(result|pages)' "$work/log" | tr -s ' ' | tr '\n' ' ')"
        done
        inside "$root" man
        expect man '^NAME' "$work/log"
        expect man '--extended' "$work/log"
        inside "$root" complete
        expect complete '^completed: --nagios$' "$work/log"
        inside "$root" remove
        say "$release: demo, man page and completion work; removed without a trace"
        rm -rf "$root"
    done
}

# Runs the binary in a root file system that has nothing else.
empty() {
    local root="$work/empty"
    rm -rf "$root"
    mkdir -p "$root/tmp"
    tar -x -C "$root" -f "$packages/innokit-$version-linux-amd64.tar.gz"
    env -u TMPDIR chroot "$root" "/innokit-$version/bin/innokit" demo >"$work/log" || die "the tarball's binary failed in an empty directory"
    expect demo 'damaged.ibd: page 5 .*: damage: ' "$work/log"
    say "tarball: the demo works in an empty directory"
    rm -rf "$root"
    mkdir -p "$root/tmp"
    rpm --root "$root" --install "$packages/innokit-$version-1.x86_64.rpm" 2>"$work/log" || { cat "$work/log" >&2; die "rpm --install failed"; }
    rpm --root "$root" --verify innokit || die "the .rpm does not verify"
    env -u TMPDIR chroot "$root" /usr/bin/innokit demo >"$work/log" || die "the .rpm's binary failed"
    expect demo 'damaged.ibd: page 5 .*: damage: ' "$work/log"
    say ".rpm: installs, verifies, and the demo works"
    rm -rf "$root"
}

image() {
    local store=(--root "$work/image" --runroot "$work/image-run" --storage-driver vfs) container
    if ! command -v buildah >/dev/null; then
        needs_debian
        apt-get -qq update || true
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends buildah >/dev/null ||
            die "apt could not install buildah (is this root?)"
    fi
    buildah "${store[@]}" bud --isolation chroot --tag innokit "$packages" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "the image failed"; }
    container="$(buildah "${store[@]}" from innokit)"
    # The entry point's words spelled out, because `buildah run` ignores the entry point.
    buildah "${store[@]}" run --isolation chroot "$container" -- "/innokit-$version/bin/innokit" demo >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; die "the demo failed in a container"; }
    expect demo 'damaged.ibd: page 5 .*: damage: ' "$work/log"
    buildah "${store[@]}" inspect innokit >"$work/log"
    expect image "\"/innokit-$version/bin/innokit\"" "$work/log"
    buildah "${store[@]}" rm --all >/dev/null
    buildah "${store[@]}" rmi --all >/dev/null
    rm -rf "$work/image" "$work/image-run"
    say "Dockerfile: the image builds from nothing else, and the demo works in it"
}

arm() {
    local root="$work/arm"
    rm -rf "$root"
    mkdir -p "$root"
    dpkg-deb -x "$packages/innokit_${version}_arm64.deb" "$root"
    [ "$(dpkg-deb -f "$packages/innokit_${version}_arm64.deb" Architecture)" = arm64 ] || die "the .deb is not for arm64"
    [ "$(rpm -qp --qf '%{ARCH}' "$packages/innokit-$version-1.aarch64.rpm")" = aarch64 ] || die "the .rpm is not for aarch64"
    qemu-aarch64 "$root/usr/bin/innokit" demo >"$work/log" || die "AArch64's binary failed"
    expect demo 'damaged.ibd: page 5 .*: damage: ' "$work/log"
    qemu-aarch64 "$root/usr/bin/innokit" check "$datadirs/mysql-16k" >"$work/log" || { cat "$work/log" >&2; die "AArch64: check failed"; }
    say "AArch64, emulated: demo; mysql-16k: $(grep -E '^(result|pages)' "$work/log" | tr -s ' ' | tr '\n' ' ')"
    rm -rf "$root"
}

again() {
    local other="$work/in/another/directory"
    rm -rf "$other"
    mkdir -p "$other"
    git clone --quiet --no-hardlinks . "$other"
    (
        umask 077
        CARGO_TARGET_DIR="$other/target" TZ=Pacific/Auckland LC_ALL=C.UTF-8 "$other/scripts/dist.sh" >"$work/log" 2>&1
    ) || { tail -n 20 "$work/log" >&2; die "the second build failed"; }
    diff "$packages/SHA256SUMS" "$other/target/packages/SHA256SUMS" >&2 || die "the second build has other bytes"
    say "again: $(wc -l <"$packages/SHA256SUMS") files have the same bytes"
    rm -rf "$other"
}

# median: of the numbers on standard input.
median() { sort -g | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# seconds COMMAND...: wall and processor seconds of one run.
seconds() {
    local TIMEFORMAT='%R %U %S'
    { time "$@" >"$work/log" 2>&1; } 2>&1 | awk '{ print $1, $2 + $3 }'
}

speed() {
    local tables="$work/tables" build="$target/packaging/build" pair one order
    (cd "$target/packaging/source" && env -u RUSTFLAGS CARGO_TARGET_DIR="$build" \
        cargo build --quiet --locked --profile dist -p innokit --target x86_64-unknown-linux-gnu)
    local -A binary=([static]="$build/x86_64-unknown-linux-musl/dist/innokit" [dynamic]="$build/x86_64-unknown-linux-gnu/dist/innokit") took=()
    rm -rf "$tables"
    mkdir -p "$tables"
    zstd -q -d -c fixtures/mysql-9.7/dynamic-16k.ibd.zst >"$work/table.ibd"
    for one in $(seq 5000); do cp --reflink=auto "$work/table.ibd" "$tables/t$one.ibd"; done
    for pair in $(seq "${PAIRS:-15}"); do
        order="static dynamic"
        [ $((pair % 2)) = 0 ] || order="dynamic static" # a drift of the machine's speed then favours neither
        for one in $order; do took[$one]="$(seconds "${binary[$one]}" check "$tables")"; done
        echo "${took[static]} ${took[dynamic]}"
    done >"$work/pairs"
    say "speed: static/dynamic, medians of ${PAIRS:-15} pairs: wall $(awk '{ print $1 / $3 }' "$work/pairs" | median)," \
        "processor $(awk '{ print $2 / $4 }' "$work/pairs" | median)"
    rm -rf "$tables"
}

main() {
    local step
    [ "$(id -u)" = 0 ] || die "chroot needs root"
    [ -e "$packages/SHA256SUMS" ] || die "no packages: run make dist"
    mkdir -p "$work"
    [ $# -gt 0 ] || set -- sums chroots empty image arm again
    for step in "$@"; do
        case "$step" in
            sums | chroots | empty | image | arm | again | speed) "$step" ;;
            *) die "no step '$step': see this script's head" ;;
        esac
    done
}

main "$@"
