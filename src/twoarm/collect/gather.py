"""From paths to run records in one function: walk, read, settle arms and repeats, sort."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

import msgspec

from twoarm.collect.arms import ArmKey, Configurations
from twoarm.collect.doubts import DOUBTS
from twoarm.collect.folder import Folder, SourceError, shown, walk
from twoarm.collect.format import Attempt, Failed, Format, Settings
from twoarm.collect.formats import AUTO, Formats, broken, load_formats, recognise, recognised
from twoarm.collect.moment import utc_text
from twoarm.collect.prices import Prices, cost_of, read_prices
from twoarm.collect.spool import Spool
from twoarm.collect.swe_bench import read_report
from twoarm.collect.tokens import summed
from twoarm.errors import ArmsError, BadRunsError, Caveat, InputError, Problem, UsageError
from twoarm.quote import counted, named, visible
from twoarm.record import Line, Run, explain

# How many bad inputs an error lists before it only counts.
LISTED = 100

_NAME_SETS = 1000

Progress = Callable[[int, int], None]

_MEASURED = (
    "total_cost_usd",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "step_count",
    "tool_call_count",
)


_measured = attrgetter(*_MEASURED)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A path to collect from, and the arm of all that is in it; None if an arm key tells it."""

    arm: str | None
    path: str


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of an arm failed in one way."""

    arm: str
    failure: str
    reason: str
    runs: int


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """The records of all places, and what the reader must know about them.

    The records wait in a temporary file, which leaving a `with` block gives back.
    """

    format: str
    # Whether the format was recognised and not named.
    recognised: bool
    runs: int
    # Runs per task and arm.
    counts: dict[str, dict[str, int]]
    # Runs without a value, per field and arm.
    missing: dict[str, dict[str, int]]
    lost: tuple[Lost, ...]
    caveats: tuple[Caveat, ...]
    problems: tuple[Problem, ...]
    spool: Spool

    def __enter__(self) -> "Collection":
        return self

    def __exit__(self, *raised: object) -> None:
        self.spool.close()

    def lines(self) -> Iterator[bytes]:
        """The records as JSON lines, sorted by task, arm and repeat."""
        return self.spool.lines()


class _Record(Run, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A run as it is written: optional keys only where there is something to say."""


_ENCODER = msgspec.json.Encoder()


def gather(
    format_name: str,
    places: Sequence[Place],
    *,
    arm_key: str | None = None,
    arm_map: Mapping[str, str] | None = None,
    may_differ: Sequence[str] = (),
    settings: Settings | None = None,
    reports: Mapping[str, str] | None = None,
    prices: str | None = None,
    renumber: bool = False,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Collection:
    """Read every run under the places, in one format.

    Raises BadRunsError with every input that gives no run, unless `skip_bad`; then the
    collection lists them.
    """
    _check(places, arm_key, arm_map)
    settings = settings or Settings()
    if reports:
        known = {arm: read_report(path) for arm, path in reports.items()}
        settings = msgspec.structs.replace(settings, reports=known)
    formats = load_formats()
    guessed = format_name == AUTO
    if guessed:
        format_name = recognise([place.path for place in places], formats)
    work = _Work(
        format=formats.choose(format_name),
        formats=formats,
        key=None if arm_key is None else ArmKey(arm_key, arm_map or {}),
        configurations=Configurations(tuple(may_differ)),
        settings=settings,
        prices=read_prices(prices) if prices is not None else None,
        progress=progress,
    )
    try:
        return _collected(work, places, guessed=guessed, renumber=renumber, skip_bad=skip_bad)
    except BaseException:
        work.spool.close()
        raise


def _collected(
    work: "_Work", places: Sequence[Place], *, guessed: bool, renumber: bool, skip_bad: bool
) -> Collection:
    for place in places:
        work.place(place)
    clashes, numbered = work.spool.number(renumber=renumber)
    problems = [*work.problems, *clashes]
    # What cannot be read may be left out; runs that clash are good ones, and none is the wrong one.
    if problems and not skip_bad:
        raise BadRunsError(problems[:LISTED], len(problems))
    if clashes:
        raise BadRunsError(clashes[:LISTED], len(clashes))
    if problems and not len(work.spool):
        # Nothing is left without them.
        raise BadRunsError(problems[:LISTED], len(problems))
    if not len(work.spool):
        where = ", ".join(shown(place.path) for place in places)
        raise InputError(f"{where}: no runs of format {work.format.name}")
    return Collection(
        format=work.format.name,
        recognised=guessed,
        runs=len(work.spool),
        counts=work.spool.counts(),
        missing={field: dict(found) for field, found in work.missing.items()},
        lost=tuple(
            Lost(arm=arm, failure=failure, reason=reason, runs=runs)
            for (arm, failure, reason), runs in sorted(work.lost.items())
        ),
        caveats=_caveats(work, numbered, guessed=guessed),
        problems=tuple(problems),
        spool=work.spool,
    )


def _check(places: Sequence[Place], arm_key: str | None, arm_map: Mapping[str, str] | None) -> None:
    if not places:
        raise UsageError(
            "nothing to collect; give --arm NAME=PATH for each arm, or PATH with --arm-key"
        )
    unnamed = [place for place in places if place.arm is None]
    if unnamed and arm_key is None:
        raise ArmsError(
            f"{shown(unnamed[0].path)}: which arm? name it with --arm NAME=PATH, "
            "or say with --arm-key what tells it"
        )
    if arm_key is not None and len(unnamed) < len(places):
        raise UsageError("--arm and --arm-key both tell the arm; give PATH without a name")
    if arm_map and arm_key is None:
        raise UsageError("--arm-map without --arm-key; say what holds the values")
    _check_apart(places)
    if any(place.arm == "" for place in places):
        raise UsageError("--arm with an empty name; write --arm NAME=PATH")


def _check_apart(places: Sequence[Place]) -> None:
    """Refuse a path inside another one: its runs would be counted twice."""
    real = [
        (os.path.realpath(place.path).rstrip(os.sep).split(os.sep), place.path)
        for place in places
        if "\0" not in place.path
    ]
    # In this order whatever is inside a path comes right after it.
    for (around, outer), (at, inner) in pairwise(sorted(real)):
        if at[: len(around)] == around:
            raise UsageError(
                f"{shown(inner)} is inside {shown(outer)}; its runs would be counted twice"
            )


class _Work:
    """The state of one collection."""

    def __init__(
        self,
        *,
        format: Format,
        formats: Formats,
        key: ArmKey | None,
        configurations: Configurations,
        settings: Settings,
        prices: Mapping[str, Prices] | None,
        progress: Progress | None,
    ) -> None:
        self.spool = Spool()
        self.problems: list[Problem] = []
        self.missing: dict[str, Counter[str]] = {field: Counter() for field in _MEASURED}
        self.lost: Counter[tuple[str, str, str]] = Counter()
        self.doubts: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.broken = formats.broken
        self._others = {name: one for name, one in formats.known.items() if one is not format}
        self._unmixed: set[frozenset[str]] = set()
        self.format = format
        self._key = key
        self._configurations = configurations
        self._settings = settings
        self._prices = prices
        self._progress = progress

    def place(self, place: Place) -> None:
        """Read all runs under one path."""
        done = known = 0
        for folder in walk(place.path):
            if isinstance(folder, Problem):
                self.problems.append(folder)
                continue
            self._folder(folder, place.arm)
            if self._progress is not None:
                done += 1
                if folder.below:
                    known += sum(
                        entry is not None and entry.is_dir(follow_symlinks=False)
                        for entry in folder.names.values()
                    )
                self._progress(done, known + 1)

    def _folder(self, folder: Folder, arm: str | None) -> None:
        try:
            claims = self.format.claims(folder)
            if claims and self.format.one_run_per_folder:
                folder.below = False
                self._check_unmixed(folder)
        except SourceError as error:
            folder.below = False
            self.problems.append(error.problem)
            return
        for name in claims:
            try:
                for found in self.format.read(folder, name, self._settings):
                    if isinstance(found, Problem):
                        self.problems.append(found)
                    else:
                        self._attempt(found, arm)
            except SourceError as error:
                self.problems.append(error.problem)

    def _check_unmixed(self, folder: Folder) -> None:
        """Refuse a run folder that another program wrote into as well, or alone."""
        # Programs name their files alike in every run: one look per set of names is enough, since
        # a file of another program under a name of this one does not decode.
        names = frozenset(folder.names)
        if names in self._unmixed:
            return
        others = recognised(folder, self._others)
        if others:
            mine = f"{self.format.name} and " if self.format.recognises(folder) else ""
            raise folder.refuse(
                f"files of {mine}{' and '.join(others)} in it, collected as {self.format.name}; "
                "one program per folder"
            )
        if len(self._unmixed) < _NAME_SETS:
            self._unmixed.add(names)

    def _attempt(self, attempt: Attempt, arm: str | None) -> None:
        try:
            if arm is None:
                assert self._key is not None
                arm = self._key.arm_of(attempt)
            self._configurations.check(arm, attempt)
            record = self._record(attempt, arm)
            line = _checked(record, attempt.where)
        except SourceError as error:
            self.problems.append(error.problem)
            return
        except RecursionError:
            text = "nested too deeply to be compared"
            self.problems.append(Problem(where=attempt.where, field=None, message=text))
            return
        self._count(record, attempt.where)
        self.spool.add(
            line,
            where=attempt.where,
            task=record.task_id,
            arm=arm,
            repeat=attempt.repeat,
            infra=record.failure == "infra",
            started=attempt.started,
        )

    def _record(self, attempt: Attempt, arm: str) -> Run:
        doubts = list(attempt.doubts)
        success, failure = self._outcome(attempt, arm)
        counts: tuple[int | None, ...] = (None, None, None, None)
        cost = attempt.cost_usd
        spends = attempt.spends
        if spends is not None:
            counts = summed(spends).counts
            if attempt.took_steps and not any(counts):
                counts, spends = (None, None, None, None), None
                doubts.append("usage_unknown")
        elif attempt.took_steps:
            doubts.append("usage_unknown")
        if cost == 0 and (attempt.took_steps or any(counts)):
            cost = None
            doubts.append("cost_unknown")
        if cost is None and self._prices is not None and spends is not None:
            cost = cost_of(spends, self._prices)
            doubts.append("no_price" if cost is None else "cost_computed")
            if cost is not None and "cost_unknown" in doubts:
                doubts.remove("cost_unknown")
        return _Record(
            task_id=attempt.task_id,
            arm=arm,
            # One that the source does not number is numbered once all runs are known.
            repeat=1 if attempt.repeat is None else attempt.repeat,
            success=success,
            duration_seconds=attempt.duration_seconds,  # type: ignore[arg-type]
            total_cost_usd=cost,
            input_tokens=counts[0],
            output_tokens=counts[1],
            cache_read_tokens=counts[2],
            cache_write_tokens=counts[3],
            step_count=attempt.step_count,
            tool_call_count=attempt.tool_call_count,
            acceptance_cmd_count=attempt.acceptance_cmd_count,
            acceptance_first_pass=attempt.acceptance_first_pass,
            agent_exit_code=attempt.agent_exit_code,
            acceptance_exit_code=attempt.acceptance_exit_code,
            setup_exit_code=attempt.setup_exit_code,
            arm_setup_exit_code=attempt.arm_setup_exit_code,
            failure=None if failure is None else failure.failure,
            failure_reason=None if failure is None else failure.reason,
            run_id=attempt.run_id,
            model=attempt.model,
            agent=attempt.agent,
            session_id=attempt.session_id,
            started_at_utc=utc_text(attempt.started),
            ended_at_utc=utc_text(attempt.ended),
            acceptance_command=attempt.acceptance_command,
            tags=sorted(set(doubts)) if doubts else None,
        )

    def _outcome(self, attempt: Attempt, arm: str) -> tuple[bool, Failed | None]:
        """Success and failure; a report is asked where the source does not know."""
        if attempt.success is not None:
            return attempt.success, attempt.failure
        report = self._settings.reports.get(arm)
        if report is None:
            raise SourceError(
                attempt.where,
                f"success is not known; give --report {arm}=FILE, a SWE-bench report",
            )
        if attempt.task_id not in report:
            raise SourceError(
                attempt.where,
                f"task {named(attempt.task_id)} is not in the report of arm {named(arm)}",
            )
        outcome = report[attempt.task_id]
        if isinstance(outcome, Failed):
            return False, outcome
        return outcome, attempt.failure

    def _count(self, record: Run, where: str) -> None:
        for field, value in zip(_MEASURED, _measured(record), strict=True):
            if value is None:
                self.missing[field][record.arm] += 1
        if record.failure:
            self.lost[record.arm, str(record.failure), record.failure_reason or ""] += 1
        for doubt in record.tags or ():
            self.doubts[doubt] += 1
            self.first.setdefault(doubt, where)


def _checked(record: Run, where: str) -> bytes:
    """The record as the spool takes it, and such that scoring will read it."""
    found = msgspec.to_builtins(record)
    try:
        msgspec.convert(found, Line)
    except ValueError as error:
        problems = explain(found, where)
        text = f"{problems[0].field}: {problems[0].message}" if problems else visible(str(error))
        raise SourceError(where, text) from error
    try:
        return _ENCODER.encode(msgspec.structs.replace(record, repeat=1))
    except ValueError as error:
        raise SourceError(where, f"holds text that no file can: {visible(str(error))}") from error


def _caveats(work: _Work, numbered: int, *, guessed: bool) -> tuple[Caveat, ...]:
    caveats = []
    for name, why in work.broken.items() if guessed else ():
        # The files may have been its own.
        caveats.append(Caveat(code="format_broken", message=broken(name, why)))
    if numbered:
        message = (
            "repeats numbered by start time within task and arm, "
            f"not by the source: {counted(numbered, 'run')}"
        )
        caveats.append(Caveat(code="repeats_numbered", message=message))
        blank = work.spool.without_start()
        if blank:
            message = f"{DOUBTS['no_start_time']}: {counted(blank, 'run')}"
            caveats.append(Caveat(code="no_start_time", message=message))
    attempts = work.spool.attempts()
    if attempts:
        message = (
            "several attempts of one repeat, all but the last of them infra failures: "
            f"{counted(attempts, 'run')}"
        )
        caveats.append(Caveat(code="attempted_again", message=message))
    for doubt, runs in sorted(work.doubts.items()):
        text = DOUBTS.get(doubt, doubt)
        message = f"{text}: {counted(runs, 'run')}, first {work.first[doubt]}"
        caveats.append(Caveat(code=doubt, message=message))
    return tuple(caveats)
