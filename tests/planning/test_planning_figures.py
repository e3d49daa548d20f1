"""The figures of docs/plan.md are those of the simulation, and reach their bars."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import coverage, planning

ROOT = Path(__file__).parents[2]
CELLS: dict[str, dict[str, dict[str, list[float]]]] = json.loads(
    (ROOT / "docs" / "coverage.json").read_text(encoding="utf-8")
)["cells"]


def percents(names: Mapping[str, object]) -> list[tuple[str, int, dict[str, float]]]:
    """Scenario, tasks, and every row of a cell in percent."""
    return [
        (name, int(design.split("x")[0]), {row: 100 * one[0] / one[1] for row, one in cell.items()})
        for name, cells in CELLS.items()
        if name in names
        for design, cell in cells.items()
    ]


def test_the_tables_in_the_docs_are_those_of_the_simulation() -> None:
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    shown = coverage.on_page(CELLS, "plan.md")
    assert len(shown) == 7
    assert coverage.tables(shown) in page
    other = coverage.on_page(CELLS, "coverage.md")
    assert not set(other) & set(shown)


def test_a_plan_is_within_five_points_of_the_verdicts_and_of_success_within_eight() -> None:
    cells = percents(planning.PLANNED)
    assert len(cells) == 24
    for name, tasks, rows in [*cells, *percents(planning.PLANNED_SUCCESS)]:
        away = abs(rows["clear in simulated verdicts"] - rows["power by twoarm plan"])
        assert away <= (5 if name in planning.PLANNED else 8), (name, tasks, rows)


def test_plans_for_the_upper_limits_of_small_pilots_are_large_enough_four_times_out_of_five() -> (
    None
):
    cells = percents(planning.SMALL_PILOTS)
    assert len(cells) == 4
    for name, tasks, rows in cells:
        assert rows["reaches 80% power, upper limits"] >= 80, (name, tasks, rows)


@pytest.mark.parametrize("way", ["gates", "evidence", "margin rule", "noise floor of duration"])
def test_a_calibration_is_within_four_points_of_fresh_runs(way: str) -> None:
    cells = percents(planning.CALIBRATED)
    assert len(cells) == 4
    for name, tasks, rows in cells:
        away = abs(rows[f"{way}: calibrations"] - rows[f"{way}: fresh runs"])
        assert away <= 4, (name, tasks, rows)


def test_the_simulation_still_gives_what_was_kept() -> None:
    """One cheap cell, drawn again: code and committed figures belong together."""
    name = next(iter(planning.SMALL_PILOTS))
    assert planning.small_pilot_cell(name, 6, 10, 2000) == CELLS[name]["6x10"]
