"""Whether two results are about the same runs, however their files were copied, packed or named.

A result that counts twice varies less than chance has it, and raises alarms of its own.
"""

import json
from hashlib import sha256

import numpy as np

from twoarm.compare.chosen import asked_for
from twoarm.compare.comparison import Comparison
from twoarm.options import Options
from twoarm.result.history_file import LoggedResult


def runs_digest(comparison: Comparison, options: Options) -> str | None:
    """Of the runs of both arms that were asked for, whatever order their lines have.

    How they were graded is left out: graded again, they are the same runs. None if no run says when
    it started, how long it took or what it used, because other runs may look alike then.
    """
    runs = comparison.runs
    arms = [runs.arms.index(arm) for arm in comparison.arms.both if arm in runs.arms]
    rows = np.flatnonzero(asked_for(runs, options) & np.isin(runs.arm, arms))
    # Start times were read, because a history needs the evidence.
    figures = np.column_stack([runs.started, *runs.numbers.values()])[rows]
    if not (figures > 0.0).any():
        return None
    lines = {
        json.dumps([runs.tasks[task], runs.arms[arm], repeat, *told])
        for task, arm, repeat, told in zip(
            *(column[rows].tolist() for column in (runs.task, runs.arm, runs.repeat)),
            figures.tolist(),
            strict=True,
        )
    }
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()


def same_runs(ours: LoggedResult, theirs: LoggedResult) -> bool:
    """Whether two results of one series are about the same runs, as far as their files say."""
    if ours.series != theirs.series:
        return False
    if ours.runs_sha256 is not None and theirs.runs_sha256 is not None:
        return ours.runs_sha256 == theirs.runs_sha256
    return bool(ours.inputs_sha256) and ours.inputs_sha256 == theirs.inputs_sha256
