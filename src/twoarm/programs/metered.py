"""What meters share: the files an agent writes while it runs, and whether prices will do."""

import os
from collections.abc import Iterator, Mapping

from twoarm.files.safe import OpenFolder, find
from twoarm.programs.agent import Lines
from twoarm.programs.prices import Prices, cost_of
from twoarm.programs.tokens import Spend


class Files:
    """The files of HOME by a glob, as they come and grow."""

    def __init__(self, home: str, pattern: str) -> None:
        self._home = home
        self._pattern = pattern
        self._lines: dict[str, Lines] = {}

    def new(self) -> Iterator[tuple[str, bytes]]:
        """Every complete line that was added since the last look, with its file."""
        try:
            with OpenFolder(self._home) as home:
                names = find(home, self._pattern)
        except OSError:
            # Not made yet, or gone already.
            return
        for name in names:
            path = os.path.join(self._home, name)
            for line in self._lines.setdefault(path, Lines(path)).new():
                yield path, line


def can_price(
    model: str | None, prices: Mapping[str, Prices] | None, *, cache_write: int | None
) -> bool:
    """Whether a table prices whatever a model may spend."""
    if not prices:
        return False
    any_spend = Spend(model=model, input=1, output=1, cache_read=1, cache_write=cache_write)
    return cost_of([any_spend], prices) is not None
