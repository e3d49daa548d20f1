"""A published study judged again: docs/study.md, from the table that the study published.

    python -m benchmarks.study runs.csv           prints the tables, and what the page has otherwise
    make study RUNS=runs.csv                      writes the tables and the figures of the page

docs/study.md says where runs.csv is; any other file is refused.
"""

import argparse
import difflib
import hashlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import other_readings as readings
from benchmarks.study_figures import claims, figures, with_figures
from benchmarks.study_runs import (
    CANDIDATES,
    COST,
    MEASURES,
    ROOT,
    TIME,
    TOKENS,
    Judged,
    change_of,
    judge,
)

PAGE = ROOT / "docs" / "study.md"
# The file at commit 8a673dda of the study; the figures are those of no other.
SHA256 = "cc0510e91884e1f47ac911bb679732a343b04cb00ebe50d0f365fa8abeb4db94"


def main() -> int:
    """Reads the table, judges it, and prints or writes what is shown of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path, help="the runs.csv of the study")
    parser.add_argument("--write", action="store_true", help="write docs/study.md anew")
    given = parser.parse_args()
    try:
        content = given.table.read_bytes()
    except OSError as error:
        return _refused(f"{given.table}: {error.strerror}; docs/study.md says where to get it")
    if hashlib.sha256(content).hexdigest() != SHA256:
        return _refused(f"{given.table}: not the table that was published; see docs/study.md")
    with tempfile.TemporaryDirectory() as folder:
        judged = judge(given.table, Path(folder, "study.jsonl"))
    page, made = PAGE.read_text(encoding="utf-8"), tables(judged)
    written = with_tables(with_figures(page, figures(judged)), made)
    if given.write:
        PAGE.write_text(written, encoding="utf-8")
    else:
        print("\n\n".join(f"{name}\n\n{table}" for name, table in made.items()))
        differ = difflib.unified_diff(
            page.splitlines(), written.splitlines(), "the page", "the runs", lineterm="", n=0
        )
        for line in differ:
            print(line, file=sys.stderr)
    wrong = [claim for claim, holds in claims(judged).items() if not holds]
    for claim in wrong:
        print(f"the runs do not show it: {claim}", file=sys.stderr)
    return 1 if wrong or (page != written and not given.write) else 0


def _refused(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


def tables(judged: Judged) -> dict[str, str]:
    """Every table, by the name of its mark."""
    return {"nulls": nulls(judged.rows), "ways": ways(judged), "families": families(judged)}


def nulls(rows: Sequence[readings.Row]) -> str:
    """What was published, and what the same figures are without runs that were not measured."""
    lines = [
        "| | `shell` | `primed` | `mcp` |",
        "| --- | ---: | ---: | ---: |",
    ]
    measures = (
        ("mean tokens, nulls as zeros", readings.mean_tokens, True, "{:,.0f}"),
        ("mean tokens, nulls left out", readings.mean_tokens, False, "{:,.0f}"),
        ("median cold cost, nulls as zeros", readings.median_cold_usd, True, "${:.3f}"),
        ("median cold cost, nulls left out", readings.median_cold_usd, False, "${:.3f}"),
    )
    for label, figure, as_zero, style in measures:
        cells = (style.format(figure(rows, arm, as_zero=as_zero)) for arm in readings.ARMS)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ways(judged: Judged) -> str:
    """One change, read in five ways: 95% intervals."""
    tasks, count = len(judged.apart["mcp"].tasks), len(judged.tasks)
    heads = f"all runs pooled | each pair a task | {tasks} tasks | {count} families"
    lines = [
        f"| | {heads} | on these very tasks |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for candidate in CANDIDATES:
        for measure in MEASURES:
            cells = (
                _percent(readings.pooled(judged.rows, candidate, measure.of)),
                _percent(readings.each_pair_a_task(judged.rows, candidate, measure.of)),
                _percent(change_of(judged.apart[candidate], measure, "tasks_like_these")),
                _percent(readings.over_families(judged.rows, candidate, measure.of)),
                _percent(change_of(judged.alike[candidate], measure, "these_tasks")),
            )
            lines.append(f"| `{candidate}`: {measure.label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def families(judged: Judged) -> str:
    """Each of the tasks on its own, over the agents that did it."""
    shown = TIME, TOKENS, COST
    heads = [f"`{arm}`: {measure.label}" for arm in CANDIDATES for measure in shown]
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for task in judged.tasks:
        cells = [
            _percent(change_of(judged.single[task, arm], measure, "these_tasks"))
            for arm in CANDIDATES
            for measure in shown
        ]
        lines.append(f"| `{task}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(change: readings.Change | None) -> str:
    if change is None:
        return "-"
    middle, low, high = (f"{100 * (ratio - 1):+.1f}" for ratio in change)
    return f"{middle}% ({low} to {high})"


def with_tables(page: str, made: dict[str, str]) -> str:
    """The page with each table between its marks."""
    for name, table in made.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, after = page.split(start)
        page = f"{before}{start}\n\n{table}\n\n{end}{after.split(end)[1]}"
    return page


if __name__ == "__main__":
    sys.exit(main())
