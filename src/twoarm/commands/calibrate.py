"""`twoarm calibrate`: how often a suite cries wolf."""

import sys
from argparse import ArgumentParser
from typing import get_args

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.given import Given, taken
from twoarm.commands.inputs import add_files, opened
from twoarm.commands.outputs import CALIBRATION, Outputs, refuse_outputs, show
from twoarm.commands.progress import progress_bar
from twoarm.commands.score_options import add_margin_options, add_short_report_options, whole_number
from twoarm.options import Options
from twoarm.planning.calibrate import CalibrateOptions, calibrate
from twoarm.result.calibration_file import By
from twoarm.score import open_folders

DESCRIPTION = (
    "Deal the runs of one kind to two arms, again and again, and see how often a winner is named "
    "where there is none, and which differences are noise."
)


def add_options(parser: ArgumentParser) -> None:
    """The runs, how to deal them, and the report."""
    runs = parser.add_argument_group("what to deal")
    add_files(runs, ", which knows its arms")
    dealt = parser.add_argument_group("how to deal")
    dealt.add_argument(
        "--by",
        choices=get_args(By),
        help="split the baseline's repeats of each task in two halves, or exchange the labels of "
        "both arms inside each task (default: split)",
    )
    dealt.add_argument("--trials", type=whole_number, metavar="N", help="how many (default: 400)")
    add_margin_options(parser.add_argument_group("how to promote"))
    add_short_report_options(parser, runs, CALIBRATION)


def run(given: Given, streams: Streams) -> int:
    """Calibrate on run files."""
    folders = open_folders(given["files"])
    scoring = taken(Options, {**folders.known(), **given})
    options = taken(CalibrateOptions, given, scoring=scoring)
    outputs = taken(Outputs, given)
    refuse_outputs(outputs, folders.files, CALIBRATION)
    with progress_bar(sys.stderr) as progress:
        report = calibrate(opened(folders.files), options, progress=progress)
    show(report, CALIBRATION, outputs, streams)
    return DONE
