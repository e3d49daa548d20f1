"""Success rates of tasks, and what a change of the odds does to them."""

import math
from functools import lru_cache

import msgspec
import numpy as np

from twoarm.evidence.kernel import normal_quantile
from twoarm.runs.arrays import Floats

# Success rates are kept off 0 and 1, where no change of the odds shows; and changes of the odds
# from where all of them would be at one end.
_NEAREST, _STEEPEST, _FURTHEST = 1e-3, 5.0, 30.0
# Points at which a change of the odds that differs between tasks is averaged.
_NODES = 31


class Variances(msgspec.Struct, frozen=True, kw_only=True):
    """That of a candidate's run and a baseline's together, and that of the change between tasks."""

    run: float
    task: float


@lru_cache(maxsize=256)
def added_by(encoded: bytes, change: float, families: bytes | None = None) -> Variances:
    """What a change of success adds: it moves rates to or from one half, and some tasks further.

    Of families, which have the mean of their tasks, the run variance is still that of a task.
    """
    rates = np.frombuffer(encoded)
    before = logistic(logits(rates))
    after = logistic(logits(rates) + odds_shift(logits(rates).tobytes(), change, 0.0))
    moved = after - before
    if families is not None:
        family = np.frombuffer(families, dtype=np.int64)
        moved = np.bincount(family, moved) / np.bincount(family)
    return Variances(
        run=float((after * (1.0 - after) - before * (1.0 - before)).mean()),
        task=float(moved.var()),
    )


def odds_spread(rates: Floats, task_variance: float) -> float:
    """How much the change of the log odds differs between tasks."""
    slope = float((rates * (1.0 - rates)).mean())
    return min(_STEEPEST, math.sqrt(task_variance) / max(slope, 0.01))


@lru_cache(maxsize=64)
def odds_shift(encoded: bytes, change: float, spread: float) -> float:
    """The change of the log odds that changes success by this much on average."""
    before = np.frombuffer(encoded)
    nodes = normal_quantile((np.arange(_NODES) + 0.5) / _NODES)
    wanted = float(logistic(before).mean()) + change
    low, high = -_FURTHEST, _FURTHEST
    for _ in range(40):
        middle = (low + high) / 2.0
        reached = float(logistic(before[:, None] + middle + spread * nodes).mean())
        low, high = (middle, high) if reached < wanted else (low, middle)
    return low


def logits(rates: Floats) -> Floats:
    """The log odds of rates."""
    kept = np.clip(rates, _NEAREST, 1.0 - _NEAREST)
    return np.log(kept / (1.0 - kept))


def logistic(odds: Floats) -> Floats:
    """The rates of log odds."""
    return 1.0 / (1.0 + np.exp(-odds))
