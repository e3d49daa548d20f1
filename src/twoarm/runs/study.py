"""Study: what a run folder was made for, as far as a report of its runs says so."""

import os
from typing import Literal

import msgspec

# What makes a folder a run folder.
SCHEDULE = "schedule.json"
# What its run file is called.
COLLECTED = "collected.jsonl"
# Why no more repeats are needed at a planned look, and the same in words.
StopReason = Literal["candidate better", "baseline better", "futility"]
STOPPED_FOR: dict[StopReason, str] = {
    "candidate better": "candidate better",
    "baseline better": "baseline better",
    "futility": "a verdict was unlikely",
}


class EarlierReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report on a run folder that somebody has seen."""

    at_utc: str
    # How many runs of each part it had.
    runs: dict[int, int]
    # Of each candidate, as far as they differ.
    verdicts: tuple[str, ...]
    # Whether there was a decision on one of them.
    decided: bool = True


class StudyRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a run folder that something has to be said of."""

    arm: str
    # Below `runs`.
    path: str
    part: int


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
    candidates: tuple[str, ...]
    baseline: str
    seed: int
    # Whether planned runs are left to make, and whether a runner is at it.
    unfinished: bool
    running: bool
    # How many runs there are of each part, and the reports on them so far.
    made: dict[int, int]
    reports: tuple[EarlierReport, ...]
    # Whether looks were planned, which reports are then no more than.
    planned_looks: bool
    # What the looks are judged by, as it was given.
    judging: dict[str, str | int | float] = {}
    # When the runs were graded again; None if they were not.
    regraded_at_utc: str | None = None
    # The runs that could not be, and have the verdict of then.
    not_regraded: tuple[StudyRun, ...] = ()
    # The runs that may have started from, or been judged by, files that somebody had changed.
    doubtful: tuple[StudyRun, ...] = ()
    # Why it ended at a planned look, by candidate; empty if it did not.
    stopped: dict[str, StopReason] = {}
    # How many runs of all arms were planned, and how many of them that saved.
    planned_runs: int = 0
    saved_runs: int = 0
    # Of what is asked and what grades it, task by task.
    suite_sha256: str = ""
    # Which shard of a run it is, in words; empty if it is all of it.
    shard: str = ""
    # How many shards it was merged from, if it was, and those that are missing.
    shards: int = 0
    missing_shards: tuple[int, ...] = ()
    # By task, arm and repeat: the machine of a cluster that a run was made on.
    nodes: dict[tuple[str, str, int], str] = {}
    # The same of runs that started from trees there which nobody could look at afterwards.
    unchecked: frozenset[tuple[str, str, int]] = frozenset()

    def ended_for(self, candidate: str, baseline: str) -> StopReason | None:
        """Why it ended at a planned look, where these are its arms."""
        return self.stopped.get(candidate) if baseline == self.baseline else None


def is_run_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to a folder with a schedule."""
    return os.path.isdir(path) and os.path.lexists(os.path.join(path, SCHEDULE))
