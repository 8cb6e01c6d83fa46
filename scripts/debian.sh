# Debian's packages without installing them; sourced by the scripts that need a tree of them.
# shellcheck shell=bash
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
die() { say "$*" >&2; exit 2; }

needs_debian() {
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        die "apt-get and dpkg-deb are needed: run this on Debian (bookworm or later) or in a container of it"
    fi
    [ -r "$keyring" ] || die "$keyring is missing: install the package debian-archive-keyring"
}

# "SITE RELEASE" of each main component in the host's sources. The signature check drops third parties.
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
    # Of the host's configuration, only proxy and mirror settings apply; its hooks are for its own folders.
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

# Unpacks every package that the private apt $1 has fetched into the new tree $2. No script of a package is run.
unpack() {
    local apt="$1" tree="$2" dir deb
    rm -rf "$tree"
    # usr-merge first: packages of either layout then land in the same folders.
    mkdir -p "$tree/usr/bin" "$tree/usr/sbin" "$tree/usr/lib" "$tree/usr/lib64"
    for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$tree/$dir"; done
    for deb in "$apt"/cache/archives/*.deb; do
        # tar by way of dpkg-deb keeps the links above; dpkg-deb -x would replace them by folders.
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tree" --keep-directory-symlink --no-same-owner \
            --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
    done
}
