#!/bin/sh
# The page is tested in a real browser. Says what to do if there is none; installs nothing.
set -eu

if [ -n "${CHROMIUM:-}" ]; then
  exit 0
fi
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" >/dev/null 2>&1; then
    exit 0
  fi
done

echo "no chromium: the tests of the page are skipped. Run tools/install-chromium.sh as root on Debian," >&2
echo "or name a Chromium or Chrome in the environment variable CHROMIUM." >&2
exit 1
