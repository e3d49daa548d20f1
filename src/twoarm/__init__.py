"""twoarm: score the runs of a coding agent with and without a change.

The pipeline, stage by stage:

    runfile       lines to runs; the position of every bad line
    screen        which runs count; every excluded run keeps its reason
    summarize     each arm on its own
    pair          same task, same repeat, two arms; deltas
    tasks         each task in both arms
    decide        the gates to one decision; adequacy of the repeats
    comparison    all of these together
    evidence      what the runs can support: intervals, tests, stability, audits
    explain       whether the change was used
    promote       whether the candidate may be promoted
    diagnose      what moved with a failed gate
    caveats       what the reader must know
    analysis      everything that was found, as plain data
    render        an analysis as text, Markdown, a page, and what CI systems read
    score         all of it, in two functions: `read` and `compare`

`check` finds every problem in run files without scoring them, and `collect` makes run files of what
other programs wrote. `plan` says how much more to run, `calibrate` how often a suite cries wolf.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from twoarm.analysis import Analysis
from twoarm.calibrate import CalibrateOptions, CalibrationReport, calibrate
from twoarm.candidates import Candidates
from twoarm.check import Check, check
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
from twoarm.plan import PlanReport, plan
from twoarm.plan_options import PlanOptions
from twoarm.record import Run
from twoarm.report import Report
from twoarm.runfile import read
from twoarm.score import compare, compare_candidates, look, score
from twoarm.screen import Arms

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
