"""Runs: many runs held as columns, in the order they were read, each with its position."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime
from operator import attrgetter
from struct import Struct, error
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from twoarm.arrays import Floats, Ints
from twoarm.errors import Position, Problem
from twoarm.metric import METRICS, SUCCESS
from twoarm.record import Line

T = TypeVar("T")

# Every number of a record that some metric is made of.
NUMBERS = tuple(
    dict.fromkeys(part for metric in METRICS for part in metric.parts if metric is not SUCCESS)
)

# The exit code of an agent's wrapper that says: the provider or the sandbox failed, not the agent.
INFRA_EXIT_CODE = 86
# The exit code of an acceptance command that never ran.
NEVER_RAN_EXIT_CODE = 99
NEVER_RAN = "agent exit code not 0 and acceptance never ran"


# No more makers than this are told apart: a design with so many is odd enough.
MOST_MAKERS = 100


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One source of runs, and what identifies its content."""

    path: str
    sha256: str | None
    records: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, apart from its success: not failed, the agent's failure, or infra."""

    failure: str | None
    reason: str


class Maker(msgspec.Struct, frozen=True):
    """What ran: an arm's model and agent, as far as the record says."""

    arm: str
    model: str | None
    agent: str | None


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """The columns. `task`, `arm` and `outcome` are codes into the tuples of the same name.

    `started` is empty unless start times were asked for.
    """

    tasks: tuple[str, ...]
    arms: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    task: Ints
    arm: Ints
    outcome: Ints
    repeat: Ints
    success: Floats
    numbers: dict[str, Floats]
    key: Ints
    started: Floats
    makers: frozenset[Maker]
    positions: "Positions"
    inputs: tuple[Input, ...]
    unknown_keys: tuple[str, ...]
    bad_lines: int
    problems: tuple[Problem, ...]

    def __len__(self) -> int:
        return len(self.task)


class Positions:
    """Where each run stood: stretches of runs on consecutive lines, so that it stays small."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._sources: list[str] = []
        self._lines: list[int] = []

    def stretch(self, row: int, source: str, line: int) -> None:
        """Say that the runs from `row` on stand in `source` from `line` on."""
        if self._rows:
            follows = self._lines[-1] + row - self._rows[-1] == line
            if follows and self._sources[-1] == source:
                return
        self._rows.append(row)
        self._sources.append(source)
        self._lines.append(line)

    def of(self, row: int) -> Position:
        """The position of a run."""
        at = bisect_right(self._rows, row) - 1
        return Position(self._sources[at], self._lines[at] + row - self._rows[at])


class Builder:
    """Takes decoded lines a batch at a time and gives the columns at the end."""

    def __init__(self, *, times: bool) -> None:
        self._times = times
        self._tasks: dict[str, int] = {}
        self._arms: dict[str, int] = {}
        self._outcomes: dict[tuple[str | None, str], int] = {(None, ""): 0}
        self._task = array("q")
        self._arm = array("q")
        self._outcome = array("q")
        self._repeat = array("q")
        self._success = bytearray()
        self._numbers = {name: (attrgetter(name), array("d")) for name in NUMBERS}
        self._started = array("d")
        self._makers: set[tuple[str, str | None, str | None]] = set()
        self._positions = Positions()

    def __len__(self) -> int:
        return len(self._task)

    def add(self, lines: list[Line], source: str, first_line: int) -> None:
        """Append runs that stand on consecutive lines of a source."""
        if not lines:
            return
        self._positions.stretch(len(self), source, first_line)
        _extend_codes(self._task, self._tasks, [line.task_id for line in lines])
        _extend_codes(self._arm, self._arms, [line.arm for line in lines])
        # `pack` fills a column twice as fast as `array` does.
        wholes, doubles = Struct(f"{len(lines)}q").pack, Struct(f"{len(lines)}d").pack
        self._repeat.frombytes(wholes(*[line.repeat for line in lines]))
        self._success += bytes([line.success for line in lines])
        for get, values in self._numbers.values():
            try:
                values.frombytes(doubles(*map(get, lines)))
            except error:
                found = map(get, lines)
                known = [math.nan if v is None or v is UNSET else v for v in found]
                values.frombytes(doubles(*known))
        counted = self._extend_outcomes(lines)
        if len(self._makers) < MOST_MAKERS:
            self._makers.update(_makers(counted))
        if self._times:
            # Runs that start together are common in large files.
            texts = [line.started_at_utc for line in lines]
            seconds = {text: _seconds(text) for text in set(texts)}
            self._started.frombytes(doubles(*map(seconds.__getitem__, texts)))

    def _extend_outcomes(self, lines: list[Line]) -> list[Line]:
        """The lines that are no infra failure."""
        codes = array("q", bytes(8 * len(lines)))
        counted = lines
        if not _all_fine(lines):
            counted = []
            for i, line in enumerate(lines):
                outcome = _outcome(line)
                if outcome[0] is not None:
                    codes[i] = self._outcomes.setdefault(outcome, len(self._outcomes))
                if outcome[0] != "infra":
                    counted.append(line)
        self._outcome += codes
        return counted

    def finish(
        self,
        *,
        inputs: Iterable[Input],
        unknown_keys: Iterable[str],
        bad_lines: int,
        problems: Iterable[Problem],
    ) -> Runs:
        """The columns of everything added. Task codes follow the order of the task names."""
        tasks = sorted(self._tasks)
        rank = {task: code for code, task in enumerate(tasks)}
        ranks = np.array([rank[task] for task in self._tasks], dtype=np.int64)
        task = ranks[np.frombuffer(self._task, dtype=np.int64)]
        repeat = np.frombuffer(self._repeat, dtype=np.int64)
        return Runs(
            tasks=tuple(tasks),
            arms=tuple(self._arms),
            outcomes=tuple(
                Outcome(failure=failure, reason=reason) for failure, reason in self._outcomes
            ),
            task=task,
            arm=np.frombuffer(self._arm, dtype=np.int64),
            outcome=np.frombuffer(self._outcome, dtype=np.int64),
            repeat=repeat,
            success=np.frombuffer(self._success, dtype=np.int8).astype(np.float64),
            numbers={name: _unsigned_zeros(values) for name, (_, values) in self._numbers.items()},
            key=_keys(task, repeat),
            started=np.frombuffer(self._started, dtype=np.float64),
            makers=frozenset(Maker(*maker) for maker in self._makers),
            positions=self._positions,
            inputs=tuple(inputs),
            unknown_keys=tuple(unknown_keys),
            bad_lines=bad_lines,
            problems=tuple(problems),
        )


def _unsigned_zeros(values: "array[float]") -> Floats:
    """The same numbers, in place: no -0.0 in any figure."""
    found = np.frombuffer(values, dtype=np.float64)
    found += 0.0
    return found


def _keys(task: Ints, repeat: Ints) -> Ints:
    """One whole number per run that orders and identifies runs as (task, repeat) would."""
    if len(task) == 0:
        return task
    step = int(repeat.max()) + 1
    if (int(task.max()) + 1) * step >= 2**63:
        distinct, repeat = np.unique(repeat, return_inverse=True)
        step = len(distinct)
    return task * step + repeat


def _extend_codes(codes: "array[int]", table: dict[str, int], names: list[str]) -> None:
    try:
        found = list(map(table.__getitem__, names))
    except KeyError:
        found = [table.setdefault(name, len(table)) for name in names]
    codes.frombytes(Struct(f"{len(found)}q").pack(*found))


def _makers(lines: list[Line]) -> set[tuple[str, str | None, str | None]]:
    """Every arm with its model and agent; quick where there is only one of both."""
    models, agents = {line.model for line in lines}, {line.agent for line in lines}
    if len(models) == len(agents) == 1:
        model, agent = _known(models.pop()), _known(agents.pop())
        return {(arm, model, agent) for arm in {line.arm for line in lines}}
    return {(line.arm, _known(line.model), _known(line.agent)) for line in lines}


def _known(value: T | UnsetType | None) -> T | None:
    """A key that is left out says as little as a null."""
    return None if value is UNSET else value


def utc_seconds(moment: datetime) -> float:
    """Seconds since 1970; a time without a zone is UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def _seconds(text: str | UnsetType | None) -> float:
    """Seconds since 1970; NaN for what is missing or no time."""
    if text is None or text is UNSET:
        return math.nan
    try:
        return utc_seconds(datetime.fromisoformat(text))
    except ValueError:
        return math.nan


def _all_fine(lines: list[Line]) -> bool:
    """A quick look at a batch, true only if no run in it can have failed."""
    if [line.failure for line in lines].count(None) == len(lines):
        return True
    said = {line.failure for line in lines}
    exits = {line.agent_exit_code for line in lines} | {line.opencode_exit_code for line in lines}
    return said <= {None, UNSET} and exits <= {None, UNSET, 0}


def _outcome(line: Line) -> tuple[str | None, str]:
    """A run's own word about its failure; only a run that says nothing is judged by exit codes."""
    if line.failure is not UNSET:
        return line.failure, line.failure_reason or "no reason given"
    agent = _known(line.agent_exit_code)
    if agent is None:
        agent = _known(line.opencode_exit_code)
    if agent == INFRA_EXIT_CODE:
        return "infra", f"agent exit code {INFRA_EXIT_CODE}"
    if never_ran(agent, line.acceptance_exit_code):
        return "infra", NEVER_RAN
    return None, ""


def never_ran(agent_exit_code: int | None, acceptance_exit_code: int | None) -> bool:
    """Whether the exit codes say that the agent could not even be started: an infra failure."""
    return bool(agent_exit_code) and acceptance_exit_code == NEVER_RAN_EXIT_CODE
