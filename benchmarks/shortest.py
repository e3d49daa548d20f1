"""How short an interval of success on these tasks can be, whatever the method.

An interval holds a difference d unless one of its ends is on the wrong side of it. Of the end
between d and the truth that is a test of d, and no test beats the likelihood ratio; the other end
is only beyond d if the difference that was seen is, too. So the chance that d is outside is at most
the power of the best test and a little more, and the mean length at least the integral over d of
what is left [Pratt]. Each end may miss 2.5 % of the time, and what was seen lies inside: no such
interval can be shorter, even if it knows the rates of these very tasks.
"""

import numpy as np

from twoarm.runs.arrays import Floats

MISSED = 0.025
# Differences are taken so many to each side, out to so many times half the length to compare with;
# further away the test rejects every time.
STEPS, FURTHEST = 36, 3.0
SAMPLES = 2_000
# No rate is closer to 0 or 1: logarithms have to exist.
CLOSEST = 1e-9


def shortest(rates: Floats, repeats: int, half: float, draw: np.random.Generator) -> float:
    """Half the least mean length; `rates` has a row for each arm, and `half` sets the grid."""
    rates = rates.clip(CLOSEST, 1.0 - CLOSEST)
    step = FURTHEST * half / STEPS
    away = (np.arange(STEPS) + 0.5) * step
    wanted = (rates[0] - rates[1]).mean() + np.concatenate((-away, away))
    wanted = wanted[np.abs(wanted) < 1.0]
    passed = draw.binomial(repeats, rates, (SAMPLES, *rates.shape)).reshape(SAMPLES, -1)
    other = nearest(rates, wanted)
    by_pass, by_fail = np.log(rates / other), np.log((1.0 - rates) / (1.0 - other))
    weights = (by_pass - by_fail).reshape(len(wanted), -1)
    ratio = passed @ weights.T + repeats * by_fail.sum(axis=(1, 2))
    seen = passed.reshape(SAMPLES, 2, -1).mean(axis=2) @ (1.0, -1.0) / repeats
    truth = (rates[0] - rates[1]).mean()
    beyond = (np.sign(wanted - truth) * (seen[:, None] - wanted) > 0.0).mean(axis=0)
    held = 1.0 - power(ratio) - np.minimum(beyond, MISSED)
    return float(step * held.clip(0.0).sum() / 2.0)


def nearest(rates: Floats, wanted: Floats) -> Floats:
    """For each wanted difference the rates that have it and are hardest to tell from these.

    Of least divergence: `(x - p) / (x (1 - x))` is the same for all tasks, up to its sign in the
    second arm, and found by halving.
    """
    sign = np.array([[1.0], [-1.0]])

    def at(pull: Floats) -> Floats:
        each = sign * np.sinh(pull)[:, None, None]
        found: Floats = 2.0 * rates / (1.0 - each + np.sqrt((1.0 - each) ** 2 + 4.0 * each * rates))
        return found.clip(CLOSEST, 1.0 - CLOSEST)

    low, high = np.full(len(wanted), -15.0), np.full(len(wanted), 15.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        found = at(middle)
        short = (found[:, 0] - found[:, 1]).mean(axis=1) < wanted
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return at((low + high) / 2.0)


def power(ratio: Floats) -> Floats:
    """Of the best test of each column's rates, from log likelihood ratios drawn without them.

    Under the rates tested, a sample weighs `exp(-ratio)` as much.
    """
    best = -np.sort(-ratio, axis=0)
    ends = np.zeros((1, ratio.shape[1]))
    spent = np.concatenate((ends, np.cumsum(np.exp(-best), axis=0) / len(ratio), ends + np.inf))
    whole = (spent <= MISSED).sum(axis=0) - 1
    before, after = (spent[whole + way, np.arange(len(whole))] for way in (0, 1))
    found: Floats = (whole + (MISSED - before) / (after - before)) / len(ratio)
    return found
