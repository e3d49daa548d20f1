"""Names and numbers as long or as large as they can be."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import twoarm as package
from tests.conftest import lines, run, twoarm
from tests.support.planned_runs import missing
from twoarm.render import github
from twoarm.text.escape import shortened
from twoarm.text.number_format import share

# GitHub refuses a longer comment, and a longer step summary.
COMMENT = 65_536
SUMMARY = 2**20

LETTERS = ["x", "漢", "`", "|", "<", "&", "\u0301", "👍", "\x01", "-", "::", "#"]


def long_runs(letter: str, tasks: int = 3) -> list[dict[str, Any]]:
    name = letter * (30_000 // len(letter))
    made = [
        run(f"{task}{name}", arm, repeat, success=(repeat + task) % 2 == 0, **{f"{name}{task}": 1})
        for task in range(tasks)
        for repeat in (1, 2)
        for arm in (f"{name}a", f"{name}b")
    ]
    made += [run(f"0{name}", f"{name}c", 1), run(f"0{name}", f"{name}a", 9, failure="infra")]
    made[-1]["failure_reason"] = name
    made += [missing(f"0{name}", f"{name}a", 10, name), missing(f"0{name}", f"{name}b", 10, name)]
    for one in made[::2]:
        one["model"] = f"{name}{one['task_id'][:1]}"
    return made


@pytest.mark.parametrize("letter", LETTERS)
def test_a_comment_fits_whatever_the_names(letter: str, tmp_path: Path) -> None:
    name = letter * (30_000 // len(letter))
    found = package.score(long_runs(letter), candidate=f"{name}a", baseline=f"{name}b")
    comment = found.to_github()
    assert len(comment) <= COMMENT
    assert len(comment.encode()) <= COMMENT
    assert comment.startswith(github.MARKER)
    # Names are cut, and what they are names of is still said.
    assert "<details>" in comment
    assert "### Caveats" in comment
    for line in github.annotations(found):
        assert len(line) < 4096
    assert len(found.to_text()) < 100_000
    assert json.loads(found.to_json())["candidate"] == f"{name}a"


def test_many_long_names_fit_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = long_runs("x", tasks=60)
    found = package.score(runs, candidate="x" * 30_000 + "a", baseline="x" * 30_000 + "b")
    assert len(found.to_github()) <= COMMENT
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(runs))
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    roles = [f"--candidate={'x' * 30_000}a", f"--baseline={'x' * 30_000}b"]
    assert twoarm("score", str(path), *roles, "--out", str(tmp_path / "out")).code == 0
    assert os.path.getsize(summary) <= SUMMARY


def test_what_takes_no_room_is_cut_too() -> None:
    """A thousand accents on one letter take one column, and many bytes."""
    assert len(shortened("e" + "\u0301" * 30_000, 60)) < 300
    assert shortened("e\u0301" * 60, 60) == "e\u0301" * 60


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.154, "+15.4%"),
        (-0.154, "-15.4%"),
        (0.0, "0.0%"),
        (12_345.0, "+1.23e+06%"),
        (1.5e307, "+1.50e+309%"),
        (-1.5e307, "-1.50e+309%"),
        (1.7976931348623157e308, "+1.80e+310%"),
        (float("inf"), "beyond +1e+310%"),
        (float("-inf"), "beyond -1e+310%"),
        (None, "-"),
    ],
)
def test_a_share_is_a_number_however_large(value: float | None, shown: str) -> None:
    assert share(value) == shown


def test_infinity_is_never_printed(tmp_path: Path) -> None:
    """The figures of one arm are as large as they may be, those of the other as small."""
    largest = 9_007_199_254_740_991
    for large, small in ((largest, 5e-324), (largest, 1e-300), (5e-324, largest)):
        runs = [
            run(
                f"t{task}",
                arm,
                repeat,
                duration_seconds=large if arm == "with_skelly" else small,
                total_cost_usd=large if arm == "with_skelly" else small,
            )
            for task in range(7)
            for repeat in range(1, 6)
            for arm in ("with_skelly", "without_skelly")
        ]
        path = tmp_path / "runs.jsonl"
        path.write_bytes(lines(runs))
        for form in ("text", "markdown", "github", "json", "html"):
            result = twoarm("score", str(path), f"--format={form}", "--annotate")
            assert result.code == 0, result.err
            shown = result.out.partition('<script type="module">')[0] + result.err
            assert "inf%" not in shown
            assert " nan" not in shown
            assert "inf " not in shown
