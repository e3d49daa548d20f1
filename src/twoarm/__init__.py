"""twoarm: score the runs of a coding agent with and without a change.

The rooms, in the order in which data moves:

    runs         lines to runs; the position of every bad line
    programs     what other programs write, one folder each
    collect      their files to run records
    run          from a suite to published runs
    compare      which runs count, pairs, deltas, the gates: one decision
    evidence     what the runs can support: intervals, tests, stability, audits
    explain      whether the change was used, and what differed
    result       whether to promote, what to know, what to do next, everything as plain data
    render       a result as text, Markdown, a page, and what CI systems read
    planning     how much more to run, and how often a suite cries wolf
    score        from run files to a report
    run_pages    what single runs did
    commands     the command line

Below them lie `text` and `files`, and `options` and `errors`, which everybody shares. No room
imports from one that comes after it.
"""

from typing import TYPE_CHECKING, Any

from twoarm._version import __version__
from twoarm.compare.check import Check, check
from twoarm.compare.screen import Arms
from twoarm.errors import (
    ArmsError,
    BadRunsError,
    Caveat,
    ExtraError,
    InputError,
    Problem,
    TwoarmError,
    UsageError,
)
from twoarm.options import Options
from twoarm.planning.calibrate import CalibrateOptions, CalibrationReport, calibrate
from twoarm.planning.plan import PlanReport, plan
from twoarm.planning.plan_options import PlanOptions
from twoarm.render.report import Report
from twoarm.render.several import Candidates
from twoarm.result.analysis import Analysis
from twoarm.runs.record import Run
from twoarm.runs.runfile import read
from twoarm.score import compare, compare_candidates, look, score

if TYPE_CHECKING:
    from twoarm.collect.gather import gather

__all__ = [
    "Analysis",
    "Arms",
    "ArmsError",
    "BadRunsError",
    "CalibrateOptions",
    "CalibrationReport",
    "Candidates",
    "Caveat",
    "Check",
    "ExtraError",
    "InputError",
    "Options",
    "PlanOptions",
    "PlanReport",
    "Problem",
    "Report",
    "Run",
    "TwoarmError",
    "UsageError",
    "__version__",
    "calibrate",
    "check",
    "compare",
    "compare_candidates",
    "gather",
    "look",
    "plan",
    "read",
    "score",
]


def __getattr__(name: str) -> Any:
    """`gather`, imported when it is asked for: no score needs the formats of other programs."""
    if name != "gather":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from twoarm.collect.gather import gather

    return gather
