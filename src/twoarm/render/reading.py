"""The ten-second reading: what was decided, by how much, how sure that is, and what to do next.

Names in these sentences are code spans, as in every sentence of the analysis.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from twoarm.decide import INSUFFICIENT, MIXED
from twoarm.evidence.cautions import FEW_REPEATS_HELP
from twoarm.evidence.interval import reasons
from twoarm.figures import change, figure, share
from twoarm.metric import DURATION, SUCCESS
from twoarm.quote import counted, named
from twoarm.render.sections import GATES
from twoarm.render.weighed import FAIRLY_STABLE, stability_word

if TYPE_CHECKING:
    from twoarm.analysis import Analysis
    from twoarm.decide import Gate
    from twoarm.evidence.weigh import Evidence

SCOPES = {"these_tasks": "these very tasks", "tasks_like_these": "tasks like these"}

# Above this share of run-to-run noise, more repeats are the cheaper way.
REPEATS_HELP = 0.5


# What a promotion goes by, in words.
GATES_BY = {"rule": "rule", "evidence": "evidence", "margin": "margin rule"}


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """One gate in words: how far apart the arms are, and in which range the truth may lie."""

    gate: str
    label: str
    standing: str
    difference: str
    figures: str
    interval: str
    clear: bool


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The page's first screen, and the comment's."""

    decision: str
    verdict: str
    why: str
    amounts: tuple[Amount, ...]
    evidence: str
    reasons: tuple[str, ...]
    stability: str
    steps: tuple[str, ...]


def read(analysis: "Analysis") -> Reading:
    """Put the analysis into words."""
    evidence = analysis.evidence
    return Reading(
        decision=analysis.decision,
        verdict=analysis.promotion.verdict,
        why="; ".join(analysis.promotion.reasons),
        amounts=tuple(_amount(gate, evidence) for gate in analysis.gates),
        evidence=_evidence(analysis),
        reasons=_reasons(evidence) if evidence is not None else (),
        stability=_stability(analysis),
        steps=tuple(_steps(analysis)),
    )


def _amount(gate: "Gate", evidence: "Evidence | None") -> Amount:
    label, unit = GATES[gate.name]
    difference, figures = "not measured", ""
    if gate.candidate is not None and gate.baseline is not None:
        difference = _difference(gate, unit)
        figures = f"{figure(gate.candidate, unit)} against {figure(gate.baseline, unit)}"
    interval, clear = "", False
    if evidence is not None and gate.candidate is not None and gate.baseline is not None:
        scope = evidence.headline
        estimate = evidence.gates[gate.name].difference
        found = getattr(estimate, scope)
        if found is None:
            interval = " ".join(reasons(estimate.caveats, scope)) or "No interval."
        else:
            clear = not found.low <= 0.0 <= found.high
            interval = (
                f"{evidence.level * 100:g}% interval for {SCOPES[scope]}: "
                f"{change(found.low, unit)} to {change(found.high, unit)}"
                f"{'' if clear else ', which includes no difference'}"
                f"{''.join(f'. {note}' for note in found.caveats).removesuffix('.')}"
            )
    return Amount(
        gate=gate.name,
        label=label,
        standing=gate.standing or "not judged",
        difference=difference,
        figures=figures,
        interval=interval,
        clear=clear,
    )


def _difference(gate: "Gate", unit: str) -> str:
    """`16.3% faster`, `+2.4 points`, `tied`."""
    assert gate.candidate is not None
    assert gate.baseline is not None
    moved = gate.candidate - gate.baseline
    if moved == 0:
        return "tied"
    if unit == SUCCESS.unit:
        return change(moved, unit)
    less, more = ("faster", "slower") if unit == DURATION.unit else ("fewer", "more")
    word = less if moved < 0 else more
    if gate.baseline:
        return f"{share(abs(moved) / gate.baseline).replace('+', '', 1)} {word}"
    return f"{figure(abs(moved), unit)} {word}"


def _evidence(analysis: "Analysis") -> str:
    if analysis.evidence is None:
        return "not weighed: the evidence was switched off"
    grade = analysis.evidence.grade
    scope = SCOPES[grade.scope]
    candidate, baseline = named(analysis.candidate), named(analysis.baseline)
    return {
        "candidate better": f"{candidate} is clearly better in at least one gate and clearly "
        f"worse in none, for {scope}",
        "baseline better": f"{baseline} is clearly better in at least one gate and clearly "
        f"worse in none, for {scope}",
        "trade-off": f"a trade-off: {candidate} is clearly better in one gate and clearly worse "
        f"in another, for {scope}",
        "no clear difference": f"no clear difference, for {scope}",
        "too few tasks": "too few tasks: no test on so few could show a difference",
    }[grade.verdict]


def _reasons(evidence: "Evidence") -> tuple[str, ...]:
    margin = evidence.margin
    if margin is None:
        return evidence.grade.reasons
    said = f"margin rule: {margin.verdict} ({'; '.join(margin.reasons)})"
    return (*evidence.grade.reasons, said)


def _stability(analysis: "Analysis") -> str:
    evidence = analysis.evidence
    if evidence is None:
        return "not known: the evidence was switched off"
    if evidence.stability is None:
        if analysis.decision == INSUFFICIENT:
            return "not known: there is no decision to try again"
        if "unshared_tasks_decide" in [caveat.code for caveat in evidence.caveats]:
            return "not known: the tasks that both arms have would decide otherwise"
        return "not known: it takes 6 tasks with runs in both arms"
    share = evidence.stability.decision_share
    return (
        f"{stability_word(share)}: the same decision in {share:.0%} of "
        f"{counted(evidence.stability.resamples, 'resample')} ({evidence.stability.method}); "
        "this is not the probability of being right"
    )


def _steps(analysis: "Analysis") -> Iterator[str]:
    """What to do next, the most important first."""
    verdict = analysis.promotion.verdict
    evidence = analysis.evidence
    candidate, baseline = named(analysis.candidate), named(analysis.baseline)
    codes = {caveat.code for caveat in analysis.caveats}
    shaky = False
    tied = "nothing_differs" in codes
    if tied:
        yield (
            f"Nothing differs in the three gates. The rule counts a tie as held and names "
            f"{candidate}, but nothing here says that it helps."
        )
    if analysis.decision == INSUFFICIENT:
        yield "Measure what is missing, then score again: without it there is no decision."
    if analysis.adequacy.below_minimum:
        short = counted(analysis.adequacy.short, "task-arm")
        yield (
            f"Run more repeats: {short} below {analysis.adequacy.minimum_repeats}. "
            "A promotion needs that many for every task in both arms."
        )
    if evidence is not None and evidence.exclusions.could_flip:
        yield "Find out why runs were excluded: had they counted, the decision could be another."
    if "unshared_tasks_decide" in codes:
        yield "Run both arms on the same tasks: on those that both have, the decision is another."
    by = GATES_BY[analysis.options.gate]
    if analysis.options.gate != "rule" and verdict != "not enough data":
        yield (
            f"{verdict.capitalize()} {candidate}, as the {by} says"
            f"{_although(analysis, verdict == 'promote')}."
        )
    elif analysis.options.gate != "rule" and not analysis.adequacy.below_minimum:
        yield f"The {by} cannot say yet whether {candidate} may be promoted."
        shaky = evidence is not None
    elif verdict == "promote" and not tied:
        shaky = evidence is not None and _shaky(evidence)
        if evidence is not None and evidence.grade.verdict == "candidate better" and not shaky:
            yield f"Promote {candidate}: the rule and the evidence agree."
        elif evidence is not None and evidence.grade.verdict == "candidate better":
            yield (
                f"The rule lets {candidate} be promoted and the evidence leans the same way, but "
                "new runs could change the decision: promote if being wrong is cheap, else get "
                "more runs first."
            )
        elif evidence is not None:
            yield (
                f"The rule lets {candidate} be promoted, but the evidence does not show that it "
                "is better: get more runs before telling anyone so."
            )
            shaky = True
        else:
            yield f"Promote {candidate}, as the rule says; the evidence was not looked at."
    elif verdict == "do not promote":
        if analysis.decision == MIXED:
            better = _gates_that_are(analysis, "better")
            yield (
                f"Do not promote {candidate}: worse in {_gates_that_are(analysis, 'worse')}"
                f"{f', better in {better}' if better else ', better in none'}. "
                "The deltas per task show where."
            )
        else:
            yield f"Keep {baseline}."
        if evidence is not None and evidence.grade.verdict == "no clear difference":
            yield "The evidence shows no clear difference: a mixed result is what noise gives too."
            shaky = True
    if shaky or (evidence is not None and evidence.grade.verdict == "too few tasks"):
        yield from _more_runs(analysis)
    if "separate_time_blocks" in codes:
        yield "Interleave the arms next time: here they ran one after the other."
    if evidence is not None and evidence.influence.decision_changes_without:
        tasks = evidence.influence.decision_changes_without
        yield (
            f"Look at {named(tasks[0].task_id)}"
            f"{f' and {len(tasks) - 1} more: without any one of them' if len(tasks) > 1 else ''}"
            f"{': without it' if len(tasks) == 1 else ''} the decision would be another."
        )


def _although(analysis: "Analysis", promoted: bool) -> str:
    """What the three gates say, where it is something else."""
    if promoted == (analysis.decision == f"prefer {analysis.candidate}"):
        return ""
    worse = _gates_that_are(analysis, "worse")
    return f", although the three gates {f'are worse in {worse}' if worse else 'all hold'}"


def _gates_that_are(analysis: "Analysis", standing: str) -> str:
    return " and ".join(GATES[gate.name][0] for gate in analysis.gates if gate.standing == standing)


def _shaky(evidence: "Evidence") -> bool:
    return evidence.stability is None or evidence.stability.decision_share < FAIRLY_STABLE


def _part(share: float) -> str:
    return f"about {share:.0%}" if share < 0.95 else "nearly all"


def _more_runs(analysis: "Analysis") -> Iterator[str]:
    """Where more runs would help: new tasks, or repeats of these."""
    assert analysis.evidence is not None
    variance = analysis.evidence.variance
    if not analysis.evidence.tasks:
        yield ("Run both arms on the same tasks, with the same repeat numbers: no task has a pair.")
    elif analysis.evidence.tasks < 6:
        yield (
            f"Add tasks: {counted(analysis.evidence.tasks, 'task')} cannot speak for others; "
            "from 6 on they can."
        )
    elif analysis.evidence.grade.verdict == "too few tasks":
        yield (
            f"Add tasks: with {analysis.evidence.tasks} no difference could be clear in any of the "
            "three gates, however large."
        )
    elif variance is not None and variance.repeats_share <= REPEATS_HELP:
        much = "not" if variance.repeats_share < FEW_REPEATS_HELP else "rather than"
        yield (
            f"Add tasks, {much} repeats: {_part(variance.tasks_share)} of the uncertainty about "
            "duration comes from which tasks were used."
        )
    elif variance is not None:
        yield (
            f"Add repeats: {_part(variance.repeats_share)} of the uncertainty about duration is "
            "run-to-run noise."
        )
