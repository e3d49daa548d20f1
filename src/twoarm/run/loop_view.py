"""What a run is at: its slots, and what a display may show of it."""

from collections import deque
from typing import Literal

import msgspec

from twoarm.programs.agent import Watch
from twoarm.programs.format import Refusal
from twoarm.run.attempted import Attempted
from twoarm.run.schedule import Trial

# Both `finish` and `ctrl_c` let what runs finish; after Ctrl-C, another one is a `kill`.
StopRequest = Literal["go", "finish", "ctrl_c", "kill"]
# `decided`: a planned look has told the answer, and the rest does not have to be run.
End = Literal["done", "decided", "stopped", "budget", "killed", "failed"]


class LoopView(msgspec.Struct, kw_only=True):
    """What a display may show; no effect is in it."""

    trials: int
    done: int
    infra: int
    # By slot: what runs there and since when.
    running: dict[int, tuple[Attempted, float]]
    spent: float
    reserved: float
    budget: float | None
    unknown_costs: int
    # Until when no trial starts, and why; 0 for now.
    paused_until: float
    reason: str
    # The average of an attempt; None before the first has ended.
    each_seconds: float | None
    stop_request: StopRequest


class Slot:
    """One place to run in: a block of every arm, one after the other."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.trials: deque[Trial] = deque()
        self.attempted: Attempted | None = None
        self.since = 0.0
        self.watch: Watch | None = None
        # Why its attempt was ended.
        self.refusal: Refusal | None = None
