"""Every series of a folder of results, with the alarms of each."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from twoarm._version import __version__
from twoarm.compare.decide import GATES
from twoarm.errors import InputError, UsageError
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.history.alarms import FEWEST_RESULTS, shifts
from twoarm.history.entry import moment, read_entries
from twoarm.history.same_runs import same_runs
from twoarm.options import HIGHEST_LEVEL, LOWEST_LEVEL
from twoarm.render.report import ShortReport
from twoarm.render.sheet import Sheet
from twoarm.result.analysis import Tool
from twoarm.result.history_file import (
    SHOWN,
    History,
    HistorySeries,
    LoggedResult,
    SecondFile,
    SeriesAlarm,
)
from twoarm.runs.arrays import Floats
from twoarm.text.escape import named, series, visible


class HistoryReport(ShortReport, History, frozen=True, kw_only=True):
    """A history that can be shown, as text, Markdown or a page."""

    def sheet(self) -> Sheet:
        """The history as a short report."""
        from twoarm.render.history import sheet_of

        return sheet_of(self)

    def to_html(self) -> str:
        """The history as one self-contained page; needs the extra `html`."""
        from twoarm.render.page import history_page

        return history_page.render(self)


def overview(folder: str, level: float = 0.95, only: str | None = None) -> HistoryReport:
    """The series in a folder, the one with the newest result first; or the one that is named."""
    if not LOWEST_LEVEL <= level <= HIGHEST_LEVEL:
        raise UsageError(
            f"--level: expected a number from {LOWEST_LEVEL} to {HIGHEST_LEVEL}, got {level}"
        )
    by_series: dict[str, list[_Filed]] = {}
    for path, entry in read_entries(folder):
        by_series.setdefault(entry.series, []).append(_Filed(os.path.basename(path), entry))
    if not by_series:
        raise InputError(f"{visible(folder)}: no results in it; add one with twoarm log add")
    if only is not None:
        chosen = [name for name in by_series if name.startswith(only)]
        if len(chosen) != 1:
            what = "no series" if not chosen else "several series"
            raise UsageError(
                f"--series: {what} {named(only)}; there are {series(sorted(by_series))}"
            )
        by_series = {chosen[0]: by_series[chosen[0]]}
    newest = sorted(by_series, key=lambda name: moment(by_series[name][-1].entry), reverse=True)
    return HistoryReport(
        schema=SHOWN,
        tool=Tool(name="twoarm", version=__version__),
        level=level,
        series=tuple(_series(by_series[name], level) for name in newest),
    )


class _Filed(NamedTuple):
    file: str
    entry: LoggedResult


def _series(filed: Sequence[_Filed], level: float) -> HistorySeries:
    counted, second_files = _counted_once(filed)
    results = [each.entry for each in counted]
    return HistorySeries(
        series=results[0].series,
        key=results[0].key,
        results=tuple(results),
        alarms=tuple(_alarms(results, level)),
        no_alarms=_why_none(results),
        second_files=tuple(second_files),
    )


def _counted_once(filed: Sequence[_Filed]) -> tuple[list[_Filed], list[SecondFile]]:
    """One file for the same runs, however many branches added them."""
    counted: list[_Filed] = []
    second_files = []
    for each in filed:
        first = next((kept for kept in counted if same_runs(kept.entry, each.entry)), None)
        if first is None:
            counted.append(each)
        else:
            second_files.append(SecondFile(file=each.file, counted_file=first.file))
    return counted, second_files


def _why_none(results: Sequence[LoggedResult]) -> str | None:
    if len(results) < FEWEST_RESULTS:
        return f"an alarm needs at least {FEWEST_RESULTS} results, and it has {len(results)}"
    tasks = max(
        (len(change.tasks) for result in results for change in result.changes.values()), default=0
    )
    if tasks < FEWEST_TASKS:
        return f"an alarm needs at least {FEWEST_TASKS} tasks, and it has {tasks}"
    return None


def _alarms(results: Sequence[LoggedResult], level: float) -> Iterator[SeriesAlarm]:
    """The changes of every gate's metric, each of which has its share of the error."""
    alpha = (1.0 - level) / len(GATES)
    for gate in GATES:
        metric = gate.metric.name
        known = [result.changes[metric] for result in results if metric in result.changes]
        if not known:
            continue
        # What is told in another way cannot be compared with it.
        scale = known[-1].scale
        for shift in shifts(effects_of(results, metric), alpha):
            yield SeriesAlarm(
                metric=metric,
                scale=scale,
                since=shift.since,
                seen=shift.seen,
                before=shift.before,
                after=shift.after,
                p=shift.p,
            )


def effects_of(results: Sequence[LoggedResult], metric: str) -> Floats:
    """A row for each result, a column for each task, on the scale of the newest; else NaN."""
    changes = [result.changes.get(metric) for result in results]
    scale = next(change.scale for change in reversed(changes) if change is not None)
    used = [change.tasks if change and change.scale == scale else {} for change in changes]
    names = sorted({name for tasks in used for name in tasks})
    return np.array([[tasks.get(name, np.nan) for name in names] for tasks in used])
