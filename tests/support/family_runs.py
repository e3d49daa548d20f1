"""Runs whose tasks come in families."""

from typing import Any

from tests.support.effect_runs import suite

# Uneven on purpose: of 24 tasks, families of 1 to 6.
SIZES = (6, 4, 4, 3, 3, 2, 1, 1)
FAMILIES = [family for family, size in enumerate(SIZES) for _ in range(size)]


def in_families(runs: list[dict[str, Any]], of: list[int]) -> list[dict[str, Any]]:
    """The runs with the family of each task; not in the order of their names."""
    names = [f"f{(5 * family) % 17}" for family in of]
    return [dict(run, family=names[int(run["task_id"][1:])]) for run in runs]


def even(families: int, size: int, repeats: int = 3, **more: Any) -> list[dict[str, Any]]:
    found = suite(families * size, repeats, **more)
    return in_families(found, [task // size for task in range(families * size)])
