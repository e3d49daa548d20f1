"""Distributions: quantiles and tails, sums of whole numbers, binomials, independent events."""

from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from twoarm.runs.arrays import Floats, Ints

# Cells of the distributions that are held at once.
_MOST_CELLS = 1 << 21
# The logarithm of a share too small to change a chance.
_NOTHING = -50.0


@lru_cache(maxsize=256)
def student(p: float, df: float) -> float:
    """The p-quantile of Student's t with `df` degrees of freedom."""
    from scipy import special

    return float(special.stdtrit(df, p))


def normal_below(z: Floats) -> Floats:
    """The chance that a standard normal is below each z."""
    from scipy import special

    chances: Floats = special.ndtr(z)
    return chances


def normal_quantile(p: Floats) -> Floats:
    """The z below which a standard normal is with each chance."""
    from scipy import special

    quantiles: Floats = special.ndtri(p)
    return quantiles


def log_choose(n: Ints | int, k: Ints | int) -> Floats:
    """The logarithm of the number of ways to choose k of n."""
    from scipy import special

    total, chosen, left = (special.gammaln(np.add(m, 1)) for m in (n, k, np.subtract(n, k)))
    ways: Floats = total - chosen - left
    return ways


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """Values and the chance of each."""

    values: Floats
    chances: Floats


def sum_of_draws(pmf: Floats, times: int) -> Floats:
    """The chances of the sum of `times` independent draws from 0, 1, 2, ... with these chances."""
    size = (len(pmf) - 1) * times + 1
    # A power of two is quick to transform.
    length = 1 << max(1, (size - 1).bit_length())
    chances = np.fft.irfft(_power(np.fft.rfft(pmf, length), times), length)[:size]
    return np.clip(chances, 0.0, 1.0)


def _power(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """By squaring: far quicker than numpy's own power of complex numbers."""
    product = np.ones_like(values)
    while True:
        if times & 1:
            product = product * values
        times >>= 1
        if not times:
            return product
        values = values * values


def binomial_tails(sizes: Ints, counts: Ints, bounds: tuple[int, int]) -> Floats:
    """For each row of counts: the chances that the sum over tasks of Binomial(size, count / size)
    reaches each of the bounds."""
    total = int(sizes.sum())
    shares = counts / sizes
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
        # The logarithm of zero, kept finite: zero draws of it must give a factor of one.
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
        reached = height * np.cos(turned) @ cosines[:kept] + height * np.sin(turned) @ sines[:kept]
        tails.append(np.clip(reached, 0.0, 1.0))
    return np.concatenate(tails)


@lru_cache(maxsize=16)
def _beyond(total: int, bounds: tuple[int, int]) -> tuple[Floats, Floats]:
    """What turns the transform of chances on 0 to `total` into those from each bound on.

    By Parseval: the product with the transform of "from the bound on", cosines and sines apart.
    """
    length = total + 1
    reached = np.arange(length)[:, None] >= np.asarray(bounds)
    transform = np.fft.rfft(reached.astype(np.float64), axis=0) / length
    # The half of the transform that is not kept mirrors the one that is.
    transform[1 : (length + 1) // 2] *= 2.0
    return transform.real.copy(), transform.imag.copy()


def chance_of_at_least(count: int, chances: Floats) -> float:
    """The chance that at least this many of some independent events happen."""
    if count <= 0:
        return 1.0
    # The chances of fewer: what has reached the count is out of the sum.
    fewer = np.zeros(count)
    fewer[0] = 1.0
    for chance in chances[chances > 0]:
        moved = fewer * chance
        fewer -= moved
        fewer[1:] += moved[:-1]
    return max(0.0, 1.0 - float(fewer.sum()))
