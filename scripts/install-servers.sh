#!/usr/bin/env bash
# Fetches the two real servers that tests, fixtures and benchmarks use:
#   MySQL 9.7 from Debian sid, MariaDB 10.11 from Debian bookworm.
#
# Each server is unpacked, not installed, into ${INNOKIT_SERVERS:-~/.cache/innokit}/{mysql,mariadb}, with every library that
# it links to, its own C library included. scripts/server.sh starts it through that tree's own loader, so that two releases
# of Debian live side by side on any host that has apt: no chroot, no mounts, no service, nothing of the host is changed,
# and no root is needed. The mirror is the one that the host's own apt uses.
#
# Safe to run again: a finished tree has a stamp and is left alone, an interrupted one is resumed from the packages it has.
set -euo pipefail

readonly root="${INNOKIT_SERVERS:-$HOME/.cache/innokit}"
readonly recipe=1 # raise it when the lists below change: older trees are then made anew
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'install-servers: %s\n' "$*"; }
die() { printf 'install-servers: %s\n' "$*" >&2; exit 2; }

# "SITE RELEASE" of each main component in the host's sources. Third parties' are weeded out by the signature.
host_sources() {
    # --no-release-info: a bare machine has sources, but no lists yet.
    # shellcheck disable=SC2016 # the dollars are for apt
    apt-get indextargets --no-release-info --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk '$3 == "main" { print $1, $2 }' | sort -u
}

# Prints sources.list lines for the release $1, from the host's mirrors.
sources_for() {
    local want="$1" codename site release
    # shellcheck source=/dev/null
    codename="$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")"
    while read -r site release; do
        case "$release" in
            "$codename") printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$site" "$want" ;;
            "$codename"-security | "$codename"-updates)
                # sid has neither.
                [ "$want" = sid ] || printf 'deb [signed-by=%s] %s %s%s main\n' "$keyring" "$site" "$want" "${release#"$codename"}"
                ;;
        esac
    done < <(host_sources)
}

# Writes an apt configuration of its own below $1 for the release $2: it knows of no installed package, so that every
# dependency is fetched, and keeps its lists and packages in that folder.
private_apt() {
    local apt="$1" release="$2"
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    sources_for "$release" >"$apt/sources.list"
    [ -s "$apt/sources.list" ] || die "apt on this host names no Debian mirror; is this Debian?"
    # Of the host's configuration only the way out to the mirror counts; its hooks are for its own folders.
    apt-config dump | grep -E '^Acquire::(http|https)' >"$apt/apt.conf" || true
    cat >>"$apt/apt.conf" <<CONF
Dir::Etc::Parts "/dev/null";
Dir::Etc::Main "/dev/null";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Sandbox::User "";
APT::Install-Recommends "false";
APT::Get::Assume-Yes "true";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
}

# fetch NAME RELEASE "packages with all they need" "packages alone"
fetch() {
    local name="$1" release="$2" with_libraries="$3" alone="$4"
    local tree="$root/$name" apt="$root/apt/$name" stamp="$root/$name/.stamp" deb
    if [ "$(cat "$stamp" 2>/dev/null)" = "$recipe" ]; then
        return 0
    fi
    say "$name: reading Debian's $release package lists"
    private_apt "$apt" "$release"
    APT_CONFIG="$apt/apt.conf" apt-get -qq update 2>"$apt/update.log" || true # what matters is missed below
    say "$name: fetching packages"
    # shellcheck disable=SC2086 # both are lists of words
    APT_CONFIG="$apt/apt.conf" apt-get -qq install --download-only $with_libraries >/dev/null ||
        die "$name: apt could not fetch $with_libraries; $(cat "$apt/update.log")"
    if [ -n "$alone" ]; then
        # shellcheck disable=SC2086
        (cd "$apt/cache/archives" && APT_CONFIG="$apt/apt.conf" apt-get -qq download $alone >/dev/null) ||
            die "$name: apt could not fetch $alone"
    fi
    # An interrupted run may have left packages that the mirror has replaced since.
    APT_CONFIG="$apt/apt.conf" apt-get -qq autoclean >/dev/null
    say "$name: unpacking"
    rm -rf "$tree.new"
    # usr-merge first: packages of either layout then land in the same folders.
    mkdir -p "$tree.new/usr/bin" "$tree.new/usr/sbin" "$tree.new/usr/lib" "$tree.new/usr/lib64"
    local dir
    for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$tree.new/$dir"; done
    for deb in "$apt"/cache/archives/*.deb; do
        # tar by way of dpkg-deb keeps the links above; dpkg-deb -x would replace them by folders.
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tree.new" --keep-directory-symlink --no-same-owner \
            --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
    done
    printf '%s\n' "$recipe" >"$tree.new/.stamp"
    rm -rf "$tree"
    mv "$tree.new" "$tree"
    rm -rf "$apt"
    say "$name: ready in $tree"
}

main() {
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        die "apt-get and dpkg-deb are needed: run this on Debian (bookworm or later) or in a container of it"
    fi
    [ -r "$keyring" ] || die "$keyring is missing: install the package debian-archive-keyring"
    mkdir -p "$root"
    exec 9>"$root/.lock"
    flock 9 # two runs at once: the second finds the work done
    fetch mysql sid "mysql-server-core mysql-client-core" ""
    fetch mariadb bookworm \
        "mariadb-server-core mariadb-client-core mariadb-backup liblz4-1 liblzo2-2 libsnappy1v5 libbz2-1.0 liblzma5" \
        "mariadb-server mariadb-plugin-provider-bzip2 mariadb-plugin-provider-lz4 mariadb-plugin-provider-lzma mariadb-plugin-provider-lzo mariadb-plugin-provider-snappy"
}

main "$@"
