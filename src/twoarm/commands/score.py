"""`twoarm score`: options, reports, files, exit code."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import NamedTuple

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
from twoarm.render.report import Report
from twoarm.render.several import Candidates
from twoarm.render.summary import promotion_said
from twoarm.runs.runfile import Readable
from twoarm.runs.study import Study
from twoarm.score import (
    OpenFolders,
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
    return exit_code_of(scored(given, streams), given, streams)


def scored(given: Given, streams: Streams) -> Report | Candidates:
    """What a command line asks for, written and shown."""
    files: list[str] = given["files"]
    which: Which = given.get("run_pages", "none")
    outputs = taken(Outputs, given)
    if which != "none" and "-" in files:
        raise UsageError("--run-pages needs run files: standard input can be read only once")
    folders = open_folders(files)
    asked = _asked_of(given, folders)
    refuse_score_outputs(outputs, folders.files)
    return score_and_show(asked, outputs, streams, which)


class Asked(NamedTuple):
    """Which runs are judged, and how."""

    files: "Sequence[str | Readable]"
    options: Options
    # Of the candidates; none for the one there is, or for all of them.
    names: Sequence[str] = ()
    # The run folders that files are from.
    studies: tuple[Study, ...] = ()


def _asked_of(given: Given, folders: OpenFolders) -> Asked:
    """What a command line asks of its files; a run folder knows its arms and its seed."""
    known = folders.known()
    if "evidence" in given:
        known.pop("promote_by", None)
    names: Sequence[str] = given.get("candidate", ())
    if not names and given.get("baseline") in (None, known.get("baseline")):
        names = folders.candidates
    options = taken(Options, {**known, **given}, candidate=names[0] if len(names) == 1 else None)
    return Asked(opened(folders.files), options, names, folders.studies)


def _judge(asked: Asked, *, exit_code: bool) -> Report | Candidates:
    """Read the runs and compare them: one candidate, or several."""
    files, options, names, studies = asked
    with progress_bar(sys.stderr) as progress:
        runs = read_studies(files, studies, options, progress)
        if progress is not None and options.evidence:
            progress("weighing the evidence", 0, None)
        others = [arm for arm in runs.arms if arm != options.baseline]
        several = len(names) > 1 or (
            not names and options.baseline in runs.arms and len(others) > 1
        )
        if several and exit_code:
            raise UsageError(
                "--exit-code answers for one candidate: name it with --candidate; found "
                f"{len(names) or len(others)}"
            )
        judged: Report | Candidates
        if several:
            judged = compare_candidates(runs, names or None, options, generated_at_utc=_now())
        else:
            judged = compare(runs, options=options, generated_at_utc=_now())
    note_reports(studies, _reports_of(judged))
    return judged


def judged_alone(given: Given) -> Report:
    """The report on one candidate, which nobody is shown."""
    files, options, names, studies = _asked_of(given, open_folders(given["files"]))
    if len(names) > 1:
        raise UsageError(f"one candidate at a time: name it with --candidate; found {len(names)}")
    with progress_bar(sys.stderr) as progress:
        runs = read_studies(files, studies, options, progress)
        return compare(runs, options=options, generated_at_utc=_now())


def _reports_of(judged: Report | Candidates) -> Sequence[Report]:
    """The report of each candidate."""
    return judged.reports if isinstance(judged, Candidates) else (judged,)


def score_and_show(
    asked: Asked, outputs: Outputs, streams: Streams, which: Which = "none"
) -> Report | Candidates:
    """Judge runs, then write and show what was asked for; `which` runs get a page."""
    judged = _judge(asked, exit_code=outputs.exit_code)
    links = None
    if which != "none" and outputs.out is not None:
        links = write_run_pages(_reports_of(judged), asked.files, outputs.out, which, streams)
    several = isinstance(judged, Candidates)
    show(judged, COMPARISON if several else ANALYSIS, outputs, streams, links)
    return judged


def exit_code_of(judged: Report | Candidates, given: Given, streams: Streams) -> int:
    """The exit code, which is a verdict if that was asked for, and is told then."""
    if "exit_code" not in given:
        return DONE
    (report,) = _reports_of(judged)
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
