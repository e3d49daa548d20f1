"""More runs in NEXT: a small plan, as `twoarm plan` makes it, and what a second look costs."""

import math
import random
import re
from typing import Any

import msgspec

import twoarm as package
from tests.conftest import WITH, WITHOUT, run
from tests.support.pilots import pilot_runs
from twoarm.options import Options
from twoarm.result.more_runs import more_runs


def test_next_gives_a_number_of_tasks_and_dollars_that_plan_agrees_with() -> None:
    runs = pilot_runs(12, task_spread=0.3, faster=0.8)
    report = package.score(runs, promote_by="evidence")
    assert report.evidence is not None
    wanted = report.evidence.next_runs
    assert wanted is not None
    assert wanted.detect == -0.1
    unclear = {one.metric: one.adjusted_p for one in report.evidence.grade.findings}
    del unclear["success"]
    assert wanted.metric == max(unclear, key=lambda name: unclear[name] or 0.0)
    assert len(set(unclear.values())) == 2
    metric: Any = "duration" if wanted.metric == "duration_seconds" else "tokens"
    best = package.plan(runs, detect="-10%", metric=metric).recommended
    assert best is not None
    assert (wanted.tasks, wanted.repeats, wanted.usd) == (best.tasks, best.repeats, best.usd)
    assert wanted.more_runs == best.more_runs


def test_what_is_clear_for_tasks_like_these_needs_no_more_runs() -> None:
    runs = [
        one | {"input_tokens": one["input_tokens"] // 3} if one["arm"] == "with_skelly" else one
        for one in pilot_runs(9, task_spread=0.3, faster=0.4)
    ]
    report = package.score(runs)
    assert report.evidence is not None
    standing = {one.metric: one.standing for one in report.evidence.grade.findings}
    assert (standing["duration_seconds"], standing["non_cache_tokens"]) == ("better", "better")
    assert report.evidence.next_runs is None


def next_line(runs: list[dict[str, Any]], **options: Any) -> str:
    """What --full prints beside NEXT, in one line."""
    text = package.score(runs, **options).to_text(full=True, width=120)
    return " ".join(text[text.index("NEXT") : text.index("STABILITY")].split())


def test_next_is_worded_with_tasks_repeats_and_dollars() -> None:
    line = next_line(pilot_runs(12, task_spread=0.3, passing=0.5))
    assert "to see a 10% change in " in line
    assert re.search(r" change in \w+: \d+ tasks x 5 repeats, \$\d+ more ", line)
    free = [one | {"total_cost_usd": None} for one in pilot_runs(12, task_spread=0.3, passing=0.5)]
    assert re.search(r" tasks x 5 repeats, [\d,]+ more runs ", next_line(free))
    assert "$" not in next_line(free)


def test_next_asks_for_repeats_where_they_do_as_well() -> None:
    runs = pilot_runs(25, 5, spread=0.3, task_spread=0.0, passing=0.5)
    wanted = package.score(runs).evidence.next_runs  # type: ignore[union-attr]
    assert wanted is not None
    assert (wanted.tasks, wanted.more_tasks) == (25, 0)
    assert f": 25 tasks x {wanted.repeats} repeats, $" in next_line(runs)
    metric: Any = "duration" if wanted.metric == "duration_seconds" else "tokens"
    limits = package.plan(runs, detect="-10%", metric=metric).upper_limits
    assert limits is not None
    repeats = next(option for option in limits.options if option.kind == "repeats")
    assert (wanted.repeats, wanted.usd) == (repeats.repeats, repeats.usd)


def test_next_plans_for_the_metric_that_is_named_first() -> None:
    runs = pilot_runs(12, task_spread=0.3)
    report = package.score(runs, primary="success")
    assert report.evidence is not None
    wanted = report.evidence.next_runs
    assert wanted is not None
    assert (wanted.metric, wanted.detect) == ("success", 0.1)
    best = package.plan(runs, detect="+10%", metric="success", primary=True).recommended
    assert best is not None
    assert (wanted.tasks, wanted.repeats, wanted.usd) == (best.tasks, best.repeats, best.usd)


def test_next_is_silent_where_nothing_can_be_planned_or_nothing_is_needed() -> None:
    for runs in (
        pilot_runs(12, 1),
        [run(), run("t", "without_skelly")],
        pilot_runs(60, 10, task_spread=0.0),
    ):
        report = package.score(runs)
        assert report.evidence is not None
        assert report.evidence.next_runs is None


def test_a_report_that_asks_for_more_runs_says_what_a_second_look_costs() -> None:
    sentence = "this was a look; a second doubles false winners unless it was planned"
    runs = pilot_runs(12, task_spread=0.3, passing=0.5)
    steps = [step.code for step in package.score(runs).next]
    assert steps[steps.index("run_design") + 1] == "plan_looks"
    assert sentence in next_line(runs)
    looked = package.score(runs, looks=(3, 5, 10))
    assert "plan_looks" not in [step.code for step in looked.next]
    planned_looks = [one | {"planned_looks": {"looks": [3, 5, 10]}} for one in runs]
    assert sentence not in next_line(planned_looks)
    assert sentence in next_line(planned_looks, ignore_looks=True)


def test_where_no_more_runs_are_asked_for_nothing_is_said_of_a_second_look() -> None:
    evidence = package.score(pilot_runs(60, 10, task_spread=0.0)).evidence
    assert evidence is not None
    steps = list(more_runs(evidence, Options()))
    assert [step.code for step in steps] == ["add_repeats", "plan_looks"]
    unknown = msgspec.structs.replace(evidence, variance=None)
    assert list(more_runs(unknown, Options())) == []


def test_what_is_clear_needs_no_more_runs() -> None:
    """Half of the time and tokens is clear, where a tenth would not be."""
    draw = random.Random(1)
    runs = []
    for task in range(12):
        for repeat in range(1, 6):
            for arm, share in ((WITH, 0.4), (WITHOUT, 1.0)):
                size = share * math.exp(draw.gauss(0.0, 0.5))
                values = {"duration_seconds": 100 * size, "input_tokens": int(9_000 * size)}
                runs.append(run(f"t{task}", arm, repeat, **values))
    evidence = package.score(runs, resamples=100).evidence
    assert evidence is not None
    standings = {finding.metric: finding.standing for finding in evidence.grade.findings}
    assert (standings["duration_seconds"], standings["non_cache_tokens"]) == ("better",) * 2
    assert evidence.next_runs is None
