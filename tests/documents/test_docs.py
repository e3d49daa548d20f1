"""The documents are held to account: their commands are run, their schemas are ours."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from tests.support.documents import DOCS, ROOT, blocks
from tests.support.planned_runs import missing
from tests.support.scriptless import scriptless

SCHEMA_FILE = ROOT / "src" / "twoarm" / "run_record.schema.json"
# collect.md has a test of its own, with stand-ins for the agents it calls.
OTHERS = [path for path in sorted(DOCS.glob("*.md")) if path.name != "collect.md"]
# What mypy knows of the libraries that the examples import; it sees for itself what has changed.
MYPY_CACHE = ROOT / ".mypy_cache" / "examples"
DOCUMENTS = [ROOT / "README.md", *OTHERS]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_console_block_prints_what_it_says(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = scriptless(
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        PYTHONIOENCODING="utf-8",
    )
    for block in blocks(path, "console"):
        for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, expected = step.partition("\n")
            result = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            printed = result.stdout.decode()
            if request.config.getoption("--update-golden"):
                text = path.read_text(encoding="utf-8")
                changed = text.replace(f"$ {command}\n{expected}", f"$ {command}\n{printed}", 1)
                path.write_text(changed, encoding="utf-8")
                expected = printed
            assert printed == expected, command


def test_the_readme_has_blocks_to_run() -> None:
    assert len(blocks(DOCUMENTS[0], "console")) == 3


def test_the_python_example_runs_and_is_typed(tmp_path: Path) -> None:
    demo = twoarm("demo", "--print").out
    (tmp_path / "collected.jsonl").write_text(demo, encoding="utf-8")
    (example,) = blocks(DOCS / "python.md", "python")
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=scriptless(),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.decode().startswith("prefer with_skelly")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", MYPY_CACHE, script],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout.decode()


def test_the_record_schema_in_the_package_is_the_one_of_the_type(
    request: pytest.FixtureRequest,
) -> None:
    printed = twoarm("schema", "record").out
    if request.config.getoption("--update-golden"):
        SCHEMA_FILE.write_text(printed, encoding="utf-8")
    assert SCHEMA_FILE.read_text(encoding="utf-8") == printed


def test_the_record_schema_takes_what_is_read_and_refuses_what_is_not() -> None:
    schema = json.loads(twoarm("schema", "record").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for line in twoarm("demo", "--print").out.splitlines():
        validator.validate(json.loads(line))
    validator.validate(missing())
    validator.validate(run(unknown=1, tags=["a"], failure=None, opencode_exit_code=3))
    validator.validate(run(planned_looks={"looks": [3, 5, 10]}))
    validator.validate(run(score=0.5, checks={"a": True, "b": None}, part=2, grader="f00d"))
    validator.validate(run(looked_before=0))
    for changed in (
        {"repeat": 0},
        {"success": 1},
        {"task_id": ""},
        {"duration_seconds": None},
        {"input_tokens": 2**53},
        {"failure": "x"},
        {"planned_looks": {"looks": "3"}},
        {"score": 1.01},
        {"checks": {"a": 1}},
        {"checks": {str(number): True for number in range(51)}},
        {"part": 0},
        {"looked_before": -1},
    ):
        assert list(validator.iter_errors(run(**changed))), changed


@cache
def analysis_validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(twoarm("schema", "analysis").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    "runs",
    [
        both(),
        [run()],
        both(input_tokens=None, total_cost_usd=None),
        [*both(), run(repeat=2, failure="infra", odd=1)],
        [*both(), missing(), missing(repeat=2), missing("u", "without_skelly")],
        [
            *(run(repeat=r) for r in range(1, 40)),
            *(missing("t", "without_skelly", r) for r in (1, 2)),
        ],
        [
            one
            for repeat in range(1, 21)
            for one in (run(repeat=repeat), run("t", "without_skelly", repeat))
        ]
        + [missing(repeat=repeat) for repeat in range(21, 60)],
        [
            one
            for repeat in range(1, 7)
            for one in both(f"t{repeat % 3}", repeat, success=repeat > 2)
        ],
    ],
)
def test_real_output_fits_the_analysis_schema(runs: list[dict[str, object]]) -> None:
    analysis = package.score(runs)
    written = json.loads(analysis.to_json())
    analysis_validator().validate(written)
    assert written == json.loads(json.dumps(analysis.to_dict()))


FIXED_KEYS = {
    "": "schema generated_at_utc tool inputs options candidate baseline run_count "
    "effective_run_count excluded_infra_failures task_count arm_summaries paired gates decision "
    "promotion adequacy excluded diagnostics tasks caveats",
    "tool": "name version",
    "inputs": "path sha256 records",
    "arm_summaries": "arm runs successes success_rate total_cost_usd avg_cost_usd median_cost_usd "
    "median_duration_seconds median_total_tokens median_non_cache_tokens median_cache_read_tokens "
    "median_cache_write_tokens median_step_count median_tool_call_count "
    "median_acceptance_cmd_count solved_per_dollar missing",
    "paired": "paired_runs unpaired_runs "
    + " ".join(
        f"{kind}_{name}"
        for kind in ("mean", "median")
        for name in (
            "pass_delta",
            "cost_delta_usd",
            "duration_delta_seconds",
            "token_delta",
            "non_cache_token_delta",
            "cache_read_token_delta",
            "cache_write_token_delta",
            "step_count_delta",
            "tool_call_count_delta",
            "acceptance_cmd_count_delta",
        )
    ),
    "gates": "name candidate baseline holds standing",
    "promotion": "verdict reasons",
    "adequacy": "minimum_repeats preferred_repeats fewest_repeats status below_minimum",
    "excluded": "reason arm runs",
    "caveats": "code message",
}


@cache
def demo_analysis() -> dict[str, Any]:
    return dict(json.loads(twoarm("demo", "--format", "json").out))


@pytest.mark.parametrize(("part", "names"), FIXED_KEYS.items())
def test_the_fixed_keys_of_the_analysis_file_are_there(part: str, names: str) -> None:
    written = demo_analysis()
    found = written[part] if part else written
    assert set(names.split()) <= set(found[0] if isinstance(found, list) else found)
    assert next(iter(written)) == "schema"


def test_the_example_is_what_its_generator_writes() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "examples" / "make_example.py"], capture_output=True, check=True
    )
    assert made.stdout == (ROOT / "src" / "twoarm" / "example.jsonl").read_bytes()


def test_a_run_file_written_by_the_api_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(both()))
    assert package.score(path).decision == package.score(both()).decision


def test_every_kind_of_report_has_an_equal_in_the_library(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(both()))
    analysis = package.score(path)
    assert twoarm("score", str(path)).out == analysis.to_text()
    assert twoarm("score", str(path), "--format", "markdown").out == analysis.to_markdown()
    printed = json.loads(twoarm("score", str(path), "--format", "json").out)
    assert printed | {"generated_at_utc": None} == json.loads(analysis.to_json())
