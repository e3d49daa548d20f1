"""At the end: a line for every trial, as one file for `score`; and a receipt of how it was made."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from twoarm.collect.gather import ArmPath, CollectOptions, batched, gather
from twoarm.collect.settle import Record
from twoarm.errors import ArmsError, BadRunsError, InputError
from twoarm.files.write import Output, write
from twoarm.programs.caveats import CAVEATS
from twoarm.programs.moment import seconds, utc_text
from twoarm.programs.prices import Prices
from twoarm.programs.sidecar import NAME
from twoarm.run.attempted import Attempted
from twoarm.run.ledger import TRIAL, RunFolder
from twoarm.run.looks import looks_taken
from twoarm.run.reported import looks_before_runs
from twoarm.run.schedule import Frozen, Trial
from twoarm.run.shard import Shard, sharded
from twoarm.run.suite import read_as
from twoarm.runs.record import NOT_YET_RUN, OVER_BUDGET, Failure, PlannedLooks, Run
from twoarm.runs.study import COLLECTED
from twoarm.text.escape import counted, shortened, visible

# What has to be said about runs that nobody will look at one by one.
_SAID = frozenset(
    {
        "noise_in_output",
        "no_event",
        "configuration_differs",
        "reward_off_scale",
        "thread_repeated",
        "usage_unread",
        "usage_key_unknown",
        "usage_key_wrong",
    }
)


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What was written as `collected.jsonl`."""

    # The arms that have runs.
    arms: frozenset[str]
    # What is odd about the runs.
    caveats: tuple[str, ...]


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a line is sorted by, and whose it is."""

    task_id: str
    arm: str
    repeat: int
    run_id: str | None = None
    started_at_utc: str | None = None
    part: int | None = None
    failure: str | None = None

    @property
    def trial(self) -> Trial:
        """The trial that it is a line of."""
        return Trial(task=self.task_id, repeat=self.repeat, arm=self.arm)

    @property
    def order(self) -> tuple[str, str, int, bool, str]:
        """As `collect` sorts."""
        at = self.started_at_utc
        return self.task_id, self.arm, self.repeat, at is None, at or ""


# What a line without a run may be.
_WITHOUT_RUN = ("missing", "interrupted")
_KNOWN = msgspec.json.Decoder(_Known)
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Lines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of `collected.jsonl`, the arms that have runs, and what is odd about the runs."""

    lines: list[bytes]
    arms: frozenset[str]
    caveats: tuple[str, ...]


def collect_runs(
    folder: RunFolder,
    frozen: Frozen,
    prices: Mapping[str, Prices] | None,
    upto: int | None = None,
    *,
    over_budget: bool = False,
) -> Collected:
    """Write a line for every trial of the schedule as `collected.jsonl`.

    If the run ended at a look, the trials after it were never needed, and have none.
    """
    collected = collected_lines(folder, frozen, prices, upto, over_budget=over_budget)
    content = batched(iter(collected.lines))
    write([Output(path=folder.at(COLLECTED), content=content, append=False, named=False)])
    return Collected(arms=collected.arms, caveats=collected.caveats)


def collected_lines(
    folder: RunFolder,
    frozen: Frozen,
    prices: Mapping[str, Prices] | None,
    upto: int | None = None,
    *,
    over_budget: bool = False,
) -> _Lines:
    """A line for every trial, or for those of the first repeats.

    That is its run and its infra failures; without either, that it is missing and why, such as that
    the budget ended the run before it. An attempt that broke off where its agent could bring that
    about is a line as well.
    """
    trials = [trial for trial in frozen.trials if upto is None or trial.repeat <= upto]
    looks = looks_taken(folder)
    # What a runner is at has not broken off.
    going_on = folder.held_by_another()
    attempts = [
        attempt for attempt in folder.attempts() if not (going_on and attempt.state == "running")
    ]
    runs = list(folder.runs())
    settled = [*runs, *(attempt for attempt in attempts if attempt.state == "infra")]
    lines, caveats = _read_again(folder, frozen, prices, settled)
    others = [
        _as_settled(folder, frozen, attempt) for attempt in settled if attempt.id not in lines
    ]
    done = {attempt.trial for attempt in settled}
    in_order = sorted(attempts, key=lambda attempt: attempt.attempt)
    last = {attempt.trial: attempt for attempt in in_order}
    for trial in trials:
        if trial not in done:
            reason = OVER_BUDGET if over_budget else NOT_YET_RUN
            if looks.closes(trial):
                reason = "lost: it was removed after a look"
            if attempt := last.get(trial):
                how = "lost" if attempt.state == "lost" else "interrupted"
                reason = f"{how}: {_why(attempt)}"
            others.append(_no_run(trial, "missing", reason))
    if folder.machine().isolation == "copy":
        # There an agent can kill whatever watches it, and so be rid of a run that goes badly.
        others += [
            _no_run(attempt.trial, "interrupted", _why(attempt))
            for attempt in attempts
            if attempt.state != "infra" and attempt.trial in done
        ]
    collected = [*lines.values(), *(msgspec.json.encode(run) + b"\n" for run in others)]
    collected.sort(key=lambda line: _KNOWN.decode(line).order)
    caveats += [*_caveats(others), *_doubts(folder), *_bad_scores(folder, runs)]
    return _Lines(
        lines=list(_completed(folder, frozen, runs, collected)),
        arms=frozenset(run.arm for run in runs),
        caveats=tuple(caveats),
    )


def _completed(
    folder: RunFolder, frozen: Frozen, runs: Sequence[Attempted], lines: Iterable[bytes]
) -> Iterator[bytes]:
    """Lines that say what is known of their trials besides, and are otherwise as they were."""
    # Neither has a trial that somebody has taken out of the schedule.
    part_of = {trial: part.number for part in frozen.parts for trial in part.trials}
    looked = looks_before_runs(folder, frozen, runs)
    families = {task.id: task.family for task in frozen.suite.tasks}
    planned = None if frozen.looks is None else PlannedLooks(looks=frozen.looks)
    tags_of = _tags_of(frozen)
    for line in lines:
        trial = _KNOWN.decode(line).trial
        told = {
            "part": part_of.get(trial),
            "planned_looks": planned,
            "looked_before": looked.get(trial),
            "task_tags": tags_of.get(trial.task),
            "family": families.get(trial.task),
        }
        known = {key: value for key, value in told.items() if value}
        yield msgspec.json.encode(_RAW.decode(line) | known) + b"\n"


def _tags_of(frozen: Frozen) -> dict[str, tuple[str, ...]]:
    return {task.id: task.tags for task in frozen.suite.tasks}


def merged_lines(
    folders: Iterable[RunFolder], frozen: Frozen, shards: int, missing: Iterable[int]
) -> list[bytes]:
    """The lines of several shards in one order, and of every trial of those that are missing."""
    lines = [
        line + b"\n" for folder in folders for line in folder.folder.read(COLLECTED).splitlines()
    ]
    part_of = {trial: part.number for part in frozen.parts for trial in part.trials}
    tags_of = _tags_of(frozen)
    for number in missing:
        shard = Shard(number=number, of=shards)
        for trial in sharded(frozen, shard).trials:
            gone = _no_run(trial, "missing", f"{NOT_YET_RUN}: {shard} is missing")
            told = {"part": part_of[trial], "task_tags": tags_of.get(trial.task) or None}
            run = msgspec.structs.replace(gone, **told)
            lines.append(msgspec.json.encode(run) + b"\n")
    return sorted(lines, key=lambda line: _KNOWN.decode(line).order)


def is_collected(folder: RunFolder, frozen: Frozen, settled: Iterable[Attempted]) -> bool:
    """Whether `collected.jsonl` has lines of all these attempts, and of every part."""
    try:
        lines = list(map(_KNOWN.decode, folder.folder.read(COLLECTED).splitlines()))
    except (FileNotFoundError, ValueError):
        return False
    ids, parts = {line.run_id for line in lines}, {line.part for line in lines}
    # The first was there when the file was written, whether or not its lines say so.
    grown = {part.number for part in frozen.parts[1:] if part.trials}
    return all(made.id in ids for made in settled) and grown <= parts


def refuse_other_lines(
    folder: RunFolder, shard: Shard, planned: Frozen, settled: Iterable[Attempted]
) -> None:
    """Refuse a `collected.jsonl` with lines of what is not in its shard; it can be read."""
    own, made = set(planned.trials), {attempt.id: attempt.trial for attempt in settled}
    told: set[str] = set()
    for number, line in enumerate(folder.folder.read(COLLECTED).splitlines(), 1):
        known = _KNOWN.decode(line)
        wrong = ""
        if known.trial not in own:
            wrong = f"{visible(shortened(known.trial.id, 60))} is not a trial of {shard}"
        elif known.run_id in told:
            wrong = f"{visible(shortened(known.run_id, 60))} is in it twice"
        elif made.get(known.run_id or "") != known.trial and (
            known.run_id is not None or known.failure not in _WITHOUT_RUN
        ):
            wrong = f"{visible(shortened(known.trial.id, 60))} is not of any run in the folder"
        if wrong:
            where = visible(folder.at(COLLECTED))
            raise InputError(
                f"{where}:{number}: {wrong}; let twoarm run --resume {visible(folder.path)} write "
                "the file again"
            )
        if known.run_id is not None:
            told.add(known.run_id)


def _bad_scores(folder: RunFolder, runs: Sequence[Attempted]) -> Iterator[str]:
    """What acceptance wrote down as a score that is none."""
    wrong = [run for run in runs if "score_error" in run.facts]
    if wrong:
        first = os.path.relpath(folder.run_of(wrong[0].trial), folder.path)
        yield (
            f"the file that $TWOARM_SCORE names holds no score, so the score is null: "
            f"{counted(len(wrong), 'run')}, first {visible(first)}: "
            f"{visible(wrong[0].facts['score_error'])}"
        )


def _doubts(folder: RunFolder) -> Iterator[str]:
    doubtful = folder.doubtful()
    if doubtful:
        yield (
            f"{counted(len(doubtful), 'run')} may have started from, or been judged by, files that "
            f"had been changed: {visible(shortened(', '.join(doubtful), 500))}; remove their "
            f"folders below {visible(folder.at('runs'))} and use --resume to run them again"
        )


def _read_again(
    folder: RunFolder,
    frozen: Frozen,
    prices: Mapping[str, Prices] | None,
    settled: Sequence[Attempted],
) -> tuple[dict[str, bytes], list[str]]:
    """The lines of attempts by their ids, as far as they can be read, and what is odd about them.

    In the order in which they ran: what an earlier run has as well is odd about the later one.
    """
    places: dict[str, list[ArmPath]] = {}
    for attempt in sorted(settled, key=lambda attempt: attempt.started):
        if attempt.format is not None:
            place = ArmPath(arm=attempt.arm, path=_folder_of(folder, attempt))
            places.setdefault(attempt.format, []).append(place)
    options = CollectOptions(
        prices=prices,
        uptake=frozen.suite.uptake,
        uptake_of={name: arm.uptake for name, arm in frozen.suite.arms.items()},
        relative_to=folder.path,
        skip_bad=True,
        settings=read_as(frozen.suite),
    )
    trials = {attempt.id: attempt.trial for attempt in settled}
    lines: dict[str, bytes] = {}
    caveats: list[str] = []
    waiting = sorted(places.items())
    while waiting:
        format_name, part = waiting.pop()
        try:
            with gather(format_name, part, options) as collection:
                for line in collection.lines():
                    known = _KNOWN.decode(line)
                    if known.run_id is not None and trials.get(known.run_id) == known.trial:
                        lines[known.run_id] = line
                caveats += [caveat.message for caveat in collection.caveats if caveat.code in _SAID]
        except (ArmsError, BadRunsError, InputError):
            # Somebody has changed a folder; the others are as good as they were.
            half = len(part) // 2
            waiting += [(format_name, part[:half]), (format_name, part[half:])] if half else []
    return lines, caveats


def _folder_of(folder: RunFolder, attempt: Attempted) -> str:
    return folder.run_of(attempt.trial) if attempt.state == "run" else folder.folder_of(attempt)


def _as_settled(folder: RunFolder, frozen: Frozen, attempt: Attempted) -> Run:
    """What was known of an attempt when it ended, without its output."""
    where, facts = _folder_of(folder, attempt), attempt.facts
    names = (name for name in (NAME, TRIAL) if os.path.lexists(os.path.join(where, name)))
    tag = "output_unread" if "unread" in facts else None
    if attempt.format is not None:
        tag = "not_read_again"
    return Record(
        task_id=attempt.task,
        arm=attempt.arm,
        repeat=attempt.repeat,
        success=bool(attempt.success),
        duration_seconds=facts.get("duration_seconds") or 0.0,
        total_cost_usd=attempt.cost_usd,
        input_tokens=None,
        output_tokens=None,
        cache_read_tokens=None,
        cache_write_tokens=None,
        agent_exit_code=facts.get("agent_exit_code"),
        acceptance_exit_code=facts.get("acceptance_exit_code"),
        score=facts.get("score"),
        checks=facts.get("checks"),
        arm_setup_exit_code=facts.get("setup_exit_code"),
        failure=attempt.failure,  # type: ignore[arg-type]
        failure_reason=attempt.reason,
        run_id=attempt.id,
        started_at_utc=_utc(facts.get("started_at_utc")),
        ended_at_utc=_utc(facts.get("ended_at_utc")),
        acceptance_command=next(
            (
                task.whole_acceptance or None
                for task in frozen.suite.tasks
                if task.id == attempt.task
            ),
            None,
        ),
        run_path=os.path.relpath(os.path.join(where, next(names, NAME)), folder.path),
        tags=None if tag is None else [tag],
        grader=facts.get("grader"),
    )


def _utc(moment: str | None) -> str | None:
    return None if moment is None else utc_text(seconds(datetime.fromisoformat(moment)))


def _why(attempt: Attempted) -> str:
    return attempt.reason or "the runner died before it ended"


def _no_run(trial: Trial, failure: Failure, reason: str) -> Run:
    """The line of a trial, or of an attempt at it, that gave no run."""
    return Record(
        task_id=trial.task,
        arm=trial.arm,
        repeat=trial.repeat,
        success=False,
        duration_seconds=0.0,
        total_cost_usd=None,
        input_tokens=None,
        output_tokens=None,
        cache_read_tokens=None,
        cache_write_tokens=None,
        failure=failure,
        failure_reason=reason,
    )


def _caveats(others: Sequence[Run]) -> Iterator[str]:
    """What is odd about runs that were not read."""
    for code in ("output_unread", "not_read_again"):
        runs = [run for run in others if code in (run.tags or ())]
        if runs:
            first = visible(runs[0].run_path or "")
            yield f"{CAVEATS[code]}: {counted(len(runs), 'run')}, first {first}"
