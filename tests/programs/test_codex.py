"""Codex: threads that were resumed, rollouts, and what its turns cost."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    FIXTURES,
    changed_lines,
    collected,
    copied,
    only,
    refused,
    sidecar,
)
from twoarm.errors import BadRunsError


def test_a_resumed_codex_thread_is_charged_for_its_own_part_only() -> None:
    found = collected("codex", FIXTURES / "codex", may_differ=["model"])
    resumed = next(record for record in found if record["task_id"] == "resume")
    counts = [resumed[f"{kind}_tokens"] for kind in ("input", "output", "cache_read")]
    assert counts == [200, 30, 1100]


def test_a_codex_thread_met_twice_is_refused_unless_it_says_what_it_resumed(
    tmp_path: Path,
) -> None:
    for case in ("ok", "resume"):
        folder = copied(f"codex/{case}", tmp_path)
        (folder / "rollout.jsonl").unlink(missing_ok=True)
        sidecar(folder, resumed_from=None)
    with pytest.raises(BadRunsError, match="is also in .*name the earlier run in run.json"):
        collected("codex", tmp_path)
    sidecar(tmp_path / "codex-resume", resumed_from="../codex-ok")
    assert len(collected("codex", tmp_path)) == 2


@pytest.mark.parametrize("resumed", ["../..", "nowhere", "/", "."])
def test_a_resumed_run_must_be_a_run_inside_the_folder(resumed: str, tmp_path: Path) -> None:
    folder = copied("codex/resume", tmp_path / "given")
    sidecar(folder, resumed_from=resumed)
    text = refused("codex", folder)
    assert text.startswith(f"{folder}/run.json: resumed_from `{resumed}` is not another run")


def test_a_codex_rollout_splits_its_turns(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)

    def resume(lines: list[Any]) -> None:
        usage = {"input_tokens": 4800, "cached_input_tokens": 3200, "output_tokens": 150}
        stamp = lines[-1]["timestamp"]
        for payload in (
            {"type": "task_started"},
            {"type": "token_count", "info": {"total_token_usage": usage}},
            {"type": "task_complete", "duration_ms": 90},
        ):
            lines.append({"timestamp": stamp, "type": "event_msg", "payload": payload})

    changed_lines(folder / "rollout.jsonl", resume)
    first = only("codex", folder)
    assert (first["input_tokens"], first["step_count"]) == (1400, 3)
    usage = {"input_tokens": 4800, "cached_input_tokens": 3200, "output_tokens": 150}
    changed_lines(folder / "events.jsonl", lambda events: events[-1].update(usage=usage))
    second = only("codex", folder)
    assert (second["input_tokens"], second["output_tokens"], second["step_count"]) == (200, 30, 1)
    assert second["duration_seconds"] == 0.09


def test_a_codex_rollout_alone_is_a_run(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    (folder / "events.jsonl").unlink()
    record = only("codex", folder)
    assert (record["input_tokens"], record["failure"], record["model"]) == (
        1400,
        None,
        "scripted-ok",
    )
    changed_lines(folder / "rollout.jsonl", lambda lines: lines.pop())
    assert only("codex", folder)["failure_reason"] == "killed: its turn did not end"


def test_tokens_of_a_failed_codex_turn_are_in_its_rollout(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    failed = {"type": "turn.failed", "error": {"message": "boom"}}
    changed_lines(folder / "events.jsonl", lambda events: events.__setitem__(-1, failed))
    record = only("codex", folder)
    assert (record["failure"], record["failure_reason"]) == ("infra", "boom")
    assert record["input_tokens"] == 1400


def test_a_codex_run_without_a_terminal_event_was_killed(tmp_path: Path) -> None:
    folder = copied("codex/flaky_reconnect", tmp_path)
    changed_lines(folder / "events.jsonl", lambda events: events.pop())
    record = only("codex", folder)
    assert (record["failure"], record["input_tokens"]) == ("agent", None)


def test_a_codex_subagent_is_a_caveat(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    item = {"type": "item.completed", "item": {"type": "collab_tool_call"}}
    changed_lines(folder / "events.jsonl", lambda events: events.insert(3, item))
    record = only("codex", folder)
    assert (record["tool_call_count"], record["tags"]) == (3, ["subagents_left_out"])


def test_more_cached_than_input_tokens_are_refused(tmp_path: Path) -> None:
    folder = copied("codex/flaky_reconnect", tmp_path)
    changed_lines(
        folder / "events.jsonl", lambda events: events[-1]["usage"].update(input_tokens=2000)
    )
    assert "2,100 cached tokens, but only 2,000 input tokens" in refused("codex", folder)
