"""What the patterns of --uptake found in a collection: per arm, and each pattern by itself."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from twoarm.errors import Caveat
from twoarm.programs.uptake import Calls, Pattern, Uses
from twoarm.text.escape import counted
from twoarm.text.sentence import Name, listed

# No more names of tools than this are kept for a reader who looks for a typo.
_MOST_NAMES = 1000


class ArmUses(msgspec.Struct, kw_only=True):
    """The runs of an arm: all, those whose output shows uses, and those that used the change."""

    runs: int = 0
    known: int = 0
    used: int = 0
    uses: int = 0


class UptakeTally:
    """The patterns of every arm, and what they matched."""

    def __init__(self, every: Sequence[str], of: Mapping[str, Sequence[str]]) -> None:
        self._every = [Pattern(text) for text in every]
        self._of = {arm: [Pattern(text) for text in texts] for arm, texts in of.items()}
        self._by_arm: dict[str, list[Pattern]] = {}
        self.arms: dict[str, ArmUses] = {}
        # By the text of a pattern: the calls that it was tried on, and those that it matched.
        self._calls: Counter[str] = Counter()
        self._matched: Counter[str] = Counter()
        self._names: Counter[str] = Counter()

    def patterns(self, arm: str) -> list[Pattern]:
        """The patterns that count in an arm."""
        if arm not in self._by_arm:
            chosen = {pattern.text: pattern for pattern in (*self._every, *self._of.get(arm, ()))}
            self._by_arm[arm] = list(chosen.values())
        return self._by_arm[arm]

    def add(self, arm: str, uses: Uses, calls: Calls | None) -> None:
        """One more run."""
        total = self.arms.setdefault(arm, ArmUses())
        total.runs += 1
        if uses.count is not None:
            total.known += 1
            total.used += uses.count > 0
            total.uses += uses.count
        if calls is None:
            return
        self._matched.update(uses.by_pattern)
        held = (*calls.made, *calls.below)
        for call in held:
            if call.name in self._names or len(self._names) < _MOST_NAMES:
                self._names[call.name] += call.times
        count = sum(call.times for call in held)
        self._calls.update({pattern.text: count for pattern in self.patterns(arm)})

    def caveats(self) -> Iterator[Caveat]:
        """Patterns that tell nothing: they match no call at all, or every one."""
        for text, count in sorted(self._calls.items()):
            if not count:
                continue
            calls = counted(count, "call")
            if not self._matched[text]:
                names = [name for name, _ in self._names.most_common()]
                yield Caveat.say(
                    "uptake_no_match",
                    "uptake {} matches none of {}; tools called: {}",
                    Name(text),
                    calls,
                    listed(names),
                )
            elif self._matched[text] == count > 1:
                yield Caveat.say(
                    "uptake_all_match",
                    "uptake {} matches every one of {}, so it cannot tell use from no use",
                    Name(text),
                    calls,
                )
