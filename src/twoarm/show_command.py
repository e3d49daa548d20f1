"""`twoarm show`: the runs of one task and repeat, in the terminal."""

import os
from argparse import ArgumentParser, Namespace

from twoarm.console import Streams
from twoarm.errors import InputError
from twoarm.escape import visible
from twoarm.terminal import terminal_width

COLLECTED = "collected.jsonl"
DONE = 0

EPILOG = None
DESCRIPTION = (
    "Print what the runs of one task and repeat did: prompt, messages and calls in order, last "
    "words, acceptance, the change, and why each counts as it does."
)


def add_options(parser: ArgumentParser) -> None:
    """The arguments of `twoarm show`."""
    parser.add_argument(
        "folder", metavar="DIR", help="a run folder, a folder with collected.jsonl, or a run file"
    )
    parser.add_argument("task", metavar="TASK", help="the task")
    parser.add_argument("repeat", metavar="REPEAT", type=int, help="the repeat, from 1")
    parser.add_argument("--arm", metavar="ARM", help="the run of this arm alone")


def run(given: Namespace, streams: Streams) -> int:
    """Find the runs and print them."""
    from twoarm.render.run_text import render
    from twoarm.run_pages import find_runs

    path = given.folder
    if os.path.isdir(path):
        path = os.path.join(path, COLLECTED)
        if not os.path.exists(path):
            raise InputError(
                f"{visible(given.folder)}: no {COLLECTED} in it; "
                "collect its runs, or name a run file"
            )
    for number, view in enumerate(find_runs(path, given.task, given.repeat, given.arm)):
        streams.write(("\n" if number else "") + render(view, terminal_width()))
    return DONE
