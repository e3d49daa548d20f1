"""The evidence in tables and plain words: one question at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from twoarm.decide import INSUFFICIENT
from twoarm.evidence.interval import (
    FLAT_BOOTSTRAP,
    NOTHING_TO_RESAMPLE,
    SIX,
    BootstrapEstimate,
    Estimate,
    Interval,
    Scope,
    reasons,
)
from twoarm.figures import NOT_MEASURED, change, figure, share
from twoarm.metric import METRICS, SUCCESS
from twoarm.quote import WHOLE_NAME, counted, shortened
from twoarm.render import sections
from twoarm.render.sections import GATES, Name, Table

if TYPE_CHECKING:
    from twoarm.analysis import Analysis
    from twoarm.evidence.weigh import Evidence

# Which intervals a report shows: those of the two questions, or the bootstrap.
Shown = Literal["headline", "bootstrap"]

_OTHER: dict[Scope, Scope] = {
    "these_tasks": "tasks_like_these",
    "tasks_like_these": "these_tasks",
}
_METRICS = {metric.name: metric for metric in METRICS}
STABLE = 0.95
FAIRLY_STABLE = 0.80
_LISTED = 10
_ROWS_NAMED = 3
_NO_RATIO = "No ratio: some values are zero."
_EACH_BY_ITSELF = "p is for each row alone; the verdict above allows for looking at three (Holm)."


def verdict(analysis: "Analysis") -> str:
    """The grade in one sentence, with its scope."""
    evidence = _evidence(analysis)
    grade = evidence.grade
    return f"{grade.verdict}, {_scope(grade.scope, evidence)}: {'; '.join(grade.reasons)}"


def stability(analysis: "Analysis") -> str:
    """How firm the decision is, and what that is not."""
    evidence = _evidence(analysis)
    found = evidence.stability
    if found is None:
        if analysis.decision == INSUFFICIENT:
            return "no decision to resample"
        if "unshared_tasks_decide" in [caveat.code for caveat in evidence.caveats]:
            return "not given: the tasks that both arms have would decide otherwise"
        return f"not given: below {SIX} tasks that both arms have it would mislead"
    held = found.decision_share
    return (
        f"{stability_word(held)}: the same decision in {held:.0%} of resamples ({found.method}); "
        "stability is not the probability of being right"
    )


def stability_word(share: float) -> str:
    """What a share of resamples with the same decision means."""
    if share >= STABLE:
        return "stable"
    return "fairly stable" if share >= FAIRLY_STABLE else "could easily change"


def margin(analysis: "Analysis") -> str | None:
    """The margin rule in one sentence, where it was asked for."""
    found = _evidence(analysis).margin
    if found is None:
        return None
    arm = {"candidate": analysis.candidate, "baseline": analysis.baseline}.get(found.verdict)
    said = f"prefer {shortened(arm, WHOLE_NAME)}" if arm else "inconclusive"
    return (
        f"{said} (margins {found.margin_success * 100:g} points of success, "
        f"{found.margin_ratio * 100:g}% of time and tokens): {'; '.join(found.reasons)}"
    )


def _evidence(analysis: "Analysis") -> "Evidence":
    assert analysis.evidence is not None
    return analysis.evidence


def _scope(scope: Scope, evidence: "Evidence") -> str:
    if evidence.tasks < 2:
        return "on this one task" if evidence.tasks else "no task has a pair"
    if scope == "these_tasks":
        return f"on these very {evidence.tasks} tasks"
    return f"for tasks like these {evidence.tasks}"


def with_evidence(analysis: "Analysis", shown: Shown) -> Iterator[Table]:
    """Every table of the report in reading order; the evidence follows the gates and the deltas."""
    gates, deltas, *others = sections.tables(analysis)
    yield gates
    yield deltas
    if analysis.evidence is not None:
        yield from tables(analysis, shown)
    yield from others


def tables(analysis: "Analysis", shown: Shown) -> Iterator[Table]:
    """The headline question, then the other one; or the bootstrap in their place."""
    evidence = _evidence(analysis)
    if shown == "bootstrap":
        yield _bootstrap(evidence)
    else:
        for scope in (evidence.headline, _OTHER[evidence.headline]):
            yield _intervals(evidence, scope)
    if analysis.tasks:
        yield _tasks(analysis)
    yield _repeats(analysis)


def _level(evidence: "Evidence") -> str:
    return f"{evidence.level * 100:g}% interval"


def _intervals(evidence: "Evidence", scope: Scope) -> Table:
    rows: list[tuple[str | Name, ...]] = []
    # What has to be said about an interval, and of which rows.
    notes: dict[str, list[str]] = {}
    for name, gate in evidence.gates.items():
        label, unit = GATES[name]
        found = gate.difference
        for note in _reasons(found, scope):
            notes.setdefault(note, []).append(f"{label}, difference")
        rows.append(
            (
                f"{label}, difference",
                change(found.estimate, unit),
                _range(getattr(found, scope), unit),
                "",
            )
        )
    for name, delta in evidence.deltas.items():
        metric = _METRICS[name]
        p = getattr(delta.p, scope)
        tested = NOT_MEASURED if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
        if delta.ratio is not None:
            rows.append(
                (
                    f"{metric.label}, ratio of pairs",
                    share(_less_one(delta.ratio.estimate)),
                    _percent_range(getattr(delta.ratio, scope)),
                    tested,
                )
            )
        else:
            if metric is not SUCCESS and delta.pairs:
                notes.setdefault(_NO_RATIO, []).append(metric.label)
            rows.append(
                (
                    f"{metric.label}, mean of pairs",
                    change(delta.mean.estimate, metric.unit),
                    _range(getattr(delta.mean, scope), metric.unit),
                    tested,
                )
            )
        for note in _reasons(delta.ratio or delta.mean, scope):
            notes.setdefault(note, []).append(metric.label)
    tested_here = any(row[-1] not in ("", NOT_MEASURED) for row in rows)
    return Table(
        heading=(
            f"Tasks like these: would other tasks of this kind show it? "
            f"({counted(evidence.tasks, 'task')})"
            if scope == "tasks_like_these"
            else "These tasks: would the same tasks show it again?"
        ),
        text_columns=1,
        head=("candidate against baseline", "estimate", _level(evidence), "p"),
        rows=tuple(rows),
        notes=(
            *((_EACH_BY_ITSELF,) if tested_here and scope == evidence.headline else ()),
            *(_of_rows(note, labels, len(rows)) for note, labels in notes.items()),
        ),
    )


def _of_rows(note: str, labels: list[str], rows: int) -> str:
    """A note that names the rows it is about, unless it is about all."""
    if len(labels) == rows:
        return note
    more = len(labels) - _ROWS_NAMED
    listed = "; ".join(labels[:_ROWS_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{note.removesuffix('.')} ({listed})."


def _reasons(found: Estimate | BootstrapEstimate, scope: Scope) -> tuple[str, ...]:
    interval: Interval | None = getattr(found, scope)
    if interval is not None:
        return interval.caveats
    bootstrap = (FLAT_BOOTSTRAP, NOTHING_TO_RESAMPLE)
    return reasons(tuple(one for one in found.caveats if one not in bootstrap), scope)


def _bootstrap(evidence: "Evidence") -> Table:
    rows = []
    for name, delta in evidence.deltas.items():
        metric = _METRICS[name]
        rows.append(
            (
                metric.label,
                change(delta.mean.estimate, metric.unit),
                _range(delta.mean.bootstrap, metric.unit),
                change(delta.median.estimate, metric.unit),
                _range(delta.median.bootstrap, metric.unit),
            )
        )
    return Table(
        heading="Bootstrap intervals on the paired deltas (whole tasks resampled)",
        text_columns=1,
        head=("", "mean", _level(evidence), "median", _level(evidence)),
        rows=tuple(rows),
        notes=("They are too narrow for few tasks; docs/statistics.md has the measured coverage.",),
    )


def _range(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return NOT_MEASURED
    if unit == SUCCESS.unit:
        return f"{interval.low * 100:+.1f} to {interval.high * 100:+.1f} points"
    return f"{change(interval.low, unit)} to {change(interval.high, unit)}"


def _less_one(ratio: float | None) -> float | None:
    return None if ratio is None else ratio - 1.0


def _percent_range(interval: Interval | None) -> str:
    if interval is None:
        return NOT_MEASURED
    return f"{share(interval.low - 1.0)} to {share(interval.high - 1.0)}"


def _repeats(analysis: "Analysis") -> Table:
    evidence = _evidence(analysis)
    arms = evidence.repeats
    rows: list[tuple[str | Name, ...]] = []
    for rates in zip(*(arm.pass_rates for arm in arms), strict=False):
        k = rates[0].k
        if k == 1:
            continue
        rows.append(
            (f"pass@{k}, any of {k} succeeds", *(f"{one.at_least_one:.1%}" for one in rates))
        )
        rows.append((f"pass^{k}, all of {k} succeed", *(f"{one.all:.1%}" for one in rates)))
    cost = [arm.cost_per_solved_usd for arm in arms]
    rows.append(("cost per solved task", *(figure(one.estimate, "usd") for one in cost)))
    rows.append(
        (
            f"  {_level(evidence)}",
            *(_cost_range(getattr(one, evidence.headline)) for one in cost),
        )
    )
    return Table(
        heading="Repeats",
        text_columns=1,
        head=("", Name(analysis.candidate), Name(analysis.baseline)),
        rows=tuple(rows),
        notes=(),
    )


def _cost_range(interval: Interval | None) -> str:
    if interval is None:
        return NOT_MEASURED
    return f"{figure(interval.low, 'usd')} to {figure(interval.high, 'usd')}"


def _tasks(analysis: "Analysis") -> Table:
    tasks = analysis.tasks
    order = {"hurt": 0, "helped": 1, "unchanged": 2, None: 3}
    ranked = sorted(
        tasks, key=lambda task: (order[task.standing], task.mean_pass_delta or 0, task.task_id)
    )
    count = {
        word: sum(task.standing == word for task in tasks)
        for word in ("helped", "hurt", "unchanged")
    }
    return Table(
        heading=(
            f"Tasks by success: {count['helped']} helped, {count['hurt']} hurt, "
            f"{count['unchanged']} unchanged"
        ),
        text_columns=2,
        head=("task", "standing", "candidate", "baseline", "gained", "lost", "duration"),
        rows=tuple(
            (
                Name(task.task_id),
                task.standing or "one arm only",
                f"{task.candidate.successes}/{task.candidate.runs}",
                f"{task.baseline.successes}/{task.baseline.runs}",
                str(task.gained),
                str(task.lost),
                change(task.mean_duration_delta_seconds, "seconds"),
            )
            for task in ranked[:_LISTED]
        ),
        notes=sections.more(len(ranked), _LISTED),
    )
