#!/usr/bin/env bash
# twoarm as it is in this checkout of the action, in an environment of its own: nothing is looked up
# by its name but what it depends on, and that in the versions that it was tested with.
set -euo pipefail

python=${TWOARM_PYTHON:-}
if [ -z "$python" ]; then
  for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
    if command -v "$name" > /dev/null &&
      "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
      python=$name
      break
    fi
  done
fi
if [ -z "$python" ]; then
  echo "::error title=twoarm::no Python 3.11 or later; add a step with actions/setup-python before this one"
  exit 2
fi
home="${RUNNER_TEMP:?}/twoarm"
"$python" -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check \
  --constraint "$GITHUB_ACTION_PATH/constraints.txt" "${GITHUB_ACTION_PATH}[html]"
echo "twoarm=$home/bin/twoarm" >> "$GITHUB_OUTPUT"
