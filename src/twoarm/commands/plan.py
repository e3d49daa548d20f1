"""`twoarm plan`: how much more to run, and what that costs."""

import re
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace

from twoarm.commands.console import Streams
from twoarm.commands.progress import progress_bar
from twoarm.commands.score import opened
from twoarm.commands.short_report import add_short_report_options, refuse_bad_outputs, show
from twoarm.options import Options
from twoarm.planning.plan import plan
from twoarm.planning.plan_options import METRICS, PlanOptions

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
    # A change such as -20% is a value, as -20 is.
    parser._negative_number_matcher = re.compile(r"^-\d")
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="the runs of a pilot, as for score; without one, spreads are assumed",
    )
    parser.add_argument(
        "--detect",
        required=True,
        metavar="CHANGE",
        help="the change to see: -20%% or +5%%; of success, in points",
    )
    parser.add_argument(
        "--metric",
        choices=tuple(METRICS),
        default=SUPPRESS,
        help="what is to change (default: tokens, which are non-cache tokens)",
    )
    parser.add_argument(
        "--primary",
        action="store_true",
        default=SUPPRESS,
        help="the metric will be named with score --primary and tested first, at the full level",
    )
    for name, kind, metavar, help_text in (
        ("power", float, "SHARE", "how often the change is to be seen (default: 0.8)"),
        ("budget", float, "USD", "how much power so many dollars buy"),
        ("task-cost", float, "USD", "what it costs to write a new task (default: 0)"),
        ("pair-cost", float, "USD", "what a pair of runs costs (default: as in the pilot)"),
        ("tasks", int, "N", "without a pilot: how many tasks"),
        ("repeats", int, "N", "without a pilot: how many repeats of each in both arms"),
        ("spread", float, "SD", "without a pilot: how much the runs of a task vary, on logarithms"),
        ("task-spread", float, "SD", "without a pilot: how much the change varies between tasks"),
    ):
        parser.add_argument(
            f"--{name}", type=kind, metavar=metavar, default=SUPPRESS, help=help_text
        )
    add_short_report_options(parser, "plan")


def run(given: Namespace, streams: Streams) -> int:
    """Plan from a pilot, or from assumed spreads."""
    said = vars(given)
    scoring = Options(
        **{key: said[key] for key in Options.__struct_fields__ if key in said and key != "primary"}
    )
    own = {key: said[key] for key in PlanOptions.__struct_fields__ if key in said}
    options = PlanOptions(**own, scoring=scoring)
    refuse_bad_outputs(given, "plan", given.files)
    with progress_bar(sys.stderr) as progress:
        source = opened(given.files) if given.files else None
        report = plan(source, options, progress=progress)
    return show(report, given, "plan", streams)
