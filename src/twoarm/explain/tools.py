"""What the agent did differently: calls of each tool, per arm and paired by task.

These are diagnostics: they explain, and never block. The intervals hold for all tools together.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.evidence.cells import family_means, places
from twoarm.evidence.relabel import simultaneous
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.options import Options
from twoarm.runs.arrays import Flags, Floats, Ints
from twoarm.runs.record import OTHER_TOOLS
from twoarm.runs.tool_columns import Tallies

# This many of the tools that are called most are compared.
MOST_COMPARED = 50
# This many of those that differ most are reported.
LARGEST = 10


class ToolShift(msgspec.Struct, frozen=True, kw_only=True):
    """How one tool is called in both arms.

    The first figures are those of each arm's own runs; `mean_delta` is the mean over tasks of the
    paired difference in calls per run, `change` the same as a share of the baseline's. The interval
    is for `mean_delta`, adjusted for all tools; failed calls are None where no run tells.
    """

    tool: str
    candidate_per_run: float | None
    baseline_per_run: float | None
    candidate_failed: int | None
    baseline_failed: int | None
    mean_delta: float | None
    change: float | None
    low: float | None
    high: float | None

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that differ most, and failed calls of all tools together.

    `runs` are those that tell their calls, in the candidate and the baseline; `pairs` those of
    which both do; `families` is null where no two tasks are of one. `compared` is how many
    differences the intervals allow for.
    """

    runs: tuple[int, int]
    pairs: int
    tasks: int
    families: int | None
    tools: int
    compared: int
    level: float
    largest: tuple[ToolShift, ...]
    failed: ToolShift | None


def find_tools(comparison: Comparison, options: Options) -> ToolUse | None:
    """How the calls differ; None if no counted run of one of the arms tells them."""
    columns = comparison.runs.tools
    made = _Calls(comparison, columns.made)
    if not all(made.known_runs):
        return None
    failed = _Calls(comparison, columns.failed)
    totals = made.totals[0] + made.totals[1]
    ranked = [code for code in np.argsort(-totals, kind="stable").tolist() if totals[code]]
    compared = [code for code in ranked if columns.names[code] != OTHER_TOOLS][:MOST_COMPARED]
    rows = [made.deltas(code) for code in compared]
    wrong = failed.deltas(None) if all(failed.known_runs) else None
    paired = wrong is not None and made.tasks.tolist() == failed.tasks.tolist()
    deltas = np.array([*rows, wrong] if paired else rows).reshape(
        -1, made.families or len(made.tasks)
    )
    ranges: list[tuple[float, float] | None] = [None] * len(deltas)
    if options.evidence:
        ranges = simultaneous(deltas, options.level, options.seed)
    shifts = [
        _shift(columns.names[code], code, made, failed, ranges[at])
        for at, code in enumerate(compared)
    ]
    shifts.sort(key=lambda shift: (-abs(shift.mean_delta or 0.0), shift.tool))
    last = None
    if all(failed.known_runs):
        last = _shift("", None, failed, failed, ranges[-1] if paired else None)
    return ToolUse(
        runs=(made.known_runs[0], made.known_runs[1]),
        pairs=int(made.pairs.sum()),
        tasks=len(made.tasks),
        families=made.families,
        tools=len([code for code in ranked if columns.names[code] != OTHER_TOOLS]),
        compared=len(deltas),
        level=options.level,
        largest=tuple(shifts[:LARGEST]),
        failed=last,
    )


def _shift(
    name: str,
    code: int | None,
    made: "_Calls",
    failed: "_Calls",
    interval: tuple[float, float] | None,
) -> ToolShift:
    ours, theirs = (
        float(_of_tool(totals, code)) / runs
        for totals, runs in zip(made.totals, made.known_runs, strict=True)
    )
    deltas = made.deltas(code)
    baseline = made.baseline_means(code)
    moved = float(deltas.mean()) if len(deltas) else None
    usual = float(baseline.mean()) if len(baseline) else 0.0
    wrong = [
        None if not runs else int(_of_tool(totals, code))
        for totals, runs in zip(failed.totals, failed.known_runs, strict=True)
    ]
    return ToolShift(
        tool=name,
        candidate_per_run=ours,
        baseline_per_run=theirs,
        candidate_failed=wrong[0],
        baseline_failed=wrong[1],
        mean_delta=moved,
        change=moved / usual if moved is not None and usual else None,
        low=None if interval is None else interval[0],
        high=None if interval is None else interval[1],
    )


class _Calls:
    """The counts of one key, by arm, tool and task."""

    def __init__(self, comparison: Comparison, tallies: Tallies) -> None:
        runs, pairing = comparison.runs, comparison.pairing
        arms = comparison.screening.arms
        known = np.zeros(len(runs), dtype=bool)
        known[tallies.known] = True
        self._names = len(runs.tools.names)
        self._tasks = len(runs.tasks)
        self.known_runs = [int(known[arm.rows].sum()) for arm in arms]
        sides = (arms[0].rows[pairing.candidate], arms[1].rows[pairing.baseline])
        both = known[sides[0]] & known[sides[1]]
        self.pairs: Ints = np.bincount(pairing.task[both], minlength=self._tasks)
        # The tasks with a pair in which both runs tell their calls.
        self.tasks: Ints = np.flatnonzero(self.pairs)
        self._family = places(comparison.families, self.tasks)
        self.families = None if self._family is None else int(self._family.max()) + 1
        self.totals = [self._by_tool(tallies, _flags(len(runs), arm.rows)) for arm in arms]
        ours, self._theirs = (
            self._by_task(tallies, _flags(len(runs), side[both]), runs.task) for side in sides
        )
        self._moved: Floats = ours - self._theirs

    def _by_tool(self, tallies: Tallies, chosen: Flags) -> Floats:
        these = chosen[tallies.row]
        totals: Floats = np.bincount(
            tallies.tool[these], weights=tallies.count[these], minlength=self._names
        ).astype(np.float64)
        return totals

    def _by_task(self, tallies: Tallies, chosen: Flags, task: Ints) -> Floats:
        """Calls per pair, a row per tool, a column per task that has pairs, or per family."""
        these = chosen[tallies.row]
        at = tallies.tool[these] * self._tasks + task[tallies.row[these]]
        sums = np.bincount(
            at, weights=tallies.count[these], minlength=self._names * self._tasks
        ).reshape(self._names, self._tasks)
        calls: Floats = sums[:, self.tasks] / self.pairs[self.tasks]
        return calls if self._family is None else family_means(calls, self._family)

    def deltas(self, code: int | None) -> Floats:
        return _of_tool(self._moved, code)

    def baseline_means(self, code: int | None) -> Floats:
        return _of_tool(self._theirs, code)


def _of_tool(rows: Floats, code: int | None) -> Floats:
    """The row of one tool, or the sum of all."""
    row: Floats = rows.sum(axis=0) if code is None else rows[code]
    return row


def _flags(size: int, rows: Ints) -> Flags:
    flags = np.zeros(size, dtype=bool)
    flags[rows] = True
    return flags


def moved(tools: ToolUse | None, most: int = 3) -> Iterator[ToolShift]:
    """The tools whose calls clearly differ, the largest shares first."""
    clear = [shift for shift in (tools.largest if tools is not None else ()) if shift.clear]
    clear.sort(key=lambda shift: -abs(shift.change if shift.change is not None else float("inf")))
    yield from clear[:most]


def too_few_tasks(tools: ToolUse) -> bool:
    """Whether there are no intervals because there are too few tasks."""
    return (tools.families or tools.tasks) < FEWEST_TASKS
