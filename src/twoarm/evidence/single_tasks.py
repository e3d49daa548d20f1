"""Which tasks the candidate helps, as far as one task can tell."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.interval import FURTHEST
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.evidence.shrink import Shrunk, noise_of, shrunk_means, shrunk_rates
from twoarm.evidence.single_parts import SingleChange, SingleTask
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import SUCCESS, Better

# What any processor's sums agree on.
_DIGITS = 9
_STANDINGS: tuple[Literal["no clear difference", "better", "worse"], ...] = (
    "no clear difference",
    "better",
    "worse",
)


def single_tasks(
    runs: Sequence[TaskRuns], names: tuple[str, ...], level: float
) -> tuple[SingleTask, ...]:
    """The change in every task that both arms have; none where there are too few of them.

    `runs` are on the scale of the tests: success, and what has a ratio.
    """
    changes: dict[int, dict[str, SingleChange]] = {}
    for measure in runs:
        changed = shrunk(measure, level)
        if changed is None:
            continue
        places = np.flatnonzero(measure.shared)
        moved = changed.low, changed.estimates, changed.high
        ends = np.minimum([*moved, measure.deltas[places]], FURTHEST)
        shown = _rounded(np.exp(ends) if measure.logs else ends)
        rows = zip(places.tolist(), _clear(measure, shown), shown.T.tolist(), strict=True)
        # There may be many tasks: only what has to be is done for each of them.
        for place, clear, (low, estimate, high, seen) in rows:
            changes.setdefault(place, {})[measure.metric.name] = SingleChange(
                ratio=measure.logs,
                seen=seen,
                estimate=estimate,
                low=low,
                high=high,
                standing=_STANDINGS[clear],
            )
    tasks = runs[0].layout.tasks
    return tuple(
        SingleTask(task_id=names[int(tasks[place])], changes=changes[place])
        for place in sorted(changes)
    )


def shrunk(runs: TaskRuns, level: float) -> Shrunk | None:
    """An estimate for each task that has the metric in both arms; None where nothing can tell how
    noisy one task is, or how tasks differ."""
    sizes = runs.sizes[:, runs.shared]
    if sizes.shape[1] < FEWEST_TASKS:
        return None
    if runs.metric is SUCCESS:
        passed = np.rint(runs.means[:, runs.shared] * sizes).astype(np.int64)
        return shrunk_rates(passed, sizes, level)
    if not runs.logs or runs.played_again:
        return None
    noise = noise_of(runs.spreads[:, runs.shared], sizes)
    if noise is None or not noise.variance.all():
        return None
    return shrunk_means(runs.deltas[runs.shared], noise, level)


def _clear(runs: TaskRuns, shown: Floats) -> list[int]:
    """Of each task, which of the standings it has; an interval that holds no change has none."""
    low, high = shown[0], shown[2]
    nothing = 1.0 if runs.logs else 0.0
    more, less = low > nothing, high < nothing
    better, worse = (more, less) if runs.metric.better is Better.HIGHER else (less, more)
    clear: list[int] = (better + 2 * worse).tolist()
    return clear


def _rounded(values: Floats) -> Floats:
    # Of what is as good as zero no digit counts.
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-200)))
    scale = 10.0 ** (_DIGITS - 1.0 - size)
    rounded: Floats = np.rint(values * scale) / scale + 0.0
    return rounded
