"""The coverage that docs/statistics.md shows is what was simulated, and reaches its bars."""

import importlib.util
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CELLS: dict[str, dict[str, dict[str, list[int]]]] = json.loads(
    (ROOT / "docs" / "coverage.json").read_text(encoding="utf-8")
)["cells"]


def simulation() -> Any:
    spec = importlib.util.spec_from_file_location("simulation", ROOT / "benchmarks" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows() -> list[tuple[str, int, str, float]]:
    """Scenario, tasks, row and percent of every cell that speaks of our own methods."""
    return [
        (scenario, int(cell.split("x")[0]), row, 100 * hits / count)
        for scenario, cells in CELLS.items()
        for cell, found in cells.items()
        for row, (hits, count) in found.items()
        if not row.startswith(("naive", "prefer", "mixed"))
    ]


def test_the_table_in_the_docs_is_that_of_the_simulation() -> None:
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    assert simulation().tables(CELLS) in page


def test_intervals_cover_94_percent_from_six_tasks_on_and_never_less_than_93() -> None:
    for scenario, tasks, row, percent in rows():
        if "false alarm" not in row and scenario != "S4 lopsided":
            assert percent >= (94 if tasks >= 6 else 93), (scenario, tasks, row, percent)


def test_task_level_tests_cry_wolf_at_most_six_times_in_a_hundred() -> None:
    for scenario, tasks, row, percent in rows():
        if "signs of tasks" in row or "Holm" in row:
            assert percent <= 6, (scenario, tasks, row, percent)


def test_the_simulation_still_gives_what_was_kept() -> None:
    """One cheap cell of three kinds, drawn again: code and committed figures belong together."""
    module = simulation()
    assert (
        module.pass_cell("P1 null", 6, 3, 2000)["success (b)"]
        == (CELLS["P1 null"]["6x3"]["success (b)"])
    )
    drawn = module.duration_cell("S1 null", 6, 3, 1000)
    for row in ("median (a)", "median (b)", "arm medians (a)"):
        assert drawn[row] == CELLS["S1 null"]["6x3"][row]
    assert (
        module.gates_cell("G1 same arms, all succeed", 5, 5, 1000)
        == (CELLS["G1 same arms, all succeed"]["5x5"])
    )
