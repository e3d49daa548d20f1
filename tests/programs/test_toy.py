"""A program is one folder and one entry point: the one in docs/collect.md, as it is written."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.collect_fixtures import sidecar
from tests.support.suite_files import suite_of

DOCUMENT = (Path(__file__).parents[2] / "docs" / "collect.md").read_text()
MODULES = dict(re.findall(r"^```python\n# (toy/\S+)\n(.*?)^```", DOCUMENT, re.M | re.S))
(ENTRY_POINT,) = re.findall(
    r'^```toml\n\[project.entry-points."(.*?)"\]\n(.*?)^```', DOCUMENT, re.M | re.S
)

# The fixture: what toy prints.
TURNS = [
    {"say": "I look.", "run": "ls", "input": 100, "output": 10},
    {"say": "<b>Done.</b>", "input": 120, "output": 5, "last": True},
]
PRINTED = "".join(json.dumps(turn) + "\n" for turn in TURNS)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with toy installed: the package, and the program on PATH."""
    site, programs = tmp_path / "site", tmp_path / "bin"
    for folder in (site / "toy", site / "toy-1.0.dist-info", programs):
        folder.mkdir(parents=True)
    (site / "toy" / "__init__.py").touch()
    for name, code in MODULES.items():
        (site / name).write_text(code)
    info = site / "toy-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    group, entry = ENTRY_POINT
    (info / "entry_points.txt").write_text(f"[{group}]\n" + entry.replace('"', ""))
    (programs / "toy").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo toy 1.0 && exit\n'
        f"echo fixed > answer.txt\ncat <<'END'\n{PRINTED}END\n"
    )
    (programs / "toy").chmod(0o755)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    for module in ("toy", "toy.record", "toy.events", "toy.launch"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def test_the_document_has_the_three_parts() -> None:
    assert list(MODULES) == ["toy/record.py", "toy/events.py", "toy/launch.py"]


def test_collect_reads_its_runs(toy: Path) -> None:
    run = toy / "runs" / "1"
    run.mkdir(parents=True)
    (run / "toy.jsonl").write_text(PRINTED)
    sidecar(run)
    for name in ("toy", "auto"):
        result = twoarm("collect", name, "--arm", f"a={toy / 'runs'}", "--uptake", "command:ls")
        assert result.code == 0, result.err
        record = json.loads(result.out)
        counts = (record["input_tokens"], record["output_tokens"], record["uptake_count"])
        assert (counts, record["success"]) == ((220, 15, 1), True)
    (run / "toy.jsonl").write_text(PRINTED.splitlines()[0])
    result = twoarm("collect", "toy", "--arm", f"a={toy / 'runs'}")
    assert json.loads(result.out)["failure_reason"] == "killed: its last turn is missing"


def test_run_starts_it_and_show_and_the_pages_tell_what_it_did(toy: Path) -> None:
    out = toy / "out"
    suite = suite_of(toy / "suite", agent={"program": "toy", "argv": None})
    result = twoarm(
        "run", str(suite), "--out", str(out), "--repeats", "1", "--display", "quiet",
        "--no-evidence",
    )  # fmt: skip
    assert result.code == 0, result.err
    records = [json.loads(line) for line in (out / "collected.jsonl").read_text().splitlines()]
    assert [record["agent"] for record in records] == ["toy"] * 4
    assert {record["success"] for record in records} == {True}
    shown = twoarm("show", str(out), "one", "1").out
    assert "shell (100 input, 10 output tokens)\n     ls\n" in shown
    assert "(120 input, 5 output tokens)\n     <b>Done.</b>\n" in shown
    pages = [path.read_text() for path in (out / "run-pages").iterdir()]
    assert sum("&lt;b&gt;Done.&lt;/b&gt;" in page for page in pages) == 2


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("def events(folder, name, run_id):\n    raise SystemExit(0)", "SystemExit: 0"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def events(folder, name, run_id):\n    yield 3", "it gave a `int`, not an `Event`"),
        (
            "from twoarm.programs.event import Event\n"
            "def events(folder, name, run_id):\n    yield Event(kind='message', text=3)",
            "Expected `str`, got `int`",
        ),
    ],
)
def test_events_that_cannot_be_read_are_a_note_on_the_page(toy: Path, code: str, note: str) -> None:
    (toy / "site" / "toy" / "events.py").write_text(code)
    shown = _shown(toy)
    assert "cannot be shown: format `toy` failed: " in shown
    assert note in shown


def test_a_program_without_events_shows_its_output_as_it_is(toy: Path) -> None:
    (toy / "site" / "toy" / "events.py").unlink()
    assert '{"say": "I look.", "run": "ls", "input": 100, "output": 10}' in _shown(toy)


def _shown(toy: Path) -> str:
    run = toy / "runs" / "1"
    run.mkdir(parents=True)
    (run / "toy.jsonl").write_text(PRINTED)
    sidecar(run)
    path = toy / "collected.jsonl"
    assert twoarm("collect", "toy", "--arm", f"a={toy / 'runs'}", "-o", str(path)).code == 0
    return twoarm("show", str(path), "t", "1").out
