"""What the reader must know about the evidence, as caveats."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twoarm.errors import Caveat
from twoarm.evidence.cells import WEIGHED
from twoarm.figures import change
from twoarm.quote import counted, named

if TYPE_CHECKING:
    from twoarm.evidence.weigh import Evidence

# Below this share of run-to-run noise, more repeats would narrow nothing much.
FEW_REPEATS_HELP = 0.25
_NAMED = 3


def unshared_tasks_decide(shared: int, elsewhere: str) -> Caveat:
    """The decision is another one on the tasks that both arms have."""
    return Caveat(
        code="unshared_tasks_decide",
        message="the decision rests on tasks that only one arm has: on the "
        f"{counted(shared, 'task')} that both have it would be {named(elsewhere)}",
    )


def cautions(evidence: "Evidence", decision: str, roles: tuple[str, str]) -> Iterator[Caveat]:
    """All of them, the most important first."""
    yield from _on_the_winner(evidence, decision, roles)
    yield from _on_excluded(evidence)
    yield from _on_missing(evidence, roles)
    yield from _on_single_tasks(evidence)
    variance = evidence.variance
    if variance is not None and variance.repeats_share < FEW_REPEATS_HELP:
        yield Caveat(
            code="add_tasks",
            message=f"about {variance.tasks_share:.0%} of the uncertainty about duration comes "
            "from which tasks were used: add tasks, not repeats",
        )


def _on_the_winner(evidence: "Evidence", decision: str, roles: tuple[str, str]) -> Iterator[Caveat]:
    for arm, proof in zip(roles, ("candidate better", "baseline better"), strict=True):
        if decision == f"prefer {arm}" and evidence.grade.verdict != proof:
            yield Caveat(
                code="winner_without_evidence",
                message=f"the gates prefer {named(arm)}, the evidence says "
                f'"{evidence.grade.verdict}": of two arms that are the same, the gates name a '
                "winner in about one trial of three, however many the repeats",
            )


def _on_excluded(evidence: "Evidence") -> Iterator[Caveat]:
    if evidence.exclusions.could_flip:
        yield Caveat(
            code="excluded_could_flip",
            message="excluded runs could flip this decision: had every excluded run of one "
            "arm failed, or passed, it would be another",
        )
    if evidence.exclusions.p is not None and evidence.exclusions.p <= 1.0 - evidence.level:
        yield Caveat(
            code="uneven_exclusion",
            message="the arms lost runs at different rates "
            f"(p = {evidence.exclusions.p:.3g}, exact test): find out why before believing "
            "either",
        )


def _on_missing(evidence: "Evidence", roles: tuple[str, str]) -> Iterator[Caveat]:
    labels = {metric.name: metric.label for metric in WEIGHED}
    for found in evidence.exclusions.missing:
        shares = " and ".join(
            f"{missing} of {counted(runs, 'run')} of {named(arm)}"
            for missing, runs, arm in zip(found.missing, found.runs, roles, strict=True)
        )
        if found.p <= 1.0 - evidence.level:
            yield Caveat(
                code="uneven_missing",
                message=f"{labels[found.metric]} missing in {shares}: the arms were not measured "
                f"alike (p = {found.p:.3g}, exact test); find out why before believing this gate",
            )
        if found.could_flip:
            yield Caveat(
                code="missing_could_flip",
                message=f"missing values could flip this decision: if {labels[found.metric]} of "
                "every run that lacks it were very low, or very high, it would change",
            )


def _on_single_tasks(evidence: "Evidence") -> Iterator[Caveat]:
    changes = evidence.influence.decision_changes_without
    if changes:
        listed = ", ".join(named(change.task_id) for change in changes[:_NAMED])
        more = f" and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
        yield Caveat(
            code="one_task_decides",
            message=f"the decision hangs on single tasks: it changes without any one of "
            f"{len(changes)} tasks ({listed}{more})"
            if len(changes) > 1
            else f"the decision hangs on one task: it changes without {listed}",
        )
    driven: dict[str, list[str]] = {}
    for metric in WEIGHED:
        mean = evidence.influence.means.get(metric.name)
        if mean is not None and mean.driven_by is not None:
            whole = change(evidence.deltas[metric.name].mean.estimate, metric.unit)
            less = change(mean.mean_without_it, metric.unit)
            moved = driven.setdefault(mean.driven_by, [])
            moved.append(f"{metric.label} {whole}, without it {less}")
    for task, moved in driven.items():
        yield Caveat(
            code="one_task_drives",
            message=f"task {named(task)} drives the mean delta: {'; '.join(moved)}",
        )
