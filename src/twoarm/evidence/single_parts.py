"""What single tasks show, as plain data."""

from typing import Literal

import msgspec


class SingleChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one metric in one task, as far as one task can tell.

    `seen` is what its own runs show; `estimate` is moved from there toward what all tasks show, by
    how noisy it is, and lies between `low` and `high`. All are ratios where `ratio` is true, and 1
    is then no change. It is better or worse only if the interval says so.
    """

    ratio: bool
    seen: float
    estimate: float
    low: float
    high: float
    standing: Literal["better", "worse", "no clear difference"]


class SingleTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task that both arms have, and its changes by metric."""

    task_id: str
    changes: dict[str, SingleChange]
