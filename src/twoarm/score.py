"""The whole program in two functions: `read` the runs, `compare` the arms. Read this file first."""

from typing import Unpack

from twoarm import __version__
from twoarm.analysis import SCHEMA, Tool
from twoarm.caveats import caveats
from twoarm.comparison import set_side_by_side
from twoarm.diagnose import diagnose
from twoarm.evidence.caveats import evidence_caveats
from twoarm.evidence.design import check_design
from twoarm.evidence.weigh import weigh
from twoarm.options import OptionKeywords, Options, chosen
from twoarm.promote import promote
from twoarm.report import Report
from twoarm.runfile import Progress, Source, read
from twoarm.runs import Runs
from twoarm.screen import Arms, choose_arms


def score(
    source: Source,
    options: Options | None = None,
    *,
    generated_at_utc: str | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Report:
    """Score two arms: from run files to a decision, with everything that led to it.

    The options are one value, or keywords of it.
    """
    options = chosen(options, keywords)
    runs = read(source, skip_bad=options.skip_bad, times=options.evidence, progress=progress)
    if progress is not None and options.evidence:
        progress("weighing the evidence", 0, None)
    return compare(runs, options=options, generated_at_utc=generated_at_utc)


def compare(
    runs: Runs,
    arms: Arms | None = None,
    options: Options | None = None,
    *,
    generated_at_utc: str | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Report:
    """Compare two arms of runs that were read."""
    options = chosen(options, keywords)
    arms = arms or choose_arms(runs.arms, options.candidate, options.baseline)
    comparison = set_side_by_side(runs, arms, options)
    evidence = weigh(comparison, options) if options.evidence else None
    found = caveats(comparison, options)
    if evidence is not None:
        found += (
            *evidence_caveats(evidence, comparison),
            *check_design(comparison, evidence.ran_first),
        )
    return Report(
        schema=SCHEMA,
        generated_at_utc=generated_at_utc,
        tool=Tool(name="twoarm", version=__version__),
        inputs=runs.inputs,
        options=options,
        candidate=arms.candidate,
        baseline=arms.baseline,
        run_count=len(runs),
        effective_run_count=sum(summary.runs for summary in comparison.summaries),
        excluded_infra_failures=comparison.screening.excluded_runs("infra"),
        task_count=len(comparison.tasks),
        arm_summaries=comparison.summaries,
        paired=comparison.paired,
        gates=comparison.gates,
        decision=comparison.decision,
        promotion=promote(comparison, evidence, options.promote_by),
        adequacy=comparison.adequacy,
        excluded=comparison.screening.excluded,
        diagnostics=diagnose(comparison),
        evidence=evidence,
        tasks=comparison.tasks,
        caveats=found,
        comparison=comparison,
    )
