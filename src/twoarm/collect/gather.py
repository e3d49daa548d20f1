"""From paths to run records in one function: walk, read, settle arms and repeats, sort."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from operator import attrgetter

import msgspec

from twoarm.collect.arms import ArmKey, Configurations
from twoarm.collect.options import ArmPath as ArmPath
from twoarm.collect.options import CollectOptions as CollectOptions
from twoarm.collect.options import check_options, check_used
from twoarm.collect.settle import encoded, settle
from twoarm.collect.spool import Spool
from twoarm.collect.uptake_summary import ArmUses, UptakeTally
from twoarm.errors import ArmsError, BadRunsError, Caveat, InputError, Position, Problem, Problems
from twoarm.programs.caveats import CAVEATS
from twoarm.programs.folder import Folder, SourceError, shown, walk
from twoarm.programs.format import Attempt, Format, LeftOut
from twoarm.programs.mini_swe_agent.swe_bench import TaskOutcomes, read_report
from twoarm.programs.prices import Prices, read_prices
from twoarm.programs.registry import AUTO, Formats, broken, load_formats, recognize, recognized
from twoarm.programs.uptake import Uses, count_uses
from twoarm.runs.record import Run
from twoarm.runs.stream import Progress
from twoarm.text.escape import counted, inert_json
from twoarm.text.sentence import Name, listed, say

_NAME_SETS = 1000
# How many reasons to leave something out are told apart.
_MOST_LEFT_OUT = 20
# How many names of what a caveat is about are held.
_MOST_ABOUT = 1000
# How many records are written at a time.
_BATCH = 1000

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
    # Whether the format was recognized, not named.
    recognized: bool
    runs: int
    # Runs per task and arm.
    counts: dict[str, dict[str, int]]
    # Runs without a value, per field and arm.
    missing: dict[str, dict[str, int]]
    lost: tuple[Lost, ...]
    # What was not asked for, and how much there was of it.
    left_out: dict[LeftOut, int]
    # How often the change was used, per arm that was asked about.
    uptake: dict[str, ArmUses]
    # How many runs are infra because a provider refused them, by HTTP status.
    refused: dict[int, int]
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

    def batches(self) -> Iterator[bytes]:
        """The same as they are written."""
        return batched(self.lines())


def batched(lines: Iterator[bytes]) -> Iterator[bytes]:
    """JSON lines as they are written: many at a time, and none a command to a CI runner."""
    while batch := b"".join(islice(lines, _BATCH)):
        yield inert_json(batch.decode()).encode() if b"#" in batch else batch


def gather(
    format_name: str,
    places: Sequence[ArmPath],
    options: CollectOptions | None = None,
    progress: Progress | None = None,
) -> Collection:
    """Read every run under the places, in one format.

    Raises BadRunsError with every input that gives no run, unless `skip_bad`; then the
    collection lists them.
    """
    options = options or CollectOptions()
    check_options(places, options)
    uptake = UptakeTally(options.uptake, options.uptake_of)
    formats = load_formats()
    guessed = format_name == AUTO
    if guessed:
        format_name = recognize([place.path for place in places], formats)
    check_used(format_name, options)
    reports = {arm: read_report(path) for arm, path in options.reports.items()}
    work = _Work(
        format=formats.choose(format_name),
        formats=formats,
        options=options,
        reports=reports,
        prices=read_prices(options.prices) if isinstance(options.prices, str) else options.prices,
        uptake=uptake,
        progress=progress,
    )
    with ExitStack() as unless_collected:
        unless_collected.callback(work.spool.close)
        for place in places:
            work.place(place)
        collection = _finish(work, places, options, guessed=guessed)
        unless_collected.pop_all()
    return collection


def _finish(
    work: "_Work", places: Sequence[ArmPath], options: CollectOptions, *, guessed: bool
) -> Collection:
    clashes, numbered = work.spool.number(renumber=options.renumber)
    problems = [*work.problems, *clashes]
    # What cannot be read may be left out; runs that clash are good, and none is the wrong one.
    fatal = problems if not (options.skip_bad and len(work.spool)) else clashes
    if fatal:
        raise BadRunsError(Problems(fatal))
    if work.key is not None:
        work.key.check()
    if not len(work.spool):
        where = ", ".join(shown(place.path) for place in places)
        left = "".join(f"; {text}" for text in left_out(work.left_out))
        raise InputError(f"{where}: no runs of format {work.format.name}{left}")
    return Collection(
        format=work.format.name,
        recognized=guessed,
        runs=len(work.spool),
        counts=work.spool.counts(),
        missing={field: dict(counts) for field, counts in work.missing.items()},
        lost=tuple(
            Lost(arm=arm, failure=failure, reason=reason, runs=runs)
            for (arm, failure, reason), runs in sorted(work.lost.items())
        ),
        left_out=dict(work.left_out),
        uptake=work.uptake.arms,
        refused=dict(work.refused),
        caveats=(*_caveats(work, numbered, guessed=guessed), *work.uptake.caveats()),
        problems=tuple(problems),
        spool=work.spool,
    )


def left_out(counts: Mapping[LeftOut, int]) -> list[str]:
    """What was not asked for, in words."""
    return [f"left out: {counted(count, kind.noun)}{kind.why}" for kind, count in counts.items()]


class _Work:
    """The state of one collection."""

    def __init__(
        self,
        *,
        format: Format,
        formats: Formats,
        options: CollectOptions,
        reports: Mapping[str, TaskOutcomes],
        prices: Mapping[str, Prices] | None,
        uptake: UptakeTally,
        progress: Progress | None,
    ) -> None:
        self.spool = Spool()
        self.problems: list[Problem] = []
        self.missing: dict[str, Counter[str]] = {field: Counter() for field in _MEASURED}
        self.lost: Counter[tuple[str, str, str]] = Counter()
        self.left_out: Counter[LeftOut] = Counter()
        self.refused: Counter[int] = Counter()
        self.skipped_lines = 0
        self.caveats: Counter[str] = Counter()
        # What each caveat is about, in the order in which it was met.
        self.about: dict[str, dict[str, None]] = {}
        # Where each caveat was first met.
        self.first: dict[str, Position] = {}
        self.broken = formats.broken
        self.format = format
        self._others = {name: other for name, other in formats.known.items() if other is not format}
        self._unmixed: set[frozenset[str]] = set()
        self.key = None
        if options.arm_key is not None:
            self.key = ArmKey(options.arm_key, options.arm_map)
        self._configurations = Configurations(tuple(options.may_differ))
        self._settings = options.settings
        self._reports = reports
        self._prices = prices
        self.uptake = uptake
        self._relative_to = options.relative_to
        # The path that is read, and the same as seen from there.
        self._place = self._place_seen = ""
        self._progress = progress

    def place(self, place: ArmPath) -> None:
        """Read all runs under one path."""
        self._place = shown(place.path)
        if self._relative_to is not None:
            self._place_seen = os.path.relpath(self._place, self._relative_to)
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
                self._progress("collecting", done, known + 1)

    def _folder(self, folder: Folder, arm: str | None) -> None:
        folder.lenient = self._settings.scheduled
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
                for item in self.format.read(folder, name, self._settings):
                    if isinstance(item, Problem):
                        self.problems.append(item)
                    elif isinstance(item, LeftOut):
                        self._leave_out(item)
                    else:
                        self._attempt(item, arm)
            except SourceError as error:
                self.problems.append(error.problem)

    def _check_unmixed(self, folder: Folder) -> None:
        """Refuse a run folder that another program wrote to, alone or as well."""
        # Programs name their files alike in every run: one look per set of names is enough, since
        # a file of another program under a name of this one does not decode.
        names = frozenset(folder.names)
        if names in self._unmixed:
            return
        others = recognized(folder, self._others)
        if others:
            mine = f"{self.format.name} and " if self.format.recognizes(folder) else ""
            raise folder.refuse(
                f"files of {mine}{' and '.join(others)} in it, collected as {self.format.name}; "
                "one program per folder"
            )
        if len(self._unmixed) < _NAME_SETS:
            self._unmixed.add(names)

    def _attempt(self, attempt: Attempt, arm: str | None) -> None:
        try:
            if arm is None:
                assert self.key is not None
                chosen = self.key.arm_of(attempt)
                if isinstance(chosen, LeftOut):
                    self._leave_out(chosen)
                    return
                arm = chosen
            difference = self._configurations.difference(arm, attempt)
            if difference is not None:
                if not self._settings.scheduled:
                    raise ArmsError(difference)
                caveats = (*attempt.caveats, "configuration_differs")
                attempt = msgspec.structs.replace(attempt, caveats=caveats)
            uses = self._uses(attempt, arm)
            path = self._run_path(attempt.where)
            record = settle(attempt, arm, self._reports.get(arm), self._prices, uses, path)
            line = encoded(record, attempt.where)
        except SourceError as error:
            self.problems.append(error.problem)
            return
        except RecursionError:
            self.problems.append(attempt.where.problem("nested too deeply to be compared"))
            return
        self._count(record, attempt)
        if uses is not None:
            self.uptake.add(arm, uses, attempt.calls)
        self.spool.add(
            line,
            where=attempt.where,
            task=record.task_id,
            arm=arm,
            repeat=attempt.repeat,
            infra=record.failure == "infra",
            started=attempt.started,
        )

    def _run_path(self, where: Position) -> str | None:
        """The file of a run, as seen from the folder of the records; a line of a table is none."""
        if self._relative_to is None or where.line is not None:
            return None
        below = where.source[len(self._place) :]
        if below.startswith(":") and not self._place.endswith(os.sep):
            # A sample of a log that was given as a file.
            return f"{self._place_seen}{below}"
        below = below.lstrip(os.sep)
        if self._place_seen == os.curdir:
            return below
        return f"{self._place_seen}{os.sep}{below}" if below else self._place_seen

    def _leave_out(self, reason: LeftOut) -> None:
        if reason not in self.left_out and len(self.left_out) >= _MOST_LEFT_OUT:
            reason = LeftOut(noun=reason.noun, why=" of other arms that were not asked for")
        self.left_out[reason] += 1

    def _uses(self, attempt: Attempt, arm: str) -> Uses | None:
        """How often the run used the change; None if nobody asked."""
        patterns = self.uptake.patterns(arm)
        return count_uses(attempt.calls, patterns) if patterns else None

    def _count(self, record: Run, attempt: Attempt) -> None:
        failed = attempt.failure
        if failed is not None and failed.failure == "infra" and failed.status is not None:
            self.refused[failed.status] += 1
        self.skipped_lines += attempt.skipped_lines
        for code, names in attempt.about.items():
            met = self.about.setdefault(code, {})
            met.update((name, None) for name in names if len(met) < _MOST_ABOUT)
        for field, value in zip(_MEASURED, _measured(record), strict=True):
            if value is None:
                self.missing[field][record.arm] += 1
        if record.failure:
            self.lost[record.arm, str(record.failure), record.failure_reason or ""] += 1
        for code in record.tags or ():
            self.caveats[code] += 1
            self.first.setdefault(code, attempt.where)


def _caveats(work: _Work, numbered: int, *, guessed: bool) -> tuple[Caveat, ...]:
    caveats = []
    for name, why in work.broken.items() if guessed else ():
        # The files may have been its own.
        caveats.append(Caveat.of(code="format_broken", message=broken(name, why)))
    if numbered:
        caveats.append(
            Caveat.say(
                "repeats_numbered",
                "repeats numbered by start time within task and arm, not by the source: {}",
                counted(numbered, "run"),
            )
        )
        blank = work.spool.without_start()
        if blank:
            caveats.append(
                Caveat.say(
                    "no_start_time", "{}: {}", CAVEATS["no_start_time"], counted(blank, "run")
                )
            )
    attempts = work.spool.attempts()
    if attempts:
        caveats.append(
            Caveat.say(
                "attempted_again",
                "several attempts at one repeat, all but the last of them infra failures: {}",
                counted(attempts, "run"),
            )
        )
    for code, runs in sorted(work.caveats.items()):
        # Formats of other packages have codes of their own.
        text = CAVEATS.get(code) or Name(code)
        if code in work.about:
            text = say("{} ({})", text, listed(list(work.about[code])))
        if code == "noise_in_output":
            text = say("{} ({})", text, counted(work.skipped_lines, "line"))
        caveats.append(
            Caveat.say(code, "{}: {}, first {}", text, counted(runs, "run"), work.first[code])
        )
    return tuple(caveats)
