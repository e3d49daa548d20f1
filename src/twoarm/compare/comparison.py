"""Comparison: two arms of the same runs, with every point estimate that the reports rest on."""

import msgspec

from twoarm.compare.decide import GATES, Adequacy, Decision, Gate, assess, decide, figures, judge
from twoarm.compare.families import Families, find_families
from twoarm.compare.graders import refuse_two_graders
from twoarm.compare.pair import Paired, Pairing, aggregate, pair
from twoarm.compare.screen import Arms, Screening, screen
from twoarm.compare.summarize import ArmSummary, summarize
from twoarm.compare.tasks import Task, tabulate
from twoarm.compare.trials import Trials, complete_blocks
from twoarm.options import Options
from twoarm.runs.runs import Runs
from twoarm.text.sentence import Name, Sentence, joined, listed, say


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in the runs themselves.

    `on_pairs` is the decision of the gates without the runs that have no partner in the other arm.
    """

    runs: Runs
    arms: Arms
    screening: Screening
    families: Families
    summaries: tuple[ArmSummary, ArmSummary]
    pairing: Pairing
    paired: Paired
    tasks: tuple[Task, ...]
    gates: tuple[Gate, ...]
    decision: Decision
    on_pairs: Decision
    adequacy: Adequacy


def set_side_by_side(runs: Runs, arms: Arms, options: Options) -> Comparison:
    """Screen, summarize, pair and judge the two arms."""
    runs = complete_blocks(runs, arms.both, keep_infra=options.keep_infra)
    screening = screen(runs, arms, options)
    refuse_two_graders(runs, screening)
    families = find_families(runs, options.family)
    pairing = pair(screening)
    summaries = (summarize(screening.candidate), summarize(screening.baseline))
    tasks = tabulate(runs, families, screening, pairing, [gate.metric for gate in GATES])
    gates = judge(*(figures(arm.values) for arm in screening.arms))
    why = _insufficient(runs, screening.trials, tasks, gates)
    decision = decide(gates, arms) if why is None else Decision("insufficient", why=why)
    return Comparison(
        runs=runs,
        arms=arms,
        screening=screening,
        families=families,
        summaries=summaries,
        pairing=pairing,
        paired=aggregate(pairing),
        tasks=tasks,
        gates=gates,
        decision=decision,
        on_pairs=_on_pairs(screening, pairing, arms) if pairing.unpaired else decision,
        adequacy=assess(tasks, arms),
    )


def _insufficient(
    runs: Runs,
    trials: tuple[Trials, Trials],
    tasks: tuple[Task, ...],
    gates: tuple[Gate, ...],
) -> Sentence | None:
    """Why the runs allow no decision; None if they do."""
    unmade = [_unmade(arm) for arm in trials if arm.missing and arm.missing == arm.planned]
    if unmade:
        return joined(unmade, "; ")
    empty = [arm.arm for arm in trials if not arm.counted]
    absent = [arm for arm in empty if arm not in runs.arms]
    if absent:
        return say("no run of {}; one arm alone cannot be compared", listed(absent))
    if empty:
        return say("no counted runs in {}", listed(empty))
    if not any(task.candidate.runs and task.baseline.runs for task in tasks):
        return say("no task was run in both arms")
    unmeasured = [gate.rule.label for gate in gates if gate.holds is None]
    if unmeasured:
        return say("not measured in at least one arm: {}", ", ".join(unmeasured))
    return None


def _unmade(arm: Trials) -> Sentence:
    all_of_them = "its one planned run is"
    if arm.planned > 1:
        all_of_them = f"all of its {arm.planned:,} planned runs are"
    return say("no run of {}: {} missing", Name(arm.arm), all_of_them)


def _on_pairs(screening: Screening, pairing: Pairing, arms: Arms) -> Decision:
    ours = figures(screening.candidate.take(pairing.candidate).values)
    theirs = figures(screening.baseline.take(pairing.baseline).values)
    return decide(judge(ours, theirs), arms)
