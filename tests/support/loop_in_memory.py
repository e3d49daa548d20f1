"""The loop without a disk and without processes: hours of a run in a moment."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from twoarm.programs.agent import Meter
from twoarm.run.attempted import Attempted
from twoarm.run.budget import Budget, Terms
from twoarm.run.jobs import JobOutcome
from twoarm.run.looks import LooksTaken, LookTaker
from twoarm.run.loop import Loop
from twoarm.run.loop_view import End, LoopView, StopRequest
from twoarm.run.schedule import Block, Trial, arrange
from twoarm.runs.study import StopReason

# What becomes of an attempt: its state, its cost, its seconds.
Fate = Callable[[Attempted, random.Random], tuple[str, float | None, float]]
# By node: when it is lost, and whether its attempts had begun.
Losses = Mapping[str, tuple[float, bool]]


class Folder:
    """A run folder in memory."""

    def __init__(self) -> None:
        self.begun: list[Attempted] = []
        self.asked: Attempted | None = None
        self.settled: list[Attempted] = []
        self.published: list[str] = []

    def say(self, event: str, **fields: Any) -> None:
        """Nobody reads it."""

    def mention(self, event: str, **fields: Any) -> None:
        """Nor this."""

    def begin(self, attempted: Attempted) -> None:
        self.begun.append(attempted)

    def folder_of(self, attempted: Attempted) -> str:
        self.asked = attempted
        return attempted.id

    @contextmanager
    def attempt(self, attempted: Attempted) -> Iterator[str]:
        yield attempted.id

    def record(self, attempted: Attempted) -> None:
        self.settled.append(attempted)

    def publish(self, attempted: Attempted) -> None:
        assert attempted.trial.id not in self.published, "a trial was done twice"
        self.published.append(attempted.trial.id)

    def check_whole(self, run: Attempted) -> None:
        """Nothing in memory is damaged."""

    def runs(self) -> Iterator[Attempted]:
        yield from ()

    def attempts(self) -> Iterator[Attempted]:
        yield from ()


class Slots:
    """An executor whose attempts end in the order of their seconds."""

    def __init__(self, slots: int, seed: int, fate: Fate, losses: Losses | None = None) -> None:
        self.slots = slots
        # Two slots on each node, and when each node is lost, and whether its attempts had begun.
        self._losses = dict(losses or {})
        self._gone: set[str] = set()
        # Every attempt, with the slot that it was begun in.
        self.begun: list[tuple[str, int]] = []
        self._slot: dict[str, int] = {}
        self._rng = random.Random(seed)
        self._fate = fate
        self.now = 0.0
        self._running: dict[str, float] = {}
        self.fates: dict[str, tuple[str, float | None]] = {}
        self.most = 0

    def node_of(self, slot: int) -> str | None:
        return f"n{slot // 2}"

    def is_there(self, slot: int) -> bool:
        return self.node_of(slot) not in self._gone

    def submit(
        self, attempt: str, job: Attempted, meter: Meter | None, limit: Any, slot: int = 0
    ) -> None:
        state, cost, seconds = self._fate(job, self._rng)
        self.fates[attempt] = (state, cost)
        self._running[attempt] = self.now + seconds
        self.most = max(self.most, len(self._running))
        assert self.is_there(slot)
        self.begun.append((attempt, slot))
        self._slot[attempt] = slot

    def cancel(self, attempt: str) -> None:
        self.fates[attempt] = ("interrupted", None)
        self._running[attempt] = self.now

    def completed(self, seconds: float) -> Iterator[JobOutcome]:
        for node, (when, begun) in list(self._losses.items()):
            if self.now >= when:
                del self._losses[node]
                self._gone.add(node)
                yield from self._lost(node, begun=begun)
                return
        if self._running:
            attempt = min(self._running, key=lambda one: self._running[one])
            self.now = self._running.pop(attempt)
            cancelled = self.fates[attempt][0] == "interrupted"
            yield JobOutcome(
                attempt=attempt, complete=not cancelled, cancelled=cancelled, died=False, reason=""
            )

    def _lost(self, node: str, *, begun: bool) -> Iterator[JobOutcome]:
        for attempt in [one for one in self._running if self.node_of(self._slot[one]) == node]:
            del self._running[attempt]
            yield JobOutcome(
                attempt=attempt,
                complete=False,
                cancelled=False,
                died=False,
                reason=f"node {node} was lost",
                begun=begun,
                lost_node=node,
            )

    @property
    def running(self) -> bool:
        return bool(self._running)

    def close(self) -> None:
        assert not self._running


class _JobMaker:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def make(self, trial: Trial, folder: str) -> tuple[Any, None]:
        return self._folder.asked, None


class Simulation:
    """One run of the real loop, and what it left."""

    def __init__(
        self,
        terms: Terms,
        fate: Fate,
        *,
        tasks: int = 6,
        repeats: int = 5,
        slots: int = 4,
        seed: int = 1,
        retries: int = 2,
        retry_seconds: float = 0.0,
        stop_request: Callable[["Simulation"], StopRequest] = lambda _: "go",
        facts: Callable[[Attempted], dict[str, Any]] = lambda _: {},
        arms: str = "ab",
        looks: tuple[int, ...] = (),
        judge: Callable[["Simulation", int], bool] = lambda *_: False,
        taken: LooksTaken | None = None,
        losses: Losses | None = None,
    ) -> None:
        self._facts = facts
        self.folder = Folder()
        self.taken = taken or LooksTaken()
        # The looks, and how many runs there were at each.
        self.looked: list[tuple[int, int]] = []
        self.executor = Slots(slots, seed, fate, losses)
        self.budget = Budget(terms)
        self.views: list[LoopView] = []
        blocks: list[Block] = arrange([f"t{i}" for i in range(tasks)], arms, repeats, seed)
        made: Any = Loop(
            self.folder,  # type: ignore[arg-type]
            _JobMaker(self.folder),  # type: ignore[arg-type]
            self.executor,  # type: ignore[arg-type]
            self.budget,
            None,  # type: ignore[arg-type]
            retries=retries,
            retry_seconds=retry_seconds,
        )

        def judged(look: int) -> dict[str, StopReason] | None:
            self.looked.append((look, len(self.folder.published)))
            assert not self.executor.running
            return {"a": "candidate better"} if judge(self, look) else None

        with (
            patch("twoarm.run.loop.settle", self._settle),
            patch("twoarm.run.looks.looks_taken", lambda _: self.taken),
            patch("twoarm.run.looks.remember", self._remember),
        ):
            looking = LookTaker(self.folder, looks, judged)  # type: ignore[arg-type]
            self.end: End = made.run(blocks, looking, lambda: stop_request(self), self.views.append)

    def _remember(self, folder: Folder, taken: LooksTaken) -> None:
        self.taken = taken

    def _settle(self, folder: str, attempted: Attempted, reader: object) -> Attempted:
        state, cost = self.executor.fates[attempted.id]
        if state == "gone":
            raise FileNotFoundError(folder)
        charged = cost if cost is not None else attempted.reserved_usd
        return msgspec.structs.replace(
            attempted,
            state=state,
            cost_usd=cost,
            charged_usd=charged,
            reason=state,
            facts={"setup_exit_code": 0, **self._facts(attempted)},
        )

    @property
    def cost(self) -> float:
        """What was really spent."""
        return sum(cost or 0.0 for _, cost in self.executor.fates.values())


def terms(**changed: Any) -> Terms:
    """A hard budget of ten dollars, unless the test is about another."""
    base = Terms(budget_usd=10.0, trial_usd=1.5, cost="held", overshoot=0.0)
    return msgspec.structs.replace(base, **changed)
