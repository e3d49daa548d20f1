"""Dollars and minutes per solved task: worked by hand, left out by brute force, and withheld."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import twoarm
from benchmarks.per_solved import SOLVED, intervals, sets_of, tasks_of
from tests.conftest import WITH, WITHOUT, run
from tests.support.effect_runs import evidence, messages, suite, withheld
from twoarm.evidence.interval import Frame
from twoarm.evidence.per_solved import Solving, arm_estimate, ratio_estimate
from twoarm.evidence.results import ArmsPerSolved, Estimate, Interval

Cells = list[list[tuple[float, bool]]]
FRAME = Frame(level=0.95, tests=0.95, seed=1, resamples=999)


def records(*arms: Cells) -> list[dict[str, Any]]:
    """Runs of both arms from what each took, in dollars, and whether it succeeded."""
    return [
        run(
            f"t{task:02d}",
            arm,
            repeat,
            total_cost_usd=took,
            duration_seconds=60.0 * took,
            success=solved,
        )
        for arm, cells in zip((WITH, WITHOUT), arms, strict=True)
        for task, each in enumerate(cells)
        for repeat, (took, solved) in enumerate(each, 1)
    ]


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


# Eight tasks; the candidate takes less of most, and fails a little more.
THEIRS: Cells = [
    [(size, True), (size + 0.7, task % 3 > 0), (size * 1.5, True)]
    for task, size in enumerate((1.0, 2.0, 1.5, 4.0, 3.0, 2.5, 9.0, 1.2))
]
OURS: Cells = [
    [(took * (0.7 + 0.05 * task), solved and repeat != task % 4) for repeat, (took, solved) in cell]
    for task, cell in enumerate(list(enumerate(cells)) for cells in THEIRS)
]


def figure(cells: Cells) -> float:
    return sum(took for cell in cells for took, _ in cell) / sum(
        solved for cell in cells for _, solved in cell
    )


def without(cells: Cells, task: int) -> Cells:
    return cells[:task] + cells[task + 1 :]


def jackknife(of: Callable[[int | None], float]) -> float:
    """The variance of a logarithm, from each of eight tasks really left out."""
    logs = [math.log(of(task)) for task in range(8)]
    middle = sum(logs) / 8
    return 7 / 8 * sum((value - middle) ** 2 for value in logs)


def share_of_tasks(cells: Cells) -> list[float]:
    totals = [sum(took for took, _ in cell) for cell in cells]
    return [each / sum(totals) for each in totals]


def test_all_that_was_taken_over_all_that_was_solved() -> None:
    per_solved = evidence(records(OURS, THEIRS)).per_solved
    assert per_solved.cost_usd.candidate.estimate == pytest.approx(figure(OURS))
    assert per_solved.cost_usd.baseline.estimate == pytest.approx(figure(THEIRS))
    assert per_solved.cost_usd.ratio.estimate == pytest.approx(figure(OURS) / figure(THEIRS))
    assert per_solved.cost_usd.tasks == 8
    assert per_solved.duration_minutes.candidate.estimate == pytest.approx(figure(OURS))
    by_hand = (1.0 + 2.0 + 6.0 + 4.0) / 3
    runs = records([[(1.0, True), (2.0, False), (6.0, True)], [(4.0, True)]], [[(1.0, True)]])
    assert evidence(runs).per_solved.cost_usd.candidate.estimate == pytest.approx(by_hand)


def test_the_ratio_leaves_a_task_out_of_both_arms_at_a_time() -> None:
    def ratio(task: int | None) -> float:
        arms = (OURS, THEIRS) if task is None else (without(OURS, task), without(THEIRS, task))
        return figure(arms[0]) / figure(arms[1])

    weights = [
        sum(pair) / 2 for pair in zip(share_of_tasks(OURS), share_of_tasks(THEIRS), strict=True)
    ]
    df = 1 / sum(weight**2 for weight in weights) - 1
    reach = stats.t(df).ppf(0.975) * math.sqrt(jackknife(ratio))
    estimate = evidence(records(OURS, THEIRS)).per_solved.cost_usd.ratio
    expected = ratio(None) * math.exp(-reach), ratio(None) * math.exp(reach)
    assert ends(estimate.tasks_like_these) == pytest.approx(expected)


def test_an_arm_reaches_further_up_than_down() -> None:
    weights = share_of_tasks(OURS)
    df = 1 / sum(weight**2 for weight in weights) - 1
    variance = jackknife(lambda task: figure(OURS if task is None else without(OURS, task)))
    reach = stats.t(df).ppf(0.975) * math.sqrt(variance)
    totals = [sum(took for took, _ in cell) for cell in OURS]
    further = stats.t(7).ppf(0.975) ** 2 * np.var(totals, ddof=1) / np.mean(totals) ** 2 / 8
    estimate = evidence(records(OURS, THEIRS)).per_solved.cost_usd.candidate
    expected = figure(OURS) * math.exp(-reach), figure(OURS) * math.exp(reach + further)
    assert ends(estimate.tasks_like_these) == pytest.approx(expected)


def inside(cells: Cells) -> tuple[list[float], list[int]]:
    """What each task adds to the variance of the logarithm, inside it, and its freedom."""
    total, solved = (sum(run[column] for cell in cells for run in cell) for column in (0, 1))
    away = [[took / total - won / solved for took, won in cell] for cell in cells]
    return [len(each) * float(np.var(each, ddof=1)) for each in away], [2] * len(cells)


def welch(parts: list[float], freedom: list[int]) -> tuple[float, float]:
    """A variance and the quantile of its t, by Satterthwaite."""
    variance = sum(parts)
    df = variance**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True))
    return variance, float(stats.t(df).ppf(0.975))


def test_the_ratio_on_these_tasks_is_welchs() -> None:
    ours, theirs = inside(OURS), inside(THEIRS)
    variance, quantile = welch(ours[0] + theirs[0], ours[1] + theirs[1])
    ratio, reach = figure(OURS) / figure(THEIRS), quantile * math.sqrt(variance)
    estimate = evidence(records(OURS, THEIRS)).per_solved.cost_usd.ratio
    expected = ratio * math.exp(-reach), ratio * math.exp(reach)
    assert ends(estimate.these_tasks) == pytest.approx(expected)


@pytest.mark.parametrize("steady", [(6,), (0, 1, 2, 7)])
def test_a_large_task_may_be_as_noisy_as_small_ones(steady: tuple[int, ...]) -> None:
    """Task 6 is the largest: if it is steady, the others say that it may not stay so."""
    cells = [
        [(cell[0][0], won) for _, won in cell] if task in steady else cell
        for task, cell in enumerate(OURS)
    ]
    variance, quantile = welch(*inside(cells))
    total = sum(took for cell in cells for took, _ in cell)
    values = [[took for took, _ in cell] for cell in cells]
    relative = [np.var(each, ddof=1) / np.mean(each) ** 2 for each in values]
    squares = [(sum(each) / total) ** 2 / 3 for each in values]
    own = sum(square * each for square, each in zip(squares, relative, strict=True))
    alike = sum(squares) * np.mean(relative)
    assert (alike > own) == (steady == (6,))
    reach = quantile * math.sqrt(variance + max(0.0, alike - own))
    expected = (
        figure(cells) * math.exp(-reach),
        figure(cells) * math.exp(reach + stats.t(16).ppf(0.975) ** 2 * max(own, alike)),
    )
    estimate = evidence(records(cells, THEIRS)).per_solved.cost_usd.candidate
    assert ends(estimate.these_tasks) == pytest.approx(expected)


def test_only_runs_with_a_cost_count_above_and_below_the_line() -> None:
    runs = records(OURS, THEIRS)
    for record in runs:
        if record["repeat"] == 1:
            record["total_cost_usd"] = None
    per_solved = evidence(runs).per_solved
    rest = [cell[1:] for cell in OURS]
    assert per_solved.cost_usd.candidate.estimate == pytest.approx(figure(rest))
    assert per_solved.duration_minutes.candidate.estimate == pytest.approx(figure(OURS))


def test_the_ratio_is_of_the_tasks_that_both_arms_have() -> None:
    per_solved = evidence(records([*OURS, [(50.0, True)] * 3], THEIRS)).per_solved.cost_usd
    assert per_solved.candidate.estimate == pytest.approx(figure([*OURS, [(50.0, True)] * 3]))
    assert per_solved.tasks == 8
    assert per_solved.ratio.estimate == pytest.approx(figure(OURS) / figure(THEIRS))
    for interval in (per_solved.ratio.these_tasks, per_solved.ratio.tasks_like_these):
        assert interval is not None
        assert interval.caveats == ("On the 8 tasks that both arms have.",)


def test_runs_made_once_borrow_their_noise() -> None:
    cells = [[(1.0, True), (2.0, True), (6.0, True)], [(4.0, True)], [(5.0, True)]]
    ratio = evidence(records(cells, cells)).per_solved.cost_usd.ratio
    squares = sum((took - 3) ** 2 for took in (1.0, 2.0, 6.0)) / 18**2
    variance = 3 * squares / 2 + 2 * squares / 2
    reach = stats.t(4).ppf(0.975) * math.sqrt(2 * variance)
    assert ends(ratio.these_tasks)[1] == pytest.approx(math.exp(reach))
    assert ratio.these_tasks is not None
    assert ratio.these_tasks.caveats == (
        "2 of 3 tasks with a single run: their run-to-run noise is borrowed from the others.",
    )


def solving(tasks: int, repeats: int, solved: set[tuple[int, int]], noise: float = 0.3) -> Solving:
    """So many tasks, of which these repeats were solved."""
    took = [
        1.0 + task ** (1.0 + noise) + noise * repeat
        for task in range(tasks)
        for repeat in range(repeats)
    ]
    won = [(task, repeat) in solved for task in range(tasks) for repeat in range(repeats)]
    return Solving(
        took=np.array(took), solved=np.array(won, float), starts=np.arange(tasks + 1) * repeats
    )


ALL = {(task, repeat) for task in range(8) for repeat in range(3)}
THREE = {(0, 0), (3, 1), (5, 2)}


@pytest.mark.parametrize(
    ("tasks", "repeats", "solved", "reasons"),
    [
        (8, 3, ALL, []),
        (6, 3, ALL, []),
        (8, 3, THREE, []),
        (5, 3, ALL, ["5 tasks: too few for an interval over other tasks; it takes 6."]),
        (8, 3, {(0, 0), (0, 1), (3, 1)}, ["No interval: 2 tasks solved; it takes 3."]),
        (
            8,
            3,
            {(0, 0), (3, 1)},
            ["No interval: 2 runs solved; it takes 3.", "No interval: 2 tasks solved; it takes 3."],
        ),
        (
            8,
            1,
            ALL,
            ["One repeat: run-to-run noise cannot be told from task differences."],
        ),
        (8, 3, set(), ["No figure: nothing solved."]),
    ],
)
def test_what_is_not_supported_is_withheld(
    tasks: int, repeats: int, solved: set[tuple[int, int]], reasons: list[str]
) -> None:
    side, other = solving(tasks, repeats, solved), solving(tasks, repeats, ALL, 0.2)
    assert messages(arm_estimate(side, FRAME)) == reasons
    assert messages(ratio_estimate((side, other), (), FRAME)) == reasons
    assert messages(ratio_estimate((other, side), (), FRAME)) == reasons


def test_two_tasks_compare_the_arms_and_do_not_tell_how_far_a_rare_run_goes() -> None:
    side, other = solving(2, 3, ALL), solving(2, 3, ALL, 0.2)
    alone, ratio = arm_estimate(side, FRAME), ratio_estimate((side, other), (), FRAME)
    assert withheld(alone) == [
        ("too_few_tasks", "these_tasks"),
        ("too_few_tasks", "tasks_like_these"),
    ]
    assert messages(alone)[0] == "No interval: 2 tasks; it takes 3."
    assert withheld(ratio) == [("too_few_tasks", "tasks_like_these")]


@pytest.mark.parametrize(("large", "withholds"), [(12.0, False), (30.0, True)])
def test_one_task_that_takes_most_of_it_is_not_a_sample(large: float, withholds: bool) -> None:
    """Of eight tasks, one takes so much and seven take 1 each: as even as 2 tasks at 16.2."""
    cells = [[(1.0, True), (1.1, True), (0.9, True)]] * 7 + [[(large, True)] * 3]
    cost = evidence(records(cells, THEIRS)).per_solved.cost_usd
    for estimate in (cost.candidate, cost.ratio):
        expected = [("one_large_task", "tasks_like_these")] if withholds else []
        assert withheld(estimate) == expected


def test_what_never_varies_has_no_interval() -> None:
    same = [[(2.0, True)] * 3] * 8
    cost = evidence(records(same, same)).per_solved.cost_usd
    for estimate in (cost.candidate, cost.baseline, cost.ratio):
        assert withheld(estimate) == [
            ("identical_repeats", "these_tasks"),
            ("identical_tasks", "tasks_like_these"),
        ]


def test_what_costs_nothing_is_free_and_not_unknown() -> None:
    free: Cells = [[(0.0, solved) for _, solved in cell] for cell in OURS]
    cost = evidence(records(free, THEIRS)).per_solved.cost_usd
    assert cost.candidate.estimate == 0.0
    assert cost.ratio.estimate is None
    for estimate in (cost.candidate, cost.ratio):
        assert messages(estimate) == ["No interval: it is zero in every run of an arm."]


def test_repeats_that_differ_in_number_alone_are_no_variation() -> None:
    cells = [[(2.0, True)] * (4 if task % 2 else 3) for task in range(8)]
    cost = evidence(records(cells, cells)).per_solved.cost_usd.candidate
    assert withheld(cost)[1] == ("identical_tasks", "tasks_like_these")


def test_what_one_arm_did_not_measure_has_no_figure() -> None:
    runs = suite(6, 3)
    for record in runs:
        if record["arm"] == WITH:
            record["total_cost_usd"] = None
    cost = evidence(runs).per_solved.cost_usd
    assert cost.candidate.estimate is None
    assert messages(cost.candidate) == ["No figure: nothing measured."]
    assert cost.baseline.estimate is not None
    assert messages(cost.ratio) == ["No task has this metric in both arms."]


def test_a_figure_without_what_failed_runs_took_is_withheld() -> None:
    """Ten tasks of six runs in each arm; two of six fail."""
    cells = [[(2.0 + repeat, repeat > 1) for repeat in range(6)] for _ in range(10)]

    def without(success: bool, lost: int) -> ArmsPerSolved:
        runs = records(cells, cells)
        those = [run for run in runs if run["arm"] == WITH and run["success"] == success]
        for record in those[:lost]:
            record["total_cost_usd"] = None
        return evidence(runs).per_solved.cost_usd

    cost = without(success=False, lost=8)
    assert messages(cost.candidate) == ["No figure: 8 of 20 failed runs not measured."]
    assert (cost.candidate.estimate, cost.ratio.estimate) == (None, None)
    assert cost.baseline.estimate is not None
    # A few may be chance, and what solved runs took is in the figure anyway.
    assert without(success=False, lost=2).candidate.estimate is not None
    assert without(success=True, lost=30).candidate.estimate is not None


@pytest.mark.parametrize("took", [1e-300, 1e13])
def test_one_task_that_takes_nearly_everything_gives_no_nonsense(took: float) -> None:
    cells = [[(took if task else 1.0, True)] * 2 + [(took / 2, True)] for task in range(8)]
    for estimate in _all(evidence(records(cells, THEIRS)).per_solved.cost_usd.ratio):
        assert 0.0 < estimate.low < estimate.high < math.inf


def _all(estimate: Estimate) -> list[Interval]:
    return [each for each in (estimate.these_tasks, estimate.tasks_like_these) if each is not None]


@pytest.mark.parametrize("name", SOLVED)
@pytest.mark.parametrize(("tasks", "repeats"), [(5, 3), (8, 3), (12, 5)])
def test_the_simulation_computes_what_a_score_does(name: str, tasks: int, repeats: int) -> None:
    kind, draw, count = SOLVED[name], np.random.default_rng(5), 3
    sets = sets_of(kind, tasks_of(kind, (count, tasks), draw), repeats, draw)
    simulated = intervals(sets)
    for number in range(count):
        arms = [
            [
                list(zip(took[made].tolist(), (solved[made] > 0.0).tolist(), strict=True))
                for took, solved, made in zip(
                    *(values[number, arm] for values in sets), strict=True
                )
            ]
            for arm in (0, 1)
        ]
        cost = evidence(records(*arms)).per_solved.cost_usd
        for row, (lows, highs) in simulated.items():
            label, _, scope = row.removeprefix("per solved, ").partition(" ")
            estimate: Estimate = getattr(cost, label)
            interval = estimate.these_tasks if scope == "(a)" else estimate.tasks_like_these
            expected = math.exp(lows[number]), math.exp(highs[number])
            if math.isnan(expected[0]):
                assert interval is None
            else:
                assert ends(interval) == pytest.approx(expected, rel=1e-9)


def test_dying_at_once_makes_nobody_cheaper() -> None:
    """Half of the candidate's runs die at once: cheaper by the median, not per solved task."""
    runs = suite(12, 6, effect=1.0, pass_rate=1.0)
    for record in runs:
        if record["arm"] == WITH and record["repeat"] % 2:
            record |= {"success": False, "total_cost_usd": 0.01, "duration_seconds": 1.0}
    report = twoarm.score(runs)
    assert report.evidence is not None
    ours, theirs = (summary.median_cost_usd or 0.0 for summary in report.arm_summaries)
    assert ours < theirs / 2
    ratio = report.evidence.per_solved.cost_usd.ratio
    assert ratio.estimate is not None
    assert 0.9 < ratio.estimate < 1.2
    assert ratio.tasks_like_these is not None
    assert ratio.tasks_like_these.low < 1.0 < ratio.tasks_like_these.high
