#!/bin/sh
# Installs Debian's chromium for the tests of the page, unless there is a browser. Takes root.
set -eu

if "$(dirname "$0")/chromium.sh" 2>/dev/null; then
  exit 0
fi
echo "installing chromium for the tests of the page"
apt-get install -y --no-install-recommends chromium ||
  { apt-get update && apt-get install -y --no-install-recommends chromium; }
