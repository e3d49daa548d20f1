"""The gates to one decision, and adequacy: the rule lives here and nowhere else."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from twoarm.compare.screen import Arms
from twoarm.compare.tasks import HIGH_SPREAD, Task, TaskArm
from twoarm.runs.arrays import Floats, mean, measured, median
from twoarm.runs.metric import DURATION, NON_CACHE_TOKENS, SUCCESS, Better, Metric
from twoarm.text.escape import series
from twoarm.text.number_format import figure, in_words
from twoarm.text.sentence import Sentence

MIXED = "mixed results - inspect paired deltas"
INSUFFICIENT = "insufficient data"

MINIMUM_REPEATS = 5
PREFERRED_REPEATS = 10
# A suite is high-variance when at least this share of its tasks is.
HIGH_VARIANCE_SHARE = 0.25

GateStanding = Literal["better", "tied", "worse"]
DecisionKind = Literal["candidate", "baseline", "mixed", "insufficient"]


class GateRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate compares: a figure of each arm; the metric says which way is better."""

    name: str
    label: str
    metric: Metric

    @property
    def short(self) -> str:
        """What it is called where there is little room."""
        return self.label.replace(self.metric.label, self.metric.short)

    def figure(self, values: Floats) -> float | None:
        """The figure of these values of the metric: the share of successes, or the median."""
        return (mean if self.metric is SUCCESS else median)(measured(values))


GATES = (
    GateRule(name="success_rate", label="success rate", metric=SUCCESS),
    GateRule(name="median_duration_seconds", label="median duration", metric=DURATION),
    GateRule(
        name="median_non_cache_tokens", label="median non-cache tokens", metric=NON_CACHE_TOKENS
    ),
)
_RULES = {gate.name: gate for gate in GATES}
GateName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": sorted(_RULES)})]
# What the gates compare, by the name of the gate; None where nothing was measured.
Figures: TypeAlias = Mapping[str, float | None]


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of the rule, with the two figures it compares."""

    name: GateName
    candidate: float | None
    baseline: float | None
    holds: bool | None
    standing: GateStanding | None

    @property
    def rule(self) -> GateRule:
        """What it compares."""
        return _RULES[self.name]

    @property
    def both(self) -> str:
        """The two figures in words, the candidate's first."""
        unit = self.rule.metric.unit
        return f"{figure(self.candidate, unit)} vs. {figure(self.baseline, unit)}"

    @property
    def direction(self) -> str:
        """Which way the candidate's figure differs, whether or not that is clear."""
        if self.candidate is None or self.baseline is None:
            return "not measured"
        if self.candidate == self.baseline:
            return "tied"
        return "higher" if self.candidate > self.baseline else "lower"


class Decision(str):
    """What the gates say together; as a string, the words of the analysis file.

    `why` says what is insufficient.
    """

    __slots__ = ("arm", "kind", "why")
    kind: DecisionKind
    arm: str | None
    why: Sentence | None

    def __new__(
        cls, kind: DecisionKind, arm: str | None = None, why: Sentence | None = None
    ) -> "Decision":
        """A decision of this kind, for the arm that is preferred."""
        words = {"mixed": MIXED, "insufficient": INSUFFICIENT}
        made = super().__new__(cls, words.get(kind, f"prefer {arm}"))
        made.kind, made.arm, made.why = kind, arm, why
        return made

    def __getnewargs__(  # type: ignore[override]
        self,
    ) -> tuple[DecisionKind, str | None, Sentence | None]:
        return self.kind, self.arm, self.why


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """A task and arm with too few repeats in which a gate's metric was measured."""

    task_id: str
    arm: str
    metric: str
    repeats: int


class HighVariance(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the repeats of this suite vary so much that 10 of them are advised."""

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
        """How many tasks have too few repeats in an arm."""
        return len({entry.task_id for entry in self.below_minimum})


def number_of_gates() -> str:
    """How many gates there are, in words."""
    return f"{in_words(len(GATES))} gate{'' if len(GATES) == 1 else 's'}"


def figures(values: Mapping[str, Floats]) -> Figures:
    """What the gates compare of these runs, a column for each metric."""
    return {gate.name: gate.figure(values[gate.metric.name]) for gate in GATES}


def judge(candidate: Figures, baseline: Figures) -> tuple[Gate, ...]:
    """The gates on the figures of the two arms."""
    return tuple(_judged(gate, candidate[gate.name], baseline[gate.name]) for gate in GATES)


def _judged(rule: GateRule, candidate: float | None, baseline: float | None) -> Gate:
    standing: GateStanding | None
    if candidate is None or baseline is None:
        standing = None
    elif candidate == baseline:
        standing = "tied"
    else:
        higher = rule.metric.better is Better.HIGHER
        standing = "better" if (candidate > baseline) == higher else "worse"
    return Gate(
        name=rule.name,
        candidate=candidate,
        baseline=baseline,
        holds=None if standing is None else standing != "worse",
        standing=standing,
    )


def decide(gates: tuple[Gate, ...], arms: Arms) -> Decision:
    """What the gates say together."""
    if any(gate.holds is None for gate in gates):
        return Decision("insufficient")
    if all(gate.holds for gate in gates):
        return Decision("candidate", arms.candidate)
    if not any(gate.holds for gate in gates):
        return Decision("baseline", arms.baseline)
    return Decision("mixed")


def fails(gates: tuple[Gate, ...]) -> str:
    """Which gates the candidate fails, in words; nothing if there are none."""
    failed = [gate.rule.label for gate in gates if gate.holds is False]
    if not failed:
        return ""
    if len(failed) == len(gates):
        return "fails every gate"
    return f"fails the {series(failed)} {'gate' if len(failed) == 1 else 'gates'}"


def assess(tasks: tuple[Task, ...], arms: Arms) -> Adequacy:
    """Whether every task has enough measured repeats in both arms for every gate."""
    repeats = [
        shortfall
        for task in tasks
        for arm, side in ((arms.candidate, task.candidate), (arms.baseline, task.baseline))
        for shortfall in _repeats(task.task_id, arm, side)
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


def lacks_repeats(adequacy: Adequacy, gates: tuple[Gate, ...]) -> bool:
    """Whether more repeats are needed; they do not help with what nobody measured."""
    unmeasured = {gate.rule.metric.name for gate in gates if gate.holds is None}
    return any(entry.metric not in unmeasured for entry in adequacy.below_minimum)


def _repeats(task_id: str, arm: str, side: TaskArm) -> list[Shortfall]:
    """The runs of a task and arm, and those that have a gate's metric if some lack it."""
    return [
        Shortfall(
            task_id=task_id,
            arm=arm,
            metric=gate.metric.name,
            repeats=side.repeats_with(gate.metric),
        )
        for gate in GATES
        if gate.metric is SUCCESS or side.repeats_with(gate.metric) < side.runs
    ]
