#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what building and testing coissue needs and this machine lacks. Known systems: those with apt-get (Debian 12,
# Ubuntu 24.04). Elsewhere it says what is missing and stops. Nothing is touched when everything is there.
#
#   scripts/deps.sh [--check]      --check: only say what is missing; exit status 1 if anything is
set -euo pipefail

# What is looked for, the Debian package that has it, and why it is needed.
wanted=(
    "command:cc|gcc|the compiler"
    "header:stdio.h|libc6-dev|the C library's headers"
    "command:meson|meson|the build system"
    "command:ninja|ninja-build|runs the build"
    "command:pkg-config|pkg-config|finds the libraries below"
    "command:python3|python3|scripts that check the tree and sum up tests"
    "python:ensurepip|python3-venv|tests run Python programs that others wrote, from an environment of their own"
    "command:readelf|binutils|checks of the built library"
    "pc:criterion|libcriterion-dev|unit tests"
    "pc:jansson|libjansson-dev|the command, the demo and tests read JSON"
    "pc:liblz4|liblz4-dev|the simulated device unpacks kernel images"
    "pc:libzstd|libzstd-dev|the simulated device unpacks kernel images"
)

have()
{
    local what=${1#*:}
    case $1 in
        command:*) command -v "$what" >/dev/null ;;
        python:*) python3 -c "import $what" 2>/dev/null ;;
        pc:*) command -v pkg-config >/dev/null && pkg-config --exists "$what" ;;
        header:*) command -v cc >/dev/null && printf '#include <%s>\n' "$what" | cc -fsyntax-only -x c - 2>/dev/null ;;
    esac
}

find_missing()
{
    packages=()
    reasons=()
    local row what package why
    for row in "${wanted[@]}"; do
        IFS='|' read -r what package why <<<"$row"
        if ! have "$what"; then
            packages+=("$package")
            reasons+=("$package: $why")
        fi
    done
}

as_root()
{
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

install_packages()
{
    as_root apt-get -o Acquire::Retries=3 -y -q --no-install-recommends install "${packages[@]}" </dev/null
}

find_missing
if [ ${#packages[@]} = 0 ]; then
    exit 0
fi

echo "deps: missing on this machine:"
printf 'deps:   %s\n' "${reasons[@]}"
if [ "${1:-}" = --check ]; then
    exit 1
fi
if ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here; install the above with this system's package manager (names are Debian's) and try again" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "deps: installing needs root and there is no sudo; as root: apt-get install ${packages[*]}" >&2
    exit 1
fi

echo "deps: installing with apt-get: ${packages[*]}"
# The package lists are fetched only if one is unknown, or if what they name is gone from the mirror.
fresh=no
for package in "${packages[@]}"; do
    if ! apt-cache show "$package" >/dev/null 2>&1; then
        as_root apt-get -o Acquire::Retries=3 -q update </dev/null
        fresh=yes
        break
    fi
done
if ! install_packages; then
    if [ $fresh = yes ]; then
        echo "deps: apt-get could not install: ${packages[*]}" >&2
        exit 1
    fi
    as_root apt-get -o Acquire::Retries=3 -q update </dev/null
    install_packages || {
        echo "deps: apt-get could not install: ${packages[*]}" >&2
        exit 1
    }
fi

find_missing
if [ ${#packages[@]} != 0 ]; then
    echo "deps: still missing after the installation:" >&2
    printf 'deps:   %s\n' "${reasons[@]}" >&2
    exit 1
fi
