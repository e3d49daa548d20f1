"""Ratios over few tasks say what they cannot see: a rare kind of task that is not among them."""

import numpy as np
import pytest

from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.interval import Frame
from twoarm.evidence.means import mean_estimate, ratio_estimate
from twoarm.runs.metric import DURATION

FRAME = Frame(level=0.95, tests=0.95, seed=1, resamples=99)


def runs_of(tasks: int, repeats: int = 3) -> TaskRuns:
    layout = Layout(tasks=np.arange(tasks), sizes=np.full((2, tasks), repeats))
    values = np.random.default_rng(tasks).normal(size=layout.rows)
    return TaskRuns(metric=DURATION, logs=True, values=values, layout=layout)


@pytest.mark.parametrize(
    ("tasks", "said"), [(6, "53%"), (12, "28%"), (43, "1%"), (44, None), (200, None)]
)
def test_a_ratio_over_few_tasks_says_that_a_rare_kind_may_be_missing(
    tasks: int, said: str | None
) -> None:
    found = ratio_estimate(runs_of(tasks), FRAME)
    assert found is not None
    assert found.tasks_like_these is not None
    assert found.these_tasks is not None
    notes = [note for note in found.tasks_like_these.caveats if "one task in ten" in note]
    assert len(notes) == (said is not None)
    if said is not None:
        assert f"these {tasks} may hold none of them (a chance of {said})" in notes[0]
    assert not any("one task in ten" in note for note in found.these_tasks.caveats)


def test_a_mean_of_plain_values_says_more_than_that() -> None:
    plain = runs_of(12)
    plain = TaskRuns(metric=DURATION, logs=False, values=plain.values, layout=plain.layout)
    found = mean_estimate(plain, FRAME).tasks_like_these
    assert found is not None
    assert len(found.caveats) == 1
    assert "raw mean" in found.caveats[0]
