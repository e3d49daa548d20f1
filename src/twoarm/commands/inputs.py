"""Run files on the command line, and how they are opened."""

import sys
from argparse import _ArgumentGroup
from collections.abc import Sequence

from twoarm.errors import InputError
from twoarm.runs.runfile import Readable

_STANDARD_INPUT = 0


def add_files(group: _ArgumentGroup, also: str = "") -> None:
    """Run files and the folders of runs; `also` says what a folder is good for."""
    group.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help=f"JSONL, plain or packed with gzip or zstd, or the folder of a run{also}; several are "
        "one data set; - is standard input",
    )


def places(files: Sequence[str]) -> list[str | int]:
    """Where the inputs are: paths, or the descriptor of standard input."""
    return [_STANDARD_INPUT if file == "-" else file for file in files]


class NamedStream:
    """An open file under a name of our choice."""

    def __init__(self, stream: Readable, name: str) -> None:
        self.name = name
        self.read = stream.read
        # Needed to wait for a stream in non-blocking mode.
        self.fileno = getattr(stream, "fileno", None)


def opened(files: Sequence[str]) -> "list[str | Readable]":
    """The files, with standard input under a name of its own."""
    if files.count("-") > 1:
        raise InputError("standard input `-` can be read only once")
    standard_input = NamedStream(sys.stdin.buffer, "<stdin>")
    return [standard_input if file == "-" else file for file in files]
