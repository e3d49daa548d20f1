"""A published study judged again: the tables of docs/study.md, from the table that it published.

    python -m benchmarks.study runs.csv           prints them
    make study RUNS=runs.csv                      writes them where they stand

docs/study.md says where runs.csv is; any other file is refused.
"""

import argparse
import csv
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import twoarm
from benchmarks import other_readings as readings

ROOT = Path(__file__).parents[1]
MAPPING = ROOT / "benchmarks" / "study.toml"
PAGE = ROOT / "docs" / "study.md"
# The file at commit 8a673dda of the study; the figures are those of no other.
SHA256 = "cc0510e91884e1f47ac911bb679732a343b04cb00ebe50d0f365fa8abeb4db94"
# What a row has to do starts with its family, the task; its agent comes after.
FAMILY = "^(.+?)/"
CANDIDATES = ("primed", "mcp")


class Measure(NamedTuple):
    """One metric, under its name in a report and as read from a row of the table."""

    label: str
    metric: str
    of: Callable[[readings.Row], float]


MEASURES = (
    Measure("time", "duration_seconds", readings.seconds),
    Measure("tokens without the cache", "non_cache_tokens", readings.non_cache_tokens),
    Measure("all tokens", "tokens", readings.total_tokens),
    Measure("billed cost", "cost_usd", readings.billed_usd),
)


def main() -> int:
    """Reads the table, judges it, and prints or writes what is shown of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path, help="the runs.csv of the study")
    parser.add_argument("--write", action="store_true", help="write them into docs/study.md")
    given = parser.parse_args()
    content = given.table.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        print(f"{given.table} is not the table that was published", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        tables = judged(given.table, Path(folder, "study.jsonl"))
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_tables(page, tables), encoding="utf-8")
    else:
        print("\n\n".join(f"{name}\n\n{table}" for name, table in tables.items()))
    return 0


def judged(table: Path, collected: Path) -> dict[str, str]:
    """Every table, by the name of its mark."""
    collect(table, collected)
    with table.open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["baseline_run"] == "False" and row["scenario"] in readings.ARMS.values()
        ]
    names = sorted({row["task_id"] for row in rows})
    return {
        "nulls": nulls(rows),
        "ways": ways(rows, str(collected)),
        "families": families(names, str(collected)),
    }


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


def nulls(rows: Sequence[readings.Row]) -> str:
    """What was published, and what the same figures are without runs that were not measured."""
    lines = [
        "| | `shell` | `primed` | `mcp` |",
        "| --- | ---: | ---: | ---: |",
    ]
    figures = (
        ("mean tokens, nulls as zeros", readings.mean_tokens, True, "{:,.0f}"),
        ("mean tokens, nulls left out", readings.mean_tokens, False, "{:,.0f}"),
        ("median cold cost, nulls as zeros", readings.median_cold_usd, True, "${:.3f}"),
        ("median cold cost, nulls left out", readings.median_cold_usd, False, "${:.3f}"),
    )
    for label, figure, as_zero, style in figures:
        cells = (style.format(figure(rows, arm, as_zero=as_zero)) for arm in readings.ARMS)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ways(rows: Sequence[readings.Row], runs: str) -> str:
    """One change, read in five ways: 95% intervals."""
    lines = [
        "| | all runs in a heap | each pair a task | 15 tasks | 5 families | on these very tasks |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for candidate in CANDIDATES:
        apart = twoarm.score(runs, candidate=candidate, baseline="shell")
        alike = twoarm.score(runs, candidate=candidate, baseline="shell", family=FAMILY)
        for measure in MEASURES:
            cells = (
                _percent(readings.pooled(rows, candidate, measure.of)),
                _percent(readings.each_pair_a_task(rows, candidate, measure.of)),
                _percent(interval_of(apart, measure, "tasks_like_these")),
                _percent(readings.over_families(rows, candidate, measure.of)),
                _percent(interval_of(alike, measure, "these_tasks")),
            )
            lines.append(f"| `{candidate}`: {measure.label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def families(names: Sequence[str], runs: str) -> str:
    """Each of the five tasks on its own, over the three agents that did it."""
    shown = MEASURES[0], MEASURES[2], MEASURES[3]
    heads = [f"`{arm}`: {measure.label}" for arm in CANDIDATES for measure in shown]
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for name in names:
        cells = []
        for candidate in CANDIDATES:
            tasks = (f"{name}/*",)
            report = twoarm.score(runs, candidate=candidate, baseline="shell", task=tasks)
            cells += [_percent(interval_of(report, measure, "these_tasks")) for measure in shown]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def interval_of(
    report: twoarm.Report, measure: Measure, scope: Literal["these_tasks", "tasks_like_these"]
) -> readings.Change | None:
    """The change that a report shows, and one of its intervals; None where it has none."""
    assert report.evidence is not None
    change = report.evidence.deltas[measure.metric].change
    interval = change.these_tasks if scope == "these_tasks" else change.tasks_like_these
    if change.estimate is None or interval is None:
        return None
    return readings.Change(change.estimate, interval.low, interval.high)


def _percent(change: readings.Change | None) -> str:
    if change is None:
        return "-"
    middle, low, high = (f"{100 * (ratio - 1):+.1f}" for ratio in change)
    return f"{middle}% ({low} to {high})"


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with each table between its marks."""
    for name, table in tables.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, after = page.split(start)
        page = f"{before}{start}\n\n{table}\n\n{end}{after.split(end)[1]}"
    return page


if __name__ == "__main__":
    sys.exit(main())
