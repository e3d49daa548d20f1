"""Three gates to one decision; adequacy; promotion: the rule lives here and nowhere else."""

from typing import Literal, Protocol

import msgspec

from twoarm.metric import DURATION, NON_CACHE_TOKENS, SUCCESS, Metric
from twoarm.quote import counted, named
from twoarm.screen import Arms
from twoarm.tasks import HIGH_SPREAD, Task, TaskArm

MIXED = "mixed results - inspect paired deltas"
INSUFFICIENT = "insufficient data"

MINIMUM_REPEATS = 5
PREFERRED_REPEATS = 10
# A suite is high-variance when at least this share of its tasks is.
HIGH_VARIANCE_SHARE = 0.25

Standing = Literal["better", "tied", "worse"]
Verdict = Literal["promote", "do not promote", "not enough data"]
GateName = Literal["success_rate", "median_duration_seconds", "median_non_cache_tokens"]


# The metric that each gate looks at.
GATE_METRICS: dict[str, Metric] = {
    "success_rate": SUCCESS,
    "median_duration_seconds": DURATION,
    "median_non_cache_tokens": NON_CACHE_TOKENS,
}


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of the rule, with the two figures it compares."""

    name: GateName
    candidate: float | None
    baseline: float | None
    holds: bool | None
    standing: Standing | None


class Promotion(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the candidate may be promoted, and why."""

    verdict: Verdict
    reasons: tuple[str, ...]


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """A task and arm with too few repeats in which a gate's metric was measured."""

    task_id: str
    arm: str
    metric: str
    repeats: int


class HighVariance(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the repeats of this suite differ so much that 10 of them are advised."""

    suite: bool
    criterion: str
    tasks: tuple[str, ...]


class Adequacy(msgspec.Struct, frozen=True, kw_only=True):
    """Whether there are enough repeats for a promotion."""

    minimum_repeats: int
    preferred_repeats: int
    fewest_repeats: int
    status: Literal["below minimum", "minimum met", "preferred met"]
    below_minimum: tuple[Shortfall, ...]
    high_variance: HighVariance

    @property
    def short(self) -> int:
        """How many pairs of a task and an arm have too few repeats."""
        return len({(entry.task_id, entry.arm) for entry in self.below_minimum})


class Figures(Protocol):
    """What the gates look at; an arm summary has it."""

    @property
    def success_rate(self) -> float | None:
        """Successes per run."""

    @property
    def median_duration_seconds(self) -> float | None:
        """The middle duration."""

    @property
    def median_non_cache_tokens(self) -> float | None:
        """The middle count of tokens outside the cache."""


def judge(candidate: Figures, baseline: Figures) -> tuple[Gate, Gate, Gate]:
    """The three gates on the figures of the two arms."""
    return (
        _gate("success_rate", candidate.success_rate, baseline.success_rate, higher=True),
        _gate(
            "median_duration_seconds",
            candidate.median_duration_seconds,
            baseline.median_duration_seconds,
            higher=False,
        ),
        _gate(
            "median_non_cache_tokens",
            candidate.median_non_cache_tokens,
            baseline.median_non_cache_tokens,
            higher=False,
        ),
    )


def _gate(name: GateName, candidate: float | None, baseline: float | None, *, higher: bool) -> Gate:
    standing: Standing | None
    if candidate is None or baseline is None:
        standing = None
    elif candidate == baseline:
        standing = "tied"
    else:
        standing = "better" if (candidate > baseline) == higher else "worse"
    return Gate(
        name=name,
        candidate=candidate,
        baseline=baseline,
        holds=None if standing is None else standing != "worse",
        standing=standing,
    )


def decide(gates: tuple[Gate, ...], candidate: str, baseline: str) -> str:
    """What the gates say together."""
    if any(gate.holds is None for gate in gates):
        return INSUFFICIENT
    if all(gate.holds for gate in gates):
        return f"prefer {candidate}"
    if not any(gate.holds for gate in gates):
        return f"prefer {baseline}"
    return MIXED


def assess(tasks: tuple[Task, ...], candidate: str, baseline: str) -> Adequacy:
    """Whether every task has enough measured repeats in both arms for every gate."""
    repeats = [
        shortfall
        for task in tasks
        for arm, name in ((task.candidate, candidate), (task.baseline, baseline))
        for shortfall in _repeats(task.task_id, name, arm)
    ]
    fewest = min((entry.repeats for entry in repeats), default=0)
    varied = tuple(task.task_id for task in tasks if task.high_variance)
    return Adequacy(
        minimum_repeats=MINIMUM_REPEATS,
        preferred_repeats=PREFERRED_REPEATS,
        fewest_repeats=fewest,
        status=(
            "below minimum"
            if fewest < MINIMUM_REPEATS
            else "minimum met"
            if fewest < PREFERRED_REPEATS
            else "preferred met"
        ),
        below_minimum=tuple(entry for entry in repeats if entry.repeats < MINIMUM_REPEATS),
        high_variance=HighVariance(
            suite=bool(tasks) and len(varied) >= HIGH_VARIANCE_SHARE * len(tasks),
            criterion=(
                "a task is high-variance when, in either arm, its success differs between repeats "
                "or the standard deviation of its duration or non-cache tokens is at least "
                f"{HIGH_SPREAD:.0%} of the mean; a suite is, when at least "
                f"{HIGH_VARIANCE_SHARE:.0%} of its tasks are"
            ),
            tasks=varied,
        ),
    )


def _repeats(task_id: str, arm: str, found: TaskArm) -> list[Shortfall]:
    """The runs of a task and arm, and fewer of them where a gate's metric is missing."""
    return [
        Shortfall(task_id=task_id, arm=arm, metric=metric.name, repeats=found.repeats_with(metric))
        for metric in GATE_METRICS.values()
        if metric is SUCCESS or found.repeats_with(metric) < found.runs
    ]


def promote(
    decision: str,
    gates: tuple[Gate, ...],
    adequacy: Adequacy,
    arms: Arms,
    judged: Promotion | None = None,
    on_pairs: str | None = None,
) -> Promotion:
    """Whether the candidate may be promoted.

    `judged` is what the evidence or the margin rule says, None when the gates alone decide;
    both see only runs that have a partner, on which the gates say `on_pairs`.
    """
    reasons = []
    if decision == INSUFFICIENT:
        unmeasured = ", ".join(gate.name for gate in gates if gate.holds is None)
        reasons.append(f"a gate cannot be judged: {unmeasured}")
    if adequacy.status == "below minimum":
        reasons.append(
            f"not enough repeats to promote: {counted(adequacy.short, 'task-arm')} below "
            f"{MINIMUM_REPEATS} measured repeats, the fewest has {adequacy.fewest_repeats}"
        )
    if reasons:
        return Promotion(verdict="not enough data", reasons=tuple(reasons))
    if judged is None or decision == f"prefer {arms.baseline}":
        return _by_the_gates(decision, gates, adequacy, arms.candidate)
    if on_pairs != decision:
        return Promotion(
            verdict="not enough data",
            reasons=(
                f"the gates say {named(decision)} on all runs and {named(str(on_pairs))} on the "
                "runs with a partner in the other arm, which are all that the evidence sees",
            ),
        )
    return judged


def _by_the_gates(
    decision: str, gates: tuple[Gate, ...], adequacy: Adequacy, candidate: str
) -> Promotion:
    if decision == f"prefer {candidate}":
        return Promotion(
            verdict="promote",
            reasons=(
                "all three gates hold",
                f"every task has at least {adequacy.fewest_repeats} repeats in both arms",
            ),
        )
    failed = ", ".join(gate.name for gate in gates if not gate.holds)
    return Promotion(
        verdict="do not promote",
        reasons=(f"{named(candidate)} is worse on: {failed}",),
    )
