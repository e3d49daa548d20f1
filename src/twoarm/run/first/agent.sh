# Stands in for an agent: it asks no model, and its answer is always the same.
if [ -e AGENTS.md ]; then steps=1; else steps=2; fi
sleep "0.${steps}0$(($$ % 7))"
echo 'echo "Hello, $(echo "$@" | sed "s/ / and /g")!"' >greet.sh
echo "{\"input_tokens\": $((steps * 1000 + $$ % 100)), \"output_tokens\": 100}" >"$TWOARM_USAGE"
