"""The numerical kernel for a handful of runs: no import that takes longer than the work itself.

Same names and same answers as `vector`; the tests hold the two to each other and to scipy.
"""

import math
from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import combinations

from twoarm.evidence.interval import Atoms


@lru_cache(maxsize=256)
def student(p: float, df: float) -> float:
    """The p-quantile of Student's t with `df` degrees of freedom."""
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -student(1.0 - p, df)
    tail = 1.0 - p
    low, high = 0.0, 1.0
    while _student_tail(high, df) > tail:
        low, high = high, high * 2.0
    t = (low + high) / 2.0
    for _ in range(200):
        excess = _student_tail(t, df) - tail
        low, high = (t, high) if excess > 0.0 else (low, t)
        # Newton's step, unless it leaves what the quantile is known to be in.
        step = t + excess / _student_density(t, df)
        if not low < step < high:
            step = (low + high) / 2.0
        if abs(step - t) <= 1e-15 * t:
            break
        t = step
    return t


def _student_density(t: float, df: float) -> float:
    scale = math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0)
    shape = (df + 1.0) / 2.0 * math.log1p(t * t / df)
    return math.exp(scale - shape) / math.sqrt(df * math.pi)


def _student_tail(t: float, df: float) -> float:
    """P(T > t) for t >= 0: half of the regularized incomplete beta function."""
    return 0.5 * _incomplete_beta(df / 2.0, 0.5, df / (df + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The continued fraction of Lentz, which converges fast on this side of the mean.
    tiny = 1e-300
    c, d = 1.0, 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0), tiny)
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / _away_from_zero(1.0 + even * d, tiny)
        c = _away_from_zero(1.0 + even / c, tiny)
        fraction *= c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _away_from_zero(1.0 + odd * d, tiny)
        c = _away_from_zero(1.0 + odd / c, tiny)
        fraction *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return front * fraction / a


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny


def power(pmf: list[float], times: int) -> list[float]:
    """The law of the sum of `times` independent draws from 0, 1, 2, ... with these chances."""
    result = [1.0]
    square = pmf
    while times:
        if times & 1:
            result = convolve(result, square)
        times >>= 1
        if times:
            square = convolve(square, square)
    return result


def convolve(left: list[float], right: list[float]) -> list[float]:
    """The law of the sum of two independent whole numbers."""
    result = [0.0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        if a:
            for j, b in enumerate(right):
                result[i + j] += a * b
    return result


def binomial_tails(
    sizes: list[int], counts: list[list[int]], bounds: tuple[int, int]
) -> list[list[float]]:
    """For each row of counts: the chances that the sum over tasks of Binomial(size, count / size)
    reaches each of the bounds."""
    tails = []
    for row in counts:
        law = [1.0]
        for n, c in zip(sizes, row, strict=True):
            q = c / n
            chances = [math.comb(n, k) * q**k * (1.0 - q) ** (n - k) for k in range(n + 1)]
            law = convolve(law, chances)
        tails.append([math.fsum(law[bound:]) for bound in bounds])
    return tails


def subset_sums(values: list[float], size: int) -> list[float]:
    """The sum of every choice of `size` of the values."""
    return [math.fsum(chosen) for chosen in combinations(values, size)]


def all_sums(groups: list[list[float]]) -> list[float]:
    """Every sum of one value from each group, in order."""
    sums = [0.0]
    for group in groups:
        sums = [a + b for a in sums for b in group]
    sums.sort()
    return sums


def share_beyond(left: list[float], right: list[float], bound: float) -> float:
    """The share of sums of one of each, both ordered, that lie at least `bound` from zero."""
    beyond = 0
    for a in left:
        beyond += len(right) - bisect_left(right, bound - a)
        beyond += bisect_right(right, -bound - a)
    return beyond / (len(left) * len(right))


def difference_quantile(left: Atoms, right: Atoms, p: float) -> float:
    """The p-quantile of left minus right, independent of each other."""
    pairs = sorted(
        (a - b, pa * pb)
        for a, pa in zip(left.values, left.chances, strict=True)
        for b, pb in zip(right.values, right.chances, strict=True)
        if pa and pb
    )
    wanted = p * math.fsum(chance for _, chance in pairs) - 1e-12
    reached = 0.0
    for value, chance in pairs:
        reached += chance
        if reached >= wanted:
            return value
    return pairs[-1][0]
