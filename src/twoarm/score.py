"""The whole pipeline in one function: read this file first."""

from typing import get_args

from twoarm import __version__
from twoarm.analysis import SCHEMA, Analysis, GateBy, Options, Rule, Tool
from twoarm.caveats import caution
from twoarm.decide import assess, decide, judge, promote
from twoarm.diagnose import diagnose
from twoarm.drawing import draw
from twoarm.errors import Caveat, UsageError
from twoarm.pair import aggregate, pair, paired_arms
from twoarm.runfile import Progress, Source, read
from twoarm.screen import Duplicates, Missing, choose_arms, screen
from twoarm.summarize import summarize
from twoarm.tasks import tabulate

# Beyond it, tails are thinner than what resampling can draw, and at last than a float can hold.
HIGHEST_LEVEL = 0.9999


def score(
    source: Source,
    *,
    candidate: str | None = None,
    baseline: str | None = None,
    duplicates: Duplicates = "error",
    missing: Missing = "keep",
    keep_infra: bool = False,
    skip_bad: bool = False,
    evidence: bool = True,
    level: float = 0.95,
    seed: int = 1,
    resamples: int = 9_999,
    rule: Rule = "gates",
    margin_success: float = 0.10,
    margin_ratio: float = 0.10,
    gate: GateBy = "rule",
    generated_at_utc: str | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Score two arms: from runs to a decision, with everything that led to it.

    The promotion goes by `gate`: the rule, the evidence, or the margin rule.
    """
    _check_choices(duplicates=duplicates, missing=missing, rule=rule, gate=gate)
    _check_options(level, seed, resamples, margin_success, margin_ratio)
    if gate == "margin":
        rule = "margin"
    if not evidence and (gate == "evidence" or rule == "margin"):
        raise UsageError("without the evidence there is nothing for that gate or rule to go by")
    runs = read(source, skip_bad=skip_bad, times=evidence, progress=progress)
    arms = choose_arms(runs.arms, candidate, baseline)
    screening = screen(runs, arms, duplicates=duplicates, missing=missing, keep_infra=keep_infra)
    ours, theirs = (summarize(arm) for arm in screening.arms)
    pairing = pair(screening)
    paired = aggregate(pairing)
    tasks = tabulate(runs.tasks, screening, pairing)
    gates = judge(ours, theirs)
    decision = decide(gates, arms.candidate, arms.baseline)
    adequacy = assess(tasks, arms.candidate, arms.baseline)
    options = Options(
        candidate=candidate,
        baseline=baseline,
        duplicates=duplicates,
        missing=missing,
        keep_infra=keep_infra,
        skip_bad=skip_bad,
        evidence=evidence,
        level=level,
        seed=seed,
        resamples=resamples,
        rule=rule,
        margin_success=margin_success,
        margin_ratio=margin_ratio,
        gate=gate,
    )
    on_pairs = decision
    if pairing.unpaired:
        partnered = (summarize(arm) for arm in paired_arms(screening, pairing))
        on_pairs = decide(judge(*partnered), arms.candidate, arms.baseline)
    judged = weighed = None
    faults: tuple[Caveat, ...] = ()
    if evidence:
        from twoarm.evidence.design import check_design
        from twoarm.evidence.weigh import Margins, promote_by, weigh

        faults = tuple(check_design(runs, screening, tasks))
        if progress is not None:
            progress("weighing the evidence", 0, None)
        weighed = weigh(
            runs.tasks,
            screening,
            (ours, theirs),
            pairing,
            gates,
            decision,
            level=level,
            seed=seed,
            resamples=resamples,
            margins=(
                Margins(success=margin_success, ratio=margin_ratio) if rule == "margin" else None
            ),
        )
        if gate != "rule":
            judged = promote_by(gate, weighed)
    return Analysis(
        schema=SCHEMA,
        generated_at_utc=generated_at_utc,
        tool=Tool(name="twoarm", version=__version__),
        inputs=runs.inputs,
        options=options,
        candidate=arms.candidate,
        baseline=arms.baseline,
        run_count=len(runs),
        effective_run_count=ours.runs + theirs.runs,
        excluded_infra_failures=screening.excluded_infra,
        task_count=len(tasks),
        arm_summaries=(ours, theirs),
        paired=paired,
        gates=gates,
        decision=decision,
        promotion=promote(decision, gates, adequacy, arms, judged, on_pairs),
        adequacy=adequacy,
        excluded=screening.excluded,
        diagnostics=diagnose(gates, ours, theirs, paired),
        evidence=weighed,
        tasks=tasks,
        caveats=caution(
            runs=runs,
            screening=screening,
            summaries=(ours, theirs),
            paired=paired,
            gates=gates,
            decision=decision,
            on_pairs=on_pairs,
            adequacy=adequacy,
            tasks=tasks,
            keep_infra=keep_infra,
        )
        + (weighed.caveats if weighed else ())
        + faults,
        drawing=draw(runs, screening, pairing, tasks),
    )


_CHOICES = {
    "duplicates": get_args(Duplicates),
    "missing": get_args(Missing),
    "rule": get_args(Rule),
    "gate": get_args(GateBy),
}


def _check_choices(**given: str) -> None:
    for name, found in given.items():
        if found not in _CHOICES[name]:
            listed = ", ".join(f"`{choice}`" for choice in _CHOICES[name])
            raise UsageError(f"{name}: expected one of {listed}, got {found!r}")


def _check_options(
    level: float, seed: int, resamples: int, margin_success: float, margin_ratio: float
) -> None:
    if not 0.5 <= level <= HIGHEST_LEVEL:
        raise UsageError(f"level: expected a number from 0.5 to {HIGHEST_LEVEL}, got {level}")
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed: expected an integer from 0 to 2^63 - 1, got {seed}")
    if not 99 <= resamples <= 1_000_000:
        raise UsageError(f"resamples: expected an integer from 99 to 1000000, got {resamples}")
    for name, margin in (("margin_success", margin_success), ("margin_ratio", margin_ratio)):
        if not 0.0 < margin < 1.0:
            raise UsageError(f"{name}: expected a number above 0 and below 1, got {margin}")
