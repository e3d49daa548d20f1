"""The bootstrap, the stability of a decision, and the tasks it hangs on: held to brute force."""

import itertools
import json
import math
import random
from typing import Any

import msgspec
import pytest
from scipy import stats

import twoarm
from tests.conftest import WITH, WITHOUT
from tests.support.effect_runs import evidence, suite
from twoarm.evidence import stability
from twoarm.evidence.results import Stability
from twoarm.render.summary import summarize

# Agreement ----------------------------------------------------------------------------------------


def test_the_same_input_options_and_seed_give_the_same_bytes_and_another_seed_does_not() -> None:
    runs = suite(12, 5)
    first = twoarm.score(runs, seed=5).to_json()
    assert twoarm.score(runs, seed=5).to_json() == first
    assert twoarm.score(list(reversed(runs)), seed=5).to_json() == first
    assert twoarm.score(runs, seed=6).to_json() != first
    bootstraps = [evidence(runs, seed=s).deltas["tokens"].bootstrap for s in (5, 6)]
    assert bootstraps[0] != bootstraps[1]


def test_the_bootstrap_of_few_tasks_is_that_of_every_resample() -> None:
    runs = suite(6, 2, seed=4)
    mean = evidence(runs).deltas["duration_seconds"].bootstrap.mean_interval
    assert mean is not None
    by_task: dict[str, list[float]] = {}
    for ours, theirs in zip(runs[::2], runs[1::2], strict=True):
        delta = ours["duration_seconds"] - theirs["duration_seconds"]
        by_task.setdefault(ours["task_id"], []).append(delta)
    drawn = sorted(
        sum(sum(by_task[task]) for task in tasks) / 12
        for tasks in itertools.product(by_task, repeat=6)
    )

    tail = stats.norm.cdf(-math.sqrt(6 / 5) * stats.t.ppf(0.975, 5))
    assert mean.low == pytest.approx(drawn[math.ceil(6**6 * tail - 1e-9) - 1])
    assert mean.high == pytest.approx(drawn[math.ceil(6**6 * (1 - tail) - 1e-9) - 1])


def test_the_bootstrap_is_in_the_file() -> None:
    written = json.loads(twoarm.score(suite(7, 3)).to_json())["evidence"]
    for delta in written["deltas"].values():
        assert delta["bootstrap"]["mean_interval"] is not None


# Stability and influence --------------------------------------------------------------------------


def test_stability_agrees_with_plain_two_stage_resampling() -> None:
    runs = suite(8, 4, effect=0.93, seed=2)
    found = evidence(runs).stability
    assert found is not None
    assert sum(found.shares.values()) == pytest.approx(1.0)
    by: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in runs:
        by.setdefault((one["task_id"], one["arm"]), []).append(one)
    names = sorted({one["task_id"] for one in runs})
    draw, count, same = random.Random(8), 1_500, 0
    decision = twoarm.score(runs, evidence=False).decision
    for _ in range(count):
        drawn = []
        for number, task in enumerate(draw.choices(names, k=len(names))):
            for arm in (WITH, WITHOUT):
                cell = by[task, arm]
                for repeat, one in enumerate(draw.choices(cell, k=len(cell)), 1):
                    drawn.append(one | {"task_id": f"d{number}", "repeat": repeat})
        same += twoarm.score(drawn, evidence=False).decision == decision
    share = same / count
    assert found.decision_share == pytest.approx(
        share, abs=4 * math.sqrt(share * (1 - share) / count)
    )


def test_one_stage_stability_is_used_for_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stability, "MOST_RUNS", 1)
    found = evidence(suite(8, 30, effect=0.9)).stability
    assert found is not None
    assert found.method == "tasks resampled"
    assert sum(found.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("tasks", "seed"), [(7, 3), (3, 3), (2, 1)])
def test_leaving_one_task_out_is_scoring_without_it(tasks: int, seed: int) -> None:
    runs = suite(tasks, 4, effect=0.97, seed=seed)
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    expected = []
    for task in sorted({one["task_id"] for one in runs}):
        other = twoarm.score([one for one in runs if one["task_id"] != task], evidence=False)
        if other.decision != analysis.decision:
            expected.append((task, other.decision))
    found = analysis.evidence.influence.decision_changes_without
    assert [(change.task_id, change.decision) for change in found] == expected
    assert expected, "the example should have such a task"
    assert "one_task_decides" in [caveat.code for caveat in analysis.caveats]


def test_a_winner_without_evidence_is_said_to_be_one() -> None:
    def said(runs: list[dict[str, Any]]) -> list[str]:
        analysis = twoarm.score(runs)
        assert analysis.decision.startswith("prefer "), "the example should have a winner"
        return [c.message for c in analysis.caveats if c.code == "winner_without_evidence"]

    (message,) = said(suite(8, 5, effect=1.0, pass_rate=1.0, seed=103))
    assert message.startswith(
        f"the gates prefer `{WITH}`, but the evidence does not show that it is better: "
    )
    assert "one time in three" in message
    assert said(suite(1, 1, effect=0.1, pass_rate=1.0)) == [message]
    assert said(suite(12, 5, effect=0.5, pass_rate=1.0)) == []
    worse = suite(12, 5, effect=2.0, pass_rate=1.0)
    for one in worse:
        one["success"] = one["arm"] == WITHOUT or int(one["task_id"][1:]) % 6 > 0
    assert said(worse) == []


def test_a_task_that_drives_the_mean_is_named() -> None:
    runs = suite(6, 4, effect=1.0)
    for one in runs:
        if one["task_id"] == "t002" and one["arm"] == WITH:
            one["duration_seconds"] += 5_000
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    mean = analysis.evidence.influence.means["duration_seconds"]
    assert mean.driven_by == "t002"
    assert mean.low_without == "t002"
    others = twoarm.score([one for one in runs if one["task_id"] != "t002"])
    assert mean.mean_without_it == pytest.approx(others.paired.mean_duration_delta_seconds)
    # With it and without it are the same mean, over pairs, however unequal the repeats.
    uneven = twoarm.score([one for one in runs if one["repeat"] < 4 or one["task_id"] != "t000"])
    (said,) = [c.message for c in uneven.caveats if c.message.startswith("task `t002` drives")]
    whole = uneven.paired.mean_duration_delta_seconds
    assert whole is not None
    assert f"duration {whole:+.1f} s with it" in said


def test_where_the_uncertainty_comes_from() -> None:
    steady = evidence(suite(10, 5, noise=1e-3)).variance
    assert steady is not None
    assert steady.repeats_share + steady.tasks_share == pytest.approx(1.0)
    runs = suite(10, 5, noise=0.02, seed=2)
    for one in runs:
        if one["arm"] == WITH:
            one["duration_seconds"] *= 1 + int(one["task_id"][1:]) / 5
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    assert analysis.evidence.variance is not None
    assert analysis.evidence.variance.tasks_share > 0.9
    messages = [caveat.message for caveat in analysis.caveats if caveat.code == "add_tasks"]
    assert messages == [
        "about 100% of the uncertainty about duration comes from which tasks were used: repeats "
        "narrow it down to that spread, more tasks beyond it"
    ]


@pytest.mark.parametrize(
    ("share", "word"), [(0.97, "stable"), (0.85, "fairly stable"), (0.6, "could easily change")]
)
def test_stability_is_worded_as_stability(share: float, word: str) -> None:
    analysis = twoarm.score(suite(6, 3))
    assert analysis.evidence is not None
    made = Stability(decision_share=share, shares={}, resamples=99, method="tasks resampled")
    weighed = msgspec.structs.replace(analysis.evidence, stability=made)
    said = summarize(msgspec.structs.replace(analysis, evidence=weighed)).stability
    assert said.startswith(f"{word}: the same decision in {share:.0%}")
    assert said.endswith("this is not the probability of being right")
