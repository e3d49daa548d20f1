"""What the patterns of --uptake found in a collection: per arm, and each pattern by itself."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from twoarm.collect.uptake import Calls, Pattern, Uses
from twoarm.errors import Caveat
from twoarm.escape import counted
from twoarm.sentence import Name, listed, say

# No more names of tools than this are kept for a reader who looks for a typo.
_MOST_NAMES = 1000


class ArmUses(msgspec.Struct, kw_only=True):
    """The runs of an arm: all, those whose output shows uses, and those that used the change."""

    runs: int = 0
    known: int = 0
    used: int = 0
    uses: int = 0


class Uptake:
    """The patterns of every arm, and what they matched."""

    def __init__(self, every: Sequence[str], of: Mapping[str, Sequence[str]]) -> None:
        self._every = [Pattern(text) for text in every]
        self._of = {arm: [Pattern(text) for text in texts] for arm, texts in of.items()}
        self.arms: dict[str, ArmUses] = {}
        self._matched: Counter[str] = Counter()
        self._calls = 0
        self._names: Counter[str] = Counter()

    def patterns(self, arm: str) -> list[Pattern]:
        """The patterns that count in an arm."""
        return [*self._every, *self._of.get(arm, ())]

    def add(self, arm: str, uses: Uses, calls: Calls | None) -> None:
        """One more run."""
        found = self.arms.setdefault(arm, ArmUses())
        found.runs += 1
        if uses.count is not None:
            found.known += 1
            found.used += uses.count > 0
            found.uses += uses.count
        self._matched.update(uses.by_pattern)
        for call in (*calls.made, *calls.below) if calls is not None else ():
            self._calls += call.times
            if call.name in self._names or len(self._names) < _MOST_NAMES:
                self._names[call.name] += call.times

    def caveats(self) -> Iterator[Caveat]:
        """Patterns that tell nothing: they match no call at all, or every one."""
        patterns = {
            one.text for one in (*self._every, *(p for of in self._of.values() for p in of))
        }
        for text in sorted(patterns) if self._calls else ():
            if not self._matched[text]:
                names = [name for name, _ in self._names.most_common()]
                yield Caveat(
                    code="uptake_no_match",
                    message=say(
                        "uptake {} matches none of {}; tools called: {}",
                        Name(text),
                        counted(self._calls, "call"),
                        listed(names),
                    ),
                )
            elif self._matched[text] == self._calls > 1:
                yield Caveat(
                    code="uptake_all_match",
                    message=say(
                        "uptake {} matches every one of {}, so it cannot tell use from no use",
                        Name(text),
                        counted(self._calls, "call"),
                    ),
                )
