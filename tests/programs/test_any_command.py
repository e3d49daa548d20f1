"""Run folders of any command: the sidecar alone, or with the counts that the program left."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import collection, only, records, sidecar


def test_a_sidecar_alone_is_a_run_without_counts(tmp_path: Path) -> None:
    sidecar(tmp_path)
    (tmp_path / "stdout.txt").write_text("anything at all")
    record = only("command", tmp_path)
    assert record["success"] is True
    counts = ("total_cost_usd", "input_tokens", "output_tokens", "cache_read_tokens")
    assert [record[key] for key in counts] == [None] * 4


def test_a_program_may_leave_its_own_counts(tmp_path: Path) -> None:
    sidecar(tmp_path)
    used = {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cost_usd": 0.5}
    (tmp_path / "usage.json").write_text(json.dumps(used | {"step_count": 4}))
    record = only("command", tmp_path)
    assert (record["input_tokens"], record["output_tokens"]) == (1, 2)
    assert (record["cache_read_tokens"], record["cache_write_tokens"]) == (3, None)
    assert (record["total_cost_usd"], record["step_count"]) == (0.5, 4)


def test_a_program_may_say_that_its_provider_failed(tmp_path: Path) -> None:
    sidecar(tmp_path)
    said = {"failure": {"failure": "infra", "reason": "429 too many requests"}}
    (tmp_path / "usage.json").write_text(json.dumps(said))
    record = only("command", tmp_path)
    assert (record["failure"], record["failure_reason"]) == ("infra", "429 too many requests")


COUNTS = ("total_cost_usd", "input_tokens", "output_tokens", "step_count")


def told(folder: Path, text: str) -> tuple[dict[str, Any], list[str]]:
    """The record of a run with such a `usage.json`, and what the summary says of it."""
    sidecar(folder)
    (folder / "usage.json").write_text(text)
    with collection("command", folder) as found:
        (record,) = records(found)
        said = [str(one.message) for one in found.caveats if one.code.startswith("usage")]
    return record, said


def test_the_names_are_those_of_a_record(tmp_path: Path) -> None:
    used = {"total_cost_usd": 0.5, "input_tokens": 7, "session_id": "s", "cost_usd": 0.5}
    record, said = told(tmp_path, json.dumps(used))
    assert (record["total_cost_usd"], record["input_tokens"], record["session_id"]) == (0.5, 7, "s")
    assert said == []
    failed = {"failure": "infra", "failure_reason": "429 too many requests"}
    record, _ = told(tmp_path, json.dumps(failed))
    assert (record["failure"], record["failure_reason"]) == ("infra", "429 too many requests")


def test_a_key_that_nobody_reads_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    used = {"total_cost_usd": 0.5, "prompt_tokens": 9, "a`\x1b[31m": 1}
    record, said = told(tmp_path, json.dumps(used))
    assert (record["success"], record["total_cost_usd"]) == (True, 0.5)
    assert record["tags"] == ["duration_wall_clock", "usage_key_unknown"]
    assert said == [
        "keys of usage.json that nobody reads (``a`\\x1b[31m``, `prompt_tokens`): 1 run, "
        f"first {tmp_path}/usage.json"
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [('"7"', 'input_tokens = "7"'), ("-1", "input_tokens = -1"), ("7.5", "input_tokens = 7.5")],
)
def test_a_count_that_is_none_is_named_and_null(value: str, shown: str, tmp_path: Path) -> None:
    record, said = told(tmp_path, f'{{"input_tokens": {value}, "output_tokens": 8.0}}')
    assert (record["input_tokens"], record["output_tokens"]) == (None, 8)
    assert (record["success"], record["failure"]) == (True, None)
    assert f"are null (`{shown}`)" in said[0]


def test_two_costs_that_differ_are_named_and_none_is_used(tmp_path: Path) -> None:
    record, said = told(tmp_path, '{"cost_usd": 1, "total_cost_usd": 2, "input_tokens": 3}')
    assert (record["total_cost_usd"], record["input_tokens"]) == (None, 3)
    assert "(`total_cost_usd = 2.0 and cost_usd = 1.0`)" in said[0]


@pytest.mark.parametrize("text", ["{", "", "[]", "7", '{"tokens": 1}', '{"input_tokens": "7"}'])
def test_counts_of_which_none_can_be_read_leave_the_verdict_to_acceptance(
    text: str, tmp_path: Path
) -> None:
    record, said = told(tmp_path, text)
    assert (record["success"], record["failure"]) == (True, None)
    assert [record.get(key) for key in COUNTS] == [None] * len(COUNTS)
    assert record["tags"] == ["duration_wall_clock", "usage_unread"]
    assert len(said) == 1


def test_no_counts_are_no_mistake(tmp_path: Path) -> None:
    assert told(tmp_path, "{}")[1] == []


def test_a_key_is_named_once_for_all_runs(tmp_path: Path) -> None:
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        sidecar(folder, repeat=number + 1)
        used = {"step_count": 1, "odd": 1, f"odd{number}": 1}
        (folder / "usage.json").write_text(json.dumps(used))
    with collection("command", tmp_path) as found:
        (said,) = (str(one.message) for one in found.caveats if one.code == "usage_key_unknown")
    assert said.count("`odd`") == 1
    assert "and 26 more): 30 runs" in said
