"""A history in words: each series, what it changed from result to result, and what is no longer."""

import math
from collections.abc import Iterator

from twoarm.compare.decide import GATES
from twoarm.render.sheet import Sheet, SheetLine
from twoarm.render.tables import Cell, Column, Table, number, words
from twoarm.result.chosen_tasks import choice_said
from twoarm.result.history_file import (
    History,
    HistorySeries,
    LoggedChange,
    LoggedResult,
    Scale,
    SeriesAlarm,
)
from twoarm.runs.metric import BY_NAME, COST, SUCCESS, Metric
from twoarm.text.escape import counted
from twoarm.text.number_format import NOT_MEASURED, at_level, change, share
from twoarm.text.sentence import Name, Sentence, joined, listed, say

SHORT = 8
METRICS = (*(gate.metric for gate in GATES), COST)
_NAMED = 3


def sheet_of(history: History) -> Sheet:
    """The history as a short report."""
    results = sum(len(each.results) for each in history.series)
    return Sheet(
        heading=say("{} over time", series_said(history.series[0]))
        if len(history.series) == 1
        else say("{} comparisons over time", len(history.series)),
        overview=(
            f"{counted(results, 'result')} in {len(history.series):,} series; "
            f"alarms keep {1.0 - history.level:.0%} over a whole history"
        ),
        lines=tuple(line for each in history.series for line in _lines(each)),
        tables=tuple(map(_table, history.series)),
        caveats=tuple(caveat for each in history.series for caveat in _caveats(each)),
        tool=history.tool,
    )


def _lines(series: HistorySeries) -> Iterator[SheetLine]:
    """Every alarm, the newest last; without any, that there is none, or can be none."""
    which = Name(series.series[:SHORT])
    for alarm in sorted(series.alarms, key=lambda alarm: alarm.since):
        yield SheetLine(
            label="CHANGED", text=say("{}: {}", which, alarm_said(series, alarm)), first=True
        )
    if series.no_alarms is not None:
        yield SheetLine(label="SERIES", text=say("{}: {}", which, series.no_alarms))
    elif not series.alarms:
        count = counted(len(series.results), "result")
        yield SheetLine(
            label="STEADY", text=say("{}: no change of the effect is clear in {}", which, count)
        )


def alarm_said(series: HistorySeries, alarm: SeriesAlarm) -> Sentence:
    """What changed, from when on, and when that became clear."""
    metric = BY_NAME[alarm.metric]
    before, after = (
        told(value, metric, alarm.scale, logs=True) for value in (alarm.before, alarm.after)
    )
    seen = "" if alarm.seen == alarm.since else say(
        ", clear since {}", result_said(series.results[alarm.seen])
    )  # fmt: skip
    return say(
        "the effect on {} was {} and has been {} since {}{}",
        metric.label,
        before,
        after,
        result_said(series.results[alarm.since]),
        seen,
    )


def result_said(result: LoggedResult) -> Sentence:
    """A result by its day, and by its commit or label."""
    day = result.time_utc.partition("T")[0]
    which = result.commit[:SHORT] if result.commit else result.label
    return say("{} ({})", day, Name(which)) if which else say("{}", day)


def told(value: float | None, metric: Metric, scale: Scale, *, logs: bool = False) -> str:
    """A change as a percentage, or in the unit of the metric."""
    if value is None:
        return NOT_MEASURED
    if scale == "ratio":
        return share((math.exp(value) if logs else value) - 1.0)
    return change(value, metric.unit)


def series_said(series: HistorySeries) -> Sentence:
    """What a series is about."""
    key = series.key
    parts = [say("{} vs. {}", Name(key.candidate), Name(key.baseline))]
    if key.suite_id:
        parts.append(say("suite {}", Name(key.suite_id)))
    newest = series.results[-1]
    if (chosen := newest.chosen) is not None:
        among = f"{newest.task_count:,} of {counted(chosen.of, 'task')}"
        parts.append(say("{}, {}", among, choice_said(chosen.tag, chosen.task)))
    agents, models = listed(key.agents, _NAMED), listed(key.models, _NAMED)
    parts += [each for each in (agents, models) if each]
    return joined(parts, ", ")


def _table(series: HistorySeries) -> Table:
    """A row for each result, the newest last."""
    results = series.results
    return Table(
        name=f"series-{series.series[:SHORT]}",
        heading=f"Series {series.series[:SHORT]}",
        columns=(
            Column("day", "text"),
            Column("commit", "text", brief=any(each.commit for each in results)),
            Column("label", "text", brief=any(each.label and not each.commit for each in results)),
            Column("verdict", "text", brief=False),
            *(Column(metric.short, brief=metric is not COST) for metric in METRICS),
        ),
        rows=tuple(_row(series, at) for at in range(len(series.results))),
        notes=(
            say("{}.", series_said(series)),
            "Changes against the baseline of the same day, with intervals.",
        ),
    )


def _row(series: HistorySeries, at: int) -> tuple[Cell, ...]:
    result = series.results[at]
    return (
        words(result.time_utc.partition("T")[0]),
        words(Name((result.commit or NOT_MEASURED)[:SHORT])),
        words(Name(result.label) if result.label else NOT_MEASURED),
        words(result.promotion),
        *(_changed(result.changes.get(metric.name), metric) for metric in METRICS),
    )


def _changed(logged: LoggedChange | None, metric: Metric) -> Cell:
    if logged is None or logged.estimate is None:
        return number(NOT_MEASURED, None)
    return number(change_said(logged, metric), logged.estimate)


def change_said(logged: LoggedChange, metric: Metric) -> str:
    """A change with its interval, in whole points or percent."""
    if logged.scale == "difference" and metric is not SUCCESS:
        return told(logged.estimate, metric, logged.scale)

    def whole(value: float) -> str:
        rounded = round(100.0 * (value - 1.0 if logged.scale == "ratio" else value))
        return f"{rounded:+d}" if rounded else "0"

    unit = " pts" if metric is SUCCESS else "%"
    assert logged.estimate is not None
    text = f"{whole(logged.estimate)}{unit}"
    if logged.low is None or logged.high is None:
        return text
    return f"{text} ({whole(logged.low)} to {whole(logged.high)})"


def _caveats(series: HistorySeries) -> Iterator[Sentence]:
    """Which files do not count, and what else changed from one result to the next."""
    which = Name(series.series[:SHORT])
    for second in series.second_files:
        yield say(
            "{}: {} has the same runs as {} and does not count; remove one of the two",
            which,
            Name(second.file),
            Name(second.counted_file),
        )
    for earlier, later in zip(series.results, series.results[1:], strict=False):
        if earlier.versions != later.versions and later.versions:
            yield say(
                "{}: the agent was updated at {}: {}, before {}",
                which,
                result_said(later),
                listed(later.versions, _NAMED),
                listed(earlier.versions, _NAMED) or "not known",
            )
        if earlier.level != later.level:
            yield say(
                "{}: intervals hold {} since {}, and {} before",
                which,
                at_level(later.level),
                result_said(later),
                at_level(earlier.level),
            )
