"""`twoarm plan`: how much more to run, and what that costs."""

import re
import sys
from argparse import ArgumentParser

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.given import Given, taken
from twoarm.commands.inputs import opened
from twoarm.commands.outputs import PLAN, Outputs, refuse_outputs, show
from twoarm.commands.progress import progress_bar
from twoarm.commands.score_options import add_short_report_options, number, whole_number
from twoarm.options import Options
from twoarm.planning.plan import plan
from twoarm.planning.plan_options import METRICS, PlanOptions, no_change_named
from twoarm.score import open_folders

DESCRIPTION = (
    "How likely a change is to be clear, and how many tasks and repeats, and dollars, it takes."
)
EPILOG = """\
examples:
  twoarm plan collected.jsonl --detect -10% --metric duration
  twoarm plan collected.jsonl --detect +5% --metric success --budget 100
  twoarm plan --detect -20% --tasks 8 --repeats 5 --spread 0.45 --task-spread 0.2
"""


def add_options(parser: ArgumentParser) -> None:
    """The pilot, the change to see, the money, and the report."""
    # A change such as -20% is a value, just as -20 is.
    parser._negative_number_matcher = re.compile(r"^-\d")
    pilot = parser.add_argument_group("the pilot")
    pilot.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="the runs of a pilot, as for score; without one, spreads are assumed",
    )
    change = parser.add_argument_group("what to see")
    change.add_argument(
        "--detect",
        metavar="CHANGE",
        help="the change to see: -20%% or +5%%; of success, in points",
    )
    change.add_argument(
        "--metric",
        choices=tuple(METRICS),
        help="what is to change (default: tokens, which are non-cache tokens)",
    )
    change.add_argument(
        "--primary",
        action="store_true",
        help="the metric will be named with score --primary and tested first, at the full level",
    )
    cost = parser.add_argument_group("cost")
    assumed = parser.add_argument_group("without a pilot")
    for group, name, kind, metavar, help_text in (
        (change, "power", number, "SHARE", "how often the change is to be seen (default: 0.8)"),
        (cost, "budget", number, "USD", "how much power so many dollars buy"),
        (cost, "task-cost", number, "USD", "what it costs to write a new task (default: 0)"),
        (cost, "pair-cost", number, "USD", "what a pair of runs costs (default: as in the pilot)"),
        (assumed, "tasks", whole_number, "N", "how many tasks"),
        (assumed, "repeats", whole_number, "N", "how many repeats of each in both arms"),
        (assumed, "spread", number, "SD", "how much the runs of a task vary, on logarithms"),
        (assumed, "task-spread", number, "SD", "how much the change varies between tasks"),
    ):
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=help_text)
    add_short_report_options(parser, pilot, PLAN)


def run(given: Given, streams: Streams) -> int:
    """Plan from a pilot, or from assumed spreads."""
    if "detect" not in given:
        raise no_change_named()
    folders = open_folders(given.get("files", []))
    # The plan's own --primary is a flag, not a metric.
    scoring = taken(Options, {**folders.known(), **given}, primary=None)
    options = taken(PlanOptions, given, scoring=scoring)
    outputs = taken(Outputs, given)
    refuse_outputs(outputs, folders.files, PLAN)
    pilot = opened(folders.files) if folders.files else None
    with progress_bar(sys.stderr) as progress:
        report = plan(pilot, options, progress=progress)
    show(report, PLAN, outputs, streams)
    return DONE
