#!/bin/sh
# The real Harbor that `make harbor` tests with, from the package index, at the version that was tried. It goes into a
# Python 3.12 environment of its own outside the project (TWOARM_HARBOR, or one in the user's cache; 380 MB).
set -eu

harbor="harbor==0.24.0"
folder=${TWOARM_HARBOR:-${XDG_CACHE_HOME:-$HOME/.cache}/twoarm-harbor}

if [ "$(cat "$folder/installed" 2>/dev/null)" = "$harbor" ]; then
  exit 0
fi

lacking() {
  echo "$1: the tests that start the real Harbor are skipped." >&2
  # Where nothing is skipped, that is a failure.
  [ -z "${CI:-}" ]
  exit
}

python=""
# A shim of pyenv may be there and not run.
for path in python3.12 "$HOME"/.pyenv/versions/3.12.*/bin/python; do
  if "$path" -c 'import venv' >/dev/null 2>&1; then
    python=$path
    break
  fi
done
[ -n "$python" ] || lacking "no Python 3.12, which Harbor needs"

echo "installing Harbor for the tests of twoarm run into $folder"
rm -rf "${folder:?}/bin" "${folder:?}/include" "${folder:?}/lib" "${folder:?}/lib64" "${folder:?}/installed"
"$python" -m venv "$folder"
"$folder/bin/python" -m pip --disable-pip-version-check -qq install "$harbor" ||
  lacking "pip could not install $harbor"
echo "$harbor" >"$folder/installed"
