"""From a report to the small file that is kept of it, and back."""

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import GATES
from twoarm.compare.summarize import ArmSummary
from twoarm.errors import BadRunsError, InputError, OutputError, Position, Problems, UsageError
from twoarm.evidence.cells import lay_out, task_runs
from twoarm.evidence.results import Estimate, Interval, Scope
from twoarm.files.write import write_new_file
from twoarm.history.same_runs import runs_digest, same_runs
from twoarm.options import HIGHEST_LEVEL, LOWEST_LEVEL
from twoarm.render.report import Report
from twoarm.result.history_file import (
    SCHEMA,
    LoggedArm,
    LoggedChange,
    LoggedChoice,
    LoggedResult,
    Scale,
    SeriesKey,
)
from twoarm.runs.metric import COST
from twoarm.text.escape import named, visible

METRICS = (*(gate.metric for gate in GATES), COST)
# No result is larger: a task takes about a hundred bytes.
_LARGEST_FILE = 16 * 2**20
_SUFFIX = ".json"
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z", re.ASCII)
_SHORT = 8
# Digits that a figure is kept with: far more than anybody can measure.
_DIGITS = 6
_LONGEST_LABEL = 200
# Far beyond what any two runs differ by, and small enough to be squared twice.
_LARGEST_FIGURE = 1e30
_LARGEST = {"ratio": math.log(_LARGEST_FIGURE), "difference": _LARGEST_FIGURE}
_MOST_RUNS = 2**53
_RESULT = msgspec.json.Decoder(LoggedResult)


class _Versioned(msgspec.Struct, frozen=True):
    """What every schema of a result has."""

    schema: str


_ANY_SCHEMA = msgspec.json.Decoder(_Versioned)


def entry_of(report: Report, commit: str | None, label: str | None) -> LoggedResult:
    """What is kept of a report, which needs its evidence."""
    if report.evidence is None:
        raise UsageError("a history needs the evidence, which is off")
    if commit is not None and not _COMMIT.fullmatch(commit):
        raise UsageError(f"--commit: expected a commit of 7 to 64 digits, got {named(commit)}")
    if label is not None and not 0 < len(label) <= _LONGEST_LABEL:
        raise UsageError(f"--label: expected 1 to {_LONGEST_LABEL} characters, got {len(label)}")
    tested = report.tested
    key = SeriesKey(
        suite_id=", ".join(sorted({suite.suite_id for suite in tested.suites})),
        suite_sha256=_suite_digest(report.comparison),
        candidate=report.candidate,
        baseline=report.baseline,
        agents=tested.agents,
        models=tested.models,
    )
    commits = {suite.commit for suite in tested.suites if suite.commit}
    candidate, baseline = map(_arm, report.arm_summaries)
    time = tested.last_started_at_utc or report.generated_at_utc
    assert time is not None
    return LoggedResult(
        schema=SCHEMA,
        tool=report.tool,
        time_utc=time,
        commit=commit or (commits.pop() if len(commits) == 1 else None),
        label=label,
        series=_digest(msgspec.to_builtins(key))[:12],
        key=key,
        versions=tuple(sorted({suite.version for suite in tested.suites if suite.version})),
        promotion=report.promotion.verdict,
        promote_by=report.options.promote_by,
        decision=str(report.decision),
        level=report.options.level,
        task_count=report.task_count,
        candidate=candidate,
        baseline=baseline,
        changes=dict(_changes(report)),
        inputs_sha256=tuple(sorted(filter(None, (each.sha256 for each in report.inputs)))),
        runs_sha256=runs_digest(report.comparison, report.options),
        chosen=_chosen(report),
    )


def _chosen(report: Report) -> LoggedChoice | None:
    chosen, options = report.chosen_tasks, report.options
    if chosen is None:
        return None
    return LoggedChoice(tag=options.tag, task=options.task, of=chosen.of)


def _suite_digest(comparison: Comparison) -> str:
    """Of the suites, and of the tasks if only some were asked for: these are another series."""
    suites = _suites_digest(comparison)
    if comparison.screening.chosen_tasks is None:
        return suites
    return _digest([suites, *(task.task_id for task in comparison.tasks)])


def _suites_digest(comparison: Comparison) -> str:
    """Of the suites of run folders; otherwise of the tasks and what graded them."""
    runs = comparison.runs
    if runs.studies:
        return _digest(sorted({study.suite_sha256 for study in runs.studies}))
    graders = sorted(
        {
            (runs.tasks[task], runs.graders[grader] or "")
            for task, grader in set(zip(runs.task.tolist(), runs.grader.tolist(), strict=True))
        }
    )
    return _digest(graders)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


def _arm(summary: ArmSummary) -> LoggedArm:
    return LoggedArm(
        arm=summary.arm,
        runs=summary.runs,
        successes=summary.successes,
        median_duration_seconds=_short(summary.median_duration_seconds),
        median_non_cache_tokens=_short(summary.median_non_cache_tokens),
        median_cost_usd=_short(summary.median_cost_usd),
    )


def _changes(report: Report) -> Iterator[tuple[str, LoggedChange]]:
    """What each metric changed by, as the evidence has it, and task by task."""
    assert report.evidence is not None
    comparison = report.comparison
    layout, rows = lay_out(comparison)
    names = comparison.runs.tasks
    for metric in METRICS:
        runs = task_runs(metric, comparison, layout, rows).on_test_scale()
        delta = report.evidence.deltas[metric.name]
        scale: Scale = "ratio" if runs.logs else "difference"
        whole = delta.ratio if runs.logs else delta.mean
        by_task = {
            names[task]: _rounded(effect)
            for task, effect in zip(layout.tasks.tolist(), runs.deltas.tolist(), strict=True)
            if not np.isnan(effect)
        }
        if by_task:
            yield metric.name, _change(scale, whole, by_task, report.evidence.headline)


def _change(
    scale: Scale, whole: Estimate | None, by_task: dict[str, float], headline: Scope
) -> LoggedChange:
    # The interval that the report itself shows.
    interval: Interval | None = None if whole is None else getattr(whole, headline)
    return LoggedChange(
        scale=scale,
        estimate=None if whole is None else _short(whole.estimate),
        low=None if interval is None else _short(interval.low),
        high=None if interval is None else _short(interval.high),
        tasks=by_task,
    )


def _short(value: float | None) -> float | None:
    return None if value is None else _rounded(value)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


# Files.


def file_name(entry: LoggedResult) -> str:
    """By time, commit and series, so that they sort as they were made."""
    time = re.sub(r"[-:]|\.\d+", "", entry.time_utc)
    return f"{time}-{(entry.commit or 'none')[:_SHORT]}-{entry.series[:_SHORT]}{_SUFFIX}"


def add_entry(folder: str, entry: LoggedResult) -> str:
    """Keep a result; the path of its file. None that is there is ever written to."""
    try:
        _check(entry)
    except ValueError as error:
        raise InputError(f"{error}; nothing was added") from error
    for path, known in read_entries(folder) if os.path.isdir(folder) else ():
        if same_runs(known, entry):
            raise OutputError(f"{visible(path)} already has these runs; nothing was added")
    name = file_name(entry)
    if os.path.lexists(os.path.join(folder, name)):
        # Another result of the same second.
        runs = _digest([entry.runs_sha256, *entry.inputs_sha256])[:_SHORT]
        name = f"{name.removesuffix(_SUFFIX)}-{runs}{_SUFFIX}"
    path = os.path.join(folder, name)
    write_new_file(path, msgspec.json.encode(entry) + b"\n")
    return path


def read_entries(folder: str) -> Iterator[tuple[str, LoggedResult]]:
    """Every result of a folder with its path, in order of time; all that is bad is named."""
    entries: list[tuple[str, LoggedResult]] = []
    problems = Problems()
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX))
    except OSError as error:
        raise InputError(f"{visible(folder)}: cannot be read: {error.strerror}") from error
    for name in names:
        path = os.path.join(folder, name)
        try:
            entries.append((path, _read(path)))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.add(Position(visible(path)).problem(visible(reason or "not a result")))
    if problems.count:
        raise BadRunsError(problems)
    yield from sorted(entries, key=lambda each: (moment(each[1]), each[0]))


def moment(entry: LoggedResult) -> str:
    """The time of a result as text that sorts: a fraction of a second is later than none."""
    return entry.time_utc.removesuffix("Z")


def _read(path: str) -> LoggedResult:
    # Whoever opens a pipe waits for somebody to write to it.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("not a file")
    with open(path, "rb") as file:
        text = file.read(_LARGEST_FILE + 1)
    if len(text) > _LARGEST_FILE:
        raise ValueError(f"larger than {_LARGEST_FILE >> 20} MiB, which no result is")
    schema = _ANY_SCHEMA.decode(text).schema
    if schema != SCHEMA and re.fullmatch(r"twoarm\.history/[1-9][0-9]*", schema):
        raise ValueError(f"made by a newer twoarm: its schema is {named(schema)}")
    if schema != SCHEMA:
        raise ValueError(
            f"not a result that twoarm log add made: its schema is {named(schema)}; move the file"
        )
    entry = _RESULT.decode(text)
    _check(entry)
    return entry


def _check(entry: LoggedResult) -> None:
    """What the types of the fields do not say."""
    if not _is_time(entry.time_utc):
        raise ValueError(f"time_utc: expected a time such as 2026-11-18T05:10:00Z, got "
                         f"{named(entry.time_utc)}")  # fmt: skip
    if entry.series != _digest(msgspec.to_builtins(entry.key))[:12]:
        raise ValueError("series: not that of its key; the file was changed")
    if not LOWEST_LEVEL <= entry.level <= HIGHEST_LEVEL:
        raise ValueError(f"level: expected {LOWEST_LEVEL} to {HIGHEST_LEVEL}, got {entry.level:g}")
    for arm in (entry.candidate, entry.baseline):
        _check_arm(arm)
    for metric, change in entry.changes.items():
        _check_interval(metric, change)
        for task, effect in change.tasks.items():
            if abs(effect) > _LARGEST[change.scale]:
                raise ValueError(
                    f"changes.{metric}: {named(task)}: no {change.scale} is that large"
                )


def _check_arm(arm: LoggedArm) -> None:
    medians = (arm.median_duration_seconds, arm.median_non_cache_tokens, arm.median_cost_usd)
    if not 0 <= arm.successes <= arm.runs <= _MOST_RUNS:
        raise ValueError(f"{named(arm.arm)}: no arm has {arm.successes:,} of {arm.runs:,} runs")
    if any(median is not None and not 0.0 <= median <= _LARGEST_FIGURE for median in medians):
        raise ValueError(f"{named(arm.arm)}: no median is negative or that large")


def _check_interval(metric: str, change: LoggedChange) -> None:
    """That an estimate and its interval can be told; the one need not be inside the other."""
    least = 0.0 if change.scale == "ratio" else -_LARGEST_FIGURE
    for name in ("estimate", "low", "high"):
        value: float | None = getattr(change, name)
        if value is not None and not least <= value <= _LARGEST_FIGURE:
            raise ValueError(f"changes.{metric}: {name}: no {change.scale} is {value:g}")
    if change.low is not None and change.high is not None and change.low > change.high:
        raise ValueError(f"changes.{metric}: low is {change.low:g}, above high, {change.high:g}")


def _is_time(text: str) -> bool:
    match = _TIME.fullmatch(text)
    try:
        return match is not None and bool(datetime.fromisoformat(match[1]))
    except ValueError:
        return False
