"""The whole pipeline in one function: read this file first."""

from twoarm import __version__
from twoarm.analysis import SCHEMA, Analysis, Options, Tool
from twoarm.caveats import caution
from twoarm.decide import assess, decide, judge, promote
from twoarm.diagnose import diagnose
from twoarm.pair import aggregate, pair
from twoarm.runfile import Source, read
from twoarm.screen import Duplicates, Missing, choose_arms, screen
from twoarm.summarize import summarize
from twoarm.tasks import tabulate


def score(
    source: Source,
    *,
    candidate: str | None = None,
    baseline: str | None = None,
    duplicates: Duplicates = "error",
    missing: Missing = "keep",
    keep_infra: bool = False,
    skip_bad: bool = False,
    generated_at_utc: str | None = None,
) -> Analysis:
    """Score two arms: from runs to a decision, with everything that led to it."""
    runs = read(source, skip_bad=skip_bad)
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
    )
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
        promotion=promote(decision, gates, adequacy, arms.candidate),
        adequacy=adequacy,
        excluded=screening.excluded,
        diagnostics=diagnose(gates, ours, theirs, paired),
        tasks=tasks,
        caveats=caution(
            runs=runs,
            screening=screening,
            summaries=(ours, theirs),
            paired=paired,
            gates=gates,
            decision=decision,
            adequacy=adequacy,
            tasks=tasks,
            keep_infra=keep_infra,
        ),
    )
