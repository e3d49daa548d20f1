"""`twoarm score`: options, reports, files, exit code."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE, HELP, OF_VERDICT
from twoarm.commands.given import Given, taken
from twoarm.commands.inputs import add_files, opened
from twoarm.commands.outputs import (
    ANALYSIS,
    COMPARISON,
    Outputs,
    refuse_score_outputs,
    show,
    write_run_pages,
)
from twoarm.commands.progress import progress_bar
from twoarm.commands.score_options import (
    add_counting_options,
    add_option,
    add_part_option,
    add_report_options,
    add_run_pages_option,
)
from twoarm.compare.decide import number_of_gates
from twoarm.errors import UsageError
from twoarm.options import Options, Which
from twoarm.render.summary import promotion_said
from twoarm.runs.runfile import Readable
from twoarm.runs.study import Study
from twoarm.score import (
    compare,
    compare_candidates,
    note_reports,
    open_folders,
    read_studies,
)
from twoarm.text.escape import named

DESCRIPTION = (
    f"Score run files: {number_of_gates()}, one decision, and the evidence, on one screen."
)
EPILOG = HELP

# The end of the year 9999.
_LAST_SECOND = 253_402_300_799


def add_options(parser: ArgumentParser) -> None:
    """The options of `score`: files, arms, which runs count, and the report."""
    compared = parser.add_argument_group("what to compare")
    add_files(compared, ", which knows its arms")
    add_option(
        compared,
        "candidate",
        action="append",
        metavar="ARM",
        help="the arm with the change; give it again for several, or only name the baseline for "
        "all of them",
    )
    add_option(compared, "baseline", metavar="ARM", help="the arm without it")
    add_counting_options(compared)
    add_part_option(compared)
    add_run_pages_option(add_report_options(parser), "none")


def run(given: Given, streams: Streams) -> int:
    """Score run files."""
    files: list[str] = given["files"]
    which: Which = given.get("run_pages", "none")
    outputs = taken(Outputs, given)
    if which != "none" and "-" in files:
        raise UsageError("--run-pages needs run files: standard input can be read only once")
    folders = open_folders(files)
    known = folders.known()
    if "evidence" in given:
        known.pop("promote_by", None)
    names: Sequence[str] = given.get("candidate", ())
    if not names and given.get("baseline") in (None, known.get("baseline")):
        names = folders.candidates
    options = taken(Options, {**known, **given}, candidate=names[0] if len(names) == 1 else None)
    refuse_score_outputs(outputs, folders.files)
    sources = opened(folders.files)
    return score_and_show(sources, options, outputs, streams, which, names, folders.studies)


def score_and_show(
    files: "Sequence[str | Readable]",
    options: Options,
    outputs: Outputs,
    streams: Streams,
    which: Which = "none",
    names: Sequence[str] = (),
    studies: tuple[Study, ...] = (),
) -> int:
    """Score run files, write and show what was asked for, and return the exit code.

    `names` are those of the candidates, `which` runs get a page, and `studies` are the run folders
    that files are from.
    """
    with progress_bar(sys.stderr) as progress:
        runs = read_studies(files, studies, options, progress)
        if progress is not None and options.evidence:
            progress("weighing the evidence", 0, None)
        others = [arm for arm in runs.arms if arm != options.baseline]
        several = len(names) > 1 or (
            not names and options.baseline in runs.arms and len(others) > 1
        )
        if several:
            if outputs.exit_code:
                raise UsageError(
                    "--exit-code answers for one candidate: name it with --candidate; found "
                    f"{len(names) or len(others)}"
                )
            candidates = compare_candidates(runs, names or None, options, generated_at_utc=_now())
        else:
            report = compare(runs, options=options, generated_at_utc=_now())
    reports = candidates.reports if several else (report,)
    note_reports(studies, reports)
    links = None
    if which != "none" and outputs.out is not None:
        links = write_run_pages(reports, files, outputs.out, which, streams)
    if several:
        show(candidates, COMPARISON, outputs, streams, links)
        return DONE
    show(report, ANALYSIS, outputs, streams, links)
    if not outputs.exit_code:
        return DONE
    streams.say(f"twoarm: {promotion_said(report.promotion)}")
    return OF_VERDICT[report.promotion.verdict]


def _now() -> str:
    """The time of the report; SOURCE_DATE_EPOCH fixes it for builds that must repeat."""
    from datetime import UTC, datetime

    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    if not fixed:
        moment = datetime.now(UTC)
    elif fixed.isascii() and fixed.isdigit() and len(fixed) < 20 and int(fixed) <= _LAST_SECOND:
        moment = datetime.fromtimestamp(int(fixed), UTC)
    else:
        raise UsageError(
            "SOURCE_DATE_EPOCH: expected whole seconds since 1970, at most "
            f"{_LAST_SECOND}, got {named(fixed)}"
        )
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
