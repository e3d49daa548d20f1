#!/usr/bin/env bash
# Hands the lines of `args` to twoarm as they are: no word is split, no pattern is expanded, and a
# mistake is red. Also for bash 3.2, which macOS has.
set -uo pipefail

finish() {
  echo "exit-code=$1" >> "$GITHUB_OUTPUT"
  # What follows keeps the reports; the last step ends with this code.
  exit 0
}
refuse() {
  echo "::error title=twoarm::$1"
  finish 2
}

case "$TWOARM_COMMENT_GIVEN" in
  auto | never) ;;
  *) refuse "comment: expected auto or never" ;;
esac
args=()
while IFS= read -r line || [ -n "$line" ]; do
  line=${line%$'\r'}
  [ -z "$line" ] || args+=("$line")
done <<< "$TWOARM_ARGS"
command=${args[0]:-}
case "$command" in
  score | run) ;;
  *) refuse "args: the first line must be score or run" ;;
esac
# Whether this step has the token was decided by how the input begins.
if [ "$command" = score ] && [ "$TWOARM_COMMENT" != "$TWOARM_COMMENT_GIVEN" ]; then
  refuse "args: begin with score or run, without a blank line before it"
fi
number=0
for arg in "${args[@]}"; do
  number=$((number + 1))
  case "$arg" in
    --out | --out=* | --exit-code | --annotate | --key | --key=*)
      refuse "args, line $number: the action gives that itself" ;;
    -h | --help | --version)
      refuse "args, line $number: nothing would be judged" ;;
    -*[[:blank:]]*)
      case "$arg" in
        *=*) ;;
        *) refuse "args, line $number: one argument on each line; found a blank in an option" ;;
      esac ;;
  esac
done

# A pull request from a fork, or of Dependabot, has no secrets: no agent could reach its model.
if [ "$command" = run ] && [ "${GITHUB_EVENT_NAME:-}" = pull_request ]; then
  why=$("$(dirname "$TWOARM")/python" -I - << 'END'
import json, os

with open(os.environ["GITHUB_EVENT_PATH"], encoding="utf-8") as file:
    pull_request = json.load(file)["pull_request"]
source = (pull_request["head"]["repo"] or {}).get("full_name")
if source != pull_request["base"]["repo"]["full_name"]:
    print("it comes from a fork")
elif os.environ.get("GITHUB_ACTOR") == "dependabot[bot]":
    print("it is Dependabot's")
END
  ) || refuse "the event of this workflow cannot be read"
  if [ -n "$why" ]; then
    text="No agent was run for this pull request: $why, so it has no secrets."
    echo "::notice title=twoarm::$text"
    [ -z "${GITHUB_STEP_SUMMARY:-}" ] || echo "$text" >> "$GITHUB_STEP_SUMMARY"
    finish 0
  fi
fi

results="${RUNNER_TEMP:?}/twoarm-$command"
rm -rf "$results"
words=("${args[@]:1}" --out "$results" --exit-code --annotate)
if [ "$command" = score ] && [ "$TWOARM_COMMENT" = auto ]; then
  command=comment
  [ "$TWOARM_KEY" = default ] || words+=(--key "$TWOARM_KEY")
fi
if [ "$command" = run ]; then
  words+=(--yes)
fi
"$TWOARM" "$command" "${words[@]}"
code=$?
if [ -d "$results" ]; then
  echo "results=$results" >> "$GITHUB_OUTPUT"
fi
if [ -f "$results/collected.jsonl" ]; then
  echo "collected=$results/collected.jsonl" >> "$GITHUB_OUTPUT"
fi
case $code in
  0) echo "promotion=promote" >> "$GITHUB_OUTPUT" ;;
  1) echo "promotion=do not promote" >> "$GITHUB_OUTPUT" ;;
  3) echo "promotion=not enough data" >> "$GITHUB_OUTPUT" ;;
esac
finish "$code"
