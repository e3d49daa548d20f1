"""Calibration: how often a suite cries wolf, in the shape of the calibration file."""

from typing import Literal

import msgspec

from twoarm.compare.chosen import ChosenTasks
from twoarm.errors import Caveat
from twoarm.result.analysis import Document, Tool
from twoarm.runs.runs import Input

# 1  2026-11: the first. Within a number, keys are added, never changed or removed.
SCHEMA: Literal["twoarm.calibration/1"] = "twoarm.calibration/1"

By = Literal["split", "relabel"]

_DRIFTED = 0.05


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A share of trials, and the range in which that of all suites like this one should be."""

    share: float
    low: float
    high: float


class FalseWinners(msgspec.Struct, frozen=True, kw_only=True):
    """How often a winner is named where there is none."""

    gates: Share
    evidence: Share
    margin: Share


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The chance that first and second halves differ as much as here, if nothing drifts."""

    p: float | None

    @property
    def beyond_chance(self) -> bool:
        """Whether something changed while the repeats ran."""
        return self.p is not None and self.p <= _DRIFTED


class Calibration(Document, frozen=True, kw_only=True):
    """What is named a winner among runs of one and the same arm.

    `noise_floor` is what 95% of the trials stay below: a relative change, of success a difference.
    `repeats` are those of an arm of a trial.
    """

    schema: Literal["twoarm.calibration/1"]
    tool: Tool
    inputs: tuple[Input, ...]
    arms: tuple[str, ...]
    by: By
    trials: int
    tasks: int
    # None if all tasks were asked for.
    chosen_tasks: ChosenTasks | None
    families: int | None
    repeats: int
    false_winners: FalseWinners
    noise_floor: dict[str, float]
    drift: Drift
    caveats: tuple[Caveat, ...]
    level: float
    seed: int
    margin_success: float
    margin_ratio: float
