"""Which slot is on which node: trials at a time, as many on each as it has room for."""

from collections import Counter
from collections.abc import Mapping


def room(cpus: float, each: float) -> int:
    """How many trials a node takes at a time."""
    # A hair of tolerance for sums of decimal fractions.
    return int(cpus / each * (1 + 1e-9))


def slots_of(rooms: Mapping[str, int], most: int | None) -> list[str]:
    """The node of each slot, the emptiest first; no more than the most."""
    slots: list[str] = []
    used: Counter[str] = Counter()
    while len(slots) < sum(rooms.values()) and (most is None or len(slots) < most):
        free = [name for name in rooms if used[name] < rooms[name]]
        name = min(free, key=lambda name: (used[name] / rooms[name], name))
        used[name] += 1
        slots.append(name)
    return slots
