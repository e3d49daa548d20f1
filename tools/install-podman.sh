#!/bin/sh
# Installs Debian's podman, docker client and bubblewrap for the tests of isolation, and what an image
# for them is made of, unless they are there. Takes root.
set -eu

# Only newer ones have the client of docker without its daemon.
docker="docker.io"
if apt-cache show docker-cli >/dev/null 2>&1; then
  docker="docker-cli"
fi
missing=""
lacks() {
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
# With the network that containers have where nobody chooses one.
lacks podman "podman containernetworking-plugins iptables"
lacks runc runc
lacks catatonit catatonit
lacks busybox busybox-static
# For users other than root.
lacks newuidmap uidmap
lacks docker "$docker"
lacks bwrap bubblewrap
if [ -z "$missing" ]; then
  exit 0
fi
echo "installing for the tests of isolation:$missing"
# shellcheck disable=SC2086 # a word for each package
apt-get install -y --no-install-recommends $missing ||
  { apt-get update && apt-get install -y --no-install-recommends $missing; }
