"""What to do next, the most important first."""

from collections.abc import Iterator

from twoarm.analysis import Analysis
from twoarm.decide import fails, number_of_gates
from twoarm.escape import counted
from twoarm.evidence.caveats import FEW_REPEATS_HELP
from twoarm.evidence.interval import FEWEST_TASKS
from twoarm.evidence.weigh import Evidence
from twoarm.sentence import Name, Sentence, say

# From this share of resamples with the same decision on, new runs would hardly change it.
STABLE = 0.95
FAIRLY_STABLE = 0.80
# Above this share of run-to-run noise, more repeats are the cheaper way.
REPEATS_HELP = 0.5


def next_steps(analysis: Analysis) -> Iterator[Sentence]:
    """What to do next, the most important first."""
    evidence = analysis.evidence
    tied = all(gate.standing == "tied" for gate in analysis.gates)
    if tied:
        yield say(
            "do not claim a difference: the {} are tied, and a tie counts as holding; nothing here "
            "says that {} helps",
            number_of_gates(),
            Name(analysis.candidate),
        )
    if analysis.decision.kind == "insufficient":
        yield say("measure what is missing, then score again: without it there is no decision")
    if analysis.adequacy.below_minimum:
        yield say(
            "run more repeats: a promotion needs at least {} of every task in both arms ({} "
            "below that)",
            analysis.adequacy.minimum_repeats,
            counted(analysis.adequacy.short, "task-arm"),
        )
    if evidence is not None and evidence.exclusions.could_flip:
        yield say("find out why runs were excluded: counting them could change the decision")
    if evidence is not None and evidence.on_shared_tasks != analysis.decision:
        yield say("run both arms on the same tasks: the ones they share give a different decision")
    yield from _verdict(analysis, tied)
    if evidence is not None and evidence.ran_first is not None:
        yield say("interleave the arms next time: here one ran after the other")
    if evidence is not None and evidence.influence.decision_changes_without:
        yield _look_at([one.task_id for one in evidence.influence.decision_changes_without])


def _look_at(tasks: list[str]) -> Sentence:
    if len(tasks) == 1:
        return say("look at {}: dropping it changes the decision", Name(tasks[0]))
    if len(tasks) == 2:
        return say("look at {} and {}: dropping either one changes the decision", *map(Name, tasks))
    return say(
        "look at {} and {} more: dropping any one of them changes the decision",
        Name(tasks[0]),
        len(tasks) - 1,
    )


def _verdict(analysis: Analysis, tied: bool) -> Iterator[Sentence]:
    """What the promotion means, and where more runs would help if it is in doubt."""
    evidence, verdict = analysis.evidence, analysis.promotion.verdict
    by = analysis.options.promote_by
    graded = evidence.grade.verdict if evidence is not None else None
    shaky = graded == "too few tasks"
    if by != "gates" and verdict != "not enough data":
        yield from _although(analysis)
    elif by != "gates":
        shaky = evidence is not None
    elif verdict == "promote" and evidence is not None and not tied:
        shaky = True
        if graded != "candidate better":
            yield say("get more runs before telling anyone: the evidence does not show a gain")
        elif evidence.stability is None or evidence.stability.decision_share < FAIRLY_STABLE:
            yield say(
                "promote if being wrong is cheap; otherwise get more runs first: they could "
                "change the decision"
            )
        else:
            shaky = False
            yield say("promote {}: the gates and the evidence agree", Name(analysis.candidate))
    elif verdict == "do not promote":
        shaky = shaky or graded == "no clear difference"
        yield from _not_promoted(analysis)
    if shaky and evidence is not None:
        yield from _more_runs(evidence)


def _not_promoted(analysis: Analysis) -> Iterator[Sentence]:
    if analysis.decision.kind == "baseline":
        yield say("keep {}", Name(analysis.baseline))
    elif analysis.evidence and analysis.evidence.grade.verdict == "no clear difference":
        yield say(
            "do not read too much into a mixed result: the evidence shows no clear difference"
        )
    else:
        yield say("look at the tasks that were hurt: --full lists them first")


def _although(analysis: Analysis) -> Iterator[Sentence]:
    """What the gates say, where it is something else."""
    promoted = analysis.promotion.verdict == "promote"
    if promoted == (analysis.decision.kind == "candidate"):
        return
    if failed := fails(analysis.gates):
        yield say("note that {} {}", Name(analysis.candidate), failed)
    else:
        yield say("note that all {} hold", number_of_gates())


def _part(share: float) -> str:
    return f"about {share:.0%}" if share < 0.95 else "nearly all"


def _more_runs(evidence: Evidence) -> Iterator[Sentence]:
    """Where more runs would help: new tasks, or repeats of these."""
    variance = evidence.variance
    if not evidence.tasks:
        yield say("run both arms on the same tasks with the same repeat numbers: no pairs yet")
    elif evidence.tasks < FEWEST_TASKS:
        yield say(
            "add tasks: with {} nothing can be said about others; it takes at least {}",
            counted(evidence.tasks, "task"),
            FEWEST_TASKS,
        )
    elif evidence.grade.verdict == "too few tasks":
        yield say(
            "add tasks: with only {} no difference in any of the {} could be clear, however large",
            evidence.tasks,
            number_of_gates(),
        )
    elif variance is not None and variance.repeats_share <= REPEATS_HELP:
        much = ", not" if variance.repeats_share < FEW_REPEATS_HELP else " rather than"
        yield say(
            "add tasks{} repeats: {} of the uncertainty about duration is between tasks",
            much,
            _part(variance.tasks_share),
        )
    elif variance is not None:
        yield say(
            "add repeats: {} of the uncertainty about duration is run-to-run noise",
            _part(variance.repeats_share),
        )
