#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Proves that a new user on a new machine gets as far as the README says: makes a minimal Debian in a folder, copies the
# working tree into it (tracked files and new ones that git does not ignore), and runs scripts/test.sh and
# scripts/demo.sh there. Needs root and debootstrap. Unmounts and removes what it made, also when it is interrupted.
#
#   scripts/prove-clean.sh [--suite NAME] [--keep] [--only test|demo] [MIRROR]
#     MIRROR   a Debian mirror; default: the one that this machine's apt uses for Debian, else deb.debian.org
#     --keep   leave the folder, without mounts, and say where it is
set -euo pipefail
cd "$(dirname "$0")/.."

suite=bookworm
keep=no
only=
mirror=
while [ $# -gt 0 ]; do
    case $1 in
        --suite) suite=${2:?--suite needs a name}; shift ;;
        --keep) keep=yes ;;
        --only) only=${2:?--only needs test or demo}; shift ;;
        -*)
            echo "prove-clean.sh: unknown option '$1'" >&2
            exit 2
            ;;
        *) mirror=$1 ;;
    esac
    shift
done

if [ "$(id -u)" != 0 ]; then
    echo "prove-clean.sh: needs root, for chroot and mounts" >&2
    exit 1
fi
for tool in debootstrap git tar mountpoint chroot; do
    command -v $tool >/dev/null || {
        echo "prove-clean.sh: $tool is not installed" >&2
        exit 1
    }
done
if [ -z "$mirror" ]; then
    # The first URI of apt's sources that is a Debian archive and not the security one.
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        grep -v '^ *#' | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ') || true
    mirror=${mirror:-http://deb.debian.org/debian}
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/coissue-clean.XXXXXX")
mounted=()

# shellcheck disable=SC2317 # called by the trap
clean_up()
{
    local status=$?
    trap - EXIT
    for ((i = ${#mounted[@]} - 1; i >= 0; i--)); do
        umount "${mounted[i]}" || umount -l "${mounted[i]}" || true
    done
    # Never remove a tree that still has something of the host mounted in it.
    if grep -qF " $root/" /proc/mounts; then
        echo "prove-clean.sh: something is still mounted below $root; left as it is" >&2
        exit 1
    fi
    if [ "$keep" = yes ]; then
        echo "prove-clean.sh: left in $root"
    else
        rm -rf --one-file-system "$root"
    fi
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mount_in()
{
    local target=$root/${!#} # the last argument is the place, below the root
    mkdir -p "$target"
    mount "${@:1:$#-1}" "$target"
    mounted+=("$target")
}

echo "prove-clean.sh: a minimal $suite from $mirror in $root"
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    rm -f "$root.log"
    exit 1
}
rm -f "$root.log"

# debootstrap leaves proc and sys mounted in some set-ups. They are ours to unmount then.
for place in proc sys; do
    if mountpoint -q "$root/$place"; then
        mounted+=("$root/$place")
    fi
done
mountpoint -q "$root/proc" || mount_in -t proc proc proc
# A tmpfs for shared memory: Criterion's workers need it. The few device nodes come from debootstrap.
mount_in -t tmpfs -o mode=1777,size=1g tmpfs dev/shm
# How this machine reaches the mirror holds inside, too.
for file in /etc/resolv.conf /etc/hosts; do
    if [ -e $file ]; then
        cat $file >"$root$file"
    fi
done
for setting in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    if [ -f "$setting" ] && grep -qE 'Acquire::(https?::Proxy|Check-)' "$setting"; then
        cp "$setting" "$root/etc/apt/apt.conf.d/"
    fi
done

mkdir "$root/coissue"
git ls-files -co --exclude-standard -z |
    while IFS= read -r -d '' file; do
        if [ -e "$file" ] || [ -L "$file" ]; then # listed, but removed from the working tree
            printf '%s\0' "$file"
        fi
    done | tar --null -T - -cf - | tar -xf - -C "$root/coissue"

inside()
{
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        chroot "$root" /bin/bash -c "cd /coissue && $1" </dev/null
}

status=0
run()
{
    echo "prove-clean.sh: $1"
    local start=$SECONDS
    if inside "$1"; then
        echo "prove-clean.sh: $1: succeeded in $((SECONDS - start)) s"
    else
        status=$?
        echo "prove-clean.sh: $1: failed with status $status after $((SECONDS - start)) s"
    fi
}

if [ "$only" != demo ]; then
    run scripts/test.sh
fi
if [ "$only" != test ]; then
    run "scripts/demo.sh --json /tmp/demo.json && test -s /tmp/demo.json"
fi
exit "$status"
