"""Several candidates against one baseline: tested together, one report, one file."""

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import twoarm
from tests.evidence.test_looks import runs_at
from twoarm.errors import ArmsError
from twoarm.runs.runfile import read

HOSTILE = "<img src=x onerror=alert(1)>|`x`"


def several(factors: dict[str, float], **more: Any) -> list[dict[str, Any]]:
    """The baseline, and one candidate for each factor of its time and tokens, none alike."""
    found = [run for run in runs_at(5, **more) if run["arm"] == "without_x"]
    base = [dict(run, arm="base") for run in found]
    draw = np.random.default_rng(3)
    for arm, factor in factors.items():
        for run in found:
            value = factor * math.exp(0.2 * draw.normal())
            base.append(
                dict(
                    run,
                    arm=arm,
                    duration_seconds=run["duration_seconds"] * value,
                    input_tokens=run["input_tokens"] * value,
                )
            )
    return base


FACTORS = {"fast": 0.5, "same": 1.0, "slow": 2.0}


def compared(runs: list[dict[str, Any]], **options: Any) -> twoarm.Candidates:
    return twoarm.compare_candidates(
        read(runs), options.pop("candidates", None), baseline="base", **options
    )


def test_every_other_arm_is_a_candidate_and_each_has_its_report() -> None:
    found = compared(several(FACTORS, tasks=8))
    assert [report.candidate for report in found.reports] == ["fast", "same", "slow"]
    assert found["fast"].decision == "prefer fast"
    assert repr(found) == "<Candidates 'fast', 'same', 'slow' vs. 'base'>"
    with pytest.raises(KeyError):
        found["none"]
    some = compared(several(FACTORS, tasks=8), candidates=["slow", "fast"])
    assert [report.candidate for report in some.reports] == ["slow", "fast"]


def task_deltas(runs: list[dict[str, Any]], arm: str, key: str) -> list[float]:
    tasks = sorted({run["task_id"] for run in runs})
    values = {
        (run["task_id"], run["arm"], run["repeat"]): (
            float(run["success"])
            if key == "success"
            else math.log(run["duration_seconds"])
            if key == "duration_seconds"
            else math.log(run["input_tokens"] + run["output_tokens"])
        )
        for run in runs
    }
    return [
        sum(values[task, arm, r] - values[task, "base", r] for r in range(1, 6)) / 5
        for task in tasks
    ]


@pytest.mark.parametrize("factors", [FACTORS, {"fast": 0.9, "same": 1.0, "slow": 1.15}])
def test_one_sign_per_task_for_all_candidates_by_brute_force(factors: dict[str, float]) -> None:
    runs = several(factors, tasks=7)
    metrics = ("success", "duration_seconds", "non_cache_tokens")
    deltas = np.array([task_deltas(runs, arm, key) for arm in factors for key in metrics])
    kept = np.flatnonzero((deltas != 0).any(axis=1))
    size = np.sqrt((deltas[kept] ** 2).sum(axis=1))
    seen = np.abs(deltas[kept].sum(axis=1)) / size
    drawn = np.array(
        [
            np.abs(deltas[kept] @ np.array(signs)) / size
            for signs in itertools.product((1, -1), repeat=7)
        ]
    )
    order = np.argsort(-seen)
    expected, least = {}, 0.0
    for rank, column in enumerate(order):
        reached = drawn[:, order[rank:]].max(axis=1) >= seen[column] - 1e-9
        least = max(least, float(reached.mean()))
        expected[int(kept[column])] = least
    found = compared(runs)
    for number, report in enumerate(found.reports):
        assert report.evidence is not None
        for column, name in enumerate(metrics):
            p = report.evidence.deltas[name].p.adjusted
            assert p == (
                pytest.approx(expected[3 * number + column]) if name != "success" else None
            )


def test_what_cannot_be_tested_together_gets_its_share_of_the_level() -> None:
    few = several(FACTORS, tasks=5)
    together = compared(few)
    for report in together.reports:
        alone = twoarm.score(few, candidate=report.candidate, baseline="base")
        assert report.evidence is not None
        assert alone.evidence is not None
        for name in ("duration_seconds", "non_cache_tokens"):
            one = alone.evidence.deltas[name].p.adjusted
            assert one is not None
            assert report.evidence.deltas[name].p.adjusted == pytest.approx(min(1.0, 3 * one))


def stops(runs: list[dict[str, Any]]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for report in compared(runs, looks=(5, 10)).reports:
        assert report.evidence is not None
        assert report.evidence.looks is not None
        found[report.candidate] = report.evidence.looks.stop
    return found


def test_where_no_look_can_find_anything_more_repeats_are_in_vain() -> None:
    huge = {"fast": 0.1, "slow": 9.0}
    # Of 32 patterns, half of 5% is none.
    assert stops(several(huge, tasks=6)) == {"fast": "futility", "slow": "futility"}
    assert stops(several(huge, tasks=7)) == {"fast": None, "slow": None}
    assert stops(several(huge, tasks=12)) == {"fast": "candidate better", "slow": "baseline better"}


def chance(runs: list[dict[str, Any]], arm: str, level: float) -> float:
    """From the definition: that the mean over tasks is clear after ten repeats, of which five are
    there."""
    times: dict[str, Any] = {
        name: np.array(
            [
                [math.log(r["duration_seconds"]) for r in runs if (r["arm"], r["task_id"]) == of]
                for of in sorted({(name, run["task_id"]) for run in runs})
            ]
        )
        for name in (arm, "base")
    }
    deltas = times[arm].mean(axis=1) - times["base"].mean(axis=1)
    tasks = len(deltas)
    noise = sum(each.var(axis=1, ddof=1).sum() / 5 for each in times.values()) / tasks**2 / 2
    end = math.sqrt(deltas.var(ddof=1) / tasks - noise)
    need = stats.t.ppf((1 + level) / 2, tasks - 1) * end
    return float(stats.norm.cdf((abs(deltas.mean()) - need) / math.sqrt(noise)))


@pytest.mark.parametrize(("factor", "stop"), [(0.98, None), (0.99, "futility")])
def test_the_chance_at_the_end_is_that_of_a_share_of_the_level(
    factor: float, stop: str | None
) -> None:
    runs = several({"same": factor, "fast": 0.4, "slow": 3.0}, tasks=12)
    for run in runs:
        if run["arm"] == "same":
            uneven = math.exp(0.15 * (int(run["task_id"][1:]) % 3 - 1))
            run["duration_seconds"] *= uneven
            run["input_tokens"] *= uneven
    # Alone it would go on in both cases.
    assert chance(runs, "same", 0.95) > 0.205
    assert (chance(runs, "same", 1 - 0.05 / 3) < 0.2) == (stop is not None)
    alone = twoarm.look(runs, looks=(5, 10), candidate="same", baseline="base")
    assert (alone.stop, stops(runs)["same"]) == (None, stop)


def test_arms_that_are_not_there_or_named_twice_are_refused() -> None:
    runs = several(FACTORS, tasks=6)
    with pytest.raises(ArmsError, match="no runs of arm `gone`"):
        compared(runs, candidates=["fast", "gone"])
    with pytest.raises(ArmsError, match="`fast` is named twice"):
        compared(runs, candidates=["fast", "fast"])
    with pytest.raises(ArmsError, match="need a baseline by name"):
        twoarm.compare_candidates(read(runs), ["fast", "slow"])
    only = [run for run in runs if run["arm"] == "base"]
    with pytest.raises(ArmsError, match="no arm beside the baseline"):
        twoarm.compare_candidates(read(only), baseline="base")


def written(tmp_path: Path, runs: list[dict[str, Any]]) -> str:
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    return str(path)


def test_the_command_compares_all_arms_with_the_baseline_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from twoarm.commands.cli import main

    runs = written(tmp_path, several({**FACTORS, HOSTILE: 1.0}, tasks=8))
    assert main(["score", runs, "--baseline", "base"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("4 candidates vs. base (baseline)\n")
    assert said.count("median duration") == 4
    assert all(len(line) <= 80 for line in said.splitlines())
    assert main(["score", runs, "--baseline", "base", "--exit-code"]) == 2
    assert "answers for one candidate" in capsys.readouterr().err
    out = tmp_path / "out"
    two = ["--candidate", "fast", "--candidate", "slow"]
    assert main(["score", runs, "--baseline", "base", *two, "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "comparison.json",
        "comparison.md",
        "report.html",
    ]
    file = json.loads((out / "comparison.json").read_text())
    assert (file["schema"], file["baseline"]) == ("twoarm.comparison/1", "base")
    assert [one["candidate"] for one in file["comparisons"]] == ["fast", "slow"]
    assert {one["schema"] for one in file["comparisons"]} == {"twoarm.analysis/1"}


def test_every_report_has_all_candidates_and_no_name_is_more_than_a_name() -> None:
    found = compared(several({**FACTORS, HOSTILE: 1.0}, tasks=8))
    page = found.to_html()
    assert "<img src=x" not in page
    # Every element has a name of its own, and every link leads to one.
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r' href="#([^"]*)"', page)) <= set(ids)
    charts = json.loads(re.findall(r'id="charts">(.*?)</script>', page, re.S)[0])["charts"]
    assert {f"chart-{name}" for name in charts} <= set(ids)
    for text in (found.to_markdown(), found.to_github()):
        rows = [line for line in text.splitlines() if "median duration |" in line][:4]
        assert [line.count(" | ") for line in rows] == [4] * 4
    assert found.to_junit().count("<testsuite ") == 4
    assert len(found.to_github().encode()) <= 65_536
    full = found.to_text(full=True)
    assert full.count("PROMOTE") == 4


def test_the_schema_describes_the_file() -> None:
    import jsonschema

    from twoarm.render.several import CandidatesFile
    from twoarm.result.analysis import schema_file

    file = json.loads(compared(several(FACTORS, tasks=6)).to_json())
    jsonschema.validate(file, schema_file(CandidatesFile, ""))
    file["comparisons"][0]["decision"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(file, schema_file(CandidatesFile, ""))
