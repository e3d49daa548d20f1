"""Study: what a run folder was made for, as far as a report of its runs says so."""

import os

import msgspec

# What makes a folder a run folder.
SCHEDULE = "schedule.json"


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """One run folder among the inputs."""

    # As it was given.
    path: str
    suite_id: str
    description: str
    agent: str | None
    # What the agent says of itself; None where it says nothing.
    version: str | None
    # What trials start from; None where a folder is copied.
    commit: str | None
    # The commits that arms are built from.
    sources: dict[str, str]
    candidate: str
    baseline: str
    seed: int
    # Whether planned runs are left to make, and whether a runner is at it.
    unfinished: bool
    running: bool


def is_run_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to a folder with a schedule."""
    return os.path.isdir(path) and os.path.lexists(os.path.join(path, SCHEDULE))
