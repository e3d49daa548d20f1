"""A fourth gate is one entry in `GATES`: everything else reads the list."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import twoarm

ENTRY = """
    GateRule(name="median_cost_usd", label="median cost", metric=BY_NAME["cost_usd"]),
)
"""


@pytest.fixture(scope="module")
def four_gates(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a command of a copy of the package that has one more gate."""
    folder = tmp_path_factory.mktemp("four")
    shutil.copytree(
        Path(twoarm.__file__).parent,
        folder / "twoarm",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    rule = folder / "twoarm" / "compare" / "decide.py"
    before, gates, after = rule.read_text().partition("\nGATES = (\n")
    entries, closing, rest = after.partition("\n)\n")
    assert gates
    assert closing
    imported = "from twoarm.runs.metric import BY_NAME\n"
    rule.write_text(before + "\n" + imported + gates + entries + ENTRY + rest)

    def run(*arguments: str) -> str:
        program = "import sys; from twoarm.commands.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def runs(tmp_path: Path) -> Callable[..., str]:
    """A run file of 8 tasks x 5 repeats; the candidate is better in all but what it costs."""

    def written(costs: tuple[float | None, float | None]) -> str:
        path = tmp_path / "runs.jsonl"
        with path.open("w") as file:
            for task in range(8):
                for repeat in range(1, 6):
                    for side, arm in enumerate(("changed", "usual")):
                        cost = costs[side]
                        record = {
                            "task_id": f"task-{task}",
                            "arm": arm,
                            "repeat": repeat,
                            "success": side == 0 or (task + repeat) % 3 > 0,
                            "duration_seconds": 100 + task + repeat + 40 * side,
                            "total_cost_usd": None if cost is None else cost + 0.001 * task,
                            "input_tokens": 1000 + repeat + 200 * side,
                            "output_tokens": 100 + task,
                            "cache_read_tokens": 0,
                            "cache_write_tokens": 0,
                        }
                        file.write(json.dumps(record) + "\n")
        return str(path)

    return written


def test_it_can_fail_alone(
    four_gates: Callable[..., str], runs: Callable[..., str], tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    text = four_gates(
        "score", runs((0.2, 0.1)), "--candidate", "changed", "--baseline", "usual",
        "--full", "--out", out, "--junit", f"{out}/gates.xml",
    )  # fmt: skip
    found = json.loads(Path(out, "analysis.json").read_text())
    assert found["decision"] == "mixed results - inspect paired deltas"
    assert [(gate["name"], gate["holds"]) for gate in found["gates"]] == [
        ("success_rate", True),
        ("median_duration_seconds", True),
        ("median_non_cache_tokens", True),
        ("median_cost_usd", False),
    ]
    assert found["gates"][-1]["candidate"] == pytest.approx(0.2035)
    evidence = found["evidence"]
    assert list(evidence["gates"]) == [gate["name"] for gate in found["gates"]]
    assert evidence["grade"]["verdict"] == "trade-off"
    assert evidence["grade"]["findings"][-1]["metric"] == "cost_usd"
    assert evidence["grade"]["findings"][-1]["standing"] == "worse"
    assert [one["metric"] for one in evidence["margin"]["ranges"]][-1] == "cost_usd"
    assert evidence["stability"]["shares"] == {found["decision"]: 1.0}
    assert found["diagnostics"]["explanations"] == ["cost +97%; no diagnostic moved"]
    assert "fails the median cost gate" in text
    assert "and more expensive" in text
    assert "looking at four gates" in text
    assert "median cost (" not in text
    roles = ("--candidate", "changed", "--baseline", "usual")
    plain = four_gates("score", runs((0.2, 0.1)), *roles, "--no-evidence")
    assert [line[:11] for line in plain.splitlines()].count("median cost") == 1
    assert Path(out, "report.html").read_text().count("The four gates") == 1
    assert '<testcase classname="twoarm" name="gate median cost"' in (
        Path(out, "gates.xml").read_text()
    )


def test_it_has_to_hold_and_to_be_measured(
    four_gates: Callable[..., str], runs: Callable[..., str]
) -> None:
    arms = ("--candidate", "changed", "--baseline", "usual")
    assert "all four gates hold" in four_gates("score", runs((0.1, 0.2)), *arms)
    missing = json.loads(four_gates("score", runs((0.1, None)), *arms, "--format", "json"))
    assert missing["decision"] == "insufficient data"
    assert missing["adequacy"]["below_minimum"][0] == {
        "task_id": "task-0",
        "arm": "usual",
        "metric": "cost_usd",
        "repeats": 0,
    }


def test_an_excluded_run_leaves_its_figure_alone(
    four_gates: Callable[..., str], runs: Callable[..., str]
) -> None:
    path = Path(runs((0.1, 0.2)))
    record = json.loads(path.read_text().splitlines()[0])
    record |= {"repeat": 6, "success": False, "failure": "infra", "total_cost_usd": None}
    path.write_text(path.read_text() + json.dumps(record) + "\n")
    arms = ("--candidate", "changed", "--baseline", "usual")
    found = json.loads(four_gates("score", str(path), *arms, "--format", "json"))
    assert [bound["decision"] for bound in found["evidence"]["exclusions"]["bounds"]] == [
        "prefer changed",
        "prefer changed",
    ]


def test_the_schema_names_it(four_gates: Callable[..., str]) -> None:
    schema = json.loads(four_gates("schema", "analysis"))
    assert schema["$defs"]["Gate"]["properties"]["name"]["enum"] == [
        "median_cost_usd",
        "median_duration_seconds",
        "median_non_cache_tokens",
        "success_rate",
    ]


def test_the_help_counts_it(four_gates: Callable[..., str]) -> None:
    assert "four gates, one decision" in four_gates("score", "--help")
