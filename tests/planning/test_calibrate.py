"""`twoarm calibrate`: who is named a winner among runs of one kind, held against brute force."""

import json
import math
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import jsonschema
import numpy as np
import pytest
from playwright.sync_api import Browser

import twoarm as package
from benchmarks.verdicts import MARGINS, frame, runs_of
from tests.conftest import ARMS, lines, twoarm
from tests.support.browser_pages import browsed
from tests.support.pilots import HOSTILE, hostile_pilot, pilot_runs
from twoarm import UsageError
from twoarm import calibrate as calibrate_function
from twoarm.evidence.solved import gain_survives
from twoarm.planning.calibration import winners
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import JUDGED, SUCCESS
from twoarm.text.escape import columns

FIXED = {
    *("schema", "by", "trials", "tasks", "repeats"),
    *("false_winners", "noise_floor", "drift", "caveats"),
}


def baseline_of(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in runs if one["arm"] == ARMS[1]]


def test_the_file_has_the_fixed_keys_and_fits_its_schema() -> None:
    schema = json.loads(twoarm("schema", "calibration").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    for by in ("split", "relabel"):
        found = package.calibrate(pilot_runs(7, 6), by=by, trials=50)
        written = json.loads(found.to_json())
        jsonschema.validate(written, schema)
        assert set(written) >= FIXED
        assert written["schema"] == "twoarm.calibration/1"
        assert set(written["false_winners"]) == {"gates", "evidence", "margin"}
        for share in written["false_winners"].values():
            assert 0 <= share["low"] <= share["share"] <= share["high"] <= 1
        assert written == json.loads(json.dumps(found.to_dict()))


def test_a_split_has_half_of_the_baselines_repeats_and_a_relabelling_all_of_both() -> None:
    runs = pilot_runs(7, 7)
    split = package.calibrate(runs, trials=50)
    assert (split.tasks, split.repeats, split.arms) == (7, 3, (ARMS[1],))
    both = package.calibrate(runs, by="relabel", trials=50)
    assert (both.tasks, both.repeats, both.arms) == (7, 7, ARMS)


def test_the_candidate_has_no_part_in_a_split_and_its_runs_need_not_be_there() -> None:
    runs = pilot_runs(7, 6)
    slow = [one | {"duration_seconds": 1e6} if one["arm"] == ARMS[0] else one for one in runs]
    whole, other, alone = (
        package.calibrate(one, trials=60).to_dict() for one in (runs, slow, baseline_of(runs))
    )
    for found in (whole, other, alone):
        del found["inputs"]
    assert whole == other == alone


def test_the_noise_floor_is_what_the_spread_of_the_runs_says() -> None:
    """Two arms of half the repeats: a log ratio of sd sqrt(2 s^2 / (R / 2) / T)."""
    found = package.calibrate(pilot_runs(20, 10, spread=0.3), trials=400)
    expected = math.expm1(1.96 * math.sqrt(2 * 0.3**2 / 5 / 20))
    assert found.noise_floor["duration_seconds"] == pytest.approx(expected, rel=0.2)
    assert found.noise_floor["non_cache_tokens"] == pytest.approx(expected, rel=0.2)


def test_false_winners_of_the_gates_are_those_of_brute_force() -> None:
    """The repeats dealt by Python's own shuffle, the medians by its statistics."""
    runs = baseline_of(pilot_runs(8, 8, seed=3))
    draw, winners, count = Random(1), 0, 1500
    by_task: dict[str, list[dict[str, Any]]] = {}
    for one in runs:
        by_task.setdefault(one["task_id"], []).append(one)
    for _ in range(count):
        arms: list[list[dict[str, Any]]] = [[], []]
        for some in by_task.values():
            draw.shuffle(some)
            arms[0] += some[:4]
            arms[1] += some[4:8]
        ours, theirs = (
            (
                -sum(one["success"] for one in arm),
                median(one["duration_seconds"] for one in arm),
                median(one["input_tokens"] for one in arm),
            )
            for arm in arms
        )
        holds = [mine <= other for mine, other in zip(ours, theirs, strict=True)]
        winners += all(holds) or not any(holds)
    found = package.calibrate(runs, trials=800).false_winners.gates.share
    error = math.sqrt(found * (1 - found) * (1 / 800 + 1 / count))
    assert found == pytest.approx(winners / count, abs=3 * error)


def test_every_trial_is_judged_as_score_judges_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One deal, written down as run records and scored."""
    from twoarm.planning import calibration

    dealt: list[Any] = []
    real = calibration.winners

    def watched(runs: Any, frame: Any, margins: Any) -> Any:
        found = real(runs, frame, margins)
        dealt.append((runs, found))
        return found

    monkeypatch.setattr(calibration, "winners", watched)
    package.calibrate(pilot_runs(7, 6, spread=0.6, seed=8), by="relabel", trials=50)
    assert {found for _, (found, _) in dealt} == {True, False}
    for runs, (named, by_margin) in dealt[:12]:
        values = {one.metric.name: np.exp(one.values) if one.logs else one.values for one in runs}
        layout = runs[0].layout
        records = [
            {
                "task_id": f"t{int(cell) // 2}",
                "arm": ARMS[int(cell) % 2],
                "repeat": row + 1,
                "success": bool(values["success"][row]),
                "duration_seconds": float(values["duration_seconds"][row]),
                "total_cost_usd": None,
                "input_tokens": round(float(values["non_cache_tokens"][row])),
                "output_tokens": 0,
                "cache_read_tokens": 0,
                "cache_write_tokens": 0,
            }
            for row, cell in enumerate(layout.cell)
        ]
        evidence = package.score(records).evidence
        assert evidence is not None
        solved = {name: delta.solved for name, delta in evidence.deltas.items()}
        clear = [
            entry.metric
            for entry in evidence.grade.findings
            if entry.standing in ("better", "worse")
        ]
        survives = gain_survives(clear, solved) is True
        winner = evidence.grade.verdict in ("candidate better", "baseline better")
        assert named == (winner and survives)
        within = evidence.margin.verdict in ("candidate", "baseline")
        assert by_margin == (within and evidence.margin.gain_survives is True)


@pytest.mark.parametrize("way", [1, -1])
def test_failing_fast_wins_no_trial(way: int) -> None:
    """A run in every other task dies at once; the other arm fails as often, and takes its time."""
    values = np.exp(0.01 * np.random.default_rng(4).normal(size=(2, 40, 8)))
    values[0, ::2, 0] = 0.01
    passed = np.ones_like(values)
    passed[0, ::2, 0] = passed[1, 1::2, 0] = 0.0

    def judged(success: Floats) -> tuple[bool, bool]:
        columns = {metric.name: values[::way] for metric in JUDGED} | {SUCCESS.name: success[::way]}
        return winners(runs_of(columns), frame(), MARGINS)

    assert judged(np.ones_like(values))[0]
    assert judged(passed) == (False, False)
    # Honest runs that are faster, too, win as they should.
    values[0] *= 0.5
    assert judged(passed) == (True, True)
    # With too few tasks that both arms solve, nobody can tell.
    passed[:, 3:] = 0.0
    assert judged(passed) == (True, True)
    passed[:, 2:] = 0.0
    assert judged(passed) == (False, False)


def test_drift_is_seen_and_its_absence_is_too() -> None:
    runs = pilot_runs(8, 8)
    steady = package.calibrate(runs, trials=200)
    assert steady.drift.p is not None
    assert steady.drift.p > 0.05
    slower = [
        one | {"duration_seconds": one["duration_seconds"] * (1.5 if one["repeat"] > 4 else 1)}
        for one in runs
    ]
    found = package.calibrate(slower, trials=200)
    assert found.drift.p is not None
    assert found.drift.p <= 0.01
    assert "drift" in [caveat.code for caveat in found.caveats]
    assert "drift" not in [caveat.code for caveat in steady.caveats]
    assert "halves of the repeats differ more than chance" in found.to_text(width=120)
    assert "halves of the repeats differ no more than chance" in steady.to_text(width=120)


def test_drift_goes_by_start_times_where_they_are_known() -> None:
    runs = pilot_runs(8, 8)
    timed = []
    for one in runs:
        late = one["repeat"] % 2
        timed.append(
            one
            | {
                "started_at_utc": f"2026-11-0{1 + late}T10:{one['repeat']:02}:00Z",
                "duration_seconds": one["duration_seconds"] * (1.5 if late else 1.0),
            }
        )
    found = package.calibrate(timed, trials=200)
    assert found.drift.p is not None
    assert found.drift.p <= 0.01


@pytest.mark.parametrize(
    ("runs", "options", "said"),
    [
        (pilot_runs(6, 5), {}, "a split takes at least 6 repeats of 2 tasks in the baseline"),
        (pilot_runs(1, 8), {}, "which has 1 such task"),
        (pilot_runs(1, 8), {"by": "relabel"}, "at least 2 tasks that both arms have, found 1"),
        (pilot_runs(6, 1), {"by": "relabel"}, "at least 2 repeats of a task, found 1"),
        (pilot_runs(6, 6), {"by": "dealing"}, "by: expected one of `split`, `relabel`"),
        (pilot_runs(6, 6), {"trials": 3}, "trials: expected an integer from 50 to 20000, got 3"),
    ],
)
def test_what_cannot_be_dealt_is_said(runs: list[dict[str, Any]], options: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        package.calibrate(runs, **options)
    assert said in str(refused.value)


def test_tasks_that_are_too_short_to_split_are_left_out_and_counted() -> None:
    runs = [one for one in pilot_runs(8, 6) if one["task_id"] != "t3" or one["repeat"] < 6]
    found = package.calibrate(runs, trials=50)
    assert found.tasks == 7
    (caveat,) = (one for one in found.caveats if one.code == "tasks_left_out")
    assert caveat.message == "1 task left out: fewer than 6 repeats"


def test_evidence_that_cries_wolf_is_a_caveat(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    runs = pilot_runs(7, 6)
    quiet = package.calibrate(runs, trials=50)
    assert quiet.false_winners.evidence.share <= 0.07
    assert "evidence_cries_wolf" not in [caveat.code for caveat in quiet.caveats]
    module = sys.modules[calibrate_function.__module__]
    real = module.deal

    def wolf(*given: Any) -> Any:
        import msgspec

        found = real(*given)
        return msgspec.structs.replace(found, evidence=np.arange(len(found.evidence)) % 10 == 0)

    monkeypatch.setattr(module, "deal", wolf)
    found = package.calibrate(runs, trials=50)
    assert found.false_winners.evidence.share == 0.1
    assert "evidence_cries_wolf" in [caveat.code for caveat in found.caveats]


def test_the_share_of_the_gates_allows_for_ten_points_between_suites() -> None:
    share = package.calibrate(pilot_runs(8, 6), trials=400).false_winners.gates
    assert share.high - share.share >= 0.10
    assert share.share - share.low >= 0.10


def test_every_form_and_the_same_bytes(tmp_path: Path) -> None:
    path, out = tmp_path / "runs.jsonl", tmp_path / "out"
    path.write_bytes(lines(pilot_runs(7, 6)))
    first, second = (
        twoarm("calibrate", str(path), "--trials", "60", "--format", "json").out for _ in range(2)
    )
    assert first == second
    found = twoarm("calibrate", str(path), "--trials", "60", "--out", str(out))
    assert found.code == 0
    report = package.calibrate(path, trials=60)
    names = ["calibration.html", "calibration.json", "calibration.md"]
    assert sorted(one.name for one in out.iterdir()) == names
    assert found.out == report.to_text()
    assert (out / "calibration.json").read_text(encoding="utf-8") == first == report.to_json()


def test_hostile_names_stay_names_and_the_page_draws(chromium: Browser, tmp_path: Path) -> None:
    runs = hostile_pilot(6, 6)
    found = package.calibrate(runs, candidate=HOSTILE[0], baseline=HOSTILE[1], trials=50)
    assert "\u202e" not in found.to_text() + found.to_markdown() + found.to_html()
    assert all(columns(line) <= 80 for line in found.to_text().splitlines())
    with browsed(chromium, tmp_path, found.to_html()) as shown:
        assert shown.page.locator("#chart-winners[data-drawn] svg").count() == 1
        assert shown.complaints == []
