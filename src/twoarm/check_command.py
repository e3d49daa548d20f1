"""`twoarm check`: every bad line of run files."""

from argparse import ArgumentParser, Namespace

from twoarm.check import check
from twoarm.console import Streams
from twoarm.escape import counted, named
from twoarm.exit_codes import BAD, DONE
from twoarm.score_command import STANDARD_OUTPUT, opened, places
from twoarm.score_options import add_files
from twoarm.write import refuse_overlap

DESCRIPTION = (
    "Validate run files and list every bad line as path:line: field: what was found; how to fix it."
)
EPILOG = None


def add_options(parser: ArgumentParser) -> None:
    """The run files."""
    add_files(parser)


def run(given: Namespace, streams: Streams) -> int:
    """List what is wrong, or say what the files hold."""
    refuse_overlap({"standard output": STANDARD_OUTPUT}, places(given.files))
    found = check(opened(given.files))
    streams.write("".join(f"{problem}\n" for problem in found.problems))
    if found.problems:
        streams.say(f"twoarm: {counted(len(found.problems), 'problem')}")
        return BAD
    arms = ", ".join(map(named, found.arms))
    runs = counted(found.run_count - found.missing_count, "run")
    missing = f"{found.missing_count:,} missing, " if found.missing_count else ""
    counts = f"{runs}, {missing}{counted(found.task_count, 'task')}"
    streams.write(f"no problems: {counts}, arms {arms}\n")
    for key in found.unknown_keys:
        streams.write(f"unknown key, ignored: {named(key)}\n")
    return DONE
