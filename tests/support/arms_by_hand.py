"""What the tests of the scoring rules share: arms written by hand, and what is decided of them."""

from typing import Any

import twoarm
from tests.conftest import WITH, WITHOUT, run


def summary(runs: list[dict[str, Any]], arm: str = WITH, **options: Any) -> Any:
    analysis = twoarm.score(runs, **options)
    return next(found for found in analysis.arm_summaries if found.arm == arm)


def arm_of(values: list[Any], field: str, arm: str = WITH) -> list[dict[str, Any]]:
    return [run(arm=arm, repeat=i, **{field: value}) for i, value in enumerate(values, 1)]


def decided(
    candidate: dict[str, Any], baseline: dict[str, Any], repeats: int = 5
) -> twoarm.Analysis:
    runs = []
    for repeat in range(1, repeats + 1):
        runs.append(run("t", WITH, repeat, **candidate))
        runs.append(run("t", WITHOUT, repeat, **baseline))
    return twoarm.score(runs)
