"""Planned looks: spending by relabelling, what runs must have for them, and what reports say."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import twoarm
from tests.result.test_tested import scored, study
from twoarm.errors import UsageError
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.looks import (
    can_be_clear,
    clear_at,
    exchanged_labels,
    flipped_tasks,
    spending,
    won_at,
)
from twoarm.evidence.relabel import signs_of_tasks
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import DURATION

LOOKS = (3, 5, 10)


def runs_at(
    repeats: int, *, tasks: int = 8, faster: float = 1.0, failing: bool = False, **more: Any
) -> list[dict[str, Any]]:
    """Runs of both arms, the same at every look but for those that came later."""
    draw = np.random.default_rng(5)
    noise = np.exp(0.2 * draw.normal(size=(2, 40, 10)))
    found = []
    for task, repeat, (arm, factor) in itertools.product(
        range(tasks), range(repeats), enumerate((faster, 1.0))
    ):
        value = float(noise[arm, task, repeat]) * factor
        found.append(
            {
                "task_id": f"t{task}",
                "arm": ("with_x", "without_x")[arm],
                "repeat": repeat + 1,
                "success": not (failing and arm == 0 and repeat % 2),
                "duration_seconds": 100 * value,
                "total_cost_usd": 0.1 * value,
                "input_tokens": 1000 * value,
                "output_tokens": 10,
                "cache_read_tokens": 0,
                "cache_write_tokens": 0,
                **more,
            }
        )
    return found


def test_what_may_be_spent_is_lan_and_demets() -> None:
    for repeats in range(1, 11):
        bound = stats.norm.ppf(0.975) / math.sqrt(repeats / 10)
        assert spending(repeats, 10, 0.95) == pytest.approx(2 - 2 * stats.norm.cdf(bound))
    assert spending(10, 10, 0.95) == pytest.approx(0.05)


def brute_won(deltas: list[Floats], shares: list[float], together: tuple[int, ...]) -> int | None:
    """From the definition: patterns in a list, used up one by one from the largest on."""
    tasks = deltas[0].shape[1]
    left = list(itertools.product((1, -1), repeat=tasks - 1))
    total, spent = len(left), 0
    for look, (found, share) in enumerate(zip(deltas, shares, strict=True)):
        scores = {}
        for pattern in left:
            signed = np.array((1, *pattern))
            scores[pattern] = max(
                abs(float((signed * found[m]).sum())) / math.sqrt(float((found[m] ** 2).sum()))
                for m in together
            )
        ranked = sorted(left, key=lambda one: -scores[one])
        room = math.floor(share * total + 1e-9) - spent
        while (
            room > 0
            and len(ranked) > room
            and math.isclose(scores[ranked[room - 1]], scores[ranked[room]], rel_tol=1e-9)
        ):
            room -= 1
        winners = ranked[: max(room, 0)]
        if tuple([1] * (tasks - 1)) in winners:
            return look
        spent += len(winners)
        left = [one for one in left if one not in winners]
    return None


@pytest.mark.parametrize("seed", range(12))
def test_spending_by_brute_force(seed: int) -> None:
    draw = np.random.default_rng(seed)
    effect = 0.4 * draw.random()
    deltas = [draw.normal(effect, 0.5, (3, 7)) for _ in range(3)]
    shares = [0.1, 0.25, 0.5]
    statistics = flipped_tasks(deltas, 1)
    won = {
        together: brute_won(deltas, shares, together)
        for size in (1, 2, 3)
        for together in itertools.combinations(range(3), size)
    }
    for together, look in won.items():
        assert won_at(statistics, shares, list(together)) == look
    expected = {}
    for metric in range(3):
        looks = [look for together, look in won.items() if metric in together]
        if None not in looks:
            expected[metric] = max(look for look in looks if look is not None)
    assert clear_at(statistics, shares, range(3), None) == expected


@pytest.mark.parametrize("candidates", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("tasks", [6, 7, 8, 9])
def test_whether_anything_can_be_clear_by_brute_force(tasks: int, candidates: int) -> None:
    # Nothing is larger than one difference that is in every task, and no two patterns tie.
    deltas = [1.0 + np.array([[math.sqrt(task + 2) for task in range(tasks)]])]
    won = brute_won(deltas, [0.05 / candidates], (0,)) is not None
    assert can_be_clear(tasks, 0.95, candidates) == won


def test_labels_that_are_drawn_leave_room_for_many_candidates() -> None:
    for tasks in (2, 5, 100):
        assert can_be_clear(tasks, 0.95, 400)
        assert not can_be_clear(tasks, 0.95, 500)


def test_the_metric_named_first_spends_alone_and_the_others_wait_for_it() -> None:
    strong, weak = np.full(8, 1.0), np.array([1.0, -1.1, 1, -1, 1, -1, 1, -1])
    later = np.full(8, 0.5)
    deltas = [np.array([weak, strong]), np.array([later, strong])]
    statistics, shares = flipped_tasks(deltas, 1), [0.02, 0.05]
    assert clear_at(statistics, shares, [0, 1], 0) == {0: 1, 1: 1}
    assert clear_at(statistics, shares, [0, 1], 1) == {1: 0, 0: 1}
    assert clear_at(flipped_tasks(deltas[:1], 1), shares[:1], [0, 1], 0) == {}


@pytest.mark.parametrize("seed", range(8))
def test_one_look_at_the_end_is_the_test_without_looks(seed: int) -> None:
    deltas = np.random.default_rng(seed).normal(0.3, 0.5, (3, 9))
    adjusted = signs_of_tasks(deltas, 1).adjusted(range(3))
    clear = clear_at(flipped_tasks([deltas], 1), [0.05], range(3), None)
    assert set(clear) == {metric for metric, p in adjusted.items() if p <= 0.05}


def test_labels_are_exchanged_among_the_repeats_of_a_block_only() -> None:
    """The first block of each task is far above the second, in both arms: mixing the two would
    make any difference look like noise."""
    tasks, repeats = 3, 4
    layout = Layout(tasks=np.arange(tasks), sizes=np.full((2, tasks), repeats))
    rank = np.tile(np.arange(repeats), 2 * tasks)
    draw = np.random.default_rng(1)
    values = np.where(rank < 2, 1000.0, 0.0) + draw.normal(0, 1, layout.rows)
    values[layout.cell % 2 == 0] += 5.0
    runs = TaskRuns(metric=DURATION, logs=False, values=values, layout=layout)
    block = (rank >= 2).astype(np.int64)
    apart = exchanged_labels([runs], block, 1)
    assert won_at(apart, [0.01, 0.05], [0]) is not None
    together = exchanged_labels([runs], np.zeros_like(block), 1)
    assert won_at(together, [0.05], [0]) is None


def test_a_verdict_at_a_look_and_its_wider_intervals() -> None:
    early = twoarm.score(runs_at(3, faster=0.4), looks=LOOKS, promote_by="evidence")
    assert early.evidence is not None
    assert early.evidence.looks is not None
    assert (early.evidence.looks.after, early.evidence.looks.stop) == (3, None)
    assert early.evidence.level == pytest.approx(1 - spending(3, 10, 0.95))
    middle = twoarm.look(runs_at(5, tasks=12, faster=0.4), looks=LOOKS)
    assert middle.stop == "candidate better"
    assert middle.clear["duration_seconds"] == 5
    last = twoarm.score(runs_at(10, faster=0.4), looks=LOOKS).evidence
    assert last is not None
    assert last.looks is not None
    assert 0.95 < last.level < 0.97
    assert last.looks.stop is None
    assert last.grade.verdict == "candidate better"


def test_nobody_stops_for_a_candidate_that_fails_fast() -> None:
    found = twoarm.look(runs_at(5, tasks=12, faster=0.4, failing=True), looks=LOOKS)
    assert found.clear
    assert found.stop is None
    some = [
        run | {"success": run["arm"] != "with_x" or run["task_id"] > "t2" or run["repeat"] % 2 == 0}
        for run in runs_at(5, tasks=12, faster=0.4)
    ]
    report = twoarm.score(some, looks=LOOKS)
    assert report.evidence is not None
    assert report.evidence.grade.verdict == "candidate better"
    assert twoarm.look(some, looks=LOOKS).stop is None
    assert twoarm.look(some, looks=LOOKS, guard="none").stop == "candidate better"
    worse = twoarm.look(runs_at(5, tasks=12, faster=2.5), looks=LOOKS)
    assert worse.stop == "baseline better"


def test_a_better_candidate_stops_nothing_before_it_could_be_promoted() -> None:
    early = twoarm.score(runs_at(4, tasks=12, faster=0.4), looks=(4, 5, 6), promote_by="evidence")
    assert early.evidence is not None
    assert early.evidence.looks is not None
    assert early.evidence.grade.verdict == "candidate better"
    assert early.promotion.verdict == "not enough data"
    assert (early.evidence.looks.stop, early.evidence.looks.saved_runs) == (None, 0)
    for by in ("gates", "evidence", "margin"):
        looks = twoarm.look(runs_at(5, tasks=12, faster=0.4), looks=(4, 5, 6), promote_by=by)
        assert looks.stop == "candidate better"
        assert (looks.planned_runs, looks.saved_runs, looks.stopped) == (144, 24, None)
    worse = twoarm.look(runs_at(4, tasks=12, faster=2.5), looks=(4, 5, 6))
    assert (worse.stop, worse.saved_runs) == ("baseline better", 48)


@pytest.mark.parametrize(
    ("baseline", "said"),
    [
        ("without_x", ("do not promote", None, "futility", 400, 90)),
        # What it says of another baseline is another matter.
        ("other", ("promote", "candidate better", None, 144, 24)),
    ],
)
def test_why_a_run_ended_is_what_its_folder_says(baseline: str, said: tuple[Any, ...]) -> None:
    ended: Any = {"stopped": {"with_x": "futility"}, "planned_runs": 400, "saved_runs": 90}
    report = scored(
        runs_at(5, tasks=12, faster=0.4),
        study(baseline=baseline, **ended),
        looks=(4, 5, 6),
        promote_by="evidence",
        candidate="with_x",
        baseline="without_x",
    )
    assert report.evidence is not None
    looks = report.evidence.looks
    assert looks is not None
    found = looks.stop, looks.stopped, looks.planned_runs, looks.saved_runs
    assert (report.promotion.verdict, *found) == said


def test_a_repeat_that_was_lost_as_a_whole_leaves_the_look_what_it_is() -> None:
    runs = [run for run in runs_at(5, tasks=12, faster=0.4) if run["repeat"] != 2]
    looks = twoarm.look(runs, looks=LOOKS)
    assert (looks.after, looks.incomplete) == (5, 12)
    # The numbers alone are not asked: three repeats are three, whatever they are called.
    other = [dict(run, repeat=run["repeat"] * 10) for run in runs_at(3, tasks=12)]
    assert twoarm.look(other, looks=LOOKS).after == 3


def test_going_on_in_vain_is_said_and_does_not_bind() -> None:
    same = runs_at(5, tasks=20)
    report = twoarm.score(same, looks=(5, 10))
    assert report.evidence is not None
    assert report.evidence.looks is not None
    assert report.evidence.looks.stop == "futility"
    assert "not binding" in report.to_text()


def test_looks_that_do_not_match_the_runs_are_refused() -> None:
    with pytest.raises(UsageError, match="after 3, 5 and 10 repeats, but the runs have 4: run on"):
        twoarm.score(runs_at(4), looks=LOOKS)
    for looks in ((5, 3), (0, 5)):
        with pytest.raises(UsageError, match="rise"):
            twoarm.Options(looks=looks)
    with pytest.raises(UsageError, match="evidence, which is off"):
        twoarm.Options(looks=LOOKS, evidence=False)
    with pytest.raises(UsageError, match="^looks: say after which repeats"):
        twoarm.look(runs_at(5))


def test_records_that_declare_looks_are_judged_by_them() -> None:
    runs = runs_at(5, faster=0.4, planned_looks={"looks": [3, 5, 10]})
    assert twoarm.look(runs).after == 5
    with pytest.raises(UsageError, match="^looks: the records declare 3,5,10"):
        twoarm.score(runs, looks=(5, 10))
    ignored = twoarm.score(runs, ignore_looks=True)
    assert "looks_ignored" in [caveat.code for caveat in ignored.caveats]
    assert ignored.evidence is not None
    assert ignored.evidence.looks is None
    other = [dict(run, planned_looks={"looks": [5]}) for run in runs_at(5, tasks=1)]
    with pytest.raises(UsageError, match="declare different ones"):
        twoarm.score([*runs, *[dict(run, task_id="u") for run in other]])
    bad = json.dumps({**runs[0], "planned_looks": {"looks": "3"}})
    with pytest.raises(
        twoarm.BadRunsError, match=r'planned_looks: .* as \{"looks": \[3, 5, 10\]\}'
    ):
        twoarm.score([json.loads(bad)])


def test_what_else_a_record_says_of_its_looks_is_ignored() -> None:
    declared: list[Any] = [{"looks": [3, 5, 10]}, {"looks": [3, 5, 10], "r_max": 10}]
    runs = [
        dict(run, planned_looks=looks)
        for run, looks in zip(runs_at(5, faster=0.4), itertools.cycle(declared), strict=False)
    ]
    assert twoarm.look(runs).after == 5


def test_a_repeat_that_is_missing_at_a_look_is_a_caveat() -> None:
    runs = runs_at(5, faster=0.4)
    runs.remove(next(run for run in runs if run["task_id"] == "t3" and run["repeat"] == 2))
    report = twoarm.score(runs, looks=(5, 10))
    assert report.evidence is not None
    assert report.evidence.looks is not None
    assert report.evidence.looks.incomplete == 1
    (caveat,) = [one for one in report.caveats if one.code == "incomplete_look"]
    assert caveat.message.startswith("1 task with fewer than 5 counted repeats in an arm")
