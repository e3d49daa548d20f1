"""Any program: its arguments are the suite's, and so is what its output is read as."""

from collections.abc import Mapping
from typing import ClassVar

from twoarm.programs.agent import Agent, Cost, Launch, Meter, Start
from twoarm.programs.installed import Installed
from twoarm.programs.prices import Prices
from twoarm.programs.settings import NO_FORMAT

# What `collect` calls run folders whose output nobody reads.
UNREAD = "command"


class CommandAgent(Installed):
    """A program that the suite spells out."""

    name: ClassVar[str] = "command"
    oldest: ClassVar[str | None] = None
    overshoot = 0.0

    @property
    def executable(self) -> str:
        """The first of `argv`."""
        return self._program.argv[0]

    @property
    def format(self) -> str:
        """The suite's, or run folders with `run.json` and perhaps `usage.json` alone."""
        named = self._program.format
        return UNREAD if named in (None, NO_FORMAT) else str(named)

    def cost(self, prices: Mapping[str, Prices] | None) -> Cost:
        """Told by its output, if it has one that is read."""
        return "unknown" if self._program.format == NO_FORMAT else "told"

    def launch(self, start: Start) -> Launch:
        """The suite's words, and where counts may be left."""
        return Launch(
            argv=(*start.argv, *start.args),
            output=self._program.output or "stdout.txt",
            env={"TWOARM_USAGE": start.usage},
        )

    def meter(self, start: Start, prices: Mapping[str, Prices] | None) -> Meter | None:
        """Nothing is known of it while it runs."""
        return None


launch: type[Agent] = CommandAgent
