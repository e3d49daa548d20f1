"""What the tests of the evidence share: suites with a known effect, and how they are weighed."""

import math
import random
from typing import Any

import twoarm
from tests.conftest import WITH, WITHOUT, run
from twoarm.evidence.results import Estimate, Evidence


def suite(
    tasks: int,
    repeats: int,
    *,
    effect: float = 0.8,
    seed: int = 1,
    noise: float = 0.3,
    pass_rate: float = 0.8,
) -> list[dict[str, Any]]:
    """Runs with task effects and run-to-run noise; the candidate takes `effect` of the time."""
    draw = random.Random(seed)
    runs = []
    for task in range(tasks):
        size = draw.gauss(5, 0.8)
        for repeat in range(1, repeats + 1):
            for arm, factor in ((WITH, effect), (WITHOUT, 1.0)):
                seconds = factor * math.exp(size + draw.gauss(0, noise))
                runs.append(
                    run(
                        f"t{task:03d}",
                        arm,
                        repeat,
                        success=draw.random() < pass_rate,
                        duration_seconds=seconds,
                        total_cost_usd=seconds / 100 * draw.uniform(0.9, 1.1),
                        input_tokens=round(seconds * 50 * draw.uniform(0.9, 1.1)),
                        output_tokens=round(seconds * 9),
                    )
                )
    return runs


def evidence(runs: list[dict[str, Any]], **options: Any) -> Evidence:
    found = twoarm.score(runs, **options).evidence
    assert found is not None
    return found


def withheld(found: Estimate) -> list[tuple[str, str | None]]:
    return [(reason.code, reason.scope) for reason in found.withheld]


def messages(found: Estimate) -> list[str]:
    return [reason.message for reason in found.withheld]


def codes(runs: list[dict[str, Any]]) -> list[str]:
    return [caveat.code for caveat in twoarm.score(runs).caveats]
