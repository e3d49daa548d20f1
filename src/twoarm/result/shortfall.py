"""What runs, values and scores are lacking before anything can be promoted."""

from collections.abc import Iterator

from twoarm.compare.comparison import Comparison
from twoarm.compare.trials import stopped_early
from twoarm.evidence.results import Grade
from twoarm.evidence.scores import has_scores
from twoarm.options import Options
from twoarm.result.step import Step, step
from twoarm.runs.metric import LABELS, SCORE
from twoarm.text.escape import counted
from twoarm.text.sentence import Name, listed

RECORD_SCORES = step(
    "record_scores",
    "record scores, or name another metric first: no run has a score, so nothing can be clear",
)


def worse_anyway(comparison: Comparison, grade: Grade) -> bool:
    """Whether it is clear that the candidate is worse for tasks like these, and all that is missing
    are measurements, such as the tokens of runs that crashed, which would change nothing of that.
    """
    unmeasured = any(gate.holds is None for gate in comparison.gates)
    clear = grade.verdict == "baseline better" and grade.scope != "these_tasks"
    return clear and unmeasured and not stopped_early(comparison.screening.trials)


def before_promotion(comparison: Comparison) -> Iterator[Step]:
    """What to run or to record before a promotion."""
    arms, adequacy = comparison.arms, comparison.adequacy
    runs = {
        (task.task_id, arm): side.runs
        for task in comparison.tasks
        for arm, side in ((arms.candidate, task.candidate), (arms.baseline, task.baseline))
    }
    unrun: dict[str, list[str]] = {}
    unmeasured: dict[str, list[str]] = {}
    few: set[str] = set()
    for entry in adequacy.below_minimum:
        if not runs[entry.task_id, entry.arm]:
            kind, key = unrun, entry.arm
        elif not entry.repeats:
            kind, key = unmeasured, entry.metric
        else:
            few.add(entry.task_id)
            continue
        tasks = kind.setdefault(key, [])
        if entry.task_id not in tasks:
            tasks.append(entry.task_id)
    for arm, tasks in unrun.items():
        yield step(
            "run_tasks",
            "run {} with {}: only the other arm has {}",
            listed(tasks, 3),
            Name(arm),
            "it" if len(tasks) == 1 else "them",
        )
    for metric, tasks in unmeasured.items():
        yield step(
            "record_metric",
            "record {} for {}: an arm has none",
            LABELS[metric],
            listed(tasks, 3),
        )
    if few:
        yield step(
            "reach_minimum_repeats",
            "run more repeats: a promotion needs at least {} of every task in both arms ({} "
            "below that)",
            adequacy.minimum_repeats,
            counted(len(few), "task"),
        )


def unscored(comparison: Comparison, options: Options) -> bool:
    """Whether scores were named to be tested first, and there are none."""
    return options.primary == SCORE.name and not has_scores(comparison)
