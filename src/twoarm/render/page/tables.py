"""The tables of the page: every cell with the text it shows and the value it is sorted by."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from twoarm.figures import NOT_MEASURED, change, figure, share
from twoarm.metric import COST, DURATION, METRICS, NON_CACHE_TOKENS, SUCCESS, TOKENS
from twoarm.quote import counted, html, html_sentence, shortened
from twoarm.render.reading import SCOPES

if TYPE_CHECKING:
    from twoarm.analysis import Analysis
    from twoarm.evidence.interval import BootstrapEstimate, Estimate, Interval

    AnyEstimate = Estimate | BootstrapEstimate | None

# A page with more rows than this opens slowly; the analysis file holds them all.
MOST_ROWS = 1_000
_NAME = 120

_COUNTS = (("runs", "count", "runs"), ("successes", "count", "successes"))
_RATES = (
    ("success rate", "points", "success_rate"),
    ("total cost", "usd", "total_cost_usd"),
    ("average cost", "usd", "avg_cost_usd"),
)
_LABELS = {metric.name: metric.label for metric in METRICS}
_TASK_DELTAS = (SUCCESS, DURATION, NON_CACHE_TOKENS, TOKENS, COST)


Kind = Literal["text", "name", "number"]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown, and what it is sorted by; `html` is safe already."""

    html: str
    key: float | str | None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table that can be sorted by any column; a column holds text or numbers."""

    name: str
    heading: str
    head: tuple[tuple[str, Kind], ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str


def tables(analysis: "Analysis") -> Iterator[Table]:
    """Every table, in reading order."""
    yield _deltas(analysis)
    yield _arms(analysis)
    yield _tasks(analysis)
    yield _excluded(analysis)
    yield _caveats(analysis)


def _text(text: str) -> Cell:
    return Cell(html=html(text), key=text)


def _name(text: str) -> Cell:
    return Cell(html=html(shortened(text, _NAME)), key=shortened(text, _NAME))


def _number(text: str, value: float | None) -> Cell:
    return Cell(html=html(text), key=value)


def _deltas(analysis: "Analysis") -> Table:
    """One row per metric and question: the two questions never share one."""
    evidence = analysis.evidence
    rows = []
    for metric in METRICS:
        mean = getattr(analysis.paired, f"mean_{metric.delta}")
        median = getattr(analysis.paired, f"median_{metric.delta}")
        pairs = analysis.paired.pairs_with[metric.name]
        found = evidence.deltas.get(metric.name) if evidence is not None else None
        scopes = ("tasks_like_these", "these_tasks") if found is not None else (None,)
        for scope in scopes:
            ratio = None if found is None or found.ratio is None else found.ratio.estimate
            p = None if found is None or scope is None else getattr(found.p, scope)
            unit = metric.unit
            rows.append(
                (
                    _text(metric.label),
                    _text(SCOPES[scope] if scope is not None else NOT_MEASURED),
                    _number(f"{pairs:,}", pairs),
                    _number(change(mean, unit), mean),
                    _interval(found.mean if found else None, scope, unit),
                    _number(change(median, unit), median),
                    _interval(found.median if found else None, scope, unit),
                    _number(share(None if ratio is None else ratio - 1.0), ratio),
                    _ratio(found.ratio if found else None, scope),
                    _number(NOT_MEASURED if p is None else f"{p:.3g}", p),
                )
            )
    level = f"{evidence.level * 100:g}% interval" if evidence is not None else "interval"
    note = "Candidate minus baseline. A ratio is the mean change in percent, on logarithms."
    if evidence is not None:
        note += " The p-values are not adjusted for looking at several metrics; the grade is."
    return Table(
        name="deltas",
        heading="Paired deltas",
        head=(
            ("metric", "name"),
            ("speaks for", "name"),
            *(
                (label, "number")
                for label in ("pairs", "mean", level, "median", level, "ratio", level, "p")
            ),
        ),
        rows=tuple(rows),
        note=note,
    )


def _interval(estimate: "AnyEstimate", scope: str | None, unit: str) -> Cell:
    found = _scoped(estimate, scope)
    if found is None:
        return Cell(html=NOT_MEASURED, key=None)
    low, high = change(found.low, unit), change(found.high, unit)
    # Said once: the column is wide enough as it is.
    for said in (" points", " s"):
        if low.endswith(said) and high.endswith(said):
            low = low.removesuffix(said)
    return _number(f"{low} to {high}", found.low)


def _ratio(estimate: "AnyEstimate", scope: str | None) -> Cell:
    found = _scoped(estimate, scope)
    if found is None:
        return Cell(html=NOT_MEASURED, key=None)
    return _number(f"{share(found.low - 1.0)} to {share(found.high - 1.0)}", found.low)


def _scoped(estimate: "AnyEstimate", scope: str | None) -> "Interval | None":
    if estimate is None or scope is None:
        return None
    found: Interval | None = getattr(estimate, scope)
    return found


def _arms(analysis: "Analysis") -> Table:
    medians = tuple(
        (f"median {metric.label}", metric.unit, metric.median)
        for metric in METRICS
        if metric.median is not None
    )
    last = (("solved per dollar", "rate", "solved_per_dollar"),)
    lacking = {metric.median: metric.name for metric in METRICS if metric.median is not None}
    lacking |= {"total_cost_usd": COST.name, "avg_cost_usd": COST.name}
    ours, theirs = analysis.arm_summaries
    rows = []
    for label, unit, name in (*_COUNTS, *_RATES, *medians, *last):
        left, right = getattr(ours, name), getattr(theirs, name)
        moved = None if left is None or right is None else left - right
        metric = lacking.get(name)
        absent = None if metric is None else ours.missing[metric] + theirs.missing[metric]
        rows.append(
            (
                _text(label),
                _number(figure(left, unit), left),
                _number(figure(right, unit), right),
                _number(change(moved, unit), moved),
                _number(NOT_MEASURED if absent is None else f"{absent:,}", absent),
            )
        )
    return Table(
        name="arms",
        heading="Arms",
        head=(
            ("figure", "name"),
            (shortened(analysis.candidate, 40), "number"),
            (shortened(analysis.baseline, 40), "number"),
            ("difference", "number"),
            ("runs without it", "number"),
        ),
        rows=tuple(rows),
        note="",
    )


def _tasks(analysis: "Analysis") -> Table:
    rows = []
    for task in analysis.tasks[:MOST_ROWS]:
        rates = [
            (
                _number(f"{arm.successes}/{arm.runs}", arm.successes / arm.runs)
                if arm.runs
                else Cell(html=NOT_MEASURED, key=None)
            )
            for arm in (task.candidate, task.baseline)
        ]
        moved = [getattr(task, f"mean_{metric.delta}") for metric in _TASK_DELTAS]
        rows.append(
            (
                _name(task.task_id),
                _text(_standing(task.mean_pass_delta)),
                *rates,
                *(
                    _number(change(value, metric.unit), value)
                    for metric, value in zip(_TASK_DELTAS, moved, strict=True)
                ),
                _number(f"{task.pairs:,}", task.pairs),
                _text(", ".join(_LABELS[name] for name in task.high_variance)),
            )
        )
    helped, hurt = (
        sum(_standing(task.mean_pass_delta) == word for task in analysis.tasks)
        for word in ("helped", "hurt")
    )
    note = (
        f"Success in pairs: {counted(helped, 'task')} helped, {hurt} hurt, "
        f"{len(analysis.tasks) - helped - hurt} unchanged or without a pair. The columns of "
        "metrics are mean deltas, candidate minus baseline."
    )
    if len(analysis.tasks) > MOST_ROWS:
        note += (
            f" {MOST_ROWS:,} of {len(analysis.tasks):,} tasks are listed; analysis.json has all."
        )
    return Table(
        name="tasks",
        heading="Tasks",
        head=(
            ("task", "text"),
            ("success", "name"),
            ("passed, candidate", "number"),
            ("passed, baseline", "number"),
            *((metric.label, "number") for metric in _TASK_DELTAS),
            ("pairs", "number"),
            ("varies in", "text"),
        ),
        rows=tuple(rows),
        note=note,
    )


def _standing(delta: float | None) -> str:
    if delta is None:
        return NOT_MEASURED
    return "helped" if delta > 0 else "hurt" if delta < 0 else "unchanged"


def _excluded(analysis: "Analysis") -> Table:
    groups = analysis.excluded
    note = "" if groups else "No run was excluded."
    if analysis.evidence is not None and groups:
        flips = analysis.evidence.exclusions.could_flip
        note = (
            "Excluded runs could flip this decision."
            if flips
            else "The decision stays, had every excluded run of one arm failed, or passed."
        )
    if len(groups) > MOST_ROWS:
        note += f" {MOST_ROWS:,} of {len(groups):,} are listed; analysis.json has all."
    return Table(
        name="excluded",
        heading="Excluded runs",
        head=(("reason", "text"), ("arm", "text"), ("runs", "number")),
        rows=tuple(
            (_name(group.reason), _name(group.arm), _number(f"{group.runs:,}", group.runs))
            for group in groups[:MOST_ROWS]
        ),
        note=note,
    )


def _caveats(analysis: "Analysis") -> Table:
    return Table(
        name="caveats",
        heading="Caveats",
        head=(("what to know", "text"), ("code", "name")),
        rows=tuple(
            (
                Cell(html=html_sentence(caveat.message), key=caveat.message),
                Cell(html=f"<code>{html(caveat.code)}</code>", key=caveat.code),
            )
            for caveat in analysis.caveats
        ),
        note="" if analysis.caveats else "Nothing to add.",
    )
