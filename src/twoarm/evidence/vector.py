"""The numerical kernel for more than a handful of runs: numpy and scipy.special.

Same names and same answers as `plain`.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special


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


def binomials(sizes: list[int], counts: list[int]) -> list[float]:
    """The law of the sum over tasks of Binomial(size, count / size)."""
    size = sum(sizes) + 1
    length = _fast(size)
    roots = np.exp(-2j * np.pi * np.arange(length // 2 + 1) / length)
    # Tasks alike in size and count share a factor.
    alike: dict[float, int] = {}
    for n, c in zip(sizes, counts, strict=True):
        alike[c / n] = alike.get(c / n, 0) + n
    transform = np.ones(length // 2 + 1, dtype=complex)
    for q, n in alike.items():
        transform *= (1.0 - q + q * roots) ** n
    law = np.fft.irfft(transform, length)[:size]
    chances: list[float] = np.clip(law, 0.0, 1.0).tolist()
    return chances


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
