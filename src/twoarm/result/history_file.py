"""History: one small file for each result, and what all of them together say."""

from typing import Literal

import msgspec

from twoarm.result.analysis import Document, Tool

# 1  2026-11: the first. Within a number, keys are added, never changed or removed.
SCHEMA: Literal["twoarm.history/1"] = "twoarm.history/1"
SHOWN: Literal["twoarm.history_report/1"] = "twoarm.history_report/1"

# How a change of a metric is told: as a ratio, or as a difference where there are no ratios.
Scale = Literal["ratio", "difference"]


class SeriesKey(msgspec.Struct, frozen=True, kw_only=True):
    """What results must have in common to be one series; nothing is joined across any of it."""

    suite_id: str
    # Of the tasks: their ids, what is asked, and what grades it, as far as that is known.
    suite_sha256: str
    candidate: str
    baseline: str
    agents: tuple[str, ...]
    models: tuple[str, ...]


class LoggedArm(msgspec.Struct, frozen=True, kw_only=True):
    """One arm of a result; null was not measured."""

    arm: str
    runs: int
    successes: int
    median_duration_seconds: float | None
    median_non_cache_tokens: float | None
    median_cost_usd: float | None


class LoggedChoice(msgspec.Struct, frozen=True, kw_only=True):
    """That only some tasks were asked for: by what, and of how many."""

    tag: tuple[str, ...] | None
    task: tuple[str, ...] | None
    of: int


class LoggedChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the candidate changed in one metric, against the baseline that ran beside it.

    An interval is for tasks like these, or for these very tasks where there are too few.
    """

    scale: Scale
    estimate: float | None
    low: float | None
    high: float | None
    # By task: a difference, or the logarithm of a ratio.
    tasks: dict[str, float]


class LoggedResult(Document, frozen=True, kw_only=True):
    """One result: the file that is kept."""

    schema: Literal["twoarm.history/1"]
    tool: Tool
    # When the last of its runs was started; when it was added, if no run says so.
    time_utc: str
    commit: str | None
    label: str | None
    series: str
    key: SeriesKey
    # What the agents say of themselves.
    versions: tuple[str, ...]
    promotion: str
    promote_by: str
    decision: str
    level: float
    task_count: int
    candidate: LoggedArm
    baseline: LoggedArm
    changes: dict[str, LoggedChange]
    inputs_sha256: tuple[str, ...]
    # Of the runs themselves, however their files were packed; null if other runs may look alike.
    runs_sha256: str | None = None
    # Null if all tasks were asked for.
    chosen: LoggedChoice | None = None


class SeriesAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of the candidate on one metric is not what it was.

    `since` is the place of the first result after the change, `seen` that of the result with which
    it became clear, both from 0. The means are over the tasks and the results on either side.
    """

    metric: str
    scale: Scale
    since: int
    seen: int
    before: float
    after: float
    p: float


class SecondFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of results that does not count, because another has the same runs."""

    file: str
    counted_file: str


class HistorySeries(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one suite, agent and model, in order of time."""

    series: str
    key: SeriesKey
    results: tuple[LoggedResult, ...]
    alarms: tuple[SeriesAlarm, ...]
    # Why no alarm can be raised; null if one can.
    no_alarms: str | None
    second_files: tuple[SecondFile, ...]


class History(Document, frozen=True, kw_only=True):
    """Every series, with its alarms."""

    schema: Literal["twoarm.history_report/1"]
    tool: Tool
    level: float
    series: tuple[HistorySeries, ...]
