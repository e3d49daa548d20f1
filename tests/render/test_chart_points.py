"""What the charts draw, by hand: order, flips, thinning."""

import math
from typing import Any

import pytest

import twoarm
from tests.conftest import both, run
from twoarm.render.chart_points import MOST_STARTS, MOST_TASKS, STRETCHES, ChartPoints, chart_points


def drawn(runs: list[dict[str, Any]], **options: Any) -> ChartPoints:
    return chart_points(twoarm.score(runs, **options).comparison)


def two(task: str, repeat: int, ours: float, theirs: float, **changed: Any) -> list[dict[str, Any]]:
    return [
        run(task, "with_skelly", repeat, duration_seconds=ours, **changed),
        run(task, "without_skelly", repeat, duration_seconds=theirs, **changed),
    ]


def test_deltas_are_drawn_in_order_of_the_mean_of_their_task() -> None:
    found = drawn([*two("a", 1, 30, 10), *two("b", 1, 10, 40), *two("b", 2, 20, 30)])
    (duration, *_) = found.deltas
    assert duration.metric == "duration_seconds"
    assert [(task.task_id, task.mean, task.points) for task in duration.tasks] == [
        ("b", -20.0, (-30.0, -10.0)),
        ("a", 20.0, (20.0,)),
    ]
    assert (duration.task_count, duration.pair_count) == (2, 3)


def test_a_pair_without_a_value_is_not_drawn() -> None:
    runs = [*both("t", 1), *both("t", 2)]
    runs[0]["total_cost_usd"] = None
    runs[1]["total_cost_usd"] = None
    cost = drawn(runs).deltas[-1]
    assert cost.metric == "cost_usd"
    assert (cost.pair_count, cost.tasks[0].points) == (1, (0.0,))
    nothing = drawn(both(total_cost_usd=None))
    assert nothing.deltas[-1].tasks == ()
    assert nothing.costs == ()
    assert nothing.spreads[-1].candidate is None


def test_a_flip_is_a_pair_that_passes_in_one_arm_only() -> None:
    runs = [one for repeat in range(1, 6) for one in both("t", repeat)]
    runs[1]["success"] = False
    runs[3]["success"] = False
    runs[4]["success"] = False
    runs += [run("alone", "with_skelly"), run("u", "with_skelly", 1), run("u", "without_skelly", 2)]
    found = drawn(runs).successes
    assert found.task_count == 2
    task = next(task for task in found.tasks if task.task_id == "t")
    assert (task.candidate, task.baseline, task.gained, task.lost) == (0.8, 0.6, 2, 1)
    unpaired = next(task for task in found.tasks if task.task_id == "u")
    assert (unpaired.gained, unpaired.lost) == (0, 0)


def test_tasks_stand_from_the_largest_rise_to_the_largest_drop() -> None:
    runs = [*both("same"), *both("higher"), *both("lower")]
    runs[3]["success"] = False
    runs[4]["success"] = False
    assert [task.task_id for task in drawn(runs).successes.tasks] == ["higher", "same", "lower"]


def test_a_spread_has_quartiles_of_what_is_above_zero() -> None:
    runs = [one for repeat in range(1, 7) for one in both("t", repeat, total_cost_usd=repeat - 1)]
    cost = drawn(runs).spreads[-1].candidate
    assert cost is not None
    assert (cost.runs, cost.not_positive, cost.quartiles) == (6, 1, (2.0, 3.0, 4.0))
    assert cost.points == (1.0, 2.0, 3.0, 4.0, 5.0)


def test_the_cost_of_a_task_stands_beside_its_success() -> None:
    runs = [*both("t", 1, total_cost_usd=1), *both("t", 2, total_cost_usd=3, success=False)]
    ours, theirs = drawn(runs).costs
    assert (ours.candidate, ours.median_cost_usd, ours.success_rate) == (True, 2.0, 0.5)
    assert theirs.candidate is False


def test_a_few_starts_are_drawn_one_by_one() -> None:
    runs = [
        run("t", "with_skelly", 1, started_at_utc="1970-01-01T00:01:00Z"),
        run("t", "with_skelly", 2, started_at_utc="1970-01-01T00:00:30+00:00"),
        run("t", "without_skelly", 1, started_at_utc="1970-01-01T00:00:10"),
        run("t", "without_skelly", 2),
    ]
    found = drawn(runs).starts
    assert [(start.at, start.runs, start.task_id) for start in found.candidate] == [
        (30.0, 1, "t"),
        (60.0, 1, "t"),
    ]
    assert [start.at for start in found.baseline] == [10.0]
    assert (found.timed, found.untimed) == (3, 1)
    unread = drawn(runs, evidence=False).starts
    assert (unread.timed, unread.untimed, unread.candidate) == (0, 4, ())


def test_many_starts_are_counted_by_stretches() -> None:
    repeats = MOST_STARTS // 2 + 1
    runs = [
        run("t", arm, repeat, started_at_utc=f"1970-01-01T00:{repeat // 60:02}:{repeat % 60:02}Z")
        for repeat in range(1, repeats + 1)
        for arm in ("with_skelly", "without_skelly")
    ]
    found = drawn(runs).starts
    assert found.timed == 2 * repeats
    for starts in (found.candidate, found.baseline):
        assert len(starts) <= STRETCHES
        assert sum(start.runs for start in starts) == repeats
        assert starts[0].at == 1.0
        assert math.isclose(starts[-1].until, repeats)
    same = [{**one, "started_at_utc": "1970-01-01T00:00:05Z"} for one in runs]
    (only,) = drawn(same).starts.candidate
    assert (only.at, only.runs) == (5.0, repeats)


def test_what_is_drawn_has_a_limit() -> None:
    tasks = 600
    runs = [
        one
        for task in range(tasks)
        for repeat in range(1, 6)
        for one in two(f"t{task:04}", repeat, 100.0 + task, 100.0 + repeat)
    ]
    found = drawn(runs, evidence=False)
    for metric in found.deltas:
        assert (len(metric.tasks), metric.task_count) == (500, tasks)
        assert all(len(task.points) <= 3 for task in metric.tasks)
    duration = found.deltas[0]
    assert (duration.tasks[0].task_id, duration.tasks[-1].task_id) == ("t0000", f"t{tasks - 1:04}")
    assert (duration.tasks[0].points[0], duration.tasks[0].points[-1]) == (-5.0, -1.0)
    assert len(found.successes.tasks) == 500
    assert len(found.costs) == 1000
    spread = found.spreads[0].candidate
    assert spread is not None
    assert len(spread.points) == 200
    assert (spread.points[0], spread.points[-1]) == (100.0, 99.0 + tasks)


def test_every_pair_is_drawn_while_there_are_few() -> None:
    runs = [one for repeat in range(1, 101) for one in two("t", repeat, repeat, 0)]
    assert drawn(runs).deltas[0].tasks[0].points == tuple(float(i) for i in range(1, 101))


@pytest.mark.parametrize("tasks", [MOST_TASKS, MOST_TASKS + 1, 3 * MOST_TASKS])
def test_thinned_tasks_keep_their_order_and_both_ends(tasks: int) -> None:
    runs = [one for task in range(tasks) for one in two(f"t{task:05}", 1, 10.0 + task, 10.0)]
    duration = drawn(runs, evidence=False).deltas[0]
    assert [task.task_id for task in duration.tasks] == [
        f"t{round(i * (tasks - 1) / (MOST_TASKS - 1)):05}" for i in range(MOST_TASKS)
    ]
    assert duration.task_count == tasks


def test_points_are_gathered_for_a_page_and_not_for_the_file() -> None:
    report = twoarm.score(both())
    assert "comparison" not in report.to_dict()
    assert report.to_dict().keys() == set(twoarm.Analysis.__struct_fields__)
