"""The numerical kernel for more than a handful of runs: numpy and scipy.special.

Same names and same answers as `plain`.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from twoarm.evidence.interval import Atoms

# Cells of the laws that are held at once.
_MOST_CELLS = 1 << 21
# The logarithm of a share too small to change a chance.
_NOTHING = -50.0


@lru_cache(maxsize=256)
def student(p: float, df: float) -> float:
    """The p-quantile of Student's t with `df` degrees of freedom."""
    return float(special.stdtrit(df, p))


def power(pmf: list[float], times: int) -> list[float]:
    """The law of the sum of `times` independent draws from 0, 1, 2, ... with these chances."""
    size = (len(pmf) - 1) * times + 1
    law = np.fft.irfft(np.fft.rfft(pmf, _fast(size)) ** times, _fast(size))[:size]
    chances: list[float] = np.clip(law, 0.0, 1.0).tolist()
    return chances


def binomial_tails(
    sizes: list[int], counts: list[list[int]], bounds: tuple[int, int]
) -> list[list[float]]:
    """For each row of counts: the chances that the sum over tasks of Binomial(size, count / size)
    reaches each of the bounds."""
    total = sum(sizes)
    shares = np.asarray(counts) / np.asarray(sizes)
    distinct, which = np.unique(shares, return_inverse=True)
    # How many draws each row makes with each distinct share: tasks alike share a factor.
    rows, kinds = len(counts), len(distinct)
    at = which.reshape(shares.shape) + kinds * np.arange(rows)[:, None]
    weights = np.broadcast_to(sizes, shares.shape)
    draws = np.bincount(at.ravel(), weights=weights.ravel(), minlength=rows * kinds)
    draws = draws.reshape(rows, kinds)
    angle = np.pi * np.arange((total + 1) // 2 + 1) / (total + 1)
    share = distinct[:, None]
    with np.errstate(divide="ignore"):
        # A factor of zero, finite so that no draws of it make one.
        size = np.maximum(0.5 * np.log1p(-4.0 * share * (1.0 - share) * np.sin(angle) ** 2), -1e6)
    turn = np.arctan2(-share * np.sin(2.0 * angle), 1.0 - share + share * np.cos(2.0 * angle))
    cosines, sines = _beyond(total, bounds)
    tails = []
    step = max(1, _MOST_CELLS // len(angle))
    for start in range(0, rows, step):
        some = draws[start : start + step]
        sizes_of = some @ size
        # The transform only shrinks with the angle; what is left of it soon weighs nothing.
        kept = int((sizes_of > _NOTHING).any(axis=0).sum())
        height, turned = np.exp(sizes_of[:, :kept]), some @ turn[:, :kept]
        law = height * np.cos(turned) @ cosines[:kept] + height * np.sin(turned) @ sines[:kept]
        tails.append(np.clip(law, 0.0, 1.0))
    found: list[list[float]] = np.concatenate(tails).tolist()
    return found


@lru_cache(maxsize=16)
def _beyond(total: int, bounds: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What turns the transform of a law on 0 to `total` into its chances from each bound on.

    By Parseval: the product with the transform of "from the bound on", cosines and sines apart.
    """
    length = total + 1
    reached = np.arange(length)[:, None] >= np.asarray(bounds)
    transform = np.fft.rfft(reached.astype(np.float64), axis=0) / length
    # The half of the transform that is not kept mirrors the one that is.
    transform[1 : (length + 1) // 2] *= 2.0
    return transform.real.copy(), transform.imag.copy()


def _fast(size: int) -> int:
    """A length not below `size` that is quick to transform."""
    return 1 << max(1, (size - 1).bit_length())


def subset_sums(values: list[float], size: int) -> list[float]:
    """The sum of every choice of `size` of the values."""
    # Choices of the first k values, by how many of them were taken.
    by_taken: list[NDArray[np.float64]] = [np.zeros(1)] + [np.empty(0)] * size
    for value in values:
        for taken in range(size, 0, -1):
            by_taken[taken] = np.concatenate((by_taken[taken], by_taken[taken - 1] + value))
    sums: list[float] = by_taken[size].tolist()
    return sums


def all_sums(groups: list[list[float]]) -> list[float]:
    """Every sum of one value from each group, in order."""
    sums = np.zeros(1)
    for group in groups:
        sums = (sums[:, None] + np.asarray(group)).ravel()
    ordered: list[float] = np.sort(sums).tolist()
    return ordered


def share_beyond(left: list[float], right: list[float], bound: float) -> float:
    """The share of sums of one of each, both ordered, that lie at least `bound` from zero."""
    starts = np.asarray(left)
    above = len(right) - np.searchsorted(right, bound - starts, side="left")
    below = np.searchsorted(right, -bound - starts, side="right")
    return float((above + below).sum() / (len(left) * len(right)))


def difference_quantile(left: Atoms, right: Atoms, p: float) -> float:
    """The p-quantile of left minus right, independent of each other."""
    values = np.subtract.outer(left.values, right.values).ravel()
    chances = np.multiply.outer(left.chances, right.chances).ravel()
    values, chances = values[chances > 0], chances[chances > 0]
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(chances[order])
    at = int(np.searchsorted(reached, p * float(chances.sum()) - 1e-12))
    return float(values[order[min(at, len(order) - 1)]])
