"""What looks save, simulated with the rule that ends runs: `python -m benchmarks.stopping [SETS]`.

Unlike the cells of `benchmarks.looking`, which stop where anything is clear, these stop where
`twoarm run --looks 3,5,10` does: for the candidate only if it could be promoted, for the baseline,
and for futility.
"""

import sys
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import numpy as np

import twoarm
from benchmarks.looking import LOOKED
from benchmarks.verdicts import trial
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import DURATION, NON_CACHE_TOKENS, SUCCESS

LOOKS = (3, 5, 10)
TASKS = (12, 25)
SETS = 120


def records(values: dict[str, Floats]) -> list[dict[str, Any]]:
    """Runs of both arms, side by side and a minute apart."""
    success, duration, tokens = (
        values[metric.name] for metric in (SUCCESS, DURATION, NON_CACHE_TOKENS)
    )
    _, tasks, repeats = success.shape
    runs: list[dict[str, Any]] = []
    for repeat, task in np.ndindex(repeats, tasks):
        for arm in (0, 1) if (repeat + task) % 2 else (1, 0):
            started = datetime.fromtimestamp(1_700_000_000 + 60 * len(runs), UTC)
            runs.append(
                {
                    "task_id": f"t{task:03}",
                    "arm": ("with", "without")[arm],
                    "repeat": repeat + 1,
                    "success": bool(success[arm, task, repeat]),
                    "duration_seconds": 100 * float(duration[arm, task, repeat]),
                    "total_cost_usd": None,
                    "input_tokens": 1000 * float(tokens[arm, task, repeat]),
                    "output_tokens": 0,
                    "cache_read_tokens": 0,
                    "cache_write_tokens": 0,
                    "started_at_utc": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            )
    return runs


def ended(runs: list[dict[str, Any]]) -> tuple[int, str]:
    """The look that ends them, and why."""
    for look in LOOKS[:-1]:
        seen = [run for run in runs if run["repeat"] <= look]
        stop = twoarm.look(seen, looks=LOOKS, baseline="without", resamples=99).stop
        if stop is not None:
            return look, stop
    return LOOKS[-1], "all repeats"


def main() -> None:
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else SETS
    for name, arms in LOOKED.items():
        for tasks in TASKS:
            draw = np.random.default_rng([77, len(name), tasks])
            ends = Counter(
                ended(records(trial(arms, tasks, LOOKS[-1], draw).values)) for _ in range(sets)
            )
            ran = sum(look * count for (look, _), count in ends.items()) / (sets * LOOKS[-1])
            why = ", ".join(
                f"{count} {why} at {look}" for (look, why), count in sorted(ends.items())
            )
            print(f"{name}, {tasks} tasks: {1 - ran:.1%} of repeats saved ({why})", flush=True)


if __name__ == "__main__":
    main()
