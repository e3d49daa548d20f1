"""Whether the effect of a change is still what it was, asked again after every result.

The effect is always that against the baseline which ran beside the candidate: days on which
everything is slow cancel out. For every place at which it may have changed, the mean effect of each
task before and after is compared; how much it varies from result to result, task by task, says how
far the means may stray by chance (Welch's t). The error is spent over all places and all results:
with k results, alpha / (k (k - 1)) is shared by their k - 1 places, and the sum over all k is
alpha. So a whole history without a change raises an alarm in at most alpha of cases, however long
it is and however often somebody looks.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from twoarm.evidence.results import FEWEST_TASKS
from twoarm.runs.arrays import Flags, Floats, Ints

# With two results, nobody knows how far apart they are by chance.
FEWEST_RESULTS = 3


class EffectShift(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the effect: the first result after it, and the result it was seen with.

    The means are over all results until the next change on either side, and over the tasks that
    both sides have.
    """

    since: int
    seen: int
    before: float
    after: float
    p: float


def shifts(effects: Floats, alpha: float) -> list[EffectShift]:
    """Every change in a history: a row for each result, a column for each task, NaN where none.

    After a change the history starts over, with the first result that shows it.
    """
    seen: list[_Seen] = []
    start = 0
    while (shift := _first_shift(effects, start, alpha)) is not None:
        seen.append(shift)
        start = shift.since
    edges = [0, *(shift.since for shift in seen), len(effects)]
    return [
        _told(effects, shift, slice(edges[at], edges[at + 1]), slice(edges[at + 1], edges[at + 2]))
        for at, shift in enumerate(seen)
    ]


class _Seen(NamedTuple):
    since: int
    seen: int
    p: float


def _told(effects: Floats, shift: _Seen, before: slice, after: slice) -> EffectShift:
    sides = [effects[before], effects[after]]
    counts = [(~np.isnan(side)).sum(axis=0) for side in sides]
    both = np.minimum(*counts) > 0
    means = [float(np.nanmean(side[:, both], axis=0).mean()) for side in sides]
    return EffectShift(
        since=shift.since, seen=shift.seen, before=means[0], after=means[1], p=shift.p
    )


def _first_shift(effects: Floats, start: int, alpha: float) -> _Seen | None:
    """The first result from a start on with which a change is clear."""
    effects = effects[start:]
    known = ~np.isnan(effects)
    filled = np.where(known, effects, 0.0)
    sums = _Sums(
        counts=np.cumsum(known, axis=0).astype(np.float64),
        totals=np.cumsum(filled, axis=0),
        squares=np.cumsum(filled**2, axis=0),
    )
    for results in range(FEWEST_RESULTS, len(effects) + 1):
        spent = alpha / (results * (results - 1))
        splits = sums.split(results)
        least = float(splits.p.min())
        if least < spent / (results - 1):
            # The place that leaves the least spread on both sides; the chance allows for all.
            at = int(np.argmax(splits.gain))
            return _Seen(start + at + 1, start + results - 1, least * (results - 1))
    return None


class _Splits(NamedTuple):
    """For each place: the chance of what lies between its sides, and how much it explains."""

    p: Floats
    gain: Floats


class _Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Running sums over results, a column for each task."""

    counts: Floats
    totals: Floats
    squares: Floats

    def split(self, results: int) -> _Splits:
        """Every place in the first so many results; only tasks that are on both sides count."""
        every = (self.counts, self.totals, self.squares)
        early = [each[: results - 1] for each in every]
        late = [each[results - 1] - part for each, part in zip(every, early, strict=True)]
        used = (early[0] > 0) & (late[0] > 0) & (early[0] + late[0] > 2)
        means, errors, spreads = zip(*(_side(used, *side) for side in (early, late)), strict=True)
        free = np.where(used, early[0] + late[0] - 2.0, 1.0)
        error = np.where(used, errors[0] + errors[1], 1.0)
        variances = (spreads[0] + spreads[1]) / free * error
        differences = means[1] - means[0]
        return _Splits(
            p=_p_of(differences, variances, free, used.sum(axis=1)),
            gain=(differences**2 / error).sum(axis=1),
        )


def _side(
    used: Flags, counts: Floats, totals: Floats, squares: Floats
) -> tuple[Floats, Floats, Floats]:
    """Of one side, task by task: the mean, the share of the variance it has, and the spread."""
    size = np.where(used, counts, 1.0)
    mean = np.where(used, totals, 0.0) / size
    # What rounding leaves of nothing is not a spread.
    spread = squares - size * mean**2
    spread = np.where(used & (spread > 1e-12 * squares), spread, 0.0)
    return mean, np.where(used, 1.0 / size, 0.0), spread


def _p_of(differences: Floats, variances: Floats, free: Floats, tasks: Ints) -> Floats:
    """Two-sided; 1 where there are too few tasks or nothing varies."""
    from scipy.special import stdtr

    variance = variances.sum(axis=1)
    usable = (tasks >= FEWEST_TASKS) & (variance > 0.0)
    variance = np.where(usable, variance, 1.0)
    of_each = np.where(usable, (variances**2 / free).sum(axis=1), 1.0)
    t = differences.sum(axis=1) / np.sqrt(variance)
    p: Floats = np.where(usable, 2.0 * stdtr(variance**2 / of_each, -np.abs(t)), 1.0)
    return p
