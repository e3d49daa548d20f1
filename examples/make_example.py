"""Make the bundled example: invented runs with the shape of real ones, the same bytes every time.

    python examples/make_example.py > src/twoarm/example.jsonl

A dozen tasks of very different size, ten repeats, two arms. The candidate is a context tool: it
reads more from the cache, takes fewer steps, and helps large tasks more than small ones. Durations
and tokens have heavy tails; some runs fail, one times out, one loses its provider, one has no cost.
"""

import json
import math
import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

SEED = 20261101
REPEATS = 10
ARMS = ("with_skelly", "without_skelly")
MODEL = "scripted/large-1"
TIME_LIMIT = 1800.0

# Task, typical seconds without the tool, chance of success without it, log change with the tool.
TASKS = (
    ("api-rate-limit", 310, 0.92, -0.20),
    ("cli-exit-codes", 95, 1.00, 0.05),
    ("config-merge-order", 160, 0.97, -0.10),
    ("csv-quoting", 120, 1.00, -0.05),
    ("date-parsing-dst", 240, 0.80, -0.15),
    ("flaky-retry-test", 420, 0.62, -0.35),
    ("graph-cycle-check", 200, 0.95, -0.10),
    ("migrate-settings", 650, 0.70, -0.45),
    ("null-vs-zero", 140, 0.98, 0.00),
    ("rename-public-api", 880, 0.75, -0.40),
    ("sql-pagination", 260, 0.90, -0.20),
    ("unicode-slugs", 110, 1.00, 0.08),
)


def main() -> None:
    draw = random.Random(SEED)
    clock = datetime(2026, 11, 1, 8, 0, tzinfo=UTC)
    for repeat in range(1, REPEATS + 1):
        for task, seconds, chance, change in TASKS:
            arms = list(ARMS)
            draw.shuffle(arms)
            for arm in arms:
                run = attempt(draw, task, arm, repeat, seconds, chance, change)
                run["started_at_utc"] = clock.strftime("%Y-%m-%dT%H:%M:%SZ")
                clock += timedelta(seconds=round(run["duration_seconds"]))
                run["ended_at_utc"] = clock.strftime("%Y-%m-%dT%H:%M:%SZ")
                clock += timedelta(seconds=20)
                sys.stdout.write(json.dumps(run) + "\n")


def attempt(
    draw: random.Random,
    task: str,
    arm: str,
    repeat: int,
    seconds: float,
    chance: float,
    change: float,
) -> dict[str, Any]:
    helped = arm == "with_skelly"
    runaway = draw.random() < 0.08
    noise = draw.gauss(0.55, 0.35) if runaway else draw.gauss(0.0, 0.22)
    effort = math.exp((change if helped else 0.0) + noise)
    duration = seconds * effort
    timed_out = duration > TIME_LIMIT
    if timed_out:
        duration = TIME_LIMIT
    odds = min(0.995, chance + (0.06 if helped else 0.0) - (0.15 if runaway else 0.0))
    success = draw.random() < odds and not timed_out
    steps = max(2, round(seconds / 14 * effort**0.9 * (0.93 if helped else 1.0)))
    input_tokens = round(steps * draw.lognormvariate(6.45, 0.18))
    output_tokens = round(steps * draw.lognormvariate(5.5, 0.2))
    cache_read = round(steps * draw.lognormvariate(8.9, 0.2) * (1.25 if helped else 1.0))
    cache_write = round(steps * draw.lognormvariate(6.9, 0.2))
    cost = (input_tokens * 3 + output_tokens * 15 + cache_read * 0.3 + cache_write * 3.75) / 1e6
    run: dict[str, Any] = {
        "run_id": f"{task}.{arm}.{repeat}",
        "task_id": task,
        "arm": arm,
        "repeat": repeat,
        "success": success,
        "duration_seconds": round(duration, 1),
        "total_cost_usd": round(cost, 6),
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_read_tokens": cache_read,
        "cache_write_tokens": cache_write,
        "step_count": steps,
        "tool_call_count": max(1, round(steps * draw.uniform(1.0, 1.5))),
        "acceptance_cmd_count": draw.choice((1, 1, 2, 2, 3)),
        "agent_exit_code": 124 if timed_out else 0,
        "acceptance_exit_code": 0 if success else 1,
        "failure": "agent" if timed_out else None,
        "model": MODEL,
        "agent": "opencode",
    }
    if timed_out:
        run["failure_reason"] = "time limit"
    if (task, arm, repeat) == ("sql-pagination", "with_skelly", 4):
        run |= {"success": False, "failure": "infra", "failure_reason": "provider overloaded"}
        run |= {"duration_seconds": 31.4, "agent_exit_code": 1, "acceptance_exit_code": 99}
    if (task, arm, repeat) == ("csv-quoting", "without_skelly", 7):
        run["total_cost_usd"] = None
    return run


if __name__ == "__main__":
    main()
