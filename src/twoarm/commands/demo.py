"""`twoarm demo`: a bundled example, scored or printed."""

from argparse import ArgumentParser, Namespace
from importlib.resources import files

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.score import (
    NamedStream,
    given_options,
    options_of,
    refuse_outputs,
    score_and_show,
)
from twoarm.commands.score_options import add_report_options
from twoarm.errors import UsageError

DESCRIPTION = "Score a bundled example with made-up numbers: 12 tasks, 10 repeats, two arms."
EPILOG = None


def add_options(parser: ArgumentParser) -> None:
    """The options of a report, and the run file itself."""
    add_report_options(parser)
    parser.add_argument("--runs", action="store_true", help="print the example's run file instead")


def run(given: Namespace, streams: Streams) -> int:
    """Score the bundled example, or print its run file."""
    example = files("twoarm").joinpath("example.jsonl")
    if given.runs:
        _refuse_beside_runs(given)
        streams.write_data(example.read_text(encoding="utf-8"))
        return DONE
    options = options_of(given)
    refuse_outputs(given, [])
    with example.open("rb") as stream:
        named_stream = NamedStream(stream, "example.jsonl")
        return score_and_show([named_stream], options, given, streams)


def _refuse_beside_runs(given: Namespace) -> None:
    """Whatever would shape a report: none is made."""
    for name, option in given_options(given).items():
        if name != "runs":
            raise UsageError(f"{option} has no effect with --runs")
