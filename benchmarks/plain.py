"""The same arm medians and paired deltas with `json` and `statistics`: `plain.py FILE`."""

import json
import statistics
import sys
from typing import Any

Run = dict[str, Any]


def metrics(run: Run) -> dict[str, float]:
    non_cache = run["input_tokens"] + run["output_tokens"]
    return {
        "pass": int(run["success"]),
        "cost_usd": run["total_cost_usd"],
        "duration_seconds": run["duration_seconds"],
        "tokens": non_cache + run["cache_read_tokens"] + run["cache_write_tokens"],
        "non_cache_tokens": non_cache,
        "cache_read_tokens": run["cache_read_tokens"],
        "cache_write_tokens": run["cache_write_tokens"],
        "step_count": run["step_count"],
        "tool_call_count": run["tool_call_count"],
        "acceptance_cmd_count": run["acceptance_cmd_count"],
    }


def main() -> None:
    arms: dict[str, dict[tuple[str, int], dict[str, float]]] = {}
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            run = json.loads(line)
            if run.get("failure") != "infra":
                arms.setdefault(run["arm"], {})[run["task_id"], run["repeat"]] = metrics(run)
    ours, theirs = arms["with_skelly"], arms["without_skelly"]
    names = list(next(iter(ours.values())))
    report: dict[str, Any] = {}
    for arm, runs in arms.items():
        report[arm] = {name: statistics.median(r[name] for r in runs.values()) for name in names}
    pairs = [(run, theirs[key]) for key, run in ours.items() if key in theirs]
    for name in names:
        deltas = [a[name] - b[name] for a, b in pairs]
        report[name] = {"mean": statistics.fmean(deltas), "median": statistics.median(deltas)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
