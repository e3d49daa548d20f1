"""Calibration: how often a suite cries wolf, in the shape of the calibration file."""

from typing import Any, Literal

import msgspec

from twoarm.errors import Caveat
from twoarm.result.analysis import Tool, json_file, schema_file
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


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
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
    repeats: int
    false_winners: FalseWinners
    noise_floor: dict[str, float]
    drift: Drift
    caveats: tuple[Caveat, ...]
    level: float
    seed: int
    margin_success: float
    margin_ratio: float

    def to_dict(self) -> dict[str, Any]:
        """The calibration file as plain Python values."""
        built: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return built

    def to_json(self) -> str:
        """The calibration file as text."""
        return json_file(self)


def calibration_schema() -> dict[str, Any]:
    """The JSON Schema of the calibration file, made from the type that writes it."""
    return schema_file(
        Calibration,
        name="calibration",
        description="How often a suite cries wolf, as twoarm calibrate says it.",
    )
