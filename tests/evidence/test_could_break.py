"""What is said where no task is broken: how many could be, and what is not known."""

import pytest

import twoarm
from tests.evidence.test_guard import counts


@pytest.mark.parametrize(
    ("tasks", "watched", "worse"),
    [
        ([((5, 5), (5, 5))] * 6, 6, 0),
        ([((4, 5), (5, 5))] * 3 + [((5, 5), (5, 5))] * 3, 6, 3),
        ([((2, 2), (2, 2))] * 6, 0, 0),
        ([((10, 10), (10, 10))] * 3 + [((3, 10), (3, 10))] * 3, 3, 0),
        ([((0, 10), (0, 10))] * 6, 0, 0),
        ([((1, 1), (1, 1))] * 6, 0, 0),
    ],
)
def test_how_many_tasks_like_these_could_still_break(
    tasks: list[tuple[tuple[int, int], tuple[int, int]]], watched: int, worse: int
) -> None:
    report = twoarm.score(counts(tasks))
    assert report.evidence is not None
    broken = report.evidence.guard.broken
    assert (broken.tasks, broken.watched, broken.got_worse) == ((), watched, worse)
    said = " ".join(report.to_text(full=True).split()).partition(" BROKEN ")[2]
    if not watched:
        assert broken.could_break is None
        assert said.startswith("not known: no task has enough successful baseline runs to tell ")
        return
    share = 1 - 0.05 ** (1 / watched)
    assert broken.could_break == pytest.approx(share)
    said = said.partition(" NEXT ")[0]
    assert f"up to {share:.0%} of tasks like these still could" in said
    assert ("got worse" in said) == (not worse)


def test_a_clear_loss_without_a_broken_task_is_no_all_clear() -> None:
    report = twoarm.score(counts([((2, 5), (5, 5))] * 11 + [((5, 5), (5, 5))]))
    assert report.evidence is not None
    assert not report.evidence.guard.broken.tasks
    said = "5 of 5 to 2 of 5; success is lower in 11 of 12 tasks"
    assert said in " ".join(report.to_text(full=True).split())


def test_below_six_tasks_nothing_is_said_about_how_many_others_could_break() -> None:
    said = " ".join(twoarm.score(counts([((5, 5), (5, 5))] * 5)).to_text(full=True).split())
    assert "BROKEN none of 5 tasks got worse; what happens to others is not known" in said


def test_none_of_six_tasks_that_got_worse_leaves_39_percent_of_others() -> None:
    said = " ".join(twoarm.score(counts([((5, 5), (5, 5))] * 6)).to_text(full=True).split())
    words = "none of 6 tasks got worse; up to 39% of tasks like these still could"
    assert words in said
