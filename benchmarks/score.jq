# The same arm medians and paired deltas with jq: jq -s -f score.jq runs.jsonl
def median:
  sort | length as $n
  | if $n == 0 then null
    elif $n % 2 == 1 then .[($n - 1) / 2]
    else (.[$n / 2 - 1] + .[$n / 2]) / 2 end;

def metrics: {
  success: (if .success then 1 else 0 end),
  cost_usd: .total_cost_usd,
  duration_seconds,
  tokens: (.input_tokens + .output_tokens + .cache_read_tokens + .cache_write_tokens),
  non_cache_tokens: (.input_tokens + .output_tokens),
  cache_read_tokens, cache_write_tokens, step_count, tool_call_count, acceptance_cmd_count
};

def names: ["success", "cost_usd", "duration_seconds", "tokens", "non_cache_tokens",
  "cache_read_tokens", "cache_write_tokens", "step_count", "tool_call_count", "acceptance_cmd_count"];

map(select(.failure != "infra") | {task_id, arm, repeat, metrics: metrics})
| (group_by(.arm) | map(. as $runs | {
    arm: .[0].arm,
    runs: length,
    medians: (reduce names[] as $name ({}; .[$name] = ($runs | map(.metrics[$name]) | median)))
  })) as $arms
| [ group_by([.task_id, .repeat])[]
    | select(length == 2)
    | (if .[0].arm == "with_skelly" then . else reverse end) as $pair
    | reduce names[] as $name ({}; .[$name] = $pair[0].metrics[$name] - $pair[1].metrics[$name])
  ] as $deltas
| { arms: $arms,
    pairs: ($deltas | length),
    deltas: (reduce names[] as $name ({};
      .[$name] = ($deltas | map(.[$name]) | {mean: (add / length), median: median}))) }
