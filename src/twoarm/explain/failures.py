"""Why runs failed: by arm and reason, whether limits decide success, and tasks that tell nothing.

Only runs that count are looked at. What was excluded has reasons of its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import Gate, judge
from twoarm.compare.screen import ArmRuns
from twoarm.compare.tasks import Task
from twoarm.runs.endings import (
    FAILURE_CODES,
    LIMITS,
    NO_REASON,
    NOTHING_TOLD,
    PASSED,
    FailureCode,
    why_failed,
)
from twoarm.runs.metric import SUCCESS
from twoarm.runs.runs import Runs
from twoarm.text.escape import shortened

# How many texts are kept for a reason, and how much of each.
_TEXTS = 5
_WIDTH = 200


class FailureText(msgspec.Struct, frozen=True, kw_only=True):
    """What so many records say in words of their own."""

    text: str
    runs: int


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that failed for one reason, and how many of them passed acceptance all the same.

    `texts` are the most frequent ones.
    """

    reason: FailureCode
    runs: int
    passed_acceptance: int
    texts: tuple[FailureText, ...]


class ArmFailures(msgspec.Struct, frozen=True, kw_only=True):
    """The counted runs of an arm, those that failed, and why; the most frequent reason first."""

    arm: str
    runs: int
    failed: int
    passed_acceptance: int
    reasons: tuple[FailureGroup, ...]

    @property
    def limits(self) -> dict[FailureCode, int]:
        """How many runs passed acceptance although this limit ended them."""
        return {
            group.reason: group.passed_acceptance
            for group in self.reasons
            if group.reason in LIMITS and group.passed_acceptance
        }

    @property
    def stopped(self) -> int:
        """How many runs passed acceptance although some limit ended them."""
        return sum(self.limits.values())

    @property
    def solved(self) -> int:
        """How many runs succeed by acceptance alone, whatever limit they met."""
        return self.runs - self.failed + self.stopped


class ByAcceptance(msgspec.Struct, frozen=True, kw_only=True):
    """The success gate if every run that passed acceptance were a success, whatever limit ended it.

    `limits_decide` if the gate would stand otherwise, or at least half of the difference is gone.
    """

    gate: Gate
    limits_decide: bool


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """Both arms, and the tasks that come out the same in every run of both."""

    candidate: ArmFailures
    baseline: ArmFailures
    # None where no limit ended a run that passed acceptance.
    by_acceptance: ByAcceptance | None
    always_pass: tuple[str, ...]
    always_fail: tuple[str, ...]

    @property
    def arms(self) -> tuple[ArmFailures, ArmFailures]:
        """Candidate and baseline, in this order everywhere."""
        return self.candidate, self.baseline


def find_failures(comparison: Comparison) -> Failures:
    """Why the runs of both arms failed, and what that does to the success gate."""
    candidate, baseline = (_of_arm(comparison.runs, arm) for arm in comparison.screening.arms)
    shared = [task for task in comparison.tasks if task.candidate.runs and task.baseline.runs]
    return Failures(
        candidate=candidate,
        baseline=baseline,
        by_acceptance=_by_acceptance(comparison, candidate, baseline),
        always_pass=tuple(_with_rate(shared, 1)),
        always_fail=tuple(_with_rate(shared, 0)),
    )


def _with_rate(tasks: list[Task], rate: int) -> Iterator[str]:
    for task in tasks:
        if all(arm.successes == rate * arm.runs for arm in (task.candidate, task.baseline)):
            yield task.task_id


def _of_arm(runs: Runs, arm: ArmRuns) -> ArmFailures:
    rows = arm.rows[arm.values[SUCCESS.name] == 0]
    accepted = runs.endings.accepted[rows]
    # A run with success that counts as failed passed whatever it was judged by.
    accepted[(accepted == NOTHING_TOLD) & (runs.success[rows] > 0)] = PASSED
    alike = np.bincount((runs.outcome[rows] * 3 + runs.endings.exited[rows]) * 3 + accepted)
    counts, passed = Counter[FailureCode](), Counter[FailureCode]()
    texts: dict[FailureCode, Counter[str]] = defaultdict(Counter)
    for kind in np.flatnonzero(alike).tolist():
        outcome, exited, acceptance = runs.outcomes[kind // 9], kind // 3 % 3, kind % 3
        count = int(alike[kind])
        code = why_failed(outcome.reason, exited, acceptance)
        if outcome.failure == "infra":
            code = "infra"
        counts[code] += count
        passed[code] += count * (acceptance == PASSED)
        if outcome.reason not in ("", NO_REASON):
            texts[code][outcome.reason] += count
    return ArmFailures(
        arm=arm.arm,
        runs=len(arm),
        failed=len(rows),
        passed_acceptance=passed.total(),
        reasons=tuple(
            FailureGroup(
                reason=code,
                runs=counts[code],
                passed_acceptance=passed[code],
                texts=tuple(_most_frequent(texts[code])),
            )
            for code in sorted(counts, key=lambda code: (-counts[code], FAILURE_CODES.index(code)))
        ),
    )


def _most_frequent(texts: Counter[str]) -> Iterator[FailureText]:
    for text, runs in sorted(texts.items(), key=lambda item: (-item[1], item[0]))[:_TEXTS]:
        yield FailureText(text=shortened(text, _WIDTH), runs=runs)


def _by_acceptance(
    comparison: Comparison, ours: ArmFailures, theirs: ArmFailures
) -> ByAcceptance | None:
    if not (ours.stopped or theirs.stopped) or not (ours.runs and theirs.runs):
        return None
    gate = next(gate for gate in comparison.gates if gate.rule.metric is SUCCESS)
    figures = (
        {judged.name: judged.candidate for judged in comparison.gates},
        {judged.name: judged.baseline for judged in comparison.gates},
    )
    for side, arm in zip(figures, (ours, theirs), strict=True):
        side[gate.name] = arm.solved / arm.runs
    alone = next(judged for judged in judge(*figures) if judged.name == gate.name)
    # In whole numbers: half of the difference is half of it.
    now = (ours.runs - ours.failed) * theirs.runs - (theirs.runs - theirs.failed) * ours.runs
    then = ours.solved * theirs.runs - theirs.solved * ours.runs
    return ByAcceptance(
        gate=alone,
        limits_decide=alone.standing != gate.standing or 0 < 2 * abs(then) <= abs(now),
    )
