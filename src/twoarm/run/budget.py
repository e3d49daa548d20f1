"""The budget: a trial starts only if there is money for it at its most expensive."""

from typing import Literal

import msgspec

from twoarm.errors import UsageError
from twoarm.programs.agent import Cost

# How much to reserve, in most expensive trials so far, where no limit stops one.
_ROOM = 1.5


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the user allows, and how well the agent can be held to it."""

    budget_usd: float | None
    trial_usd: float | None
    cost: Cost
    overshoot: float

    @property
    def kind(self) -> Literal["none", "hard", "soft"]:
        """Whether the budget can be exceeded: `soft` says that it can, by part of a trial."""
        if self.budget_usd is None:
            return "none"
        return "hard" if self.cost == "held" and self.trial_usd is not None else "soft"


def check_terms(terms: Terms) -> None:
    """Refuse a budget that nobody could keep."""
    if terms.budget_usd is None:
        return
    if terms.cost == "unknown":
        raise UsageError(
            "a budget, but nobody knows what a trial costs, because the agent reports no dollars; "
            "name the model and, in limits.prices, a table with all its prices, "
            "or leave the budget out"
        )
    if terms.trial_usd is None:
        raise UsageError(
            "a budget, but nothing says what one trial may cost; "
            "set limits.trial_usd or give --trial-budget"
        )
    if terms.trial_usd > terms.budget_usd:
        raise UsageError("a trial may cost more than the whole budget; no trial could start")


class Budget:
    """What was spent, and what running trials may still spend."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.spent = 0.0
        # Attempts whose cost nobody knows and nothing limits: the sum is at least `spent`.
        self.unknown = 0
        self._reserved: dict[str, float] = {}
        self._dearest = 0.0

    @property
    def reserved(self) -> float:
        """What trials that have started or are promised may cost."""
        return sum(self._reserved.values())

    def reservation(self) -> float | None:
        """What the next trial may cost at most, or is not expected to exceed."""
        limit = self.terms.trial_usd
        if self.terms.cost == "held" and limit is not None:
            return limit * (1 + self.terms.overshoot)
        seen = _ROOM * self._dearest
        return max(seen, limit or 0.0) or None

    def admits(self, trials: int) -> bool:
        """Whether there is money for this many trials besides everything that has started."""
        cap = self.terms.budget_usd
        if cap is None:
            return True
        each = self.reservation()
        # A hair of tolerance for sums of decimal fractions.
        return each is not None and self.spent + self.reserved + trials * each <= cap * (1 + 1e-9)

    def reserve(self, trial: str) -> None:
        """Promise a trial its money."""
        self._reserved[trial] = self.reservation() or 0.0

    def reserved_for(self, trial: str) -> float | None:
        """What a trial was promised."""
        return self._reserved.get(trial) or None

    def free(self, trial: str) -> None:
        """Take back what a trial was promised."""
        self._reserved.pop(trial, None)

    def charge(self, charged: float | None, cost: float | None) -> None:
        """Count an attempt that has ended; its reservation is freed separately."""
        if charged is None:
            self.unknown += 1
        self.spent += charged or 0.0
        self._dearest = max(self._dearest, cost or 0.0)
