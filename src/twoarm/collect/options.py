"""What to collect and how, and whether that makes sense."""

import errno
import os
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from twoarm.errors import ArmsError, InputError, UsageError
from twoarm.options import either, option
from twoarm.programs.folder import shown
from twoarm.programs.format import Settings
from twoarm.programs.prices import Prices
from twoarm.programs.program import OWN_PROGRAMS

# Which formats look at what the user chose, and flags that are named differently.
_USED_BY = {
    "scorer": ("harbor", "inspect"),
    "threshold": ("harbor", "inspect"),
    "working_time": ("inspect",),
    "task_names": ("inspect",),
    "columns": ("table",),
    "where": ("table",),
    "input_includes_cache": ("table",),
    "reports": ("mini-swe-agent",),
}
_FLAGS = {"columns": "--map", "reports": "--report"}


class ArmPath(msgspec.Struct, frozen=True, kw_only=True):
    """A path to collect from, and the arm of all runs in it; None if an arm key decides it."""

    arm: str | None
    path: str


class CollectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to collect, apart from what and from where."""

    # The value inside the source that decides the arm, and the arm of each value.
    arm_key: str | None = None
    arm_map: Mapping[str, str] = {}
    # Keys of the configuration that may differ within an arm.
    may_differ: Sequence[str] = ()
    settings: Settings = Settings()
    # The path of a SWE-bench report per arm.
    reports: Mapping[str, str] = {}
    # The path of a price table, or what was read from one.
    prices: str | Mapping[str, Prices] | None = None
    renumber: bool = False
    skip_bad: bool = False
    # Patterns of what counts as a use of the change: for all arms, and for one.
    uptake: Sequence[str] = ()
    uptake_of: Mapping[str, Sequence[str]] = {}
    # The folder that `run_path` is relative to; None to leave it out of the records.
    relative_to: str | None = None


def check_options(places: Sequence[ArmPath], options: CollectOptions) -> None:
    """Refuse places and arms that contradict each other."""
    if not places:
        raise UsageError(
            f"nothing to collect; give {_named_place()} for each arm, or a path with "
            f"{option('arm_key')}"
        )
    unnamed = [place for place in places if place.arm is None]
    if unnamed and options.arm_key is None:
        raise ArmsError(
            f"{shown(unnamed[0].path)}: which arm? name it with {_named_place()}, "
            f"or give the key that decides it with {option('arm_key')}"
        )
    if options.arm_key is not None and len(unnamed) < len(places):
        raise UsageError(
            f"{option('arm')} and {option('arm_key')} both decide the arm; give a path without one"
        )
    if options.arm_map and options.arm_key is None:
        raise UsageError(
            f"{option('arm_map')} without {option('arm_key')}; give the key that holds the values"
        )
    for place in places:
        if "\0" not in place.path and not os.path.exists(place.path):
            reason = os.strerror(errno.ENOENT)
            raise InputError(f"{shown(place.path)}: cannot be read: {reason}")
    _check_apart(places)
    if any(place.arm == "" for place in places):
        raise UsageError(f"{option('arm')} with an empty name; write {_named_place()}")


def check_used(format_name: str, options: CollectOptions) -> None:
    """Refuse what a format of twoarm has no use for; those of other packages may use anything."""
    if format_name not in OWN_PROGRAMS:
        return
    usual = msgspec.structs.asdict(Settings()) | {"reports": {}}
    settings = msgspec.structs.asdict(options.settings) | {"reports": options.reports}
    for name, formats in _USED_BY.items():
        if settings[name] != usual[name] and format_name not in formats:
            given = either(flag=_FLAGS.get(name) or option(name), argument=option(name))
            raise UsageError(
                f"{given} has no effect with format {format_name}; it applies to "
                f"{' and '.join(formats)}"
            )


def _named_place() -> str:
    return either(flag="--arm NAME=PATH", argument="`ArmPath(arm=..., path=...)`")


def _check_apart(places: Sequence[ArmPath]) -> None:
    """Refuse a path inside another one: its runs would be counted twice."""
    real = [
        (os.path.realpath(place.path).rstrip(os.sep).split(os.sep), place.path)
        for place in places
        if "\0" not in place.path
    ]
    # In this order, whatever is inside a path comes right after it.
    for (around, outer), (at, inner) in pairwise(sorted(real)):
        if at == around:
            raise UsageError(f"{shown(inner)} is given twice; its runs would be counted twice")
        if at[: len(around)] == around:
            raise UsageError(
                f"{shown(inner)} is inside {shown(outer)}; its runs would be counted twice"
            )
