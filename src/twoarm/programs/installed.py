"""What the agents that are programs of their own have in common."""

import re
from collections.abc import Mapping
from typing import ClassVar

from twoarm.programs.agent import Cost
from twoarm.programs.prices import Prices
from twoarm.programs.settings import Program

_VERSION = re.compile(r"\d+(?:\.\d+)+(?:-[0-9A-Za-z.]+)?")


class Installed:
    """A program that prints its version, tells its dollars and works inside another sandbox."""

    name: ClassVar[str]
    # A turn is seen when it is over, and by then the next one has begun.
    overshoot = 0.5
    # Variables that keep it from calling home, also when it is asked for its version.
    quiet: ClassVar[Mapping[str, str]] = {}
    # What is said of one that does not nest.
    why_not_nested = (
        "has a sandbox of its own, which does not start inside another; turn that off in "
        "agent.args, or leave it at copy"
    )

    def __init__(self, program: Program) -> None:
        self._program = program

    @property
    def format(self) -> str:
        """Its output is read as that of the program of its name."""
        return self.name

    def cost(self, prices: Mapping[str, Prices] | None) -> Cost:
        """It can be stopped at a limit: it tells dollars on the way, or keeps the limit itself."""
        return "held"

    @property
    def nests(self) -> bool:
        """It has no sandbox of its own that would not start there."""
        return True

    def version(self, printed: str) -> str | None:
        """The first text that looks like one in what it prints."""
        match = _VERSION.search(printed)
        return match[0] if match else None
