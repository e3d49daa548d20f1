"""Who is promoted, simulated: the figures that are kept reach their bars, and are the program's."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twoarm
from benchmarks.verdicts import (
    GUARDED,
    WAYS,
    Trial,
    frame,
    judged,
    promoted,
    runs_of,
    trial,
    verdicts_cell,
)
from twoarm.evidence.weigh import headline_tests
from twoarm.runs.metric import COST, DURATION, NON_CACHE_TOKENS, SUCCESS

CELLS: dict[str, dict[str, dict[str, list[float]]]] = json.loads(
    (Path(__file__).parents[2] / "docs" / "coverage.json").read_text(encoding="utf-8")
)["cells"]
DESIGNS = ["12x10", "25x5", "25x10", "60x5"]
DYING = [name for name in GUARDED if "die" in name or "given up" in name]
HONEST = [name for name in GUARDED if "honest" in name]


def percent(name: str, design: str, row: str) -> float:
    hits, count = CELLS[name][design][row]
    assert count == 2000
    return 100 * hits / count


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("way", WAYS)
def test_failing_fast_is_hardly_ever_promoted_and_honest_gains_are(way: str, design: str) -> None:
    assert (len(DYING), len(HONEST)) == (5, 3)
    for name in DYING:
        assert percent(name, design, f"promoted by {way}") <= 7, name
    for name in HONEST:
        before = percent(name, design, f"promoted by {way}, before")
        assert percent(name, design, f"promoted by {way}") >= before - 4, name
    assert percent("V5 equal arms in blocks, days drift", design, f"promoted by {way}") == 0


def test_the_rules_make_a_difference() -> None:
    row = "promoted by the evidence, before"
    assert percent("V2 4% die at once", "25x10", row) > 25
    assert percent("V2 4% die at once", "60x5", "promoted by the margins, before") > 50
    assert percent("V5 equal arms in blocks, days drift", "25x10", row) > 25
    assert percent("V8 half of the tasks never solved, given up at once", "25x5", row) > 95


def records(drawn: Trial, *, in_blocks: bool) -> list[dict[str, Any]]:
    """A data set as run records; in blocks the baseline runs first, else the arms take turns."""
    _, tasks, repeats = drawn.values[SUCCESS.name].shape
    runs = []
    for arm, task, repeat in np.ndindex(2, tasks, repeats):
        at = {name: float(column[arm, task, repeat]) for name, column in drawn.values.items()}
        minute = (repeat + repeats * (1 - arm) if in_blocks else repeat) * 10 + arm
        runs.append(
            {
                "task_id": f"t{task:02d}",
                "arm": ("candidate", "baseline")[arm],
                "repeat": repeat + 1,
                "success": bool(at[SUCCESS.name]),
                "duration_seconds": at[DURATION.name],
                "total_cost_usd": at[COST.name],
                "input_tokens": at[NON_CACHE_TOKENS.name],
                "output_tokens": 0,
                "cache_read_tokens": 0,
                "cache_write_tokens": 0,
                "started_at_utc": f"2026-11-01T{minute // 60:02d}:{minute % 60:02d}:00Z",
            }
        )
    return runs


# A generator, a design, a seed, and whether the rules hold some back, or let some through.
DRAWN = [
    ("V2 4% die at once", 60, 5, 2, {True, False}, {False}),
    ("V3 4% die, otherwise 5% slower", 25, 10, 1, {True, False}, {False}),
    ("V4 -20%, one task falls to 20%", 25, 5, 3, {False}, {True, False}),
    ("V5 equal arms in blocks, days drift", 25, 5, 2, {True, False}, {False}),
    ("V8 half of the tasks never solved, given up at once", 25, 5, 1, {True, False}, {False}),
    ("V7 honest -20%, 20 to 80% pass", 60, 5, 29, {True, False}, {True, False}),
]


@pytest.mark.parametrize(("name", "tasks", "repeats", "seed", "held", "through"), DRAWN)
def test_the_simulation_promotes_whom_compare_promotes(
    name: str, tasks: int, repeats: int, seed: int, held: set[bool], through: set[bool]
) -> None:
    draw = np.random.default_rng(seed)
    arms, seen = GUARDED[name], []
    for _ in range(6):
        drawn = trial(arms, tasks, repeats, draw)
        runs = twoarm.read(records(drawn, in_blocks=arms.drift > 0))
        by_name: dict[str, Any] = {"the evidence": "evidence", "the margins": "margin"}
        measured = runs_of(drawn.values)
        judgement = judged(measured, headline_tests(measured, frame(), None))
        for way, outcome in promoted(arms, drawn.values, judgement).items():
            seen.append(outcome)
            report = twoarm.compare(
                runs,
                candidate="candidate",
                baseline="baseline",
                promote_by=by_name[way],
                resamples=100,
            )
            assert (report.promotion.verdict == "promote") == outcome.now
    assert {outcome.before and not outcome.now for outcome in seen} == held
    assert {outcome.now for outcome in seen} == through


def test_the_simulation_still_gives_what_was_kept() -> None:
    """The first data sets of a cell; all of them would take a minute."""
    drawn = verdicts_cell("V2 4% die at once", 25, 10, 150)
    for row, (hits, count) in drawn.items():
        kept = percent("V2 4% die at once", "25x10", row) / 100
        assert abs(hits / count - kept) <= 4 * (max(kept * (1 - kept), 0.01) / count) ** 0.5, row
