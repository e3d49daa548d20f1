"""Lines of an output that are no events: skipped and counted, and half an event refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    changed_lines,
    collection,
    copied,
    only,
    records,
    refusal,
    sidecar,
)
from twoarm.programs import folder as folder_module

# Format, fixture, and the file that is the standard output of the program.
STREAMS = {
    "codex": ("codex/ok", "events.jsonl"),
    "opencode": ("opencode/ok", "events.jsonl"),
    "claude-code": ("claude-code/real_ok", "stream.jsonl"),
    "gemini-cli": ("gemini-cli/ok_stream", "stdout.txt"),
}
NOISE = ["Loading...", "42", "{ code: 'ENOENT' }", "[STARTUP] done", "null", "{"]
# The first bytes of an event.
HALF = '{"type":"item.comp'


def noisy(name: str, tmp_path: Path, *, at: int, line: str) -> Path:
    """A fixture with a line that is no event somewhere in its output."""
    case, output = STREAMS[name]
    folder = copied(case, tmp_path)
    path = folder / output
    lines = path.read_text().splitlines()
    lines.insert(at if at >= 0 else len(lines), line)
    path.write_text("\n".join(lines) + ("" if line == HALF else "\n"))
    return folder


def without_tags(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "tags"}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("at", [0, 1, -1])
@pytest.mark.parametrize("line", NOISE)
def test_what_is_printed_between_events_changes_no_number(
    name: str, at: int, line: str, tmp_path: Path
) -> None:
    usual = only(name, copied(STREAMS[name][0], tmp_path / "usual"))
    found = only(name, noisy(name, tmp_path, at=at, line=line))
    assert without_tags(found) == without_tags(usual)
    assert set(found["tags"]) - set(usual.get("tags", ())) == {"noise_in_output"}


def test_lines_are_counted(tmp_path: Path) -> None:
    folder = noisy("codex", tmp_path, at=0, line="Loading...\nstill\n\nloading")
    with collection("codex", folder) as found:
        said = [str(caveat.message) for caveat in found.caveats if "noise" in caveat.code]
    assert said == [
        "lines of the output are not events and were skipped (3 lines): 1 run, "
        f"first {folder}/events.jsonl"
    ]


@pytest.mark.parametrize("name", STREAMS)
def test_half_an_event_is_refused_where_nobody_knows_that_the_run_was_stopped(
    name: str, tmp_path: Path
) -> None:
    """The copy may have been cut, and with it the count of all tokens."""
    folder = noisy(name, tmp_path, at=-1, line=HALF)
    assert "not JSON: input data was truncated" in refusal(name, folder)
    sidecar(folder, ended_by="exit")
    assert "not JSON: input data was truncated" in refusal(name, folder)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("why", ["stopped", "scheduled"])
def test_half_an_event_is_noise_in_a_run_that_was_stopped_or_is_paid_for(
    name: str, why: str, tmp_path: Path
) -> None:
    folder = noisy(name, tmp_path, at=-1, line=HALF)
    sidecar(folder, ended_by="timeout" if why == "stopped" else "exit")
    record = only(name, folder, settings={"scheduled": True} if why == "scheduled" else {})
    assert "noise_in_output" in record["tags"]
    assert record["failure"] == ("agent" if why == "stopped" else None)


def test_a_rollout_that_was_cut_by_a_time_limit_is_read(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    path = folder / "rollout.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert "rollout.jsonl:" in refusal("codex", folder)
    sidecar(folder, ended_by="timeout")
    record = only("codex", folder)
    assert (record["failure"], record["input_tokens"]) == ("agent", 1400)
    assert "noise_in_output" in record["tags"]


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("line", ['{"type": 3}', "{}", '{"no": "type"}'])
@pytest.mark.parametrize("scheduled", [True, False])
def test_an_object_of_another_shape_is_no_noise(
    name: str, line: str, scheduled: bool, tmp_path: Path
) -> None:
    folder = noisy(name, tmp_path, at=-1, line=line)
    assert "type`" in refusal(name, folder, settings={"scheduled": scheduled})


@pytest.mark.parametrize("name", STREAMS)
def test_noise_in_a_large_file_is_skipped_as_well(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "WHOLE_FILE", 100)
    assert "noise_in_output" in only(name, noisy(name, tmp_path, at=1, line="..."))["tags"]


def test_a_document_may_come_after_noise(tmp_path: Path) -> None:
    for name, case, output in (
        ("claude-code", "claude-code/result_success", "result.json"),
        ("claude-code", "claude-code/array", "result.json"),
        ("gemini-cli", "gemini-cli/ok_json", "stdout.txt"),
    ):
        usual = only(name, copied(case, tmp_path / "usual"))
        folder = copied(case, tmp_path / "noisy")
        path = folder / output
        path.write_text("[STARTUP] Loading...\n" + path.read_text())
        with collection("auto", folder) as found:
            assert found.format == name
            (record,) = records(found)
        assert without_tags(record) == without_tags(usual)
        assert "noise_in_output" in record["tags"]


# Nothing at all ----------------------------------------------------------------------------------

SILENT = {name: output for name, (_, output) in STREAMS.items()}


def silent(name: str, folder: Path, text: str, **known: Any) -> Path:
    folder.mkdir()
    (folder / SILENT[name]).write_text(text)
    sidecar(folder, acceptance_exit_code=1, **known)
    return folder


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("text", ["", "Segmentation fault\n"])
def test_a_crash_before_the_first_event_is_the_agents_failure(
    name: str, text: str, tmp_path: Path
) -> None:
    record = only(name, silent(name, tmp_path / "run", text, ended_by="exit", agent_exit_code=3))
    assert (record["failure"], record["success"]) == ("agent", False)
    assert record["failure_reason"] == "exited early: no event was printed (exit code 3)"
    assert "no_event" in record["tags"]


@pytest.mark.parametrize("name", STREAMS)
def test_a_time_out_before_the_first_event_is_one(name: str, tmp_path: Path) -> None:
    folder = silent(name, tmp_path / "run", "", ended_by="timeout", agent_exit_code=-15)
    assert only(name, folder)["failure_reason"] == "hit the time limit of its runner"


@pytest.mark.parametrize("name", STREAMS)
def test_text_instead_of_events_from_a_program_that_did_well_is_another_format(
    name: str, tmp_path: Path
) -> None:
    folder = silent(name, tmp_path / "run", "All done!\n", ended_by="exit", agent_exit_code=0)
    assert refusal(name, folder) == f"{folder}/{SILENT[name]}: no event of {name} in it"


def test_a_provider_that_visibly_refused_is_infra_all_the_same(tmp_path: Path) -> None:
    folder = silent("opencode", tmp_path / "run", "", ended_by="exit", agent_exit_code=1)
    (folder / "opencode.log").write_text(
        'timestamp=2026-11-15T16:00:01Z level=ERROR run=9f message="stream error" '
        'error.error="AI_APICallError: Rate limit reached."\n'
    )
    record = only("opencode", folder)
    assert record["failure"] == "infra"
    assert record["failure_reason"].endswith("AI_APICallError: Rate limit reached.")


@pytest.mark.parametrize(("name", "case"), [("codex", "codex/ok"), ("opencode", "opencode/ok")])
def test_what_was_written_down_counts_where_nothing_was_printed(
    name: str, case: str, tmp_path: Path
) -> None:
    folder = copied(case, tmp_path)
    (folder / "events.jsonl").write_text("")
    sidecar(folder, ended_by="exit", agent_exit_code=0)
    record = only(name, folder)
    assert (record["success"], record["input_tokens"], record["output_tokens"]) == (True, 1400, 120)


def test_an_error_that_only_the_rollout_of_codex_tells_is_one(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    (folder / "events.jsonl").write_text("")
    sidecar(folder, ended_by="exit", agent_exit_code=1)
    error = {"message": "unexpected status 429 Too Many Requests"}
    changed_lines(folder / "rollout.jsonl", lambda lines: lines[-1]["payload"].update(error=error))
    record = only("codex", folder)
    assert (record["failure"], record["failure_reason"]) == ("infra", error["message"])
