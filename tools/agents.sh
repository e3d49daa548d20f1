#!/bin/sh
# The real agents that the tests of `twoarm run` start, from npm, at the versions that were tried.
# They go into a folder outside the project (TWOARM_AGENTS, or one in the user's cache; 1.3 GB), and
# nothing of theirs runs while they are installed.
set -eu

agents="@anthropic-ai/claude-code@2.1.325 @openai/codex@0.166.0 opencode-ai@1.18.33 @google/gemini-cli@0.61.0"
folder=${TWOARM_AGENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/twoarm-agents}

if [ "$(cat "$folder/installed" 2>/dev/null)" = "$agents" ]; then
  exit 0
fi

lacking() {
  echo "$1: the tests that start real agents are skipped." >&2
  exit 1
}

if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
  lacking "no node and npm (Debian: apt-get install nodejs npm)"
fi

echo "installing the agents for the tests of twoarm run into $folder"
rm -rf "${folder:?}/node_modules" "${folder:?}/bin" "${folder:?}/installed"
mkdir -p "$folder/bin"
# shellcheck disable=SC2086 # one word per agent
npm install --prefix "$folder" --no-save --ignore-scripts --no-audit --no-fund --loglevel=error \
  $agents >/dev/null || lacking "npm could not install the agents"

# Two of them have a post-install script that only puts the program of this platform in its place.
link() {
  for program in "$folder"/node_modules/$2; do
    [ -x "$program" ] && ln -sf "$program" "$folder/bin/$1" && return
  done
  lacking "no $1 for this platform"
}
link claude '@anthropic-ai/claude-code-*/claude'
link codex '.bin/codex'
link gemini '.bin/gemini'
link opencode 'opencode-*/bin/opencode'
echo "$agents" >"$folder/installed"
