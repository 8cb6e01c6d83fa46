#!/usr/bin/env bash
# Builds the packages of the last commit, for x86-64 and AArch64, into target/packages: a tarball, a .deb and an .rpm each with a static
# binary, a Dockerfile, an SBOM each, the licences of all dependencies, and SHA256SUMS over all of it. docs/install.md describes them.
#
# The same commit gives the same bytes, wherever the clone is: the source is what git has of the commit, every date is the commit's,
# paths are mapped to fixed ones, and every order and owner is fixed too. The compilers must be the same, so SHA256SUMS is of a release's
# machine. Host: x86-64 Debian (or a container of it) with rustup. What is missing is installed: targets by rustup, tools by apt (as
# root), cargo-cyclonedx into ${INNOKIT_SERVERS:-~/.cache/innokit}/packaging. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=scripts/arm.sh
. scripts/arm.sh

target="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
readonly target version
readonly work="$target/packaging" packages="$target/packages" tools="$cache/packaging"
readonly source="$work/source"
readonly tools_recipe=1 # raise it when a version below changes
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

# The names of one architecture: Debian's, which Docker uses too, and Rust's, which is RPM's as well.
readonly architectures="amd64 arm64"
rust_name() { case "$1" in amd64) echo x86_64 ;; arm64) echo aarch64 ;; esac; }
triple() { echo "$(rust_name "$1")-unknown-linux-musl"; }

install_tools() {
    local arch
    [ "$(uname -m)" = x86_64 ] || die "the packages are built on x86-64: AArch64's compiler is Debian's cross compiler"
    for arch in $architectures; do
        has_target "$(triple "$arch")" || die "no standard library for $(triple "$arch"): rustup could not add it"
    done
    install_arm_tools
    if ! command -v rpmbuild >/dev/null || ! command -v xz >/dev/null || ! command -v jq >/dev/null; then
        needs_debian
        say "installing rpmbuild, xz and jq"
        apt-get -qq update || true
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends rpm xz-utils jq >/dev/null ||
            die "apt could not install rpm, xz-utils and jq (is this root?)"
    fi
    [ "$(cat "$tools/.stamp" 2>/dev/null)" = "$tools_recipe" ] && return
    install_cyclonedx
    fetch_musl
    printf '%s\n' "$tools_recipe" >"$tools/.stamp"
}

# Built without optimisation: it runs for a second, and optimising would take many times longer.
install_cyclonedx() {
    say "building cargo-cyclonedx"
    env -u RUSTFLAGS CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_TARGET_DIR="$work/tools" cargo install --quiet --locked --root "$tools" cargo-cyclonedx@0.5.9
    rm -rf "$work/tools"
}

# musl's headers for the dependencies written in C. The library itself comes with Rust's target.
fetch_musl() {
    local apt="$cache/apt/musl" arch deb
    needs_debian
    say "fetching musl's headers"
    private_apt "$apt" bookworm
    printf 'APT::Architectures { "amd64"; "arm64"; };\n' >>"$apt/apt.conf"
    APT_CONFIG="$apt/apt.conf" apt-get -qq update 2>"$apt/update.log" || true
    (cd "$apt/cache/archives" && APT_CONFIG="$apt/apt.conf" apt-get -qq download musl-dev:amd64 musl-dev:arm64 >/dev/null) ||
        die "apt could not fetch musl-dev; $(cat "$apt/update.log")"
    for arch in $architectures; do
        for deb in "$apt"/cache/archives/musl-dev_*_"$arch".deb; do
            dpkg-deb -x "$deb" "$tools/musl-$arch"
        done
    done
    rm -rf "$apt"
}

# The source is the commit, not the work tree: nobody else could build uncommitted changes.
export_source() {
    [ -z "$(git status --porcelain)" ] || say "uncommitted changes are left out"
    rm -rf "$source"
    mkdir -p "$source"
    # -m: files are as new as this run, so that cargo never takes an older build for up to date.
    git archive HEAD | tar -x -m -C "$source"
}

# build ARCH
build() {
    local arch="$1" triple name flags cflags gcc sysroot
    triple="$(triple "$arch")"
    name="${triple//-/_}"
    gcc=gcc
    [ "$arch" = amd64 ] || gcc=aarch64-linux-gnu-gcc
    sysroot="$(rustc --print sysroot)"
    flags="--remap-path-prefix=$source=/innokit --remap-path-prefix=$work=/build --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
    flags+=" --remap-path-prefix=$sysroot=/rust -Clink-arg=-Wl,--build-id=none"
    # musl's headers instead of glibc's. No outline atomics: their start code in libgcc asks glibc for the processor's features.
    cflags="-nostdinc -isystem $tools/musl-$arch/usr/include/$(rust_name "$arch")-linux-musl"
    cflags+=" -isystem $($gcc -print-file-name=include) -ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo -ffile-prefix-map=$work=/build"
    [ "$arch" = amd64 ] || cflags+=" -mno-outline-atomics"
    say "building for $triple"
    (
        cd "$source"
        export RUSTFLAGS="$flags" "CFLAGS_$name=$cflags" "CC_$name=$gcc" CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$work/build"
        export "CARGO_TARGET_${name^^}_LINKER=$gcc"
        cargo build --quiet --locked --profile dist -p innokit --target "$triple"
    )
}

binary() { echo "$work/build/$(triple "$1")/dist/innokit"; }

# describe ARCH: the SBOM, as CycloneDX, of what is linked for it. The tool writes beside the manifest.
describe() {
    local arch="$1"
    (
        cd "$source"
        PATH="$tools/bin:$PATH" cargo cyclonedx --quiet --format json --spec-version 1.5 --describe binaries --target "$(triple "$arch")" \
            --manifest-path crates/innokit/Cargo.toml
        # It names our own crates by their folder.
        sed "s,file://$source,file:///innokit,g" crates/innokit/innokit_bin.cdx.json >"$packages/innokit-$version-linux-$arch.cdx.json"
    )
}

# Every crate that is linked for either processor, a line each: name, version, licence, repository, folder.
linked_crates() {
    local arch targets=()
    for arch in $architectures; do targets+=(--target "$(triple "$arch")"); done
    (
        cd "$source"
        cargo tree --quiet --locked -p innokit "${targets[@]}" -e normal,no-proc-macro --prefix none --format '{p}' |
            awk '{ print $1 "\t" substr($2, 2) }' | sort -u >"$work/linked"
        cargo metadata --quiet --locked --format-version 1 | jq -r '.packages[] | [.name, .version, .license // .license_file,
            .repository // "", (.manifest_path | rtrimstr("/Cargo.toml"))] | @tsv' | sort >"$work/metadata"
    )
    awk -F '\t' 'NR == FNR { linked[$1, $2]; next } ($1, $2) in linked && $1 !~ /^innokit/' "$work/linked" "$work/metadata"
}

# licence_files FOLDER: the licence files of a crate, and of the C code that it bundles.
licence_files() {
    find "$1" -maxdepth 4 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'copyright*' -o -iname 'notice*' \
        -o -iname 'unlicense*' -o -path '*/LICENSES/*' \) | sort
}

# The licence texts of the crates, of Rust's standard library and of musl, each text once.
collect_licences() {
    local out="$work/THIRD-PARTY-LICENSES" name crate_version licence repository folder file sum sums
    rm -rf "$out"
    mkdir -p "$out/texts"
    printf 'What the binary of innokit %s is linked with. The texts of each licence are in texts/.\n\n' "$version" >"$out/README.txt"
    while IFS=$'\t' read -r name crate_version licence repository folder; do
        sums=""
        while read -r file; do
            sum="$(sha256sum "$file" | cut -c 1-12)"
            [[ " $sums" == *" $sum "* ]] || sums+="$sum "
            [ -e "$out/texts/$sum.txt" ] || cp "$file" "$out/texts/$sum.txt"
        done < <(licence_files "$folder")
        [ -n "$sums" ] || die "$name $crate_version comes without the text of its licence ($licence)"
        printf '%s %s: %s\n    %s\n    texts: %s\n' "$name" "$crate_version" "$licence" "$repository" "${sums% }" >>"$out/README.txt"
    done < <(linked_crates)
    cp "$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" "$out/rust-standard-library.html"
    cp "$tools/musl-amd64/usr/share/doc/musl-dev/copyright" "$out/musl.txt"
    printf "Rust's standard library: rust-standard-library.html\nmusl: musl.txt\n" >>"$out/README.txt"
}

# stage ARCH: the tree /usr that every package of this architecture holds.
stage() {
    local arch="$1" usr="$work/stage-$1/usr" doc page x86
    x86="$(binary amd64)" # pages and completions do not depend on the processor
    rm -rf "$work/stage-$arch"
    doc="$usr/share/doc/innokit"
    mkdir -p "$usr/bin" "$usr/share/man/man1" "$usr/share/bash-completion/completions" "$usr/share/zsh/site-functions" \
        "$usr/share/fish/vendor_completions.d" "$usr/lib/systemd/system" "$doc/docs" "$doc/contrib"
    install -m 755 "$(binary "$arch")" "$usr/bin/innokit"
    "$x86" man --dir "$usr/share/man/man1"
    for page in "$usr"/share/man/man1/*.1; do gzip -9n "$page"; done
    "$x86" completions bash >"$usr/share/bash-completion/completions/innokit"
    "$x86" completions zsh >"$usr/share/zsh/site-functions/_innokit"
    "$x86" completions fish >"$usr/share/fish/vendor_completions.d/innokit.fish"
    cp "$source"/contrib/systemd/* "$usr/lib/systemd/system/"
    cp "$source"/{README.md,CHANGELOG.md,LICENSE-APACHE,LICENSE-MIT} "$doc/"
    cp "$source"/docs/*.md "$doc/docs/"
    cp -r "$source"/contrib/{cron,nagios,prometheus} "$doc/contrib/"
    cp -r "$work/THIRD-PARTY-LICENSES" "$doc/"
    cp "$packages/innokit-$version-linux-$arch.cdx.json" "$doc/sbom.cdx.json"
    cp "$source/contrib/packaging/copyright" "$doc/copyright"
    settle "$work/stage-$arch"
}

# Every file of a tree gets the commit's date and the modes of a package.
settle() {
    chmod -R u=rwX,go=rX "$1"
    find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# tarball ARCH: /usr, as a folder of its own; also what the Dockerfile adds, which is why its name has Docker's word for ARCH.
tarball() {
    local arch="$1" top="$work/tar-$1"
    rm -rf "$top"
    mkdir -p "$top"
    cp -a "$work/stage-$arch/usr" "$top/innokit-$version"
    # It is unpacked below /usr/local, and the packages below /usr.
    sed -i 's,^ExecStart=/usr/bin/,ExecStart=/usr/local/bin/,' "$top/innokit-$version/lib/systemd/system/innokit-check@.service"
    settle "$top"
    tar -C "$top" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -c "innokit-$version" |
        gzip -9n >"$packages/innokit-$version-linux-$arch.tar.gz"
}

# The total size of a tree's files. Not du, which also counts folders.
kilobytes() { find "$1" -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }'; }

# debian_package ARCH
debian_package() {
    local arch="$1" root="$work/deb-$1"
    rm -rf "$root"
    cp -a "$work/stage-$arch" "$root"
    mkdir "$root/usr/share/zsh/vendor-completions"
    mv "$root/usr/share/zsh/site-functions/_innokit" "$root/usr/share/zsh/vendor-completions/"
    rmdir "$root/usr/share/zsh/site-functions"
    gzip -9n "$root/usr/share/doc/innokit/CHANGELOG.md"
    mkdir "$root/DEBIAN"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$(kilobytes "$root/usr")/" \
        "$source/contrib/packaging/control" >"$root/DEBIAN/control"
    settle "$root"
    # xz, because the dpkg of older releases has no zstd; one thread, because more of them cut the data where the host has cores.
    dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$root" "$packages/innokit_${version}_$arch.deb" >/dev/null
}

# rpm_package ARCH
rpm_package() {
    local arch="$1" top="$work/rpm-$1" cpu
    cpu="$(rust_name "$arch")"
    rm -rf "$top"
    mkdir -p "$top"
    rpmbuild --quiet -bb --target "$cpu-linux" --define "_topdir $top" --define "_rpmdir $packages" \
        --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define "stage $work/stage-$arch" \
        --define "innokit_version $version" "$source/contrib/packaging/innokit.spec" >"$top/log" 2>&1 || { cat "$top/log" >&2; return 1; }
}

main() {
    local arch
    install_tools
    export_source
    rm -rf "$packages"
    mkdir -p "$packages" "$work"
    for arch in $architectures; do
        build "$arch"
        describe "$arch"
    done
    collect_licences
    for arch in $architectures; do
        stage "$arch"
        tarball "$arch"
        debian_package "$arch"
        rpm_package "$arch"
    done
    sed "s/@VERSION@/$version/g" "$source/contrib/packaging/Dockerfile" >"$packages/Dockerfile"
    (cd "$packages" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
    say "done: $packages"
    ls -l "$packages"
}

main "$@"
