"""Plans and calibrations of suites whose tasks come in families."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import twoarm
from tests.conftest import WITH, WITHOUT
from tests.support.effect_runs import suite
from tests.support.family_runs import FAMILIES, SIZES, even, in_families
from twoarm.compare.comparison import set_side_by_side
from twoarm.compare.screen import Arms
from twoarm.evidence.cells import TaskRuns, lay_out, task_runs
from twoarm.evidence.pilot import Pilot, lacking, pilot_of
from twoarm.evidence.power import Aim, Outlook
from twoarm.options import Options
from twoarm.planning import calibration
from twoarm.runs.metric import JUDGED, NON_CACHE_TOKENS, SUCCESS, Metric
from twoarm.runs.runfile import read


def judged(runs: list[dict[str, Any]]) -> list[TaskRuns]:
    arms = Arms(candidate=WITH, baseline=WITHOUT)
    comparison = set_side_by_side(read(runs), arms, Options())
    layout, rows = lay_out(comparison)
    return [task_runs(metric, comparison, layout, rows).on_test_scale() for metric in JUDGED]


def pilot(runs: list[dict[str, Any]], metric: Metric = NON_CACHE_TOKENS) -> Pilot:
    return pilot_of(judged(runs), metric)


def test_the_variances_of_families_are_worked_out_by_hand() -> None:
    runs = in_families(suite(24, 4, seed=3), FAMILIES)
    found = pilot(runs)
    logs = np.zeros((2, 24, 4))
    for run in runs:
        tokens = run["input_tokens"] + run["output_tokens"]
        arm = int(run["arm"] == WITHOUT)
        logs[arm, int(run["task_id"][1:]), run["repeat"] - 1] = math.log(tokens)
    within = logs.var(axis=2, ddof=1).mean(axis=1).sum()
    deltas = logs[0].mean(axis=1) - logs[1].mean(axis=1)
    first = np.cumsum((0, *SIZES))
    families = [deltas[a:b].mean() for a, b in itertools.pairwise(first)]
    shrunk = np.mean([1 / size for size in SIZES])
    at = found.at
    assert (found.tasks, found.repeats, found.each) == (8, 4, 3.0)
    assert found.shrunk == pytest.approx(shrunk)
    assert found.run_variance[at] == pytest.approx(within * shrunk)
    seen = np.var(families, ddof=1)
    assert found.seen == pytest.approx(seen)
    assert found.task_variance[at] == pytest.approx(max(0.0, seen - within * shrunk / 4))


def test_the_power_of_families_is_that_of_brute_force() -> None:
    """t tests on the means of fresh families of 3 tasks, at the level that the plan goes by."""
    draw = np.random.default_rng(5)
    tasks, repeats, shared, noise = 3, 4, 0.2, 0.4

    def families(count: int, trials: int) -> Any:
        effects = draw.normal(-0.12, shared, (trials, count, 1))
        error = draw.normal(0.0, noise * math.sqrt(2 / repeats), (trials, count, tasks))
        return (effects + error).mean(axis=2)

    known = Pilot(
        metrics=(NON_CACHE_TOKENS,),
        at=0,
        run_variance=np.array([2 * noise**2 / tasks]),
        task_variance=np.array([shared**2]),
        seen=shared**2,
        freedom=100,
        correlation=np.eye(1),
        rates=np.empty(0),
        tasks=12,
        repeats=repeats,
        each=float(tasks),
        shrunk=1 / tasks,
        family=np.repeat(np.arange(12), tasks),
    )
    outlook = Outlook(pilot=known, aim=Aim(change=-0.12, alpha=0.05, power=0.8, first=True))
    for count in (15, 30):
        p = stats.ttest_1samp(families(count, 4000), 0.0, axis=1).pvalue
        assert float(outlook.power(count, repeats)) == pytest.approx((p <= 0.05).mean(), abs=0.03)


def test_a_plan_is_in_families_and_pays_for_their_tasks() -> None:
    runs = even(12, 3, repeats=5, noise=0.8)
    plan = twoarm.plan(runs, detect="-10%")
    assert (plan.tasks, plan.families, plan.repeats) == (36, 12, 5)
    assert plan.pair_cost_usd is not None
    for option in plan.options:
        assert option.families is not None
        assert option.tasks == 3 * option.families
        assert option.more_tasks == option.tasks - 36
        pairs = option.more_tasks * option.repeats + 36 * max(0, option.repeats - 5)
        assert option.more_runs == 2 * pairs
        assert option.usd == pytest.approx(pairs * plan.pair_cost_usd)
    text = plan.to_text()
    assert "Pilot of 12 families of 36 tasks x 5 repeats" in " ".join(text.split())
    assert "Other families are taken to have as many tasks as those of the pilot." in text


def test_families_that_share_an_effect_take_more_tasks_than_independent_ones() -> None:
    draw = np.random.default_rng(2)
    effects = np.exp(draw.normal(0.0, 0.25, 12))
    runs = even(12, 3, repeats=5)
    for run in runs:
        if run["arm"] == WITH:
            run["input_tokens"] *= float(effects[int(run["task_id"][1:]) // 3])
    alone = [{key: run[key] for key in run if key != "family"} for run in runs]
    shared, independent = (twoarm.plan(each, detect="-15%") for each in (runs, alone))
    assert shared.power < independent.power


def test_success_is_planned_for_over_families() -> None:
    runs = even(12, 3, repeats=5, pass_rate=0.6)
    found = pilot(runs, SUCCESS)
    assert found.family is not None
    assert np.bincount(found.family).tolist() == [3] * 12
    plan = twoarm.plan(runs, detect="+15 points", metric="success")
    assert plan.families == 12
    assert 0.0 < plan.power < 1.0
    # The tasks of a family have as much noise together as one task with all of their runs.
    merged = [
        dict(
            {key: run[key] for key in run if key != "family"},
            task_id=run["family"],
            repeat=int(run["task_id"][1:]) * 10 + run["repeat"],
        )
        for run in runs
    ]
    other = twoarm.plan(merged, detect="+15 points", metric="success")
    assert plan.power == pytest.approx(other.power, abs=0.12)


def test_one_family_is_no_pilot() -> None:
    reason = lacking(judged(even(1, 8))[JUDGED.index(NON_CACHE_TOKENS)])
    assert reason == "one family says nothing about how much families differ; it takes 2, better 10"


def test_what_to_run_next_is_said_in_families() -> None:
    report = twoarm.score(even(8, 3, repeats=5, effect=0.98, noise=0.5))
    assert report.evidence is not None
    wanted = report.evidence.next_runs
    assert wanted is not None
    assert wanted.families is not None
    assert wanted.tasks == 3 * wanted.families
    assert any("families of" in str(step.message) for step in report.next)


def test_with_few_families_more_of_them_are_asked_for() -> None:
    report = twoarm.score(even(4, 5, repeats=5, effect=0.5, pass_rate=1.0))
    messages = [str(step.message) for step in report.next]
    assert (
        "add families of tasks: with 4 families of 20 tasks nothing can be said about others; it "
        "takes at least 6"
    ) in messages


def test_families_that_do_not_differ_are_called_families() -> None:
    plan = twoarm.plan(even(8, 3, repeats=4, seed=4, noise=0.6), detect=-0.2)
    (message,) = (each.message for each in plan.caveats if each.code == "no_task_spread")
    assert message == (
        "no difference between families was seen beyond that of their runs: repeats look as good "
        "as families, which can be luck"
    )


def test_a_calibration_judges_over_families(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(runs: list[TaskRuns], *rest: Any) -> tuple[bool, bool]:
        seen.append(runs[0].layout.family)
        return False, False

    monkeypatch.setattr(calibration, "winners", watched)
    found = twoarm.calibrate(even(8, 3, repeats=3), by="relabel", trials=50)
    assert (found.tasks, found.families) == (24, 8)
    assert "8 families of 24 tasks x 3 repeats" in found.to_text()
    assert len(seen) == 50
    for family in seen:
        assert family is not None
        assert np.bincount(family).tolist() == [3] * 8
    few = twoarm.calibrate(even(4, 6, repeats=3), by="relabel", trials=50)
    assert "with fewer than 6 families the evidence is about these very tasks only" in few.to_text()
