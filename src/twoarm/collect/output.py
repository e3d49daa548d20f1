"""Whether the file to be written is one of those that are collected from."""

import os

from twoarm.errors import Problem
from twoarm.programs.folder import SourceError, walk
from twoarm.programs.registry import AUTO, load_formats


def reads(format_name: str, given: str, output: str) -> bool:
    """Whether the output is there already, in a folder that is given, as a file of a run."""
    if "\0" in given or "\0" in output or not os.path.isfile(output):
        return False
    folder, name = os.path.split(os.path.realpath(output))
    around = os.path.realpath(given)
    if os.path.commonpath((folder, around)) != around or not os.path.isdir(around):
        return False
    entry = next(iter(walk(folder)))
    if isinstance(entry, Problem):
        return False
    for known, format in load_formats().known.items():
        if format_name in (AUTO, known):
            try:
                claims = format.claims(entry)
            except SourceError:
                continue
            # A run has more files than the one that is claimed, such as its `run.json`.
            if name in claims or (claims and format.one_run_per_folder):
                return True
    return False
