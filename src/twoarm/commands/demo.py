"""`twoarm demo`: a bundled example, scored or printed."""

from argparse import ArgumentParser
from importlib.resources import files

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE, HELP
from twoarm.commands.given import Given, taken
from twoarm.commands.inputs import NamedStream
from twoarm.commands.outputs import Outputs, refuse_score_outputs
from twoarm.commands.score import Asked, exit_code_of, score_and_show
from twoarm.commands.score_options import add_report_options
from twoarm.options import Options

DESCRIPTION = "Score a bundled example with made-up numbers: 12 tasks, 10 repeats, two arms."
EPILOG = HELP


def add_options(parser: ArgumentParser) -> None:
    """The options of a report, and the run file itself."""
    output = add_report_options(parser)
    output.add_argument("--print", action="store_true", help="print the example's run file instead")


def run(given: Given, streams: Streams) -> int:
    """Score the bundled example, or print its run file."""
    example = files("twoarm").joinpath("example.jsonl")
    if "print" in given:
        streams.write_data(example.read_text(encoding="utf-8"))
        return DONE
    options, outputs = taken(Options, given), taken(Outputs, given)
    refuse_score_outputs(outputs, [])
    with example.open("rb") as stream:
        asked = Asked([NamedStream(stream, "example.jsonl")], options)
        return exit_code_of(score_and_show(asked, outputs, streams), given, streams)
