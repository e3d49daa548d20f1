"""Intervals of many means at once: all of them hold together at the level, not each by itself.

The residuals of whole tasks change sign at random, one sign per task for all means, so that what
moves together stays together. The largest of the studentized means is what the intervals go by:
with many of them each is wider, and whichever looks largest is not therefore clear.
"""

import math

import numpy as np

from twoarm.evidence.relabel import ONE_BY_ONE, signs
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.runs.arrays import Floats

# What rounding leaves is not variation.
_ROUNDING = 1e-18


def simultaneous(deltas: Floats, level: float, seed: int) -> list[tuple[float, float] | None]:
    """An interval for the mean of each row of deltas, a column per task; None where none is known.

    With fewer tasks than can speak for others there is none at all, nor where nothing varies.
    """
    rows, tasks = deltas.shape
    if tasks < FEWEST_TASKS or not rows:
        return [None] * rows
    means = deltas.mean(axis=1)
    residuals = deltas - means[:, None]
    squares = (residuals**2).sum(axis=1)
    varied = squares > _ROUNDING * np.maximum(1.0, (deltas**2).sum(axis=1))
    reach = _reach(_bundled(residuals[varied]), level, seed)
    errors = np.sqrt(squares / (tasks - 1) / tasks)
    return [
        (float(mean - reach * error), float(mean + reach * error))
        if known and math.isfinite(reach)
        else None
        for mean, error, known in zip(means, errors, varied, strict=True)
    ]


def _bundled(residuals: Floats) -> Floats:
    """Many tasks change sign in bundles."""
    tasks = residuals.shape[1]
    if tasks <= ONE_BY_ONE:
        return residuals
    found: Floats = np.add.reduceat(residuals, np.arange(ONE_BY_ONE) * tasks // ONE_BY_ONE, axis=1)
    return found


def _reach(residuals: Floats, level: float, seed: int) -> float:
    """How many standard errors hold the largest of the means at the level."""
    units = residuals.shape[1]
    sums = signs(units, seed) @ residuals.T
    left = np.maximum((residuals**2).sum(axis=1) - sums**2 / units, 0.0) / (units - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        studentized = np.abs(sums) / np.sqrt(units * left)
    largest = np.sort(studentized.max(axis=1, initial=0.0))
    return float(largest[math.ceil(level * len(largest)) - 1])
