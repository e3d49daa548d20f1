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

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from twoarm._version import __version__

if TYPE_CHECKING:
    from twoarm.collect.gather import gather
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

# Where each name is from.
_SOURCES = {
    "collect.gather": ("gather",),
    "compare.check": ("Check", "check"),
    "compare.screen": ("Arms",),
    "errors": (
        *("ArmsError", "BadRunsError", "Caveat", "ExtraError", "InputError", "Problem"),
        *("TwoarmError", "UsageError"),
    ),
    "options": ("Options",),
    "planning.calibrate": ("CalibrateOptions", "CalibrationReport", "calibrate"),
    "planning.plan": ("PlanReport", "plan"),
    "planning.plan_options": ("PlanOptions",),
    "render.report": ("Report",),
    "render.several": ("Candidates",),
    "result.analysis": ("Analysis",),
    "runs.record": ("Run",),
    "runs.runfile": ("read",),
    "score": ("compare", "compare_candidates", "look", "score"),
}
_MODULES = {name: module for module, names in _SOURCES.items() for name in names}

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


class _Package(ModuleType):
    """Imports a name when it is asked for: nobody waits for numpy to hear the version."""

    def __getattr__(self, name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"twoarm.{_MODULES[name]}"), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # `score` and `compare` are functions here, whoever imports the modules of these names.
        if name not in _MODULES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
