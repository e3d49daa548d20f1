"""Run folders of any command: the sidecar alone, or with the counts that the program left."""

import json
from pathlib import Path

import pytest

from tests.collecting import only, sidecar
from twoarm.errors import BadRunsError


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


def test_counts_that_are_none_are_refused(tmp_path: Path) -> None:
    sidecar(tmp_path)
    (tmp_path / "usage.json").write_text('{"tokens": 1}')
    with pytest.raises(BadRunsError, match="tokens"):
        only("command", tmp_path)
