"""What has no result, or no value, in which arm, and whether that matters: as plain data."""

from typing import Literal

import msgspec

from twoarm.compare.decide import Decision

# Losses are on one side if chance is rarer than this, and the shares this many points apart.
LOSS_BY_CHANCE = 0.01
LOSS_POINTS = 10


class ExcludedArm(msgspec.Struct, frozen=True, kw_only=True):
    """The planned runs of one arm, and those of them without a result: infra failures, missing."""

    arm: str
    runs: int
    excluded: int
    reasons: dict[str, int]


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The decision if every run of one arm without a result had failed, or passed."""

    arm: str
    outcome: Literal["failed", "passed"]
    decision: Decision


class MissingBound(msgspec.Struct, frozen=True, kw_only=True):
    """The decision if every missing value of one arm were as low, or as high, as can be."""

    arm: str
    values: Literal["low", "high"]
    decision: Decision


class MissingValues(msgspec.Struct, frozen=True, kw_only=True):
    """A gate's metric that some runs lack: how many of each arm, and whether it matters."""

    metric: str
    missing: tuple[int, int]
    runs: tuple[int, int]
    p: float
    bounds: tuple[MissingBound, ...]
    could_flip: bool


class OneSided(msgspec.Struct, frozen=True, kw_only=True):
    """What one arm lost clearly more of: whole runs, or values of a metric.

    `metric` is null for whole runs. `lost` and `of` are the candidate's and the baseline's: of
    planned runs, or of runs that count. `run_again` are those among the lost that broke off, and
    were run again later.
    """

    metric: str | None
    arm: str
    lost: tuple[int, int]
    run_again: tuple[int, int]
    of: tuple[int, int]
    p: float


class Exclusions(msgspec.Struct, frozen=True, kw_only=True):
    """The audit: who lost runs or values, whether one arm lost more, and whether it matters."""

    arms: tuple[ExcludedArm, ExcludedArm]
    p: float | None
    bounds: tuple[Bound, ...]
    could_flip: bool
    missing: tuple[MissingValues, ...]
