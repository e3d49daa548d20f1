"""Plan: how much more to run, in the shape of the plan file."""

from typing import Literal

import msgspec

from twoarm.compare.chosen import ChosenTasks
from twoarm.errors import Caveat
from twoarm.evidence.results import Scope
from twoarm.result.analysis import Document, Tool
from twoarm.runs.runs import Input

# 1  2026-11: the first. Within a number, keys are added, never changed or removed.
SCHEMA: Literal["twoarm.plan/1"] = "twoarm.plan/1"

PlanKind = Literal["repeats", "tasks", "cheapest"]


class PlanOption(msgspec.Struct, frozen=True, kw_only=True):
    """A way to reach the power: what to have in the end, and what is missing for it.

    Tasks that have more repeats than these keep them. `usd` is null where no cost is known,
    `families` where the tasks of the pilot have none; new ones are taken to be as large.
    """

    kind: PlanKind
    tasks: int
    families: int | None
    repeats: int
    power: float
    usd: float | None
    more_tasks: int
    more_runs: int
    scope: Scope


class Affordable(msgspec.Struct, frozen=True, kw_only=True):
    """The most power that the budget buys; to be sure, if the spreads are at their upper limits."""

    tasks: int
    families: int | None
    repeats: int
    power: float
    usd: float
    more_tasks: int
    more_runs: int
    power_to_be_sure: float | None


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the chart: what this many more runs would reach."""

    kind: Literal["repeats", "tasks"]
    tasks: int
    repeats: int
    power: float
    usd: float | None
    more_runs: int


class Spreads(msgspec.Struct, frozen=True, kw_only=True):
    """Standard deviations: of the runs of a task in one arm, and of the true change between tasks,
    or between families.

    On logarithms, so that 0.2 is about 20%; for success, as shares.
    """

    run: float
    task: float


class UpperLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The same plan to be sure: for spreads that the true ones exceed in one suite of five only."""

    spreads: Spreads
    power: float
    smallest_detectable: float | None
    power_with_endless_repeats: float
    options: tuple[PlanOption, ...]


class Plan(Document, frozen=True, kw_only=True):
    """How likely a change is to be clear, and what it takes to see it.

    `detect` and `smallest_detectable` are relative changes, of success differences: -0.2 is -20%,
    or -20 points. `tested_at` is the level that is left for the metric next to the others that are
    tested with it. `method` says how the power of the present design was found.

    `options` are what is expected to reach the power, `upper_limits` what does to be sure; without
    a pilot the latter is null. `recommended` is the cheapest to be sure, or without a pilot as
    expected; it is null where nothing more is needed, or nothing that anyone would run is enough.
    """

    schema: Literal["twoarm.plan/1"]
    tool: Tool
    inputs: tuple[Input, ...]
    candidate: str | None
    baseline: str | None
    metric: str
    detect: float
    scope: Scope
    tasks: int
    # None if all tasks of the pilot were asked for, or there is none.
    chosen_tasks: ChosenTasks | None
    families: int | None
    repeats: int
    power: float
    smallest_detectable: float | None
    power_with_endless_repeats: float
    options: tuple[PlanOption, ...]
    caveats: tuple[Caveat, ...]
    wanted_power: float
    level: float
    seed: int
    primary: bool
    tested_at: float
    method: Literal["closed form", "trials"]
    assumed: bool
    spreads: Spreads
    pair_cost_usd: float | None
    task_cost_usd: float
    best_repeats: float | None
    budget_usd: float | None
    within_budget: Affordable | None
    upper_limits: UpperLimits | None
    recommended: PlanOption | None
    curve: tuple[Point, ...]
