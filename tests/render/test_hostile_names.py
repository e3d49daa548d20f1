"""Names that are hostile, long or no text: none breaks an output of the command line."""

import json
import os
from pathlib import Path

import pytest

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from tests.support.markdown import code_spans
from tests.support.planned_runs import missing
from twoarm.text.escape import columns, visible

HOSTILE = [
    "a|b",
    "`tick`",
    "``two`` ticks`",
    "line\nbreak",
    "\x1b[31mred\x1b[0m",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "@everyone #1 http://example.com",
    "--> ]]> &amp; \\ \\| *bold* _it_",
    "\u202eright to left",
    "漢字の課題",
    " ",
    "x" * 300,
]


def test_long_names_are_told_apart_and_keep_the_tables_narrow() -> None:
    arms = [f"my-coding-agent-2026.11-{word}-the-graph-rag-tool" for word in ("with", "plain")]
    made = [run("t", arm, repeat) for repeat in range(1, 6) for arm in arms]
    report = package.score(made, candidate=arms[0], baseline=arms[1])
    text = report.to_text(full=True, width=100)
    assert max(map(columns, text.splitlines())) <= 100
    heads = text.splitlines()[text.splitlines().index("Gates") + 1].split()
    assert [head[:5] for head in heads[:2]] == ["…with", "…plai"]
    made = [
        run(f"{'task-with-a-name-as-long-as-this-' * 3}{n}", arm, 1, duration_seconds=10_000.0 * n)
        for n in range(1, 4)
        for arm in ("difference", "old")
    ]
    made.append(run("alone", "old", 1))
    report = package.score(made, candidate="difference", baseline="old")
    text = report.to_text(full=True, width=100)
    assert max(map(columns, text.splitlines())) <= 100
    assert "  difference" in text
    assert "…difference" not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_cannot_break_any_output(name: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    candidate = f"{name} new"
    made = [run(name, candidate, 1), run(name, "old", 1), run(name, "old", 2, failure="infra")]
    made[2]["failure_reason"] = name
    made.append(missing(name, candidate, 2, name))
    made[0][f"key {name}"] = name
    path.write_bytes(lines(made))
    roles = [f"--candidate={candidate}", "--baseline=old"]
    for most, extra in ((80, []), (100, ["--full"])):
        text = twoarm("score", str(path), *roles, *extra)
        assert text.code == 0, text.err
        assert all(line.isprintable() for line in text.out.splitlines())
        assert max(map(columns, text.out.splitlines())) <= most
    again = json.loads(twoarm("score", str(path), *roles, "--format", "json").out)
    assert again["candidate"] == candidate
    assert again["tasks"][0]["task_id"] == name
    markdown = twoarm("score", str(path), *roles, "--format", "markdown").out
    shown = code_spans(markdown)
    if len(name) < 60 and name.strip():
        assert visible(name) in shown
        assert visible(candidate) in shown
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(lines([run(name, candidate, 1, success=name)] * 2))
    result = twoarm("check", str(bad))
    assert all(line.isprintable() for line in result.out.splitlines())
    assert len(result.out.splitlines()) == 2


def test_a_path_with_bytes_that_are_no_text_is_reported(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"runs-\xff.jsonl")
    with open(path, "wb") as file:
        file.write(lines(both()))
    result = twoarm("score", os.fsdecode(path), "--format", "json")
    assert result.code == 0
    assert json.loads(result.out)["inputs"][0]["path"].endswith("runs-\\xff.jsonl")
