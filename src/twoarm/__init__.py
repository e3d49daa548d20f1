"""twoarm: score the runs of a coding agent with and without a change.

The pipeline, stage by stage:

    runfile    lines to runs; the position of every bad line
    screen     which runs count; every excluded run keeps its reason
    check      every problem of run files, without scoring them
    summarize  each arm on its own
    pair       same task, same repeat, two arms; deltas
    tasks      each task in both arms
    decide     three gates to one decision; adequacy; promotion
    diagnose   what moved with a failed gate
    caveats    what the reader must know
    evidence   what the runs can support: intervals, tests, stability, audits
    drawing    what the charts of the page draw
    score      all of it, in one function
    render     the analysis as text, JSON, Markdown, a page, and what CI systems read
"""

__version__ = "0.1.0"

from twoarm.analysis import Analysis
from twoarm.check import Check, check
from twoarm.errors import (
    ArmsError,
    BadRunsError,
    Caveat,
    InputError,
    Problem,
    TwoarmError,
    UsageError,
)
from twoarm.record import Run
from twoarm.score import score

__all__ = [
    "Analysis",
    "ArmsError",
    "BadRunsError",
    "Caveat",
    "Check",
    "InputError",
    "Problem",
    "Run",
    "TwoarmError",
    "UsageError",
    "__version__",
    "check",
    "score",
]
