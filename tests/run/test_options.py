"""The options of `twoarm run`: what has no effect is refused, and before anything runs."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.suite_files import suite_of

pytestmark = pytest.mark.usefixtures("cache")


def marked(tmp_path: Path, **changed: Any) -> Path:
    """A suite whose agent leaves a mark if it ever runs."""
    return suite_of(tmp_path / "suite", f"touch {tmp_path}/ran", **changed)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--status", "DIR", "--repeats", "3"), "--repeats has no effect with --status"),
        (("--stop", "DIR", "--no-evidence"), "--no-evidence has no effect with --stop"),
        (("SUITE", "--status", "DIR"), "SUITE has no effect with --status"),
        (("SUITE", "--dry-run", "--keep", "all"), "--keep has no effect with --dry-run"),
        (("SUITE", "--dry-run", "--exit-code"), "--exit-code has no effect with --dry-run"),
        (("SUITE", "--dry-run", "--level", "0.9"), "--level has no effect with --dry-run"),
        (("--resume", "DIR", "--seed", "2"), "--seed cannot change once a run has started"),
        (("--resume", "DIR", "--out", "X"), "--out cannot change once a run has started"),
        (("SUITE", "--no-evidence", "--resamples", "999"), "--resamples has no effect with --no-"),
        (("SUITE", "--full", "--format", "json"), "--full has no effect without --format text"),
        (("SUITE", "--demo"), "SUITE has no effect with --demo"),
    ],
)
def test_an_option_without_effect_is_refused(
    words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    suite = marked(tmp_path)
    given = [str(suite) if word == "SUITE" else str(tmp_path / "out") if word == "DIR" else word
             for word in words]  # fmt: skip
    result = twoarm("run", *given)
    assert result.code == 2
    assert result.err.startswith(f"twoarm: {told}"), result.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--level", "2"), "level: expected a number from 0.5 to 0.9999, got 2.0"),
        (("--seed", "-1"), "seed: expected an integer from 0 to 2^63 - 1, got -1"),
        (("--promote-by", "margin", "--no-evidence"), "--promote-by: `margin` needs the evidence"),
        (("--jobs", "0"), "--jobs: expected a number from 1 to 1000000, got 0"),
        (("--junit", "SUITE"), "--junit is also an input; choose another name"),
        (("--junit", "OUT/analysis.json"), "--junit and --out analysis.json are the same file"),
    ],
)
def test_an_option_of_the_report_is_checked_before_anything_runs(
    words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    suite, out = marked(tmp_path), tmp_path / "out"
    given = [word.replace("SUITE", str(suite)).replace("OUT", str(out)) for word in words]
    result = twoarm("run", str(suite), "--out", str(out), *given)
    assert result.code == 2
    assert told in result.err
    assert not (tmp_path / "ran").exists()
    assert not out.exists()


def test_one_seed_is_for_the_order_and_for_the_report(tmp_path: Path) -> None:
    schedules = []
    for number, words in enumerate((("--seed", "7"), ("--seed", "7", "--no-evidence"), ())):
        out = tmp_path / f"out{number}"
        result = twoarm("run", str(marked(tmp_path)), "--out", str(out), "--repeats", "3",
                        "--display", "quiet", *words)  # fmt: skip
        assert result.code == 0, result.err
        seed = 7 if words else 1
        assert f'"seed": {seed},' in (out / "analysis.json").read_text()
        schedules.append((out / "schedule.json").read_bytes())
    assert schedules[0] == schedules[1] != schedules[2]


def test_a_dry_run_looks_for_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "bwrap" else f"/{name}")
    result = twoarm("run", str(marked(tmp_path)), "--dry-run", "--isolation", "bwrap")
    assert result.code == 2
    assert "--isolation bwrap: bubblewrap is not installed" in result.err


def test_with_exit_code_the_verdict_is_the_exit_code(tmp_path: Path) -> None:
    suite = marked(tmp_path)
    result = twoarm("run", str(suite), "--out", str(tmp_path / "out"), "--repeats", "1",
                    "--display", "quiet", "--no-evidence", "--exit-code")  # fmt: skip
    assert result.code == 3, result.err
    assert "twoarm: not enough data, by " in result.err
