"""What the agents that are programs of their own have in common."""

from twoarm.programs.agent import first_version
from twoarm.programs.settings import Program


class Installed:
    """A program that prints its version and works inside another sandbox."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @property
    def nests(self) -> bool:
        """It has no sandbox of its own that would not start there."""
        return True

    def version(self, said: str) -> str | None:
        """The first one in what it prints."""
        return first_version(said)
