"""What is counted in a cell of a simulation."""

from collections import defaultdict

import numpy as np

from twoarm.evidence.results import Interval

# Rows of a cell: how many data sets held the truth, of how many, and the width where it has one; of
# success also half the width in points, on average. A single number is in points.
Cell = dict[str, list[float]]


class Count:
    """Hits and misses of intervals and tests, and how far off the centre the truth was."""

    def __init__(self) -> None:
        self.hits: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.away: dict[str, list[float]] = defaultdict(list)
        self.half: dict[str, list[float]] = defaultdict(list)

    def interval(self, name: str, found: Interval | None, true: float) -> None:
        if found is not None:
            self.pair(name, found.low, found.high, true)

    def pair(self, name: str, low: float, high: float, true: float) -> None:
        entry = self.hits[name]
        slack = 1e-9 * max(1.0, abs(true))
        entry[0] += int(low - slack <= true <= high + slack)
        entry[1] += 1
        if high > low:
            self.away[name].append(abs(2.0 * true - low - high) / (high - low))
            self.half[name].append((high - low) / 2.0)

    def test(self, name: str, p: float | None) -> None:
        if p is not None:
            entry = self.hits[name]
            entry[0] += int(p <= 0.05 + 1e-12)
            entry[1] += 1

    def cell(self) -> Cell:
        """With the width of what has one: how far the truth is 95 % of the time sets the need."""
        return {name: [*entry, *self._width(name)] for name, entry in self.hits.items()}

    def cell_in_points(self) -> Cell:
        """And half the width of what has one."""
        cell = self.cell()
        return {
            name: [*row, round(100.0 * float(np.mean(self.half[name])), 2)] if row[2:] else row
            for name, row in cell.items()
        }

    def _width(self, name: str) -> list[float]:
        away = self.away.get(name)
        if not away:
            return []
        needed = float(np.quantile(away, 0.95))
        return [round(1.0 / needed, 3)] if needed > 0 else []
