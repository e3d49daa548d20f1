"""`twoarm show`: the runs of one task and repeat, in the terminal."""

import os
import shlex
from argparse import ArgumentParser

import msgspec

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.given import Given
from twoarm.commands.score_options import whole_number
from twoarm.commands.terminal import terminal_paint, terminal_width
from twoarm.errors import InputError
from twoarm.text.escape import visible

_ANALYSIS = "analysis.json"
_MOST_PATHS = 5

DESCRIPTION = (
    "Print what the runs of one task and repeat did: prompt, messages and calls in order, last "
    "words, acceptance, the change, and why each counts as it does. Without TASK and REPEAT, list "
    "those there are."
)


class _Input(msgspec.Struct, frozen=True):
    path: str


class _Analysis(msgspec.Struct, frozen=True):
    """What an analysis file says about where its runs came from."""

    inputs: tuple[_Input, ...]


def add_options(parser: ArgumentParser) -> None:
    """The arguments of `twoarm show`."""
    shown = parser.add_argument_group("what to show")
    shown.add_argument(
        "folder", metavar="DIR", help="a run folder, a folder with collected.jsonl, or a run file"
    )
    shown.add_argument("task", metavar="TASK", nargs="?", help="the task")
    shown.add_argument(
        "repeat",
        metavar="REPEAT",
        nargs="?",
        type=whole_number,
        default=None,
        help="the repeat, from 1",
    )
    shown.add_argument("--arm", metavar="ARM", help="the run of this arm alone")


def run(given: Given, streams: Streams) -> int:
    """Find the runs and print them, or list the ones there are."""
    from twoarm.render.text import plain
    from twoarm.run_pages.pages import find_runs, list_runs
    from twoarm.run_pages.text import render

    folder, task = given["folder"], given.get("task")
    path = _run_file(folder)
    if "repeat" not in given:
        for line in list_runs(path, task):
            streams.write(f"{line}\n")
        command = f"twoarm show {shlex.quote(folder)} TASK REPEAT"
        streams.write(f"see the runs of one with {visible(command)}\n")
        return DONE
    runs = find_runs(path, given["task"], given["repeat"], given.get("arm"))
    paint = terminal_paint() or plain
    for number, view in enumerate(runs):
        streams.write(("\n" if number else "") + render(view, terminal_width(), paint))
    return DONE


def _run_file(path: str) -> str:
    """The run file that a path stands for."""
    from twoarm.run.ledger import RunFolder
    from twoarm.runs.study import COLLECTED

    if not os.path.isdir(path):
        return path
    collected = os.path.join(path, COLLECTED)
    if os.path.exists(collected):
        return collected
    RunFolder(path).refuse_half_merged()
    scored = _scored_from(os.path.join(path, _ANALYSIS))
    way = (
        "collect its runs, or name a run file"
        if scored is None
        else f"it was scored from {scored}, so name that file"
    )
    raise InputError(f"{visible(path)}: no {COLLECTED} in it; {way}")


def _scored_from(path: str) -> str | None:
    """The run files an analysis was made from: named, not opened, since anyone may write one."""
    try:
        with open(path, "rb") as file:
            analysis = msgspec.json.decode(file.read(), type=_Analysis)
    except (OSError, ValueError, RecursionError):
        return None
    paths = [visible(source.path) for source in analysis.inputs]
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return f"{', '.join(paths[:_MOST_PATHS])}{more}" if paths else None
