"""What the reader must know about the figures, in the order of how much it matters."""

from collections.abc import Iterator

from twoarm.decide import INSUFFICIENT, Adequacy, Gate
from twoarm.errors import Caveat
from twoarm.metric import METRICS
from twoarm.pair import Paired
from twoarm.quote import counted, named
from twoarm.runs import Runs
from twoarm.screen import Screening
from twoarm.summarize import ArmSummary
from twoarm.tasks import Task

# How many names a caveat lists before it only counts.
_NAMED = 5


def caution(
    *,
    runs: Runs,
    screening: Screening,
    summaries: tuple[ArmSummary, ArmSummary],
    paired: Paired,
    gates: tuple[Gate, ...],
    decision: str,
    on_pairs: str,
    adequacy: Adequacy,
    tasks: tuple[Task, ...],
    keep_infra: bool,
) -> tuple[Caveat, ...]:
    """All caveats of the point estimates."""
    found = [
        *_on_the_decision(summaries, gates, decision),
        *_on_repeats(adequacy, tasks),
        *_on_excluded(runs, screening, keep_infra),
        *screening.caveats,
        *_on_pairs(paired, summaries, tasks),
        *_on_unpaired(paired, decision, on_pairs),
        *_on_missing(summaries),
    ]
    if runs.unknown_keys:
        count = len(runs.unknown_keys)
        message = (
            f"{counted(count, 'unknown key')}, kept out of scoring: {_names(runs.unknown_keys)}"
        )
        found.append(Caveat(code="unknown_keys", message=message))
    return tuple(found)


def _names(names: tuple[str, ...] | list[str]) -> str:
    listed = ", ".join(named(name) for name in names[:_NAMED])
    more = len(names) - _NAMED
    return f"{listed} and {more} more" if more > 0 else listed


def _on_the_decision(
    summaries: tuple[ArmSummary, ArmSummary], gates: tuple[Gate, ...], decision: str
) -> Iterator[Caveat]:
    if decision == INSUFFICIENT:
        empty = [summary.arm for summary in summaries if not summary.runs]
        if empty:
            why = f"no runs that count of {_names(empty)}"
        else:
            unmeasured = ", ".join(gate.name for gate in gates if gate.holds is None)
            why = f"not measured in at least one arm: {unmeasured}"
        yield Caveat(code="insufficient_data", message=f"no decision: {why}")
    elif all(gate.standing == "tied" for gate in gates):
        yield Caveat(
            code="nothing_differs",
            message="nothing differs in the three gates: all are tied, and the rule counts a tie "
            "as held; the decision names the candidate, the data do not",
        )
    if all(summary.runs and not summary.successes for summary in summaries):
        yield Caveat(
            code="nothing_succeeded",
            message="no run of either arm succeeded: to fail faster or cheaper is no success",
        )


def _on_repeats(adequacy: Adequacy, tasks: tuple[Task, ...]) -> Iterator[Caveat]:
    if adequacy.below_minimum:
        yield Caveat(
            code="too_few_repeats",
            message="not enough repeats to promote: "
            f"{adequacy.short} of {counted(2 * len(tasks), 'task-arm')} below "
            f"{adequacy.minimum_repeats} measured repeats, the fewest has "
            f"{adequacy.fewest_repeats}",
        )
    if len(tasks) == 1:
        yield Caveat(code="one_task", message="one task: nothing here speaks for other tasks")
    if adequacy.high_variance.suite and adequacy.status != "preferred met":
        varied = adequacy.high_variance.tasks
        yield Caveat(
            code="high_variance",
            message=f"high-variance suite: repeats differ much in {len(varied)} of "
            f"{counted(len(tasks), 'task')} ({_names(varied)}); "
            f"prefer {adequacy.preferred_repeats} repeats",
        )


def _on_excluded(runs: Runs, screening: Screening, keep_infra: bool) -> Iterator[Caveat]:
    if runs.bad_lines:
        yield Caveat(
            code="bad_lines",
            message=f"{counted(runs.bad_lines, 'bad line')} left out (--skip-bad); "
            "`twoarm check` lists them",
        )
    if screening.excluded_infra:
        by_arm = ", ".join(
            f"{_infra_of(screening, arm.arm)} of {named(arm.arm)}" for arm in screening.arms
        )
        yield Caveat(
            code="infra_excluded",
            message=f"{counted(screening.excluded_infra, 'infra failure')} excluded from every "
            f"figure: {by_arm}",
        )
    kinds = [outcome.failure == "infra" for outcome in runs.outcomes]
    if keep_infra and any(kinds):
        yield Caveat(
            code="infra_kept",
            message="infra failures count as runs (--keep-infra): provider and sandbox faults are "
            "in these figures",
        )
    duplicates = sum(
        group.runs for group in screening.excluded if group.reason.startswith("duplicate")
    )
    if duplicates:
        yield Caveat(
            code="duplicates",
            message=f"{counted(duplicates, 'run')} excluded: same task, arm and repeat as another",
        )
    others = [group for group in screening.excluded if group.reason == "another arm"]
    if others:
        gone = counted(sum(group.runs for group in others), "run")
        arms = _names([group.arm for group in others])
        yield Caveat(code="other_arms", message=f"{gone} of other arms excluded: {arms}")


def _infra_of(screening: Screening, arm: str) -> int:
    return sum(
        group.runs
        for group in screening.excluded
        if group.arm == arm and group.reason.startswith("infra")
    )


def _on_pairs(
    paired: Paired, summaries: tuple[ArmSummary, ArmSummary], tasks: tuple[Task, ...]
) -> Iterator[Caveat]:
    for summary, only in (
        (summaries[0], [task.task_id for task in tasks if not task.baseline.runs]),
        (summaries[1], [task.task_id for task in tasks if not task.candidate.runs]),
    ):
        if only:
            yield Caveat(
                code="tasks_in_one_arm",
                message=f"{counted(len(only), 'task')} with runs only in {named(summary.arm)}, so "
                f"the arms are not compared on the same tasks: {_names(only)}",
            )


def _on_unpaired(paired: Paired, decision: str, on_pairs: str) -> Iterator[Caveat]:
    if paired.unpaired_runs:
        yield Caveat(
            code="unpaired_runs",
            message=f"{counted(paired.unpaired_runs, 'run')} without a run of the same task and "
            "repeat in the other arm: in the arm figures, but without a delta",
        )
    if on_pairs != decision:
        yield Caveat(
            code="unpaired_runs_decide",
            message=f"without the runs that have no partner the decision would be "
            f"{named(on_pairs)}: deltas and evidence do not see those runs",
        )


def _on_missing(summaries: tuple[ArmSummary, ArmSummary]) -> Iterator[Caveat]:
    for summary in summaries:
        if not summary.runs:
            continue
        partly = [
            f"{metric.label} {summary.missing[metric.name]}"
            for metric in METRICS
            if 0 < summary.missing[metric.name] < summary.runs
        ]
        never = [metric.label for metric in METRICS if summary.missing[metric.name] == summary.runs]
        arm = named(summary.arm)
        if partly:
            yield Caveat(
                code="missing_values",
                message=f"not measured in some of the {counted(summary.runs, 'run')} of {arm}, and "
                f"those left out of the figure: {', '.join(partly)}",
            )
        if never:
            yield Caveat(
                code="never_measured",
                message=f"not measured in any run of {arm}: {', '.join(never)}",
            )
