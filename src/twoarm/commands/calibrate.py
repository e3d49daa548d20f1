"""`twoarm calibrate`: how often a suite cries wolf."""

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import get_args

from twoarm.commands.console import Streams
from twoarm.commands.progress import progress_bar
from twoarm.commands.score import opened
from twoarm.commands.score_options import Adder, add_files, number
from twoarm.commands.short_report import add_short_report_options, refuse_bad_outputs, show
from twoarm.options import Options
from twoarm.planning.calibrate import CalibrateOptions, calibrate
from twoarm.result.calibration_file import By

DESCRIPTION = (
    "Deal the runs of one kind to two arms, again and again, and see how often a winner is named "
    "where there is none, and which differences are noise."
)
EPILOG = None


def add_options(parser: ArgumentParser) -> None:
    """The runs, how to deal them, and the report."""
    add_files(parser)
    parser.add_argument(
        "--by",
        choices=get_args(By),
        default=SUPPRESS,
        help="split the baseline's repeats of each task in two halves, or exchange the labels of "
        "both arms inside each task (default: split)",
    )
    parser.add_argument(
        "--trials", type=int, metavar="N", default=SUPPRESS, help="how many (default: 400)"
    )
    option = Adder(parser)
    option(
        "margin_success",
        type=number,
        metavar="SHARE",
        help="how far success may drop under the margin rule",
    )
    option(
        "margin_ratio",
        type=number,
        metavar="SHARE",
        help="how far time and tokens may rise under the margin rule",
    )
    add_short_report_options(parser, "calibration")


def run(given: Namespace, streams: Streams) -> int:
    """Calibrate on run files."""
    said = vars(given)
    scoring = Options(**{key: said[key] for key in Options.__struct_fields__ if key in said})
    own = {key: said[key] for key in CalibrateOptions.__struct_fields__ if key in said}
    refuse_bad_outputs(given, "calibration", given.files)
    with progress_bar(sys.stderr) as progress:
        report = calibrate(
            opened(given.files), CalibrateOptions(**own, scoring=scoring), progress=progress
        )
    return show(report, given, "calibration", streams)
