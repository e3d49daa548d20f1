"""The page of a run and its record agree on tokens, or the page says why they do not."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.collect_fixtures import (
    BEHAVIOUR,
    FIXTURES,
    changed_lines,
    collected,
    copied,
    set_keys,
)
from twoarm.programs.entry import Entry, keep
from twoarm.programs.event import Event
from twoarm.programs.tokens import Spend
from twoarm.run_pages.view import Views
from twoarm.runs.record import OpenLine

COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def entries(record: dict[str, Any], base: Path) -> list[Entry]:
    view = Views().of(msgspec.convert(record, OpenLine), str(base))
    assert view.entries is not None, view.missing
    assert not view.entries.left_out
    return [*view.entries.first, *view.entries.last]


def shown(record: dict[str, Any], base: Path) -> list[int]:
    """The tokens on the page of a run, added up."""
    spends = [entry.spend.counts for entry in entries(record, base) if entry.spend is not None]
    return [sum(counts[at] or 0 for counts in spends) for at in range(4)]


def counted(record: dict[str, Any]) -> list[int]:
    return [record[key] or 0 for key in COUNTS]


def notes(record: dict[str, Any], base: Path) -> list[str]:
    return [entry.text.head for entry in entries(record, base) if entry.kind == "note"]


def cases() -> list[str]:
    """Every fixture; a log of Inspect alone, because two of them are two arms."""
    found = []
    for case in sorted(FIXTURES.glob("*/*")):
        logs = [path for path in case.glob("*") if path.name != "expected.json"]
        if case.is_dir() and case.parent.name != "table":
            found += logs if case.parent.name == "inspect" else [case]
    return [str(path.relative_to(FIXTURES)) for path in found]


@pytest.mark.parametrize("case", [case for case in cases() if case != "codex/resume"])
def test_the_page_of_a_run_and_its_record_agree_on_tokens(case: str) -> None:
    program = case.split("/")[0].removesuffix("-old")
    options = BEHAVIOUR if program == "harbor" else {}
    for record in collected(program, FIXTURES / case, relative_to=str(FIXTURES), **options):
        assert shown(record, FIXTURES) == counted(record)


def test_tokens_that_come_before_any_event_are_not_lost() -> None:
    spend = Spend(model=None, input=1, output=2, cache_read=None, cache_write=None)
    early = Event(kind="spend", spend=spend)
    (entry,) = keep([early, early, Event(kind="message", text="hi")]).first
    assert entry.spend is not None
    assert entry.spend.counts == (2, 4, None, None)
    (entry,) = keep([early]).first
    assert (entry.text.head, entry.spend) == ("tokens alone: no event tells what for", spend)


def test_a_resumed_thread_counts_all_its_runs_and_its_page_says_so(tmp_path: Path) -> None:
    for name in ("ok", "resume"):
        shutil.copytree(FIXTURES / "codex" / name, tmp_path / "runs" / name)
    runs = collected("codex", tmp_path / "runs", relative_to=str(tmp_path))
    (record,) = (run for run in runs if "resume" in run["run_path"])
    assert sum(shown(record, tmp_path)) > sum(counted(record))
    assert notes(record, tmp_path) == [
        "the thread was resumed: Codex counts the tokens of all its runs, "
        "the record those of this run alone",
    ]


def test_a_rollout_of_two_turns_says_that_the_record_counts_one(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)

    def again(lines: list[Any]) -> None:
        turns = [line for line in lines if line["type"] == "event_msg"]
        total = {"input_tokens": 5000, "output_tokens": 200, "cached_input_tokens": 2500}
        for line in json.loads(json.dumps(turns)):
            if line["payload"].get("info"):
                line["payload"]["info"]["total_token_usage"] = total
            lines.append(line)

    changed_lines(folder / "rollout.jsonl", again)
    (record,) = collected("codex", folder, relative_to=str(tmp_path))
    assert sum(shown(record, tmp_path)) == 5200
    assert "another turn of the thread; the record counts the tokens of one turn alone" in notes(
        record, tmp_path
    )


def claude(tmp_path: Path, *usages: tuple[str, int], results: list[int]) -> dict[str, Any]:
    lines: list[Any] = [{"type": "system", "subtype": "init", "model": "m"}]
    for id, tokens in usages:
        usage = {"input_tokens": tokens, "output_tokens": 0}
        message = {"id": id, "content": [{"type": "text", "text": id}], "usage": usage}
        lines.append({"type": "assistant", "message": message})
    for tokens in results:
        usage = {"input_tokens": tokens, "output_tokens": 0}
        lines.append({"type": "result", "subtype": "success", "duration_ms": 1, "usage": usage})
    folder = copied("claude-code/ok", tmp_path)
    (folder / "stream.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (record,) = collected("claude-code", folder, relative_to=str(tmp_path))
    return record


def test_a_message_of_claude_code_in_several_lines_is_counted_once(tmp_path: Path) -> None:
    record = claude(tmp_path, ("a", 10), ("a", 10), ("b", 5), results=[])
    assert shown(record, tmp_path) == counted(record) == [15, 0, 0, 0]


def test_what_a_result_of_claude_code_adds_is_a_note(tmp_path: Path) -> None:
    record = claude(tmp_path, ("a", 10), results=[30, 70])
    assert shown(record, tmp_path) == counted(record) == [70, 0, 0, 0]
    why = "sub-agents, other models, and answers that were not complete when counted"
    assert notes(record, tmp_path) == [f"counted beside the events above: {why}"] * 2


def test_a_record_that_counts_less_than_its_events_is_named(tmp_path: Path) -> None:
    record = claude(tmp_path, ("a", 10), results=[7])
    (note,) = notes(record, tmp_path)
    assert note.startswith("the record counts 7 tokens, the events above 10: ")


def test_the_steps_of_a_trial_are_counted_as_the_trial_is(tmp_path: Path) -> None:
    """Harbor counts what Claude writes to the cache as input, in a step as in all of them."""
    folder = copied("harbor/ab-demo/hello__YkDtcLE", tmp_path)
    metrics = {"prompt_tokens": 1000, "completion_tokens": 50, "cached_tokens": 600}
    extra = {"extra": {"cache_creation_input_tokens": 100}}
    steps = [{"source": "agent", "message": "ok", "metrics": metrics | extra}]
    (folder / "agent").mkdir()
    (folder / "agent" / "trajectory.json").write_text(json.dumps({"steps": steps}))
    set_keys(folder / "result.json", agent_info={"name": "claude-code"})
    (record,) = collected("harbor", folder, relative_to=str(tmp_path))
    first, rest = entries(record, tmp_path)
    assert first.spend is not None
    assert first.spend.counts == (300, 50, 600, 100)
    assert rest.text.head == "counted beside the events above: by the result of the trial"
    assert shown(record, tmp_path) == counted(record)


def test_the_calls_of_a_sample_are_counted_and_those_of_its_grader_are_not(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    log = json.loads((folder / "ok.json").read_text())
    usage = {"input_tokens": 400, "output_tokens": 20}
    output = {"choices": [{"message": {"content": "hi"}}], "usage": usage}
    log["samples"][0]["events"] = [
        {"event": "model", "model": model, "output": output}
        for model in (log["eval"]["model"], "grader")
    ]
    (folder / "ok.json").write_text(json.dumps(log))
    (record,) = collected("inspect", folder, relative_to=str(tmp_path))
    spends = [entry.spend and entry.spend.counts for entry in entries(record, tmp_path)]
    assert spends[:2] == [(400, 20, None, None), None]
    assert shown(record, tmp_path) == counted(record)


def test_an_export_that_is_too_long_hides_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied("opencode/length", tmp_path)
    (record,) = collected("opencode", folder, relative_to=str(tmp_path))
    monkeypatch.setattr("twoarm.programs.event.LONGEST_DOCUMENT", 10)
    monkeypatch.setattr("twoarm.programs.opencode.events.LONGEST_DOCUMENT", 10)
    assert shown(record, tmp_path) == counted(record)
