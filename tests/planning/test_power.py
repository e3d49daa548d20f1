"""Power before the runs: held against other formulas, other code, and brute force."""

import math
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from tests.support.pilots import task_runs_of
from twoarm.evidence.interval import Frame
from twoarm.evidence.pilot import Pilot, assumed_pilot, lacking, pilot_of
from twoarm.evidence.power import Aim, Design, Outlook, UnitCosts, shared_level
from twoarm.evidence.weigh import grade_of, headline_tests
from twoarm.planning import trials
from twoarm.planning.planner import Planner
from twoarm.planning.trials import trial_power
from twoarm.runs.metric import COST, DURATION, JUDGED, NON_CACHE_TOKENS, SUCCESS, TOKENS, Metric

FASTER = math.log(0.8)


def outlook(
    metric: Metric = DURATION,
    *,
    spread: float = 0.45,
    task_spread: float = 0.2,
    change: float = FASTER,
    first: bool = False,
    have: tuple[int, int] = (0, 0),
) -> Outlook:
    pilot = assumed_pilot(metric, spread, task_spread)
    pilot = msgspec.structs.replace(pilot, tasks=have[0], repeats=have[1])
    return Outlook(pilot=pilot, aim=Aim(change=change, alpha=0.05, power=0.8, first=first))


@pytest.mark.parametrize(("tasks", "repeats"), [(6, 5), (12, 3), (25, 10), (60, 5)])
def test_power_over_tasks_is_the_tail_of_the_noncentral_t(tasks: int, repeats: int) -> None:
    error = math.sqrt((0.2**2 + 2 * 0.45**2 / repeats) / tasks)
    bound = stats.t.ppf(0.975, tasks - 1)
    expected = stats.nct.sf(bound, tasks - 1, -FASTER / error)
    # Cost is no gate's metric: it is judged alone, by an interval.
    assert float(outlook(COST).power(tasks, repeats)) == pytest.approx(expected, abs=1e-9)


def test_power_on_these_very_tasks_has_the_freedom_of_their_runs() -> None:
    error = math.sqrt(2 * 0.45**2 / (5 * 4))
    bound = stats.t.ppf(0.975, 2 * 4 * (5 - 1))
    expected = stats.nct.sf(bound, 2 * 4 * (5 - 1), -FASTER / error)
    assert float(outlook(COST).power(4, 5)) == pytest.approx(expected, abs=1e-9)


def test_three_unrelated_metrics_share_the_level_and_alike_ones_do_not() -> None:
    unrelated = shared_level(np.eye(3).tobytes(), 3, 0.05)
    assert unrelated == pytest.approx(1 - 0.95 ** (1 / 3), abs=1e-6)
    assert shared_level(np.ones((3, 3)).tobytes(), 3, 0.05) == pytest.approx(0.05, abs=1e-3)


@pytest.mark.parametrize("share", [-0.6, 0.3, 0.8, 0.95])
def test_the_level_that_metrics_share_is_that_of_the_largest_of_correlated_normals(
    share: float,
) -> None:
    correlation = np.array([[1.0, 0.1, 0.2], [0.1, 1.0, share], [0.2, share, 1.0]])
    drawn = np.random.default_rng(1).multivariate_normal(np.zeros(3), correlation, 1_600_000)
    bound = np.quantile(np.abs(drawn).max(axis=1), 0.95)
    expected = 2 * stats.norm.sf(bound)
    assert shared_level(correlation.tobytes(), 3, 0.05) == pytest.approx(expected, rel=0.015)


def test_a_test_of_the_signs_of_few_tasks_has_a_level_in_steps() -> None:
    one_of_64 = outlook(change=math.log(0.5))
    error = math.sqrt((0.2**2 + 2 * 0.45**2 / 5) / 7)
    expected = stats.nct.sf(stats.t.ppf(1 - 1 / 128, 6), 6, math.log(2) / error)
    assert float(one_of_64.power(7, 5)) == pytest.approx(expected, abs=1e-9)
    # 2 of 64 patterns are more than a third of 5 %.
    assert float(one_of_64.power(6, 5)) == 0.0
    assert float(outlook(change=math.log(0.5), first=True).power(6, 5)) > 0.3


def test_naming_the_metric_first_keeps_the_whole_level() -> None:
    assert outlook(first=True).level == 0.05
    assert outlook().level < 0.02
    assert float(outlook(first=True).power(25, 5)) > float(outlook().power(25, 5)) + 0.05


def test_the_variances_of_a_pilot_by_hand() -> None:
    """Logs: 0 and 2 against 0 and 0 in one task, 1 and 1 against 3 and 5 in the other."""
    cells = [((0.0, 2.0), (0.0, 0.0)), ((1.0, 1.0), (3.0, 5.0))]
    logs = [(tuple(map(math.exp, ours)), tuple(map(math.exp, theirs))) for ours, theirs in cells]
    passes = task_runs_of(SUCCESS, [((1, 1), (1, 1))] * 2)
    tokens = task_runs_of(NON_CACHE_TOKENS, logs)
    found = pilot_of([passes, task_runs_of(DURATION, logs), tokens], DURATION)
    # Every arm has squares of 2 with 2 degrees of freedom; task differences are 1 and -3.
    assert found.run_variance[found.at] == pytest.approx(1.0 + 1.0)
    assert found.task_variance[found.at] == pytest.approx(8.0 - 1.0 / 2 - 1.0 / 2)
    assert (found.tasks, found.repeats, found.freedom, found.seen) == (2, 2, 4, 8.0)
    assert found.metrics == (DURATION, NON_CACHE_TOKENS), "success never differs: no test, no share"


def test_noise_alone_is_no_difference_between_tasks() -> None:
    cells = [((1.0, 9.0), (1.0, 9.0)), ((2.0, 8.0), (2.1, 8.0))]
    found = pilot_of([task_runs_of(metric, cells) for metric in _three()], DURATION)
    assert found.task_variance[found.at] == 0.0


def _three() -> tuple[Metric, ...]:
    return (SUCCESS, DURATION, NON_CACHE_TOKENS)


def test_the_upper_limits_are_those_of_chi_square() -> None:
    pilot = msgspec.structs.replace(
        assumed_pilot(COST, 0.3, 0.2), seen=0.09, tasks=8, repeats=5, freedom=8 * 2 * 4
    )
    above = pilot.with_upper_limits()
    between = 0.09 * 7 / stats.chi2.ppf(0.2, 7) - 2 * 0.3**2 / 5
    assert above.task_variance[0] == pytest.approx(between)
    assert above.run_variance[0] == pytest.approx(2 * 0.3**2 * 64 / stats.chi2.ppf(0.2, 64))
    passes = msgspec.structs.replace(pilot, metrics=(SUCCESS,))
    assert passes.with_upper_limits().run_variance[0] == above.run_variance[0]


@pytest.mark.parametrize(("start", "change"), [(3.5, -0.08), (0.5, 0.12), (1.5, -0.12)])
def test_the_closed_form_of_success_is_that_of_brute_force(start: float, change: float) -> None:
    """Runs pass by chance, every odds of a task moves by as much, and a t test is made of it."""
    draw = np.random.default_rng(7)
    rates = 1 / (1 + np.exp(-draw.normal(start, 1.0, 40_000)))
    shifts = np.linspace(-6, 6, 1201)
    odds = np.log(rates[:2000] / (1 - rates[:2000]))
    means = (1 / (1 + np.exp(-(odds[:, None] + shifts)))).mean(axis=0)
    shift = shifts[np.abs(means - rates[:2000].mean() - change).argmin()]
    after = 1 / (1 + np.exp(-(np.log(rates / (1 - rates)) + shift)))
    shares = [draw.binomial(5, chance) / 5 for chance in (after, rates)]
    deltas = (shares[0] - shares[1]).reshape(-1, 40)
    t = deltas.mean(axis=1) / (deltas.std(axis=1, ddof=1) / math.sqrt(40))
    clear = float((math.copysign(1, change) * t >= stats.t.ppf(0.975, 39)).mean())
    before = 2 * float((rates * (1 - rates)).mean())
    alone = msgspec.structs.replace(
        assumed_pilot(COST, 0.3, 0.0),
        metrics=(SUCCESS,),
        run_variance=np.array([before]),
        rates=rates[:2000],
    )
    planned = Outlook(pilot=alone, aim=Aim(change=change, alpha=0.05, power=0.8, first=False))
    assert 0.3 < clear < 0.95
    assert float(planned.power(40, 5)) == pytest.approx(clear, abs=0.05)


def test_the_pilots_tasks_keep_their_repeats_and_cost_nothing_more() -> None:
    found = outlook(have=(10, 8))
    assert int(found.pairs_to_add(np.array(14), np.array(5))) == 4 * 5
    assert int(found.pairs_to_add(np.array(14), np.array(9))) == 10 * 1 + 4 * 9
    expected = (0.2**2 + 2 * 0.45**2 * (10 / 8 + 4 / 5) / 14) / 14
    assert float(found.variance(np.array(14), np.array(5))) == pytest.approx(expected)


def test_what_is_detectable_is_detected_as_often_as_wanted() -> None:
    found = outlook()
    smallest = found.detectable(Design(tasks=20, repeats=5))
    assert float(found.power(20, 5, smallest)) == pytest.approx(0.8, abs=1e-6)
    assert float(found.power(20, 5, -smallest)) == pytest.approx(0.8, abs=1e-6)


def test_endless_repeats_leave_the_difference_between_tasks() -> None:
    found = outlook()
    assert found.endless_repeats(12) == pytest.approx(float(found.power(12, 10**7)), abs=1e-6)
    assert found.endless_repeats(11) < 0.8 < found.endless_repeats(12)
    assert outlook(task_spread=0.0).endless_repeats(12) == 1.0


def test_the_fewest_tasks_and_repeats_are_the_fewest() -> None:
    found = outlook()
    (tasks,) = found.tasks_for(5, 6).tolist()
    assert float(found.power(tasks - 1, 5)) < 0.8 <= float(found.power(tasks, 5))
    repeats = found.repeats_for(24)
    assert repeats is not None
    assert float(found.power(24, repeats - 1)) < 0.8 <= float(found.power(24, repeats))
    assert found.repeats_for(8) is None


@pytest.mark.parametrize(("task", "have"), [(0.0, (12, 10)), (3.0, (0, 0)), (20.0, (8, 5))])
def test_nothing_that_reaches_the_power_is_cheaper(task: float, have: tuple[int, int]) -> None:
    found, prices = outlook(have=have), UnitCosts(pair=0.5, task=task)
    best = found.cheapest(prices)
    assert best is not None
    repeats, tasks = np.meshgrid(np.arange(5, 41), np.arange(max(6, have[0]), 120))
    enough = found.power(tasks, repeats) >= 0.8
    costs = np.where(enough, found.cost(tasks, repeats, prices), np.inf)
    paid = float(found.cost(np.array(best.tasks), np.array(best.repeats), prices))
    assert paid == pytest.approx(float(costs.min()))


def test_a_task_with_a_price_is_worth_more_repeats() -> None:
    found = outlook()
    worth = found.best_repeats(UnitCosts(pair=0.5, task=8.0))
    assert worth == pytest.approx(math.sqrt(2 * 0.45**2 / 0.2**2 * 8.0 / 0.5))
    assert found.best_repeats(UnitCosts(pair=0.5, task=0.0)) is None


def test_a_budget_is_kept_and_well_spent() -> None:
    found, prices = outlook(have=(8, 5)), UnitCosts(pair=0.5, task=2.0)
    design = found.within(50.0, prices)
    paid = float(found.cost(np.array(design.tasks), np.array(design.repeats), prices))
    assert paid <= 50.0
    repeats, tasks = np.meshgrid(np.arange(5, 41), np.arange(8, 60))
    fits = found.cost(tasks, repeats, prices) <= 50.0
    most = float(np.where(fits, found.power(tasks, repeats), 0.0).max())
    assert float(found.power(design.tasks, design.repeats)) >= most - 1e-9
    assert found.within(0.0, prices) == Design(tasks=8, repeats=5)


# Trials -------------------------------------------------------------------------------------------


@cache
def suite_pilot() -> Pilot:
    """Of many tasks, with success that varies, and none of them used up."""
    draw = np.random.default_rng(2)
    effect, noise = 0.2 * draw.normal(size=400), 0.45 * draw.normal(size=(2, 400, 5))
    rates = 1 / (1 + np.exp(-draw.normal(1.5, 1.5, 400)))
    passed = draw.random((2, 400, 5)) < rates[:, None]
    logs = np.exp(noise + np.array([effect, 0 * effect])[:, :, None])
    runs = [
        task_runs_of(SUCCESS, list(zip(*passed.astype(float).tolist(), strict=True))),
        task_runs_of(DURATION, list(zip(*logs.tolist(), strict=True))),
        task_runs_of(NON_CACHE_TOKENS, list(zip(*logs[:, ::-1].tolist(), strict=True))),
    ]
    metrics = {one.metric: one for one in runs}
    found = pilot_of(runs, DURATION)
    assert set(metrics) == set(found.metrics)
    return msgspec.structs.replace(found, tasks=0, repeats=0)


def aimed(metric: Metric, change: float, *, first: bool = False) -> Outlook:
    pilot = suite_pilot()
    pilot = msgspec.structs.replace(pilot, at=pilot.metrics.index(metric))
    return Outlook(pilot=pilot, aim=Aim(change=change, alpha=0.05, power=0.8, first=first))


FRAME = Frame(level=0.95, tests=0.95, seed=1, resamples=999)


def real_standing(deltas: Any, metric: Metric, primary: str | None) -> str:
    """What the verdict itself says of task differences: runs of one repeat that have them."""
    columns = {}
    for place, one in enumerate(suite_pilot().metrics):
        columns[one] = task_runs_of(SUCCESS, [((value,), (0.0,)) for value in deltas[place]])
    other = task_runs_of(SUCCESS, [((0.0,), (0.0,))] * deltas.shape[1])
    runs = [msgspec.structs.replace(columns.get(one, other), metric=one) for one in JUDGED]
    grade = grade_of(runs, headline_tests(runs, FRAME, primary), primary, FRAME)
    return next(one.standing for one in grade.findings if one.metric == metric.name)


@pytest.mark.parametrize("tasks", [6, 7, 13])
@pytest.mark.parametrize("first", [False, True])
def test_a_trial_is_judged_as_the_verdict_judges(
    tasks: int, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "TRIALS", 40)
    change = math.log(0.6 if tasks < 10 else 0.75)
    found = aimed(DURATION, change, first=first)
    design = Design(tasks=tasks, repeats=5)
    drawn = trials._deltas(found.pilot, design, change, trials._Seed(1, 200, tasks), 40)
    primary = "duration" if first else None
    clear = [real_standing(one, DURATION, primary) == "better" for one in drawn]
    assert 0 < sum(clear) < 40
    assert trial_power(found, design, 1) == sum(clear) / 40


def test_power_of_few_tasks_is_that_of_brute_force() -> None:
    """Runs drawn by numpy, differences of task means, every pattern of signs written out."""
    draw = np.random.default_rng(5)
    signs = np.array([[1 - 2 * (at >> bit & 1) for bit in range(8)] for at in range(256)])
    clear, count = 0, 1500
    for _ in range(count):
        own, other = (
            0.2 * draw.normal(size=8)
            + 0.45 * np.subtract(*draw.normal(size=(2, 8, 5)).mean(axis=2))
            for _ in range(2)
        )
        own += math.log(0.7)
        scaled = np.array([one / np.sqrt((one**2).sum()) for one in (own, other)])
        largest = np.abs(scaled @ signs.T).max(axis=0)
        clear += np.mean(largest >= abs(scaled[0].sum()) - 1e-9) <= 0.05 and own.sum() < 0
    three = msgspec.structs.replace(
        assumed_pilot(DURATION, 0.45, 0.2),
        metrics=(DURATION, NON_CACHE_TOKENS),
        at=0,
        run_variance=np.full(2, 2 * 0.45**2),
        task_variance=np.full(2, 0.2**2),
        correlation=np.eye(2),
    )
    found = Outlook(pilot=three, aim=Aim(change=math.log(0.7), alpha=0.05, power=0.8, first=False))
    said = trial_power(found, Design(tasks=8, repeats=5), 1)
    error = math.sqrt(said * (1 - said) * (1 / 500 + 1 / count))
    assert said == pytest.approx(clear / count, abs=3 * error)


def test_trials_on_these_very_tasks_agree_with_their_closed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "TRIALS", 200)
    found = aimed(DURATION, math.log(0.7))
    said = trial_power(found, Design(tasks=3, repeats=6), 1)
    assert said == pytest.approx(float(found.power(3, 6)), abs=0.11)


@pytest.mark.parametrize("change", [0.1, -0.1])
def test_drawn_success_changes_by_what_is_asked_for(change: float) -> None:
    found = aimed(SUCCESS, change)
    drawn = trials._deltas(
        found.pilot, Design(tasks=200, repeats=10), change, trials._Seed(1, 2), 100
    )
    assert drawn[:, found.pilot.at].mean() == pytest.approx(change, abs=0.006)
    others = np.delete(drawn, found.pilot.at, axis=1)
    assert np.abs(others.mean(axis=(0, 2))).max() < 0.01


def test_success_that_never_varies_much_is_pulled_in_no_further_than_its_tasks() -> None:
    """One task passes always, one half of the time: of the spread between them noise is taken."""
    draw = np.random.default_rng(4)
    rates = np.repeat([0.95, 0.5], 100)
    passed = (draw.random((2, 200, 5)) < rates[:, None]).astype(float)
    runs = [task_runs_of(metric, list(zip(*passed.tolist(), strict=True))) for metric in (SUCCESS,)]
    others = [task_runs_of(metric, [((1.0, 2.0), (2.0, 1.0))] * 200) for metric in _three()[1:]]
    found = pilot_of([*runs, *others], SUCCESS)
    assert found.rates.mean() == pytest.approx(rates.mean(), abs=0.03)
    assert found.rates.std() == pytest.approx(rates.std(), abs=0.02)
    assert passed.mean(axis=(0, 2)).std() > found.rates.std() + 0.01


def test_a_quick_trial_is_about_what_one_in_earnest_says() -> None:
    found = aimed(SUCCESS, 0.12)
    design = Design(tasks=25, repeats=5)
    earnest = trial_power(found, design, 1)
    assert trial_power(found, design, 1, quick=True) == pytest.approx(earnest, abs=0.06)


def test_a_planner_finds_the_fewest_tasks_by_trials_too() -> None:
    planner = Planner(aimed(SUCCESS, 0.15), UnitCosts(pair=1.0, task=0.0), 1)
    design = planner.tasks_for(5, 6)
    assert design is not None
    assert planner.power(design) >= 0.78
    fewer = Design(tasks=round(design.tasks * 0.8), repeats=5)
    assert planner.power(fewer) < 0.78
    assert planner.repeats_for(6, 6) is None, "six tasks never show it"


@pytest.mark.parametrize(
    ("metric", "cells", "said"),
    [
        (DURATION, [((1.0, 2.0), (1.0, 2.0))], "one task"),
        (DURATION, [((1.0,), (2.0,))] * 3, "one repeat"),
        (DURATION, [((1.0, 2.0), (2.0,))] * 3, "one repeat"),
        (DURATION, [((2.0, 2.0), (2.0, 2.0))] * 3, "does not vary"),
        (DURATION, [((0.0, 2.0), (2.0, 2.0))] * 3, "is 0 in more than 5% of the runs"),
        (SUCCESS, [((1.0, 1.0), (1.0, 1.0))] * 3, "every run passed"),
        (SUCCESS, [((0.0, 0.0), (0.0, 0.0))] * 3, "every run failed"),
        (TOKENS, [((math.nan,), (1.0,))] * 3, "no task has total tokens in both arms"),
    ],
)
def test_what_a_pilot_lacks_is_said(metric: Metric, cells: Any, said: str) -> None:
    reason = lacking(task_runs_of(metric, cells))
    assert reason is not None
    assert said in reason
