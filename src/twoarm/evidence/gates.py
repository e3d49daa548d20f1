"""What the runs support about each gate's difference, on the tasks that both arms have."""

import msgspec

from twoarm import column
from twoarm.decide import GATE_METRICS, Gate
from twoarm.evidence import means, medians
from twoarm.evidence.cells import Grouped, group_arm, shared_tasks
from twoarm.evidence.deltas import distinct
from twoarm.evidence.interval import (
    TIED,
    Estimate,
    Frame,
    Interval,
    between,
    no_interval_over,
    no_width,
)
from twoarm.evidence.resample import Tables, shared_resamples
from twoarm.figures import change
from twoarm.metric import SUCCESS, Metric
from twoarm.quote import counted
from twoarm.screen import Screening

# From so far apart on, unequal repeats are a large part of a difference of success rates.
_FAR_APART = 0.01


class GateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The difference on the tasks that both arms have, and its intervals."""

    difference: Estimate


def weigh_gate(
    gate: Gate, screening: Screening, task_count: int, frame: Frame, tables: Tables
) -> GateEvidence:
    """One gate."""
    if gate.candidate is None or gate.baseline is None:
        return _nothing(None, "Not measured in at least one arm.")
    metric = GATE_METRICS[gate.name]
    shared = shared_tasks(metric, screening)
    if not shared:
        return _nothing(gate.candidate - gate.baseline, "No task has runs in both arms.")
    ours, theirs = (
        group_arm(metric, arm, task_count, shared, small=frame.small) for arm in screening.arms
    )
    if metric is SUCCESS:
        found = _success(ours, theirs, frame)
    else:
        arms = screening.candidate.arm, screening.baseline.arm
        found = _medians(metric, ours, theirs, arms, frame, tables)
    if found.estimate != gate.candidate - gate.baseline:
        tasks = counted(len(shared), "task")
        found = _with_note(
            found, f"On the {tasks} that both arms have; the gate compares all runs."
        )
    return GateEvidence(difference=found)


def _nothing(difference: float | None, why: str) -> GateEvidence:
    return GateEvidence(
        difference=Estimate(
            estimate=difference, these_tasks=None, tasks_like_these=None, caveats=(why,)
        )
    )


def _with_note(found: Estimate, note: str) -> Estimate:
    def noted(interval: Interval | None) -> Interval | None:
        if interval is None:
            return None
        return msgspec.structs.replace(interval, caveats=(*interval.caveats, note))

    return Estimate(
        estimate=found.estimate,
        these_tasks=noted(found.these_tasks),
        tasks_like_these=noted(found.tasks_like_these),
        caveats=(*found.caveats, note),
    )


def _success(ours: Grouped, theirs: Grouped, frame: Frame) -> Estimate:
    won, lost = (column.group_totals(side.values, side.starts) for side in (ours, theirs))
    difference = sum(won) / len(ours) - sum(lost) / len(theirs)
    passes = means.Passes(successes=(won, lost), sizes=(ours.sizes, theirs.sizes))
    found = means.success_estimate(passes, difference, frame)
    by_task = means.mean_by_task(passes)
    if abs(by_task - difference) < _FAR_APART:
        return found
    return _with_note(
        found, f"Unequal repeats: task by task the difference is {change(by_task, SUCCESS.unit)}."
    )


def _medians(
    metric: Metric,
    ours: Grouped,
    theirs: Grouped,
    arms: tuple[str, str],
    frame: Frame,
    tables: Tables,
) -> Estimate:
    these = medians.arms_apart(ours, theirs, frame)
    tasks = len(ours.sizes)
    like = None
    caveats = list(these.caveats)
    resamples = shared_resamples(tasks, frame)
    if tasks < frame.fewest_tasks or resamples is None:
        caveats.append(no_interval_over(tasks, frame.fewest_tasks))
    else:
        drawn = [
            tables.drawn(arm, side, metric, resamples)
            for arm, side in zip(arms, (ours, theirs), strict=True)
        ]
        low, high = resamples.percentiles(drawn[0] - drawn[1], (1.0 - frame.level) / 2.0)
        if no_width(low, high):
            caveats.append(TIED)
        else:
            method = f"percentile, tasks resampled{', exact' if resamples.exact else ''}"
            like = between(low=low, high=high, method=method, caveats=())
    middles = column.median(ours.values), column.median(theirs.values)
    assert middles[0] is not None
    assert middles[1] is not None
    return Estimate(
        estimate=middles[0] - middles[1],
        these_tasks=these.interval,
        tasks_like_these=like,
        caveats=distinct(*caveats),
    )
