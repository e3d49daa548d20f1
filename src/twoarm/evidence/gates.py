"""What the runs support about each gate's difference, on the tasks that both arms have."""

import msgspec

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import Gate
from twoarm.evidence.arm_medians import arm_medians
from twoarm.evidence.cells import Grouped, group_arm, shared_tasks
from twoarm.evidence.interval import Frame
from twoarm.evidence.results import Estimate, GateEvidence, Interval, Withheld
from twoarm.runs.metric import SUCCESS
from twoarm.text.escape import counted
from twoarm.text.number_format import change

# This far apart, unequal repeats are a large part of a difference of success rates.
_FAR_APART = 0.01


def weigh_gate(gate: Gate, comparison: Comparison, success: Estimate, frame: Frame) -> GateEvidence:
    """One gate; the difference of success is that of the tasks."""
    if gate.candidate is None or gate.baseline is None:
        return _nothing(None, "not_measured", "Not measured in at least one arm.")
    metric, screening = gate.rule.metric, comparison.screening
    shared = shared_tasks(metric, screening)
    if not len(shared):
        message = "No task has runs in both arms."
        return _nothing(gate.candidate - gate.baseline, "no_shared_task", message)
    ours, theirs = (
        group_arm(metric, arm, len(comparison.runs.tasks), shared) for arm in screening.arms
    )
    if metric is SUCCESS:
        return GateEvidence(difference=_success(ours, theirs, success))
    found = arm_medians(ours, theirs, frame)
    if found.estimate != gate.candidate - gate.baseline:
        tasks = counted(len(shared), "task")
        note = f"On the {tasks} that both arms have; the gate compares all runs."
        found = _with_note(found, "shared_tasks_only", note)
    return GateEvidence(difference=found)


def _nothing(difference: float | None, code: str, message: str) -> GateEvidence:
    return GateEvidence(
        difference=Estimate(
            estimate=difference,
            these_tasks=None,
            tasks_like_these=None,
            withheld=(Withheld(code=code, scope=None, message=message),),
        )
    )


def _with_note(found: Estimate, code: str, note: str) -> Estimate:
    def noted(interval: Interval | None) -> Interval | None:
        if interval is None:
            return None
        return msgspec.structs.replace(interval, caveats=(*interval.caveats, note))

    return Estimate(
        estimate=found.estimate,
        these_tasks=noted(found.these_tasks),
        tasks_like_these=noted(found.tasks_like_these),
        withheld=(*found.withheld, Withheld(code=code, scope=None, message=note)),
    )


def _success(ours: Grouped, theirs: Grouped, found: Estimate) -> Estimate:
    """Every task weighs alike in the evidence, every run in the gate."""
    assert found.estimate is not None
    gate = float(ours.values.mean() - theirs.values.mean())
    if abs(found.estimate - gate) < _FAR_APART:
        return found
    note = f"Run by run, as the gate counts, the difference is {change(gate, SUCCESS.unit)}."
    return _with_note(found, "unequal_repeats", note)
