#!/bin/sh
# Runs a command as a user with no rights of root, and a HOME and a TMPDIR that are thrown away:
# `tools/as_user.sh PROGRAM...`. The user can reach the project and the program, even if they are
# in folders of root, and has containers. Takes root; for anybody else it is the command alone.
set -eu

[ "$(id -u)" = 0 ] || exec "$@"
if [ "${1:-}" != --inside ]; then
  folder=$(mktemp -d)
  code=0
  unshare --mount --pid --fork --kill-child "$0" --inside "$folder" "$@" || code=$?
  rm -rf "$folder"
  exit "$code"
fi
folder=$2
shift 2
# Somebody whom no machine knows, so that nothing else belongs to them.
user=54321 name=somebody
mount -t proc proc /proc
mount -t tmpfs -o mode=755 user "$folder"
install -d -o "$user" -g "$user" "$folder/home" "$folder/tmp"
# What podman asks the system about a user, as seen from here alone.
known() {
  [ -e "/etc/$1" ] || return 0
  { cat "/etc/$1" && echo "$2"; } >"$folder/$1"
  mount --bind "$folder/$1" "/etc/$1"
}
known passwd "$name:x:$user:$user::$folder/home:/bin/sh"
known group "$name:x:$user:"
known subuid "$name:600000:65536"
known subgid "$name:600000:65536"

over=none
# Lets others pass a folder and all above it, as seen from here alone.
pass() {
  [ "$1" = / ] || pass "$(dirname "$1")"
  case $(stat -c %A "$1") in *[xt]) return ;; esac
  case $1 in
    "$over"/*) ;;
    *)
      over=$1
      changed=$(mktemp -d -p "$folder")
      mkdir "$changed/new" "$changed/work"
      mount -t overlay -o "lowerdir=$1,upperdir=$changed/new,workdir=$changed/work" user "$1"
      ;;
  esac
  chmod o+x "$1"
}
pass "$(dirname "$folder")"
pass "$PWD"
pass "$(dirname "$(realpath "$1")")"
# In the folder as it is seen now.
cd "$PWD"
setpriv --reuid="$user" --regid="$user" --clear-groups --inh-caps=-all \
  env HOME="$folder/home" TMPDIR="$folder/tmp" XDG_RUNTIME_DIR="$folder/tmp" USER="$name" "$@"
