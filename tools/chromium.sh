#!/bin/sh
# The page is tested in a real browser. Installs Debian's chromium if there is none and if it can be;
# otherwise says what to do. In CI the lack of a browser is an error, elsewhere those tests are
# skipped.
set -eu

for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if [ -n "${CHROMIUM:-}" ] || command -v "$name" >/dev/null 2>&1; then
    exit 0
  fi
done

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing chromium for the tests of the page"
  if { apt-get install -y --no-install-recommends chromium ||
    { apt-get update && apt-get install -y --no-install-recommends chromium; }; } >/dev/null 2>&1; then
    exit 0
  fi
fi

echo "no chromium: the tests of the page are skipped. Install it (Debian: apt-get install chromium)" >&2
echo "or name a Chromium or Chrome in the environment variable CHROMIUM." >&2
if [ -n "${CI:-}" ]; then
  exit 1
fi
