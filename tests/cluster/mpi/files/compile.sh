#!/bin/sh
# Compiles source packages of Python in a root filesystem that has pip and a compiler: compile.sh ROOT SOURCES WORK TARGET NAME=VALUE…
# ROOT stays as it is. The packages go to TARGET.
set -eu
root=$1 sources=$2 work=$3 target=$4
shift 4
mkdir -p "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
mount -t proc proc "$work/root/proc"
mount --bind /dev "$work/root/dev"
mount --bind "$sources" "$work/root/mnt"
chroot "$work/root" env -i PATH=/usr/bin:/bin HOME=/tmp "$@" \
  sh -c 'python3 -m pip install --quiet --no-index --no-build-isolation --no-deps --no-compile --target /built /mnt/*' >&2
mkdir -p "$target"
cp -a "$work/upper/built/." "$target"
