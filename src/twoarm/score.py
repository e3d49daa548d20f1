"""The whole program in two functions: `read` the runs, `compare` the arms. Read this file first."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import msgspec

from twoarm._version import __version__
from twoarm.compare.comparison import Comparison, set_side_by_side
from twoarm.compare.screen import Arms, choose_arms, choose_candidates
from twoarm.errors import UsageError
from twoarm.evidence.caveats import evidence_caveats
from twoarm.evidence.design import check_design
from twoarm.evidence.results import Looks
from twoarm.evidence.several import allowances
from twoarm.evidence.weigh import ALONE, Allowance, weigh
from twoarm.explain.caveats import failure_caveats, tool_caveats, uptake_caveats
from twoarm.explain.diagnose import diagnose
from twoarm.explain.failures import find_failures
from twoarm.explain.tools import find_tools
from twoarm.explain.uptake import find_uptake
from twoarm.options import OptionKeywords, Options, chosen, refused
from twoarm.render.report import Report
from twoarm.render.several import Candidates
from twoarm.result.advice import Basis, next_steps
from twoarm.result.analysis import SCHEMA, Tool
from twoarm.result.caveats import caveats, order_caveats
from twoarm.result.chosen_tasks import chosen_caveats, of_chosen_tasks
from twoarm.result.looked import looked_caveats
from twoarm.result.promote import promote
from twoarm.result.stopping import known_at_look
from twoarm.result.tested import find_tested
from twoarm.runs.runfile import Progress, Source, read
from twoarm.runs.runs import Runs
from twoarm.runs.study import Study, is_run_folder
from twoarm.text.escape import visible


def score(
    source: Source,
    options: Options | None = None,
    *,
    generated_at_utc: str | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Report:
    """Score two arms: from run files to a decision, with everything that led to it.

    The options are one value, or keywords of it. A run folder knows its arms and its seed; what is
    given comes first.
    """
    folders = open_folders(_paths(source))
    known = folders.known()
    if options is not None:
        known = {name: arm for name, arm in known.items() if getattr(options, name) is None}
    elif keywords.get("evidence") is False:
        known.pop("promote_by", None)
    options = chosen(options, {**known, **keywords})
    runs = read_studies(
        folders.files if folders.studies else source, folders.studies, options, progress
    )
    if progress is not None and options.evidence:
        progress("weighing the evidence", 0, None)
    report = compare(runs, options=options, generated_at_utc=generated_at_utc)
    note_reports(folders.studies, [report])
    return report


def _paths(source: Source) -> list[str]:
    """The paths of a source that is made of paths, among which may be run folders."""
    given: Sequence[Any] = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(path, str | os.PathLike) for path in given):
        return []
    return [os.fspath(path) for path in given]


class OpenFolders(msgspec.Struct, frozen=True, kw_only=True):
    """Paths with the run file in place of every run folder, and what these were made for."""

    files: list[str]
    studies: tuple[Study, ...]

    def known(self) -> dict[str, Any]:
        """What the run folders say of the arms, the seed and the rule, as far as they agree."""
        values = {
            name: {getattr(study, name) for study in self.studies} for name in ("baseline", "seed")
        }
        values["candidate"] = {*self.candidates} if len(self.candidates) == 1 else set()
        known = {name: each.pop() for name, each in values.items() if len(each) == 1}
        return known | self._judging()

    def _judging(self) -> dict[str, Any]:
        """What runs with looks are judged by, which was said before the first of them."""
        plans = [study.judging for study in self.studies if study.planned_looks]
        if not plans or len(plans) < len(self.studies) or any(plan != plans[0] for plan in plans):
            return {}
        return {"promote_by": "evidence", **plans[0]}

    @property
    def candidates(self) -> tuple[str, ...]:
        """The candidates of the run folders; none if they do not agree."""
        agreed = {study.candidates for study in self.studies}
        return agreed.pop() if len(agreed) == 1 else ()


def open_folders(paths: Iterable[str], *, shards: bool = False) -> OpenFolders:
    """Open the run folders among paths; all others stay as they are.

    A shard shows no verdict, and is opened only for who asks for none.
    """
    files, studies = [], []
    for path in paths:
        if is_run_folder(path):
            # Of no use to those who score files alone.
            from twoarm.run.studies import open_study

            opened = open_study(path)
            if opened.study.shard and not shards:
                raise UsageError(
                    f"{visible(path)} is {opened.study.shard}, which shows no verdict; put all of "
                    "them together with twoarm merge"
                )
            files.append(opened.run_file)
            studies.append(opened.study)
        else:
            files.append(path)
    return OpenFolders(files=files, studies=tuple(studies))


def note_reports(studies: tuple[Study, ...], reports: Sequence[Report]) -> None:
    """Remember in the run folders that their runs were judged; planned looks are in the plan."""
    if any(report.evidence is not None and report.evidence.looks is not None for report in reports):
        return
    for study in studies:
        from twoarm.run.reported import note_report

        verdicts = tuple(sorted({report.promotion.verdict for report in reports}))
        decided = any(report.decision.kind != "insufficient" for report in reports)
        note_report(study, verdicts, reports[0].options.part, decided=decided)


def read_studies(
    source: Source,
    studies: tuple[Study, ...],
    options: Options,
    progress: Progress | None,
) -> Runs:
    """The runs of a source, with the studies that they are from."""
    runs = read(source, skip_bad=options.skip_bad, times=options.evidence, progress=progress)
    return msgspec.structs.replace(runs, studies=studies)


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
    return _report(set_side_by_side(runs, arms, options), options, generated_at_utc, ALONE)


def look(
    source: Source, options: Options | None = None, **keywords: Unpack[OptionKeywords]
) -> Looks:
    """Judge runs at a planned look; call it after each round that one of the `looks` follows.

    `stop` says why no more repeats are needed, if none are.
    """
    evidence = score(source, options, **keywords).evidence
    if evidence is None or evidence.looks is None:
        raise refused("looks", "say after which repeats you look, such as looks=(3, 5, 10)")
    return evidence.looks


def compare_candidates(
    runs: Runs,
    candidates: Sequence[str] | None = None,
    options: Options | None = None,
    *,
    generated_at_utc: str | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Candidates:
    """Compare several candidates, or all arms there are, with the one baseline that is named."""
    options = chosen(options, keywords)
    pairs = choose_candidates(runs.arms, candidates, options.baseline)
    comparisons = [set_side_by_side(runs, arms, options) for arms in pairs]
    allowed = allowances(comparisons, options) if options.evidence else [ALONE] * len(comparisons)
    return Candidates(
        [
            _report(comparison, options, generated_at_utc, allowance)
            for comparison, allowance in zip(comparisons, allowed, strict=True)
        ]
    )


# One call for every part of the report, and one line for every field of it.
def _report(
    comparison: Comparison, options: Options, generated_at_utc: str | None, allowance: Allowance
) -> Report:
    runs, arms = comparison.runs, comparison.arms
    evidence = weigh(comparison, options, allowance) if options.evidence else None
    failures = find_failures(comparison)
    uptake = find_uptake(comparison, None if evidence is None else evidence.level)
    tools = find_tools(comparison, options)
    known = (
        *failure_caveats(failures, comparison),
        *uptake_caveats(uptake, comparison),
        *chosen_caveats(comparison.screening, options),
        *caveats(comparison, options),
        *looked_caveats(comparison, evidence, options),
        *tool_caveats(tools, comparison),
    )
    promotion = of_chosen_tasks(promote(comparison, evidence, options), comparison)
    if evidence is not None:
        evidence = known_at_look(evidence, promotion, comparison, options)
        known += (
            *order_caveats(evidence, promotion, options),
            *evidence_caveats(evidence, comparison, options),
            *check_design(comparison, evidence.order),
        )
    basis = Basis(
        comparison=comparison,
        evidence=evidence,
        promotion=promotion,
        caveats=known,
        failures=failures,
        options=options,
    )
    return Report(
        schema=SCHEMA,
        generated_at_utc=generated_at_utc,
        tool=Tool(name="twoarm", version=__version__),
        inputs=runs.inputs,
        tested=find_tested(comparison, options),
        options=options,
        candidate=arms.candidate,
        baseline=arms.baseline,
        run_count=len(runs),
        effective_run_count=sum(summary.runs for summary in comparison.summaries),
        excluded_infra_failures=comparison.screening.excluded_runs("infra"),
        task_count=len(comparison.tasks),
        chosen_tasks=comparison.screening.chosen_tasks,
        trials=comparison.screening.trials,
        arm_summaries=comparison.summaries,
        paired=comparison.paired,
        gates=comparison.gates,
        decision=comparison.decision,
        promotion=promotion,
        next=tuple(next_steps(basis)),
        adequacy=comparison.adequacy,
        excluded=comparison.screening.excluded,
        diagnostics=diagnose(comparison, tools),
        failures=failures,
        uptake=uptake,
        tool_use=tools,
        evidence=evidence,
        tasks=comparison.tasks,
        caveats=known,
        comparison=comparison,
    )
