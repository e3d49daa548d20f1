"""`twoarm plan`: from a pilot to a number of runs and dollars, in every form."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from playwright.sync_api import Browser

import twoarm as package
from tests.conftest import lines, twoarm
from tests.support.browser_pages import browsed
from tests.support.pilots import HOSTILE, hostile_pilot, pilot_runs
from twoarm import PlanReport, UsageError
from twoarm.text.escape import columns
from twoarm.text.number_format import dollars

FIXED = {
    *("schema", "metric", "detect", "scope", "tasks", "repeats", "power", "smallest_detectable"),
    *("power_with_endless_repeats", "options", "caveats"),
}
ASSUMED: Any = {"tasks": 8, "repeats": 5, "spread": 0.45, "task_spread": 0.2}


def pilot(tasks: int = 12, repeats: int = 5, **changed: Any) -> list[dict[str, Any]]:
    return pilot_runs(tasks, repeats, **changed)


@cache
def planned(tasks: int, repeats: int = 5, **options: Any) -> PlanReport:
    return package.plan(pilot(tasks, repeats), **options)


def test_the_file_has_the_fixed_keys_and_fits_its_schema() -> None:
    schema = json.loads(twoarm("schema", "plan").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    for found in (
        planned(12, detect="-10%", metric="duration"),
        planned(8, detect="+15%"),
        planned(4, detect="-30%"),
        package.plan(detect="-20%", pair_cost=0.5, budget=40.0, **ASSUMED),
    ):
        written = json.loads(found.to_json())
        jsonschema.validate(written, schema)
        assert set(written) >= FIXED
        assert next(iter(written)) == "schema"
        assert written["schema"] == "twoarm.plan/1"
        assert written == json.loads(json.dumps(found.to_dict()))
        for option in written["options"]:
            assert {"kind", "tasks", "repeats", "power", "usd"} <= set(option)


def test_every_way_that_is_listed_reaches_the_power_and_costs_its_pairs() -> None:
    found = planned(12, detect="-12%", metric="duration")
    assert found.power < 0.8
    assert {option.kind for option in found.options} >= {"tasks", "cheapest"}
    for option in found.options:
        assert option.power >= 0.8
        pairs = (
            12 * (option.repeats - 5)
            if option.kind == "repeats"
            else (option.tasks - 12) * option.repeats
        )
        assert option.more_runs == 2 * pairs
        assert option.usd == pytest.approx(pairs * 0.5)


def test_nothing_listed_is_cheaper_than_the_cheapest() -> None:
    for found in (planned(8, 6, detect="-15%", task_cost=5.0), planned(12, detect="-12%")):
        for options in (found.options, found.upper_limits.options if found.upper_limits else ()):
            costs = {option.kind: option.usd for option in options if option.repeats >= 5}
            assert "cheapest" in costs or not options
            assert all(costs["cheapest"] <= usd for usd in costs.values())  # type: ignore[operator]


def test_the_effect_of_the_pilot_itself_is_never_looked_at() -> None:
    same = package.plan(pilot(12), detect="-12%", metric="duration").to_dict()
    other = package.plan(pilot(12, faster=0.4), detect="-12%", metric="duration").to_dict()
    for key in ("power", "smallest_detectable", "power_with_endless_repeats", "spreads"):
        assert other[key] == pytest.approx(same[key]), key
    assert [option["tasks"] for option in other["options"]] == [
        option["tasks"] for option in same["options"]
    ]


def test_success_and_few_tasks_are_tried_and_the_rest_is_a_formula() -> None:
    assert planned(12, detect="-12%", metric="duration").method == "closed form"
    assert planned(11, detect="-12%", metric="duration").method == "trials"
    assert planned(24, detect="-12%", metric="success").method == "trials"
    assert planned(25, detect="-12%", metric="success").method == "closed form"
    priced = [one | {"total_cost_usd": one["duration_seconds"] / 400} for one in pilot(9)]
    assert package.plan(priced, detect="-15%", metric="cost").method == "closed form"


@pytest.mark.parametrize(("tasks", "metric"), [(9, "tokens"), (25, "duration"), (12, "success")])
def test_every_pilot_is_planned_for_as_expected_and_to_be_sure(tasks: int, metric: Any) -> None:
    report = package.plan(pilot(tasks, task_spread=0.4), detect="+15%", metric=metric)
    limits = report.upper_limits
    assert limits is not None
    assert limits.spreads.task > report.spreads.task
    assert limits.spreads.run > report.spreads.run
    assert limits.power <= report.power
    expected, sure = (
        {option.kind: option for option in options} for options in (report.options, limits.options)
    )
    assert sure["tasks"].tasks > expected["tasks"].tasks
    assert report.recommended == sure["cheapest"]
    assert json.loads(report.to_json())["recommended"]["tasks"] == sure["cheapest"].tasks
    assert ("small_pilot" in [caveat.code for caveat in report.caveats]) == (tasks < 10)


def test_both_plans_stand_side_by_side_and_the_second_is_recommended() -> None:
    report = package.plan(pilot(12), detect="-12%", metric="duration", budget=30.0)
    limits, budget = report.upper_limits, report.within_budget
    assert limits is not None
    assert budget is not None
    assert budget.power_to_be_sure is not None
    assert budget.power_to_be_sure < budget.power
    expected, sure = report.options[-1], limits.options[-1]
    assert sure.usd is not None
    text = " ".join(report.to_text().split())
    assert (
        f"PLAN {sure.tasks} tasks x {sure.repeats} repeats for about {dollars(sure.usd)} more, "
        f"to be sure ({expected.tasks} tasks x {expected.repeats} repeats for about "
    ) in text
    assert "more are expected to be enough)" in text
    assert "way expected more runs dollars to be sure more runs dollars" in text
    row = f"cheapest {expected.tasks} x 5 {expected.more_runs:,} ${expected.usd:.2f}"
    assert f"{row} {sure.tasks} x 5 {sure.more_runs:,} $" in text
    assert f"chance to see it (to be sure: {budget.power_to_be_sure:.0%})" in text
    assert f"| cheapest | {expected.tasks} x 5 |" in report.to_markdown()
    assert all(columns(line) <= 80 for line in report.to_text().splitlines())


def test_runs_that_are_expected_to_be_enough_may_not_be_sure_to_be() -> None:
    shares = [0.1 + 0.005 * step for step in range(60)]
    reports = [planned(25, 10, detect=-share, metric="duration") for share in shares]
    between = [
        report
        for report in reports
        if report.upper_limits is not None and report.upper_limits.power < 0.8 <= report.power
    ]
    assert between
    for report in between:
        assert report.options == ()
        assert report.recommended is not None
        assert "to be sure (these runs are expected to be enough)" in " ".join(
            report.to_text().split()
        )
    assert reports[-1].recommended is None
    assert "nothing more: these runs are enough" in reports[-1].to_text()


def test_what_repeats_cannot_reach_is_said() -> None:
    found = package.plan(detect="-20%", pair_cost=0.5, **ASSUMED)
    assert [option.kind for option in found.options] == ["tasks", "cheapest"]
    tasks = found.options[0]
    assert (tasks.tasks, tasks.repeats) == (29, 5), "the design of a table worked out elsewhere"
    assert tasks.usd == pytest.approx(29 * 5 * 0.5)
    text = " ".join(found.to_text().split())
    assert "no number of repeats of 8 tasks gets beyond a chance of 5" in text


def test_what_takes_too_many_repeats_is_not_called_out_of_reach() -> None:
    """Tasks that do not differ: endless repeats would show it, and 500 do not."""
    report = package.plan(
        detect="-5%", primary=True, tasks=6, repeats=5, spread=1.0, task_spread=0.0
    )
    assert report.power_with_endless_repeats == 1.0
    assert [option.kind for option in report.options] == ["tasks", "cheapest"]
    text = " ".join(report.to_text().split())
    assert "; 6 tasks alone would take more than 500 repeats" in text
    assert "gets beyond" not in text


def test_a_limit_that_is_rounded_to_what_is_wanted_is_said_to_be_below_it() -> None:
    report = package.plan(detect="-20%", **ASSUMED)
    close = msgspec.structs.replace(report, power_with_endless_repeats=0.797)
    assert "beyond a chance of just under 80%" in " ".join(close.to_text().split())


def test_enough_is_enough() -> None:
    found = planned(25, 10, detect="-50%")
    assert found.power > 0.99
    assert found.options == ()
    assert "nothing more" in found.to_text()


def test_the_metric_that_is_named_first_needs_fewer_tasks() -> None:
    usual, first = (
        package.plan(detect="-20%", primary=primary, **ASSUMED).options[0].tasks
        for primary in (False, True)
    )
    assert first < usual


def test_a_budget_buys_what_it_can() -> None:
    found = planned(12, detect="-12%", metric="duration", budget=30.0)
    assert found.within_budget is not None
    assert found.within_budget.usd <= 30.0
    assert found.power < found.within_budget.power < 0.999
    assert "$30.00 buys" in found.to_text()
    nothing = planned(12, detect="-12%", metric="duration", budget=0.1)
    assert "$0.10 buys no more runs" in nothing.to_text()


def test_without_a_cost_there_are_runs_and_no_dollars() -> None:
    runs = [one | {"total_cost_usd": None} for one in pilot(12)]
    found = package.plan(runs, detect="-12%", metric="duration")
    assert found.pair_cost_usd is None
    assert [option.usd for option in found.options] == [None] * len(found.options)
    assert "no_cost" in [caveat.code for caveat in found.caveats]
    assert "$" not in found.to_text()
    with pytest.raises(UsageError, match="budget: no cost is known; .*`pair_cost=`"):
        package.plan(runs, detect="-12%", budget=10.0)
    with pytest.raises(UsageError, match="task_cost: has no effect"):
        package.plan(runs, detect="-12%", task_cost=10.0)
    priced = package.plan(runs, detect="-12%", metric="duration", pair_cost=2.0)
    assert priced.options[-1].usd == priced.options[-1].more_runs


def test_fewer_than_six_tasks_speak_for_themselves_and_more_tasks_for_others() -> None:
    found = planned(4, detect="-30%")
    assert found.scope == "these_tasks"
    scopes = {option.kind: option.scope for option in found.options}
    assert scopes["cheapest"] == "tasks_like_these"
    assert found.options[-1].tasks >= 6
    assert "these_tasks" in [caveat.code for caveat in found.caveats]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--detect", "0%"],
            "--detect: expected a change of at least 0.1%, such as -10%, got `0%`",
        ),
        (["--detect", "+120%"], "--detect: expected a change from -99% to +100%, got `+120%`"),
        (["--detect", "-120%"], "--detect: expected a change from -99% to +100%, got `-120%`"),
        (["--detect", "much"], "--detect: expected a change such as -20% or +5%, got `much`"),
        (["--detect", "20"], "--detect: expected a change such as -20% or +5%, got `20`"),
        (
            ["--detect", "-5 points"],
            "--detect: non-cache tokens changes by percent, got `-5 points`",
        ),
        (["--detect", "+60%", "--metric", "success"], "--detect: success is "),
        (["--detect", "-5%", "--tasks", "9"], "--tasks: has no effect with a pilot"),
        (
            ["--detect", "-5%", "--power", "1"],
            "--power: expected a number from 0.5 to 0.99, got 1.0",
        ),
        (["--detect", "-5%", "--budget", "-1"], "--budget: expected dollars, 0 or more, got -1.0"),
        (
            ["--detect", "-5%", "--metric", "cost", "--primary"],
            "--primary: cost is no gate's metric",
        ),
        (["--detect", "-5%", "--level", "2"], "--level: expected a number from 0.5 to 0.9999"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "pilot.jsonl"
    path.write_bytes(lines(pilot(6, 3)))
    found = twoarm("plan", str(path), *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"twoarm: {said}")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("runs", "metric", "said"),
    [
        (pilot(1, 5), "tokens", "one task says nothing about how much tasks differ"),
        (pilot(6, 1), "tokens", "one repeat of each task"),
        (pilot(6, 3, spread=0.0, task_spread=0.0), "tokens", "does not vary at all"),
        (pilot(6, 3, passing=1.1), "success", "every run passed"),
        (
            [one | {"total_cost_usd": None} for one in pilot(6, 3)],
            "cost",
            "no task has cost in both arms",
        ),
        (
            [one | {"duration_seconds": 0} for one in pilot(6, 3)],
            "duration",
            "is 0 in more than 5% of the runs",
        ),
    ],
)
def test_a_pilot_that_says_nothing_is_refused_with_a_way_out(
    runs: list[dict[str, Any]], metric: Any, said: str
) -> None:
    with pytest.raises(UsageError, match="no plan from this pilot") as refused:
        package.plan(runs, detect="-5%", metric=metric)
    assert said in str(refused.value)
    assert "`tasks=`, `repeats=`, `spread=` and `task_spread=`" in str(refused.value)


def test_without_a_file_every_spread_is_needed_and_success_has_none() -> None:
    found = twoarm("plan", "--detect", "-20%", "--tasks", "8")
    assert (found.code, found.out) == (2, "")
    assert "a plan needs --repeats, --spread, --task-spread" in found.err
    with pytest.raises(UsageError, match="success needs the runs of a pilot"):
        package.plan(detect="-20%", metric="success", **ASSUMED)
    with pytest.raises(UsageError, match="detect: missing"):
        package.plan(**ASSUMED)
    unknown: Any = {"speed": 1}
    with pytest.raises(TypeError, match="argument `speed`; did you mean `seed`"):
        package.plan(detect="-20%", **ASSUMED, **unknown)


def test_a_change_is_a_value_with_its_sign_and_as_a_number() -> None:
    command = ["plan", "--detect", "-20%", "--format", "json"]
    for name, value in ASSUMED.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    printed = json.loads(twoarm(*command).out)
    assert printed == json.loads(package.plan(detect=-0.2, **ASSUMED).to_json())


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "pilot.jsonl"
    path.write_bytes(lines(pilot(7, 4)))
    first, second = (
        twoarm("plan", str(path), "--detect", "-15%", "--format", "json").out for _ in range(2)
    )
    assert first == second


def test_out_writes_every_form(tmp_path: Path) -> None:
    path, out = tmp_path / "pilot.jsonl", tmp_path / "out"
    path.write_bytes(lines(pilot(12)))
    found = twoarm("plan", str(path), "--detect", "-12%", "--out", str(out))
    assert found.code == 0
    assert sorted(one.name for one in out.iterdir()) == ["plan.html", "plan.json", "plan.md"]
    report = package.plan(path, detect="-12%")
    assert (out / "plan.json").read_text(encoding="utf-8") == report.to_json()
    assert (out / "plan.md").read_text(encoding="utf-8") == report.to_markdown()
    assert found.out == report.to_text()
    clash = tmp_path / "plan.json"
    clash.write_bytes(path.read_bytes())
    assert twoarm("plan", str(clash), "--detect", "-12%", "--out", str(tmp_path)).code == 2


def hostile() -> PlanReport:
    return package.plan(
        hostile_pilot(7, 3), detect="-20%", candidate=HOSTILE[0], baseline=HOSTILE[1]
    )


def test_hostile_names_stay_names_in_every_form() -> None:
    found = hostile()
    assert "\u202e" not in found.to_text() + found.to_markdown() + found.to_html()
    assert all(columns(line) <= 80 for line in found.to_text().splitlines())
    assert not any(line.lstrip().startswith("::") for line in found.to_text().splitlines())
    page = found.to_html()
    assert "<img src=x" not in page
    assert page.count("</script>") == 3


def test_the_page_draws_its_chart_without_a_network(chromium: Browser, tmp_path: Path) -> None:
    with browsed(chromium, tmp_path, hostile().to_html()) as shown:
        assert shown.page.locator("#chart-power[data-drawn] svg").count() == 1
        assert shown.page.locator("#chart-power .mark-symbol path").count() >= 8
        assert shown.complaints == []
