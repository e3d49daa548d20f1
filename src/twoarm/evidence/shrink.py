"""Single tasks: what each shows, moved toward what all of them show by how noisy it is.

What one task shows is mostly the noise of its few runs, and the largest of many differences is the
one with the most luck. So each is moved toward the mean of all tasks: the further, the noisier it
is and the more alike the tasks are. How alike they are is not known either; it is averaged over,
and not guessed. Differences of logarithms are taken as normal; for success, the log odds are.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import msgspec
import numpy as np

from twoarm.runs.arrays import Floats, Ints

# How far tasks may differ: so many values, up to a few times as far as what they show.
_SPREADS, _FURTHEST = 41, 3.0
# What all tasks say of the noise is worth at least so many runs of one of them.
_LEAST_LENT = 4.0
# The log odds of success go this far each way, and what the candidate adds to them from one end to
# the other. Those of an arm that always passes or never leave no other chance.
_LEVEL, _CHANGE, _STEP, _CERTAIN = 7.0, 14.0, 0.25, 40.0
# How tasks may differ: the mean of what the candidate adds, its deviation, and the share of tasks
# in which an arm always passes or never. Small means are likelier at first, so that large ones take
# data; every variance and share is as likely as any other.
_MEANS = np.arange(-_CHANGE, _CHANGE + 0.5, 1.0)
_DEVIATIONS = np.array([0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0])
_SHARES, _HALF = (0.0, 0.05, 0.15, 0.3), 0.5
# Levels are known from few runs, and are not taken for more alike than this.
_ROUNDS, _LEAST_DEVIATION = 30, 1.0
# More runs of a task and arm are taken for as many: the steps of the log odds would show.
_MOST_RUNS = 64
# Tasks that are looked at together, so that no table is too large.
_TOGETHER = 512


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate for each task, and both ends of its interval."""

    estimates: Floats
    low: Floats
    high: Floats


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """The variance of each task's difference of means, and its degrees of freedom."""

    variance: Floats
    freedom: Floats


def noise_of(spreads: Floats, sizes: Ints) -> Noise | None:
    """How noisy each task is, from the squared distances of its runs from their mean, a row for
    each arm; None where an arm has no task with two runs.

    Few runs tell little about how much they vary, so each task borrows from all of them: more, the
    more alike they look in that.
    """
    variance, freedom = np.zeros(sizes.shape[1]), np.full(sizes.shape[1], np.inf)
    for squares, n in zip(spreads, sizes, strict=True):
        own = n - 1
        if not own.any():
            return None
        pooled = float(squares.sum() / own.sum())
        lent = _lent(squares, own, pooled)
        alone = math.isinf(lent)
        variance += (pooled if alone else (squares + lent * pooled) / (own + lent)) / n
        freedom = np.minimum(freedom, own + lent)
    return Noise(variance=variance, freedom=freedom)


def _lent(squares: Floats, own: Ints, pooled: float) -> float:
    """How many runs of one task the variance of all of them is worth; they have it in common if
    variances differ no more than chance makes them."""
    several = own > 0
    if several.sum() < 2 or pooled == 0.0:
        return math.inf
    relative = squares[several] / own[several] / pooled
    chance = 2.0 * float((1.0 / own[several]).mean())
    apart = (float(((relative - 1.0) ** 2).mean()) - chance) / (1.0 + chance)
    return math.inf if apart <= 0.0 else _LEAST_LENT + 2.0 / apart


def shrunk_means(deltas: Floats, noise: Noise, level: float) -> Shrunk:
    """Differences of means; their noise is not zero."""
    from scipy import special

    # Where all show the same, the noise says how far apart they may be all the same.
    apart = float(deltas.std()) or math.sqrt(float(noise.variance.mean()))
    spreads = (np.arange(_SPREADS) + 0.5) / _SPREADS * _FURTHEST * apart
    fits = np.array([_normal_fit(deltas, noise.variance + spread**2) for spread in spreads])
    # Every variance of them is as likely as any other at first (Stein's harmonic prior).
    chances = np.exp(fits - fits.max()) * spreads
    first, second = np.zeros(len(deltas)), np.zeros(len(deltas))
    for spread, chance in zip(spreads, chances / chances.sum(), strict=True):
        weight = 1.0 / (noise.variance + spread**2)
        shrink = noise.variance * weight
        middle = deltas - shrink * (deltas - (weight @ deltas) / weight.sum())
        within = noise.variance * (1.0 - shrink) + shrink**2 / weight.sum()
        first += chance * middle
        second += chance * (within + middle**2)
    deviation = np.sqrt(np.maximum(second - first**2, 0.0))
    reach = special.stdtrit(np.minimum(noise.freedom, 1e6), (1.0 + level) / 2.0) * deviation
    return Shrunk(estimates=first, low=first - reach, high=first + reach)


def _normal_fit(deltas: Floats, variance: Floats) -> float:
    """The logarithm of how likely the differences are, whatever their mean."""
    weight = 1.0 / variance
    away = deltas - (weight @ deltas) / weight.sum()
    return float(np.log(weight).sum() - math.log(weight.sum()) - weight @ away**2) / 2.0


def shrunk_rates(passed: Ints, sizes: Ints, level: float) -> Shrunk:
    """Differences of success rates; a row for each arm.

    The log odds of tasks are normal, and so is what the candidate adds to them; but in some share
    of tasks an arm passes always or never, whatever the other does.
    """
    scale = np.minimum(1.0, _MOST_RUNS / sizes)
    counts = list(
        zip(*(passed * scale).tolist(), *((sizes - passed) * scale).tolist(), strict=True)
    )
    place_of = {each: place for place, each in enumerate(sorted(set(counts)))}
    distinct, which = np.array(list(place_of)), np.array([place_of[each] for each in counts])
    times = np.bincount(which)
    odds = _odds()
    by_level = [likely @ (odds.weights @ odds.ways) for likely in _likely(distinct, odds)]
    own = _levels(np.concatenate(by_level), times, odds.levels)
    by_change = [np.tensordot(likely, own, axes=(1, 0)) for likely in _likely(distinct, odds)]
    together = np.maximum(np.concatenate(by_change) @ odds.ways.T, 1e-300)
    fits = times @ np.log(together)
    chances = np.exp(fits - fits.max()) * odds.weights
    change = (chances / chances.sum() / together) @ odds.ways
    ends = np.empty((3, len(distinct)))
    tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
    at = 0
    for likely in _likely(distinct, odds):
        some = slice(at, at := at + len(likely))
        joint = (likely * own[:, None] * change[some, None, :]).reshape(len(likely), -1)
        ends[0, some] = joint @ odds.deltas / joint.sum(axis=1)
        for number, row in enumerate(np.cumsum(joint[:, odds.order], axis=1), some.start):
            ends[1:, number] = np.interp(np.array(tails) * row[-1], row, odds.ordered)
    estimates, low, high = ends[:, which]
    return Shrunk(
        estimates=estimates, low=np.minimum(low, estimates), high=np.maximum(high, estimates)
    )


class _Odds(msgspec.Struct, frozen=True, kw_only=True):
    """What may be true of a task, by its level and by what the candidate changes.

    `logs` are those of the chances of both arms to pass, and of both to fail. The last four changes
    are an arm that never passes or always. `ways` are those in which changes may be distributed, a
    row each, and `weights` how likely each is at first.
    """

    levels: Floats
    logs: Floats
    deltas: Floats
    order: Ints
    ordered: Floats
    ways: Floats
    weights: Floats


@lru_cache(maxsize=1)
def _odds() -> _Odds:
    levels = np.arange(-_LEVEL, _LEVEL + _STEP / 2, _STEP)[:, None]
    changes = np.arange(-_CHANGE, _CHANGE + _STEP / 2, _STEP)
    free = np.broadcast_to(levels, (len(levels), 2))
    fixed = np.broadcast_to([-_CERTAIN, _CERTAIN], free.shape)
    sides = np.stack(
        [
            np.hstack([levels + changes / 2.0, fixed, free]),
            np.hstack([levels - changes / 2.0, free, fixed]),
        ]
    )
    logs = -np.log1p(np.exp(np.concatenate([-sides, sides])))
    deltas = (np.exp(logs[0]) - np.exp(logs[1])).ravel()
    order = np.argsort(deltas, kind="stable")
    # In few tasks an arm may pass always or never for any reason, in half of them for one.
    certain = [
        *((np.full(4, share / 4.0), 1.0) for share in _SHARES),
        *((only, 0.25) for only in _HALF * np.eye(4)),
    ]
    ways, weights = [], []
    for middle, (deviation, gap), (ends, chance) in product(
        _MEANS, zip(_DEVIATIONS, np.gradient(_DEVIATIONS), strict=True), certain
    ):
        way = np.exp(-(((changes - middle) / deviation) ** 2) / 2.0)
        ways.append([*((1.0 - ends.sum()) * way / way.sum()), *ends])
        weights.append(gap * deviation * chance / (1.0 + middle**2))
    return _Odds(
        levels=levels[:, 0],
        logs=logs,
        deltas=deltas,
        order=order,
        ordered=deltas[order],
        ways=np.array(ways),
        weights=np.array(weights),
    )


def _likely(counts: Floats, odds: _Odds) -> Iterator[Floats]:
    """How likely the counts of some tasks are at each level and change, a few tasks at a time."""
    for at in range(0, len(counts), _TOGETHER):
        yield np.exp(np.tensordot(counts[at : at + _TOGETHER], odds.logs, axes=1))


def _levels(likely: Floats, times: Ints, levels: Floats) -> Floats:
    """How likely each level is among tasks: normal, fitted by how likely it is for each of them."""
    mean, deviation = 0.0, _LEVEL / 2.0
    prior = np.ones(len(levels))
    for _ in range(_ROUNDS):
        prior = np.exp(-(((levels - mean) / deviation) ** 2) / 2.0)
        joint = likely * prior
        share = (times / joint.sum(axis=1)) @ joint / times.sum()
        mean = float(share @ levels)
        deviation = max(_LEAST_DEVIATION, math.sqrt(share @ (levels - mean) ** 2))
    own: Floats = prior / prior.sum()
    return own
