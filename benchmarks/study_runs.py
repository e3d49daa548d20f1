"""The runs of docs/study.md: read from the table that the study published, and judged."""

import csv
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import twoarm
from benchmarks import other_readings as readings

ROOT = Path(__file__).parents[1]
MAPPING = ROOT / "benchmarks" / "study.toml"
# What a row has to do starts with its family, the task; its agent comes after.
FAMILY = "^(.+?)/"
CANDIDATES = ("primed", "mcp")


class Measure(NamedTuple):
    """One metric, under its name in a report and as read from a row of the table."""

    label: str
    metric: str
    of: Callable[[readings.Row], float]


TIME = Measure("time", "duration_seconds", readings.seconds)
NON_CACHE = Measure("tokens without the cache", "non_cache_tokens", readings.non_cache_tokens)
TOKENS = Measure("all tokens", "tokens", readings.total_tokens)
COST = Measure("billed cost", "cost_usd", readings.billed_usd)
MEASURES = (TIME, NON_CACHE, TOKENS, COST)


class Judged(NamedTuple):
    """Every row of the table, those of the three arms, and the reports of both candidates.

    A report takes what has to be done for tasks of their own (`apart`), or those of all agents for
    a family (`alike`); `single` is about one of the families.
    """

    table: Sequence[readings.Row]
    rows: Sequence[readings.Row]
    tasks: Sequence[str]
    apart: dict[str, twoarm.Report]
    alike: dict[str, twoarm.Report]
    single: dict[tuple[str, str], twoarm.Report]


def judge(table: Path, collected: Path) -> Judged:
    """All that the page needs; the records are kept in a file."""
    collect(table, collected)
    with table.open(encoding="utf-8", newline="") as file:
        every = list(csv.DictReader(file))
    rows = [
        row
        for row in every
        if row["baseline_run"] == "False" and row["scenario"] in readings.ARMS.values()
    ]
    tasks = sorted({row["task_id"] for row in rows})
    runs = str(collected)
    return Judged(
        table=every,
        rows=rows,
        tasks=tasks,
        apart={arm: twoarm.score(runs, candidate=arm, baseline="shell") for arm in CANDIDATES},
        alike={
            arm: twoarm.score(
                runs, candidate=arm, baseline="shell", family=FAMILY, promote_by="evidence"
            )
            for arm in CANDIDATES
        },
        single={
            (task, arm): twoarm.score(runs, candidate=arm, baseline="shell", task=(f"{task}/*",))
            for task in tasks
            for arm in CANDIDATES
        },
    )


def collect(table: Path, collected: Path) -> None:
    """The command that the page shows; Claude Code's helper model stands in `model`, or none."""
    subprocess.run(
        [
            *(sys.executable, "-m", "twoarm", "collect", "table", str(table)),
            *("--mapping", str(MAPPING), "--may-differ", "model"),
            *("--output", str(collected)),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def change_of(
    report: twoarm.Report, measure: Measure, scope: Literal["these_tasks", "tasks_like_these"]
) -> readings.Change | None:
    """The change that a report shows, and one of its intervals; None where it has none."""
    assert report.evidence is not None
    change = report.evidence.deltas[measure.metric].change
    interval = change.these_tasks if scope == "these_tasks" else change.tasks_like_these
    if change.estimate is None or interval is None:
        return None
    return readings.Change(change.estimate, interval.low, interval.high)
