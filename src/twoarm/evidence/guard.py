"""What a promotion by the evidence needs besides the verdict: nobody is promoted for failing fast.

Success on these very tasks, no tasks broken beyond chance, nothing that people pay for clearly
worse.
"""

from collections.abc import Iterator
from typing import Literal

from twoarm.evidence.results import Guard
from twoarm.options import Options

Held = Literal[
    "never succeeds",
    "no success",
    "success drops",
    "success may drop",
    "breaks tasks",
    "costs more",
]
# What was seen to be bad; the others are only not ruled out.
HARM: frozenset[Held] = frozenset(("never succeeds", "success drops", "breaks tasks", "costs more"))


def held_back(guard: Guard, options: Options) -> tuple[Held, ...]:
    """What stands against a promotion."""
    return tuple(_held_back(guard, options))


def _held_back(guard: Guard, options: Options) -> Iterator[Held]:
    low, high = guard.success_low, guard.success_high
    if not guard.successes:
        yield "never succeeds"
    if low is None or high is None:
        yield "no success"
    elif low <= -options.margin_success:
        yield "success drops" if high < 0 else "success may drop"
    broken = guard.broken
    if len(broken.tasks) > options.allow_broken and broken.beyond_chance:
        yield "breaks tasks"
    if guard.paid.worse:
        yield "costs more"
