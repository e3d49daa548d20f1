"""What can be asked of a plan: the change to see, the money, and what stands in for a pilot."""

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from twoarm.errors import UsageError
from twoarm.evidence.power import MOST_REPEATS, MOST_TASKS
from twoarm.options import PRIMARY, AskedOfRuns, CountingKeywords, refuse_unknown, refused
from twoarm.runs.metric import BY_NAME, COST, SUCCESS, Metric
from twoarm.text.escape import named

PlanMetric = Literal["tokens", "duration", "success", "cost"]
METRICS = {name: BY_NAME[{**PRIMARY, "cost": COST.name}[name]] for name in get_args(PlanMetric)}
# What takes the place of a pilot.
ASSUMED = ("tasks", "repeats", "spread", "task_spread")
# The largest change that is planned for, and the smallest.
_MOST_FALL, _MOST_RISE, _LEAST = -0.99, 1.0, 0.001
_CHANGE = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(%|points?|pts?)")


class PlanOptions(AskedOfRuns, frozen=True, kw_only=True):
    """What is to be planned for, and with which money.

    `tasks`, `repeats`, `spread` and `task_spread` take the place of a pilot.
    """

    detect: str | float
    metric: PlanMetric = "tokens"
    primary: bool = False
    power: float = 0.8
    budget: float | None = None
    task_cost: float = 0.0
    pair_cost: float | None = None
    tasks: int | None = None
    repeats: int | None = None
    spread: float | None = None
    task_spread: float | None = None

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            listed = ", ".join(f"`{name}`" for name in METRICS)
            raise refused("metric", f"expected one of {listed}, got {self.metric!r}")
        if self.primary and self.metric not in PRIMARY:
            raise refused(
                "primary", f"{self.metric} is no gate's metric and cannot be tested first"
            )
        if not 0.5 <= self.power <= 0.99:
            raise refused("power", f"expected a number from 0.5 to 0.99, got {self.power}")
        for name in ("task_cost", "pair_cost", "budget"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < math.inf:
                raise refused(name, f"expected dollars, 0 or more, got {value}")
        for name, most in (("tasks", MOST_TASKS), ("repeats", MOST_REPEATS)):
            value = getattr(self, name)
            if value is not None and not 2 <= value <= most:
                raise refused(name, f"expected 2 to {most:,}, got {value}")
        for name, low in (("spread", 0.001), ("task_spread", 0.0)):
            value = getattr(self, name)
            if value is not None and not low <= value <= 5.0:
                raise refused(
                    name,
                    f"expected a standard deviation on logarithms from {low:g} to 5, such "
                    f"as 0.3, got {value}",
                )

    @property
    def relative(self) -> float:
        """The change to detect as a share: -0.2 is -20%, or -20 points of success."""
        return _relative(self.detect, METRICS[self.metric])


class PlanKeywords(CountingKeywords, total=False):
    """The options of a plan as keywords of a function."""

    detect: str | float
    metric: PlanMetric
    primary: bool
    power: float
    budget: float | None
    task_cost: float
    pair_cost: float | None
    tasks: int | None
    repeats: int | None
    spread: float | None
    task_spread: float | None


def chosen_plan(options: PlanOptions | None, keywords: Mapping[str, Any]) -> PlanOptions:
    """The options given as one value, as keywords, or as a value with some of them changed."""
    refuse_unknown(keywords, PlanKeywords.__optional_keys__)
    if options is None and "detect" not in keywords:
        raise no_change_named()
    return (options or PlanOptions(detect=keywords["detect"])).changed(keywords)


def no_change_named() -> UsageError:
    """A plan without a change to see."""
    return refused("detect", "missing; which change is to be seen, such as -20%?")


def _relative(detect: str | float, metric: Metric) -> float:
    """The change as a share; for success, percent are points."""
    if isinstance(detect, str):
        match = _CHANGE.fullmatch(detect.strip())
        if match is None:
            raise refused("detect", f"expected a change such as -20% or +5%, got {named(detect)}")
        if match[2] != "%" and metric is not SUCCESS:
            raise refused("detect", f"{metric.label} changes by percent, got {named(detect)}")
        value = float(match[1]) / 100.0
        shown = detect.strip()
    else:
        value, shown = float(detect), f"{detect:+.4g}"
    if abs(value) < _LEAST:
        raise refused(
            "detect", f"expected a change of at least 0.1%, such as -10%, got {named(shown)}"
        )
    if not _MOST_FALL <= value <= _MOST_RISE:
        raise refused("detect", f"expected a change from -99% to +100%, got {named(shown)}")
    return value
