"""What is kept of a run, why it counts as it does, and what every program tells of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run
from twoarm.programs.entry import cut, keep
from twoarm.programs.event import Event
from twoarm.run_pages.page import outcome_of
from twoarm.run_pages.view import RunView, Views, why


def test_what_is_cut_is_in_the_middle() -> None:
    found = cut("a" * 3000 + "b" * 3000, 600)
    assert (found.head, found.tail) == ("a" * 400, "b" * 200)
    assert found.left_out == 5400
    assert cut("short", 600) == cut("short")
    # A quote takes six bytes.
    assert len(cut('"' * 1000, 600).head) == 66


def test_the_first_and_the_last_events_are_kept() -> None:
    events = [Event(kind="message", text=f"{n} " + "x" * 1000) for n in range(1000)]
    found = keep(events)
    assert found.first[0].text.head.startswith("0 ")
    assert found.last[-1].text.head.startswith("999 ")
    assert len(found.first) + found.left_out + len(found.last) == 1000
    assert found.last_words is not None
    assert found.last_words.head.startswith("999 ")


def test_a_call_has_its_result_with_it_and_how_long_it_took() -> None:
    found = keep(
        [
            Event(kind="message", text="hi", at=100.0),
            Event(kind="call", id="a", tool="Bash", text="ls", at=101.0),
            Event(kind="call", id="b", tool="Read", text="x", at=101.5),
            Event(kind="result", id="b", text="no such file", failed=True, at=103.0),
            Event(kind="result", id="a", text="x", failed=False, at=104.5),
            Event(kind="result", id="never", text="?"),
        ]
    )
    shown = [
        (e.kind, e.tool, e.at, e.seconds, e.failed, e.result and e.result.head) for e in found.first
    ]
    assert shown == [
        ("message", "", 0.0, None, None, None),
        ("call", "Bash", 1.0, 3.5, False, "x"),
        ("call", "Read", 1.5, 1.5, True, "no such file"),
    ]


def test_pieces_of_a_message_are_one() -> None:
    pieces = [Event(kind="piece", text=text) for text in ("I ", "will ", "go.")]
    assert [e.text.head for e in keep(pieces).first] == ["I will go."]


# Why a run counts as it does ---------------------------------------------------------------------


def line(**keys: Any) -> Any:
    import msgspec

    from twoarm.runs.record import OpenLine

    return msgspec.convert(run(**keys), OpenLine)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"success": True}, ["counts as passed"]),
        ({"success": False, "failure": None}, ["counts as failed"]),
        (
            {"success": True, "failure": "agent", "failure_reason": "time limit"},
            ["counts as failed: a failure of the agent: `time limit`"],
        ),
        ({"failure": "infra"}, ["excluded: an infra failure: `no reason given`"]),
        (
            {"success": False, "failure": "missing", "failure_reason": "lost: x"},
            ["missing: planned, and without a run: `lost: x`"],
        ),
        (
            {"acceptance_exit_code": 3, "uptake_count": 0},
            ["counts as passed", "acceptance ended with exit code 3", "uses of the change: 0"],
        ),
        (
            {"success": False, "acceptance_exit_code": 1, "agent_exit_code": 137},
            [
                "counts as failed: acceptance ended with exit code 1",
                "the agent ended with exit code 137",
            ],
        ),
        (
            {"acceptance_exit_code": 0},
            ["counts as passed: acceptance ended with exit code 0"],
        ),
        (
            {"success": False, "failure": None, "acceptance_exit_code": 2},
            ["counts as failed: acceptance ended with exit code 2"],
        ),
        (
            {"failure": "agent", "failure_reason": "time limit", "acceptance_exit_code": 0},
            [
                "counts as failed: a failure of the agent: `time limit`",
                "acceptance ended with exit code 0",
            ],
        ),
        (
            {"score": 2 / 3, "checks": {"unit": True, "lint": False, "docs": True}},
            [
                "counts as passed",
                "score 0.667",
                "checks passed: `unit`, `docs`",
                "checks failed: `lint`",
            ],
        ),
        (
            {"checks": {"a": None, "\x1b[2J": False}},
            ["counts as passed", "checks failed: `\\x1b[2J`", "checks not known: `a`"],
        ),
        (
            {"tags": ["cost_unknown", "of-my-own", 7]},
            [
                "counts as passed",
                "work was done but the cost is 0, so the cost is null, not 0",
                "tag `of-my-own`",
                "tag `7`",
            ],
        ),
    ],
)
def test_why_a_run_counts_as_it_does(keys: dict[str, Any], said: list[str]) -> None:
    assert [str(sentence) for sentence in why(line(**keys))] == said


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        ({"success": True}, "passed"),
        ({"success": False, "failure": None}, "failed"),
        ({"success": True, "failure": "agent"}, "failed"),
        ({"success": True, "failure": "infra"}, "excluded"),
        ({"success": False, "failure": "missing"}, "missing"),
    ],
)
def test_how_a_run_ended_in_one_word(keys: dict[str, Any], outcome: str) -> None:
    assert outcome_of(line(**keys)) == outcome


# Every program -----------------------------------------------------------------------------------


def view(root: Path, name: str, lines: list[Any] | str, **keys: Any) -> RunView:
    text = lines if isinstance(lines, str) else "".join(json.dumps(one) + "\n" for one in lines)
    path = root / "run" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Views().of(line(run_path=f"run/{name}", **keys), str(root))


def told(found: RunView) -> list[tuple[Any, ...]]:
    assert found.entries is not None
    return [
        (e.kind, e.tool, e.text.head, e.result and e.result.head, e.failed, e.seconds)
        for e in (*found.entries.first, *found.entries.last)
    ]


def test_opencode(tmp_path: Path) -> None:
    part = {
        "type": "tool",
        "tool": "bash",
        "state": {
            "status": "completed",
            "input": {"command": "ls"},
            "output": "x",
            "metadata": {"exit": 2},
            "time": {"start": 1000, "end": 3500},
        },
    }
    base = {"timestamp": 1000, "sessionID": "ses_1"}
    tokens = {"input": 7, "output": 5, "cache": {"read": 1, "write": 0}}
    lines = [
        {**base, "type": "text", "part": {"type": "text", "text": "hi"}},
        {**base, "type": "tool_use", "part": part},
        {**base, "type": "step_finish", "part": {"type": "step-finish", "tokens": tokens}},
        {**base, "type": "error", "error": {"name": "APIError", "data": {"message": "no"}}},
    ]
    found = view(tmp_path, "events.jsonl", lines)
    assert told(found)[:2] == [
        ("message", "", "hi", None, None, None),
        ("call", "bash", "ls", "x", True, 2.5),
    ]
    assert told(found)[2][0] == "note"
    assert found.entries is not None
    spend = found.entries.first[1].spend
    assert spend is not None
    assert spend.counts == (7, 5, 1, 0)


def test_codex_with_and_without_its_rollout(tmp_path: Path) -> None:
    items = [
        {"id": "1", "type": "agent_message", "text": "hi"},
        {
            "id": "2",
            "type": "command_execution",
            "command": "ls",
            "aggregated_output": "x",
            "exit_code": 1,
        },
        {
            "id": "3",
            "type": "mcp_tool_call",
            "server": "s",
            "tool": "t",
            "arguments": {"q": 1},
            "error": {"message": "no"},
            "status": "failed",
        },
    ]
    lines = [{"type": "thread.started", "thread_id": "t"}]
    lines += [{"type": "item.completed", "item": item} for item in items]  # type: ignore[dict-item]
    found = told(view(tmp_path, "events.jsonl", lines))
    assert found[:2] == [
        ("message", "", "hi", None, None, None),
        ("call", "command_execution", "ls", "x", True, None),
    ]
    assert found[2][:2] == ("call", "mcp__s__t")
    assert found[2][4] is True
    item = {
        "type": "CommandExecution",
        "command": ["bash", "-lc", "ls"],
        "aggregated_output": "x",
        "exit_code": 0,
    }
    payload = {
        "type": "item_completed",
        "item": item,
        "started_at_ms": 1000,
        "completed_at_ms": 1250,
    }
    rollout = {"timestamp": "2026-11-15T06:00:00Z", "type": "event_msg", "payload": payload}
    (tmp_path / "run" / "rollout.jsonl").write_text(json.dumps(rollout) + "\n")
    assert told(view(tmp_path, "events.jsonl", lines)) == [
        ("call", "command_execution", "ls", "x", False, 0.25)
    ]


def test_gemini_cli(tmp_path: Path) -> None:
    def at(second: int, kind: str, **keys: Any) -> dict[str, Any]:
        return {"type": kind, "timestamp": f"2026-11-15T06:00:{second:02}.000Z", **keys}

    lines = [
        at(0, "init", session_id="s", model="m"),
        at(0, "message", role="user", content="do it"),
        at(1, "message", role="assistant", content="I ", delta=True),
        at(1, "message", role="assistant", content="go.", delta=True),
        at(2, "tool_use", tool_name="run_shell_command", tool_id="a", parameters={"command": "ls"}),
        at(5, "tool_result", tool_id="a", status="success", output="x"),
    ]
    found = view(tmp_path, "stream.jsonl", lines)
    assert told(found) == [
        ("message", "", "I go.", None, None, None),
        ("call", "run_shell_command", "ls", "x", None, 3.0),
    ]
    assert found.prompt is not None
    assert found.prompt.head == "do it"


TRIAL = {"id": "i", "task_name": "t", "trial_name": "t", "agent_info": {}, "config": {}}


def test_mini_swe_agent_and_inspect_and_harbor(tmp_path: Path) -> None:
    action = {"command": "ls", "tool_call_id": "a"}
    messages = [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": "ok", "extra": {"actions": [action], "timestamp": 10.0}},
        {
            "role": "tool",
            "content": "x",
            "tool_call_id": "a",
            "extra": {"returncode": 1, "timestamp": 12.0},
        },
    ]
    document = {"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": messages}
    found = view(tmp_path / "mini", "t.traj.json", json.dumps(document))
    assert told(found) == [
        ("message", "", "ok", None, None, None),
        ("call", "bash", "ls", "x", True, 2.0),
    ]
    event = {
        "event": "tool",
        "function": "add",
        "arguments": {"x": 1},
        "result": "2",
        "timestamp": "2026-11-15T06:00:00Z",
        "completed": "2026-11-15T06:00:01Z",
    }
    log = {
        "version": 2,
        "status": "success",
        "eval": {},
        "samples": [{"id": 1, "epoch": 1, "uuid": "u", "input": "sum", "events": [event]}],
    }
    path = tmp_path / "inspect" / "run" / "log.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(log))
    seen = Views().of(line(run_path="run/log.json:sample 1", run_id="u"), str(tmp_path / "inspect"))
    assert told(seen) == [("call", "add", '{\n  "x": 1\n}', "2", False, 1.0)]
    step = {
        "source": "agent",
        "message": "ok",
        "tool_calls": [
            {"tool_call_id": "1", "function_name": "Bash", "arguments": {"command": "ls"}}
        ],
        "observation": {"results": [{"source_call_id": "1", "content": "x"}]},
    }
    place = tmp_path / "harbor" / "run"
    (place / "agent").mkdir(parents=True)
    (place / "agent" / "trajectory.json").write_text(json.dumps({"steps": [step]}))
    (place / "config.json").write_text("{}")
    seen = view(tmp_path / "harbor", "result.json", json.dumps(TRIAL))
    assert told(seen)[1] == ("call", "Bash", "ls", "x", None, None)
    (place / "agent" / "trajectory.json").unlink()
    seen = view(tmp_path / "harbor", "result.json", json.dumps(TRIAL))
    assert [event[2] for event in told(seen)] == ["the agent left no trajectory"]


def test_a_trajectory_that_is_too_long_is_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "run" / "agent"
    place.mkdir(parents=True)
    steps = [{"source": "agent", "message": "x" * 1000}]
    (place / "trajectory.json").write_text(json.dumps({"steps": steps}))
    (place.parent / "config.json").write_text("{}")
    monkeypatch.setattr("twoarm.programs.event.LONGEST_DOCUMENT", 1000)
    seen = view(tmp_path, "result.json", json.dumps(TRIAL))
    assert [event[:3] for event in told(seen)] == [
        ("note", "", "cannot be shown: 1,047 bytes, too long to be shown")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\1\2" * 1000,
        "[1, 2]",
        "null",
        "not json",
        '{"type": "assistant", "message": 3}',
        '{"type": "assistant", "message": {"content": [1, {"type": "tool_use", "input": [[]]}]}}',
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize(
    "head",
    [
        '{"type":"system","subtype":"init"}\n',
        '{"type":"init","timestamp":0}\n',
        '{"sessionID":"ses_1"}\n',
        '{"type":"thread.started"}\n',
        "",
    ],
)
def test_any_bytes_give_a_view(tmp_path: Path, head: str, text: str) -> None:
    for name in ("events.jsonl", "stdout.txt"):
        found = view(tmp_path / name, name, head + text)
        assert found.entries is not None


def test_what_is_odd_inside_a_document_is_a_note(tmp_path: Path) -> None:
    lines = [{"type": "system", "subtype": "init"}, {"type": "assistant", "message": 3}]
    found = view(tmp_path / "claude", "result.json", json.dumps(lines))
    assert told(found)[-1][2] == "cannot be shown: expected `object`, got `int`"
    events = [{"event": "model", "output": 3}]
    sample = {"id": 1, "epoch": 1, "uuid": "u", "events": events}
    log = {"version": 2, "status": "success", "eval": {}, "samples": [sample]}
    found = view(tmp_path / "inspect", "log.json", json.dumps(log), run_id="u")
    assert told(found)[-1][2] == "cannot be shown: expected `object | null`, got `int`"
