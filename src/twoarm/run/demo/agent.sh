# A scripted agent: it knows the fix of each bug, and wanders about where no guide says what is where.
# agent.sh TASK USAGE
task=$1 usage=$2

# A number below $1 that differs from trial to trial, as the name of the workspace does.
draw() { echo $(($(pwd | cksum | cut -d ' ' -f 1) / 7 % $1)); }

case $task in
add-tax) fix='s|2 / 100|20 / 100|' ;;
pad-number) fix='s|%04d|%05d|' ;;
last-line) fix='s|head -n 1|tail -n 1|' ;;
count-words) fix='s|wc -l|wc -w|' ;;
upper-case) fix='s|a-y A-Y|a-z A-Z|' ;;
is-even) fix='s|-eq 1|-eq 0|' ;;
esac

if [ -f AGENTS.md ]; then
  steps=$((3 + $(draw 2)))
  luck=60
else
  steps=$((6 + $(draw 4)))
  luck=6
fi
echo "looking at $(ls | tr '\n' ' ')in $steps steps"
sleep "0.$((steps / 3))"
# Now and then it changes nothing and says that it is done.
if [ "$(draw "$luck")" -ne 0 ]; then
  sed "$fix" lib.sh >lib.new && mv lib.new lib.sh
fi
echo "done"
printf '{"input_tokens": %d, "output_tokens": %d, "cache_read_tokens": %d, "cache_write_tokens": 0, "step_count": %d, "tool_call_count": %d, "model": "scripted"}\n' \
  $((400 * steps + $(draw 300))) $((60 * steps)) $((1500 * steps)) "$steps" $((steps - 1)) >"$usage"
