"""Runs: many runs held as columns, in the order they were read, each with its position."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from struct import Struct, error
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from twoarm.errors import Position, Problem
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.check_columns import CheckBuilder, CheckColumns
from twoarm.runs.endings import (
    FAILURE_WORDS,
    NO_REASON,
    EndingBuilder,
    Endings,
    code_of,
)
from twoarm.runs.exit_codes import INFRA_EXIT_CODE, NEVER_RAN, never_ran
from twoarm.runs.family_columns import FamilyBuilder, FamilyColumns
from twoarm.runs.metric import METRICS, SUCCESS
from twoarm.runs.record import LineColumns, PlannedLooks
from twoarm.runs.study import Study
from twoarm.runs.tag_columns import TagBuilder, TagColumns
from twoarm.runs.tool_columns import ToolBuilder, ToolColumns
from twoarm.text.escape import counted
from twoarm.text.sentence import Name, Sentence, listed, say

T = TypeVar("T")

# Every number of a record that some metric is made of.
NUMBERS = tuple(
    dict.fromkeys(part for metric in METRICS for part in metric.parts if metric is not SUCCESS)
)

# What says how a run ended, apart from its success; the second exit code is the first's older name.
_ENDS = (
    "failure",
    "failure_reason",
    "agent_exit_code",
    "opencode_exit_code",
    "acceptance_exit_code",
)

# No more makers than this are told apart: a design with so many is odd enough.
MOST_MAKERS = 100
# Beyond this many, a reason why a run failed is known only by its kind.
MOST_REASONS = 1_000


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One source of runs, and what identifies its content."""

    path: str
    sha256: str | None
    records: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, apart from its success: not failed, or by what; or that it is missing."""

    failure: str | None
    reason: str


class Maker(msgspec.Struct, frozen=True):
    """What ran: a model and an agent, as far as the record says."""

    model: str | None
    agent: str | None


class UnreadTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs say when they started in words that are no time, and what the first says."""

    runs: int
    first: str

    @property
    def said(self) -> Sentence:
        """That they count as missing, and what would be a time."""
        return say(
            "{} of {} cannot be read (the first is {}), so it counts as missing; write it like "
            "2026-11-01T08:00:00Z",
            Name("started_at_utc"),
            counted(self.runs, "run"),
            Name(self.first),
        )


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """The columns. `task`, `arm`, `outcome`, `maker` and `grader` are codes into the tuples of
    their name.

    `started` is empty unless start times were asked for, and so is what is known of unread ones.
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
    unread_times: UnreadTimes | None
    tools: ToolColumns
    # From 0 to 1; NaN where there is none.
    score: Floats
    checks: CheckColumns
    tags: TagColumns
    families: FamilyColumns
    endings: Endings
    makers: tuple[Maker, ...]
    maker: Ints
    graders: tuple[str | None, ...]
    grader: Ints
    # Of a run that grew; 0 where a record does not say.
    part: Ints
    # How many reports came before a run; 0 where a record does not say.
    looked_before: Ints
    planned_looks: frozenset[PlannedLooks]
    positions: "Positions"
    inputs: tuple[Input, ...]
    # The run folders among the inputs.
    studies: tuple[Study, ...]
    unknown_keys: tuple[str, ...]
    bad_lines: int
    problems: tuple[Problem, ...]

    @property
    def tags_by_task(self) -> tuple[tuple[str, ...], ...]:
        """The tags of each task."""
        return self.tags.by_task(self.task, len(self.tasks))

    def __len__(self) -> int:
        return len(self.task)

    def __repr__(self) -> str:
        counts = f"{counted(len(self), 'run')}, {counted(len(self.tasks), 'task')}"
        return f"<twoarm.Runs: {counts}, arms {listed(sorted(self.arms))}>"


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
        self._numbers = {name: array("d") for name in NUMBERS}
        self._started = array("d")
        self._unread_times: UnreadTimes | None = None
        self._makers: dict[tuple[str | None, str | None], int] = {}
        self._maker = array("q")
        self._graders: dict[str | None, int] = {}
        self._grader = array("q")
        # What few records say, and is 0 in all others.
        self._told = {"part": array("q"), "looked_before": array("q")}
        self._looks: set[PlannedLooks | None] = set()
        self._positions = Positions()
        self._tools = ToolBuilder()
        self._checks = CheckBuilder()
        self._tags = TagBuilder()
        self._endings = EndingBuilder()
        self._families = FamilyBuilder()

    def __len__(self) -> int:
        return len(self._task)

    def add(self, columns: LineColumns, source: str, first_line: int) -> None:
        """Append runs that stand on consecutive lines of a source."""
        size = len(columns["task_id"])
        absent = (UNSET,) * size
        self._positions.stretch(len(self), source, first_line)
        self._tools.add(columns, len(self))
        self._checks.add(columns, len(self))
        self._tags.add(columns, len(self))
        self._endings.add(columns)
        self._families.add(columns, len(self))
        _extend_codes(self._task, self._tasks, columns["task_id"])
        _extend_codes(self._arm, self._arms, columns["arm"])
        # `pack` fills a column twice as fast as `array` does.
        wholes, doubles = Struct(f"{size}q").pack, Struct(f"{size}d").pack
        self._repeat.frombytes(wholes(*columns["repeat"]))
        self._success += bytes(columns["success"])
        for name, values in self._numbers.items():
            column = columns.get(name, absent)
            try:
                values.frombytes(doubles(*column))
            except error:
                known = [math.nan if v is None or v is UNSET else v for v in column]
                values.frombytes(doubles(*known))
        self._extend_outcomes([columns.get(name, absent) for name in _ENDS])
        self._extend_makers(columns.get("model", absent), columns.get("agent", absent))
        graders = columns.get("grader", absent)
        codes = {grader: self._code_of(_known(grader)) for grader in set(graders)}
        self._grader.frombytes(wholes(*map(codes.__getitem__, graders)))
        for name, numbers in self._told.items():
            told = columns.get(name)
            unknown = bytes(8 * size)
            numbers.frombytes(unknown if told is None else wholes(*(_known(v) or 0 for v in told)))
        self._looks.update(map(_known, set(columns.get("planned_looks", ()))))
        if self._times:
            # Runs that start together are common in large files.
            texts = columns.get("started_at_utc", absent)
            seconds = {text: _seconds(text) for text in set(texts)}
            started = doubles(*map(seconds.__getitem__, texts))
            self._started.frombytes(started)
            timeless = int(np.isnan(np.frombuffer(started)).sum())
            if unread := timeless - texts.count(None) - texts.count(UNSET):
                self._note_unread(unread, next(filter(_is_unread, texts)))

    def _note_unread(self, runs: int, first: str) -> None:
        """Times that are there and cannot be read are as good as missing, and said to be."""
        earlier = self._unread_times or UnreadTimes(runs=0, first=first)
        self._unread_times = msgspec.structs.replace(earlier, runs=earlier.runs + runs)

    def _code_of(self, grader: str | None) -> int:
        return self._graders.setdefault(grader, len(self._graders))

    def _extend_outcomes(self, ends: list[Sequence[Any]]) -> None:
        codes = array("q", bytes(8 * len(ends[0])))
        if not _all_fine(ends):
            for i, end in enumerate(zip(*ends, strict=True)):
                outcome = _outcome(*end)
                code = self._outcomes.get(outcome)
                codes[i] = self._new_outcome(*outcome) if code is None else code
        self._outcome += codes

    def _new_outcome(self, failure: str | None, reason: str) -> int:
        """Why a run is excluded is always kept; why one failed is, unless there are very many."""
        many = len(self._outcomes) >= MOST_REASONS
        if many and failure in (None, "agent"):
            reason = FAILURE_WORDS[code_of(reason)]
        return self._outcomes.setdefault((failure, reason), len(self._outcomes))

    def _extend_makers(self, models: Sequence[Any], agents: Sequence[Any]) -> None:
        """Quick where there is only one; those beyond the limit count as the last."""
        pairs = set(zip(models, agents, strict=True))
        codes = {}
        for model, agent in pairs:
            maker = (_known(model), _known(agent))
            if len(self._makers) < MOST_MAKERS:
                self._makers.setdefault(maker, len(self._makers))
            codes[model, agent] = self._makers.get(maker, MOST_MAKERS - 1)
        if len(pairs) == 1:
            self._maker += array("q", codes.values()) * len(models)
        else:
            self._maker.extend([codes[key] for key in zip(models, agents, strict=True)])

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
            numbers={name: _unsigned_zeros(values) for name, values in self._numbers.items()},
            key=_keys(task, repeat),
            started=np.frombuffer(self._started, dtype=np.float64),
            unread_times=self._unread_times,
            tools=self._tools.finish(len(self)),
            score=self._checks.scores(len(self)),
            checks=self._checks.finish(),
            tags=self._tags.finish(len(self)),
            families=self._families.finish(),
            endings=self._endings.finish(),
            makers=tuple(Maker(*maker) for maker in self._makers),
            maker=np.frombuffer(self._maker, dtype=np.int64),
            graders=tuple(self._graders),
            grader=np.frombuffer(self._grader, dtype=np.int64),
            **{name: np.frombuffer(told, dtype=np.int64) for name, told in self._told.items()},
            planned_looks=frozenset(look for look in self._looks if look is not None),
            positions=self._positions,
            inputs=tuple(inputs),
            studies=(),
            unknown_keys=tuple(unknown_keys),
            bad_lines=bad_lines,
            problems=tuple(problems),
        )


def _unsigned_zeros(values: "array[float]") -> Floats:
    """The same numbers, in place: no -0.0 in any figure."""
    column = np.frombuffer(values, dtype=np.float64)
    column += 0.0
    return column


def _keys(task: Ints, repeat: Ints) -> Ints:
    """One whole number per run that orders and identifies runs as (task, repeat) would."""
    if len(task) == 0:
        return task
    step = int(repeat.max()) + 1
    if (int(task.max()) + 1) * step >= 2**63:
        distinct, repeat = np.unique(repeat, return_inverse=True)
        step = len(distinct)
    return task * step + repeat


def _extend_codes(codes: "array[int]", table: dict[str, int], names: Sequence[str]) -> None:
    try:
        numbers = list(map(table.__getitem__, names))
    except KeyError:
        numbers = [table.setdefault(name, len(table)) for name in names]
    codes.frombytes(Struct(f"{len(numbers)}q").pack(*numbers))


def _known(value: T | UnsetType | None) -> T | None:
    """A key that is left out says as little as a null."""
    return None if value is UNSET else value


def utc_seconds(moment: datetime) -> float:
    """Seconds since 1970; a time without a zone is UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def _seconds(text: str | UnsetType | None) -> float:
    """Seconds since 1970; NaN for what is missing or not a time."""
    if text is None or text is UNSET:
        return math.nan
    try:
        return utc_seconds(datetime.fromisoformat(text))
    except ValueError:
        return math.nan


def _is_unread(text: str | UnsetType | None) -> bool:
    """Whether a time is there, and is none."""
    return isinstance(text, str) and math.isnan(_seconds(text))


def _all_fine(ends: list[Sequence[Any]]) -> bool:
    """A quick look at a batch, true only if no run in it says that or why it failed."""
    failure, reason, agent, older, _ = ends
    if not {*reason} <= {None, UNSET}:
        return False
    if failure.count(None) == len(failure):
        return True
    return {*failure} <= {None, UNSET} and {*agent, *older} <= {None, UNSET, 0}


def _outcome(
    failure: str | UnsetType | None,
    reason: str | UnsetType | None,
    agent: int | UnsetType | None,
    older: int | UnsetType | None,
    acceptance: int | UnsetType | None,
) -> tuple[str | None, str]:
    """A run's own word about its failure; only a run that says nothing is judged by exit codes."""
    if failure is not UNSET:
        return failure, _known(reason) or (NO_REASON if failure else "")
    code = _known(agent)
    if code is None:
        code = _known(older)
    if code == INFRA_EXIT_CODE:
        return "infra", f"agent exit code {INFRA_EXIT_CODE}"
    if never_ran(code, _known(acceptance)):
        return "infra", NEVER_RAN
    return None, _known(reason) or ""
