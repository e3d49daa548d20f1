"""The same arm medians and paired deltas, as one writes them with `json` and `statistics`.

plain.py FILE
"""

import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

METRICS: dict[str, Callable[[Any], float]] = {
    "success": lambda run: int(run["success"]),
    "cost_usd": lambda run: run["total_cost_usd"],
    "duration_seconds": lambda run: run["duration_seconds"],
    "tokens": lambda run: (
        run["input_tokens"]
        + run["output_tokens"]
        + run["cache_read_tokens"]
        + run["cache_write_tokens"]
    ),
    "non_cache_tokens": lambda run: run["input_tokens"] + run["output_tokens"],
    "cache_read_tokens": lambda run: run["cache_read_tokens"],
    "cache_write_tokens": lambda run: run["cache_write_tokens"],
    "step_count": lambda run: run["step_count"],
    "tool_call_count": lambda run: run["tool_call_count"],
    "acceptance_cmd_count": lambda run: run["acceptance_cmd_count"],
}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    arms: dict[str, dict[tuple[str, int], Any]] = {"with_skelly": {}, "without_skelly": {}}
    for run in runs:
        if run.get("failure") != "infra":
            arms[run["arm"]][run["task_id"], run["repeat"]] = run
    ours, theirs = arms.values()
    pairs = [(run, theirs[key]) for key, run in ours.items() if key in theirs]
    report: dict[str, Any] = {}
    for name, of in METRICS.items():
        deltas = [of(a) - of(b) for a, b in pairs]
        report[name] = {
            **{arm: statistics.median(map(of, kept.values())) for arm, kept in arms.items()},
            "mean delta": statistics.fmean(deltas),
            "median delta": statistics.median(deltas),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
