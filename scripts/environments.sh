# Python's virtual environments, kept in the user's cache; sourced by scripts that need them, after scripts/debian.sh.
# shellcheck shell=bash
readonly recipe=1 # raise it when environments must be made again although their lists of packages are the same
readonly home="${INNOKIT_SERVERS:-$HOME/.cache/innokit}/ecosystem"

# environment NAME PACKAGE...: creates it unless it exists and is complete. PYTHON: its interpreter.
environment() {
    local at="$home/$1" log python3="${PYTHON:-python3}"
    shift
    [ "$(cat "$at/.stamp" 2>/dev/null)" != "$recipe $*" ] || return 0
    command -v "$python3" >/dev/null || die "python3 is missing: install the packages python3 and python3-venv"
    rm -rf "$at"
    mkdir -p "$home"
    if ! log="$("$python3" -m venv "$at" 2>&1)"; then
        rm -rf "$at"
        # Debian has venv in a separate package.
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "python3 -m venv fails: install the package python3-venv: $log"
        say "installing python3-venv"
        apt-get -qq install python3-venv >/dev/null || die "python3-venv cannot be installed"
        "$python3" -m venv "$at"
    fi
    say "fetching $*"
    "$at/bin/pip" install --quiet --disable-pip-version-check "$@" || die "pip cannot install $*"
    printf '%s\n' "$recipe $*" >"$at/.stamp"
}

# Tools that build wheels. Exact versions, because others write different bytes. ziglang is Zig, which links against an old glibc.
build_environment() { environment build maturin==1.16.0 ziglang==0.15.2; }
