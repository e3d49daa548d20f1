"""What to do next where nothing can be compared: run the other arm, and no other advice."""

import pytest

import twoarm
from tests.conftest import run
from tests.support.advice import advised

CANDIDATE, BASELINE = "with_skelly", "without_skelly"


@pytest.mark.parametrize("evidence", [True, False])
@pytest.mark.parametrize(
    ("runs", "step"),
    [
        (
            [run("a", CANDIDATE, 1)],
            "run `without_skelly` on the same tasks: no run of it counts so far",
        ),
        (
            [run("a", CANDIDATE, 1), run("b", BASELINE, 1)],
            "run both arms on the same tasks: so far they share none",
        ),
    ],
)
def test_the_other_arm_comes_before_everything_else(
    runs: list[dict[str, object]], step: str, evidence: bool
) -> None:
    assert advised(twoarm.score(runs, evidence=evidence)) == [step]
