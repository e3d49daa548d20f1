"""The designs that would show a change: more repeats, more tasks, or whatever costs least.

A design is looked for with closed forms where they hold, and with quick trials elsewhere; what is
said of it in the end is computed in full.
"""

import math
from collections.abc import Callable

from twoarm.evidence.pilot import Pilot
from twoarm.evidence.power import MOST_REPEATS, MOST_TASKS, Design, Outlook, UnitCosts
from twoarm.planning.trials import CLOSED_FROM, ENDLESS, SUCCESS_CLOSED_FROM, trial_power
from twoarm.runs.metric import COST, SUCCESS

# How far around the answer of a closed form to look, and in which steps.
_ABOUT, _STEP, _LITTLE = 2.0, 1.25, 1.04
# The error of a share of trials.
_ERROR = 0.02


class Planner:
    """What an outlook comes to, by closed forms and by trials; a design is tried once."""

    def __init__(self, outlook: Outlook, prices: UnitCosts, seed: int) -> None:
        self.outlook = outlook
        self._prices, self._seed = prices, seed
        self._tried: dict[Design, float] = {}
        self._guessed: dict[tuple[Design, float | None], float] = {}

    def for_pilot(self, pilot: Pilot) -> "Planner":
        """The same aim, prices and seed for another pilot."""
        outlook = Outlook(pilot=pilot, aim=self.outlook.aim)
        return Planner(outlook, self._prices, self._seed)

    def by_trials(self, tasks: int) -> bool:
        """Whether the verdict on this many tasks has to be tried."""
        metric = self.outlook.pilot.metric
        closed_from = SUCCESS_CLOSED_FROM if metric is SUCCESS else CLOSED_FROM
        return metric is not COST and tasks < closed_from

    def power(self, design: Design) -> float:
        """The chance that the change is clear with this design."""
        if not self.by_trials(design.tasks):
            return float(self.outlook.power(design.tasks, design.repeats))
        if design not in self._tried:
            self._tried[design] = trial_power(self.outlook, design, self._seed)
        return self._tried[design]

    def about(self, design: Design, change: float | None = None) -> float:
        """About the same in less time, where that takes long."""
        closed = not self.by_trials(design.tasks)
        if closed or design.tasks < self.outlook.fewest_tasks:
            return float(self.outlook.power(design.tasks, design.repeats, change))
        key = design, change
        if key not in self._guessed:
            quick = design.tasks >= CLOSED_FROM
            self._guessed[key] = trial_power(
                self.outlook, design, self._seed, change=change, quick=quick
            )
        return self._guessed[key]

    def detectable(self, design: Design) -> float | None:
        """The smallest change, on the scale of the test, that is seen as often as wanted."""
        smallest = self.outlook.detectable(design)
        if self.by_trials(design.tasks) and design.tasks >= self.outlook.fewest_tasks:
            sign = math.copysign(1.0, self.outlook.aim.change)
            most = self._most_change()
            smallest = min(smallest, most)
            low, high = smallest / _ABOUT, min(smallest * _ABOUT, most)
            if self.about(design, sign * high) < self.outlook.aim.power:
                return None
            for _ in range(6):
                middle = (low + high) / 2.0
                enough = self.about(design, sign * middle) >= self.outlook.aim.power
                low, high = (low, middle) if enough else (middle, high)
            smallest = high
        return smallest if math.isfinite(smallest) else None

    def _most_change(self) -> float:
        """How far success can move in the direction asked for; other metrics have no limit."""
        pilot = self.outlook.pilot
        if pilot.metric is not SUCCESS:
            return math.log(64.0)
        mean = float(pilot.rates.mean())
        return 0.98 * (1.0 - mean if self.outlook.aim.change > 0.0 else mean)

    def endless_repeats(self, tasks: int) -> float:
        """The power that this many tasks never exceed, whatever the repeats."""
        if not self.by_trials(tasks) or tasks < self.outlook.fewest_tasks:
            return self.outlook.endless_repeats(tasks)
        return self.about(Design(tasks=tasks, repeats=ENDLESS))

    def repeats_for(self, tasks: int, fewest: int) -> Design | None:
        """The fewest repeats of this many tasks to reach the power."""
        if self.endless_repeats(tasks) < self.outlook.aim.power:
            return None
        guess = self.outlook.repeats_for(tasks) or MOST_REPEATS
        return self._fewest(guess, fewest, MOST_REPEATS, lambda n: Design(tasks=tasks, repeats=n))

    def tasks_for(self, repeats: int, fewest: int) -> Design | None:
        """The fewest tasks with this many repeats to reach the power."""
        fewest = max(fewest, self.outlook.fewest_tasks)
        guess = int(self.outlook.tasks_for(repeats, fewest)[0])
        return self._fewest(guess, fewest, MOST_TASKS, lambda n: Design(tasks=n, repeats=repeats))

    def cheapest(self, fewest: int) -> Design | None:
        """The design that reaches the power for the least money."""
        design = self.outlook.cheapest(self._prices)
        return None if design is None else self.tasks_for(design.repeats, fewest)

    def _fewest(
        self, guess: int, fewest: int, most: int, design: Callable[[int], Design]
    ) -> Design | None:
        """The design of the smallest number that reaches the power, looked for around a guess."""

        def enough(number: int) -> bool:
            return self.about(design(number)) >= self.outlook.aim.power

        low = high = min(max(guess, fewest), most)
        if enough(high):
            while low >= fewest and enough(low):
                low, high = min(math.floor(low / _STEP), low - 1), low
        else:
            while not enough(high):
                if high == most:
                    return None
                low, high = high, min(most, math.ceil(high * _STEP))
        low = max(low, fewest - 1)
        # To the nearest percent: trials do not tell more.
        while high - low > max(1, high // 100):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        if self.by_trials(design(high).tasks) and design(high).tasks >= self.outlook.fewest_tasks:
            # Computed in full, it may take a little more.
            while high < most and self.power(design(high)) < self.outlook.aim.power - _ERROR:
                high = min(most, math.ceil(high * _LITTLE))
        return design(high)

    def usd(self, design: Design) -> float:
        """What the design costs beyond what there is."""
        return float(self.outlook.cost(design.tasks, design.repeats, self._prices))

    def within(self, budget: float) -> Design:
        """The design with the most power for this much money."""
        return self.outlook.within(budget, self._prices)
