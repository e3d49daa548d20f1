"""Suites whose tasks, repeats or arms are not alike: what is weighed, and what is said of it."""

import random

import twoarm
from tests.conftest import WITH, WITHOUT, run
from tests.support.effect_runs import codes, evidence, suite


def test_estimate_interval_test_and_verdict_point_the_same_way_when_repeats_are_unequal() -> None:
    draw = random.Random(4)
    runs = [
        run(task, arm, repeat, duration_seconds=seconds * (1 + draw.random() / 100))
        for task, repeats, ours in (*((f"t{n}", 1, 80.0) for n in range(13)), ("big", 80, 150.0))
        for repeat in range(1, repeats + 1)
        for arm, seconds in ((WITH, ours), (WITHOUT, 100.0))
    ]
    report = twoarm.score(runs)
    assert report.evidence is not None
    duration = report.evidence.deltas["duration_seconds"]
    assert duration.ratio is not None
    # Over pairs the one task that was run 80 times would have made it slower.
    assert (duration.ratio.estimate or 9) < 0.9
    assert duration.bootstrap.mean is not None
    assert duration.bootstrap.mean > 30
    assert duration.ratio.tasks_like_these is not None
    assert duration.ratio.tasks_like_these.high < 1
    assert report.evidence.grade.verdict == "candidate better"
    standings = {finding.metric: finding.standing for finding in report.evidence.grade.findings}
    assert standings["duration_seconds"] == "better"
    said = [caveat.message for caveat in report.caveats if caveat.code == "weights_differ"]
    assert said == [
        "weighed task by task, as in the evidence, mean differences are not those over pairs: "
        f"duration {duration.mean.estimate:+.1f} s, not {duration.bootstrap.mean:+.1f} s"
    ]
    assert "weights_differ" not in codes(suite(7, 3))


def test_the_gates_are_weighed_on_the_tasks_that_both_arms_have() -> None:
    draw = random.Random(5)
    runs = [
        run(f"s{task}", arm, repeat, duration_seconds=seconds + draw.random())
        for task in range(8)
        for repeat in range(1, 6)
        for arm, seconds in ((WITH, 200), (WITHOUT, 100))
    ]
    runs += [
        run(f"o{t}", WITH, r, duration_seconds=10.0 + t) for t in range(20) for r in range(1, 6)
    ]
    analysis = twoarm.score(runs)
    assert analysis.decision == "prefer with_skelly"
    assert analysis.evidence is not None
    difference = analysis.evidence.gates["median_duration_seconds"].difference
    for interval in (difference.these_tasks, difference.tasks_like_these):
        assert interval is not None
        assert interval.low <= (difference.estimate or 0) <= interval.high
        assert any("the 8 tasks that both arms have" in caveat for caveat in interval.caveats)
    # What holds on those tasks is another decision: nothing can be said of this one's stability.
    assert analysis.evidence.stability is None
    assert analysis.evidence.shared_tasks == 8
    assert analysis.evidence.on_shared_tasks.kind == "mixed"
    shown = " ".join(analysis.to_text(full=True).split())
    assert "on the tasks that both arms share, the decision is different" in shown
    assert "run both arms on the same tasks" in analysis.to_github()
    assert "On the 8 tasks that both arms have; the gate compares all runs" in analysis.to_github()
    assert analysis.evidence.influence.decision_changes_without == ()
    said = [c.message for c in analysis.caveats if c.code == "unshared_tasks_decide"]
    assert said == [
        "the decision depends on tasks that only one arm has: on the 8 tasks that both share it "
        "would be `mixed results - inspect paired deltas`"
    ]


def test_one_shared_task_can_decide_otherwise() -> None:
    runs = [run("s", WITH, 1, duration_seconds=200.0), run("s", WITHOUT, 1)]
    runs += [run(f"o{n}", WITH, 1, duration_seconds=10.0) for n in range(3)]
    assert "unshared_tasks_decide" in codes(runs)


def test_a_difference_that_is_one_of_repeats_is_said_to_be_one() -> None:
    draw = random.Random(6)
    runs = [
        run(f"{kind}{t}", arm, r, success=kind == "easy", duration_seconds=100 + draw.random())
        for t in range(5)
        for kind, counts in (("easy", (9, 1)), ("hard", (1, 9)))
        for arm, count in zip((WITH, WITHOUT), counts, strict=True)
        for r in range(1, count + 1)
    ]
    interval = evidence(runs).gates["success_rate"].difference.tasks_like_these
    assert interval is not None
    assert "Run by run, as the gate counts, the difference is +80.0 points." in interval.caveats
    assert interval.low < 0 < interval.high


def test_arms_whose_repeats_never_meet_still_have_medians() -> None:
    runs = suite(10, 5)
    for one in runs:
        one["repeat"] += 5 * (one["arm"] == WITHOUT)
    found = evidence(runs)
    assert found.tasks == 10
    assert {delta.pairs for delta in found.deltas.values()} == {0}
    assert found.gates["median_duration_seconds"].difference.tasks_like_these is not None
    assert found.deltas["duration_seconds"].median.estimate is None
    assert found.deltas["duration_seconds"].bootstrap.mean is None
    assert found.stability is not None
