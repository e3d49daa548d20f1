#!/bin/sh
# Runs a command where it can do no harm: `tools/apart.sh FOLDER COMMAND...`, with an empty folder. It
# sees only processes of its own, and writes and deletes in copies of the file systems that are thrown
# away. Takes root, or a system that lets anybody be root in a namespace.
set -eu

if [ "${1:-}" != --inside ]; then
  [ "$(id -u)" = 0 ] && own="" || own=--map-root-user
  # shellcheck disable=SC2086 # no word at all for root
  exec unshare $own --mount --pid --fork --kill-child "$0" --inside "$PWD" "$@"
fi
here=$2 folder=$3 root=$3/root
shift 3
mount -t tmpfs apart "$folder"
mkdir "$root"
# What is changed stays in memory, over the file systems that the project and the programs are on.
stat -c %m / "$here" "$HOME" /usr | sort -u | while read -r disk; do
  changed=$(mktemp -d -p "$folder")
  mkdir "$changed/new" "$changed/work"
  mount -t overlay -o "lowerdir=$disk,upperdir=$changed/new,workdir=$changed/work" apart "$root$disk"
done
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root/dev"
mount -t tmpfs apart "$root/dev/shm"
mount --rbind /sys "$root/sys"
mount -o remount,bind,ro "$root/sys"
mount -t proc proc "$root/proc"
mkdir -p "$root$folder"
mount -t tmpfs apart "$root$folder"
# Not `exec`: the shell stays, to reap the processes that others leave behind.
code=0
# shellcheck disable=SC2016 # for the shell inside
TMPDIR=$folder chroot "$root" sh -c 'cd "$1" && shift && exec "$@"' sh "$here" "$@" || code=$?
exit "$code"
