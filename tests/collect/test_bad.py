"""Bad input: links, endless lines, cut files, mixed programs, new versions."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    FIXTURES,
    changed,
    changed_lines,
    collected,
    collection,
    copied,
    records,
    refusal,
)
from twoarm.errors import BadRunsError, InputError
from twoarm.programs import folder as folder_module

# Links, sizes, half-written files ----------------------------------------------------------------


def test_a_file_that_leaves_the_folder_through_a_link_is_refused(tmp_path: Path) -> None:
    inside = copied("opencode/ok", tmp_path / "given")
    outside = copied("opencode/ok", tmp_path / "outside")
    (inside / "export.json").unlink()
    (inside / "export.json").symlink_to(outside / "export.json")
    assert refusal("opencode", tmp_path / "given") == (
        f"{inside}/export.json: a symbolic link that leaves the folder; copy what it points to"
    )
    (inside / "export.json").unlink()
    (inside / "export.json").symlink_to("/dev/zero")
    assert "leaves the folder" in refusal("opencode", tmp_path / "given")


def test_a_link_that_stays_inside_is_read(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    (folder / "export.json").rename(tmp_path / "kept.json")
    (folder / "export.json").symlink_to(tmp_path / "kept.json")
    assert len(collected("opencode", tmp_path)) == 1


def test_a_folder_that_leaves_through_a_link_is_listed(tmp_path: Path) -> None:
    copied("opencode/ok", tmp_path / "given")
    outside = copied("opencode/ok", tmp_path / "outside")
    (tmp_path / "given" / "link").symlink_to(outside)
    assert refusal("opencode", tmp_path / "given") == (
        f"{tmp_path}/given/link: a symbolic link that leaves the folder; copy what it points to"
    )


def test_a_link_in_a_circle_is_walked_once(tmp_path: Path) -> None:
    copied("opencode/ok", tmp_path)
    (tmp_path / "circle").symlink_to(tmp_path)
    assert len(collected("opencode", tmp_path)) == 1


def test_a_trajectory_that_leaves_through_a_link_is_refused(tmp_path: Path) -> None:
    trial = copied("harbor/ab-demo/hello__NWPfFvL", tmp_path / "given")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "trajectory.json").write_text("{}")
    (trial / "agent").symlink_to(tmp_path / "outside")
    assert "agent/trajectory.json: a symbolic link that leaves" in refusal("harbor", trial)
    (trial / "agent").unlink()
    (trial / "agent").mkdir()
    (trial / "agent" / "trajectory.json").symlink_to(tmp_path / "outside" / "trajectory.json")
    assert "agent/trajectory.json: a symbolic link that leaves" in refusal("harbor", trial)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    (folder / "export.json").unlink()
    os.mkfifo(folder / "export.json")
    assert f"{folder}/export.json: not a plain file" in refusal("opencode", folder)


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied("opencode/ok", tmp_path)
    path = folder / "events.jsonl"
    with path.open("ab") as file:
        # A file with a hole: two gigabytes to read, a few blocks on the disk.
        file.truncate(2 * 2**30)
    assert refusal("opencode", folder) == (
        f"{path}:11: a line longer than 64 MiB; no event of a run is that long"
    )


def test_a_large_file_of_short_lines_is_read_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = collected("opencode", FIXTURES / "opencode" / "ok")
    monkeypatch.setattr(folder_module, "WHOLE_FILE", 100)
    assert collected("opencode", FIXTURES / "opencode" / "ok") == expected


def test_a_document_that_is_too_large_is_refused(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    with (folder / "export.json").open("ab") as file:
        file.truncate(2 * 2**30)
    assert refusal("opencode", folder) == (
        f"{folder}/export.json: 2,147,483,648 bytes; one JSON document may have 1,073,741,824"
    )


def test_a_cut_document_is_listed_and_skipped_on_request(tmp_path: Path) -> None:
    good = copied("opencode/ok", tmp_path / "good")
    bad = copied("opencode/ok", tmp_path / "bad")
    text = (bad / "export.json").read_bytes()
    (bad / "export.json").write_bytes(text[:300])
    line = f"{bad}/export.json: not JSON: input data was truncated"
    assert refusal("opencode", tmp_path) == line
    with collection("opencode", tmp_path, skip_bad=True) as made:
        assert [str(problem) for problem in made.problems] == [line]
        assert records(made) == collected("opencode", good)


def test_a_cut_line_is_listed_with_its_number(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert refusal("codex", folder) == (f"{path}:10: not JSON: input data was truncated")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "empty; expected JSON"),
        (b'{"info":' * 100_000, "nested too deeply"),
        (b"\xff\xfe{}", "not JSON"),
        (b'{"info": tru}', "not JSON"),
        (b'{"info": 3}', "expected `object`, got `int` - at `$.info`"),
        (b"[]", "expected `object`, got `array`"),
    ],
)
def test_what_is_no_document_is_said(text: bytes, message: str, tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    (folder / "export.json").write_bytes(text)
    found = refusal("opencode", folder)
    assert found.startswith(f"{folder}/export.json: ")
    assert message in found


def test_counts_below_zero_are_refused(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)

    def negative(document: Any) -> None:
        document["messages"][1]["info"]["tokens"]["input"] = -5

    changed(folder / "export.json", negative)
    assert ">= 0 - at `$.messages[1].info.tokens.input`" in refusal("opencode", folder)


def test_sums_too_large_for_a_record_are_refused(tmp_path: Path) -> None:
    folder = copied("claude-code/result_success", tmp_path)

    def huge(document: Any) -> None:
        for used in document["modelUsage"].values():
            used["inputTokens"] = 2**53 - 1

    changed(folder / "result.json", huge)
    assert "input_tokens: expected a number from 0 to" in refusal("claude-code", folder)


def test_a_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no runs of format opencode"):
        collected("opencode", tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        collected("opencode", tmp_path / "missing")


def test_folders_nested_without_end_are_refused(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(40):
        deep = deep / "d"
    copied("opencode/ok", deep)
    assert "more than 32 folders deep" in refusal("opencode", tmp_path)


def test_hidden_folders_are_left_out(tmp_path: Path) -> None:
    copied("opencode/ok", tmp_path / "shown")
    copied("opencode/ok", tmp_path / ".hidden")
    assert len(collected("opencode", tmp_path)) == 1


def test_names_that_are_no_text_are_shown_as_escapes(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    (folder / "run.json").write_text("{")
    name = os.path.join(os.fsencode(tmp_path), b"run-\xff\x1b[31m")
    os.rename(folder, name)
    assert f"{tmp_path}/run-\\xff\\x1b[31m/run.json: " in refusal("opencode", tmp_path)


def test_a_file_that_fails_while_it_is_read_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied("opencode/ok", tmp_path)

    def broken(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", broken)
    text = refusal("opencode", folder)
    assert text == f"{folder}/run.json: cannot be read: Input/output error"


# Mixed programs ----------------------------------------------------------------------------------


def test_two_programs_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    rollout = FIXTURES / "codex" / "ok" / "rollout.jsonl"
    (folder / "rollout.jsonl").write_bytes(rollout.read_bytes())
    assert refusal("opencode", folder) == (
        f"{folder}: files of opencode and codex in it, collected as opencode; "
        "one program per folder"
    )


@pytest.mark.parametrize(
    ("name", "case", "other"),
    [
        ("opencode", "codex/flaky_reconnect", "codex"),
        ("codex", "opencode/nousage", "opencode"),
        ("claude-code", "codex/flaky_reconnect", "codex"),
        ("codex", "claude-code/stream", "claude-code"),
        ("gemini-cli", "claude-code/result_success", "claude-code"),
        ("claude-code", "gemini-cli/ok_stream", "gemini-cli"),
        ("claude-code", "harbor/ab-demo/hello__NWPfFvL", "harbor"),
    ],
)
def test_a_run_of_another_program_is_named(
    name: str, case: str, other: str, tmp_path: Path
) -> None:
    folder = copied(case, tmp_path)
    assert f"files of {other} in it, collected as {name}" in refusal(name, folder)


def test_a_run_of_another_program_among_good_ones_is_refused(tmp_path: Path) -> None:
    copied("codex/flaky_reconnect", tmp_path / "1")
    other = copied("opencode/nousage", tmp_path / "2")
    (other / "export.json").unlink()
    text = refusal("codex", tmp_path)
    assert text.startswith(f"{other}")


def test_two_outputs_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder = copied("claude-code/result_success", tmp_path)
    (folder / "stdout.txt").write_text("{}")
    assert "result.json and stdout.txt in one folder" in refusal("claude-code", folder)


# Unknown versions --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.0.0", "local"])
def test_a_subagent_of_an_unknown_opencode_is_refused(version: str, tmp_path: Path) -> None:
    folder = copied("opencode/subagent", tmp_path)
    changed(folder / "export.child.json", lambda d: d["info"].update(version=version))
    assert refusal("opencode", folder).startswith(
        f"{folder}/export.child.json: opencode `{version}` is not supported"
    )


def test_a_problem_holds_its_line_as_a_number(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("task_id,success,duration_seconds\nt,1,1\nt,maybe,1\n")
    with pytest.raises(BadRunsError) as caught:
        collected("table", path)
    (problem,) = caught.value.problems
    assert (problem.source, problem.line, problem.field) == (str(path), 3, "success")
    assert problem.where == f"{path}:3"


def test_a_newer_opencode_is_refused(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    changed(folder / "export.json", lambda d: d["info"].update(version="2.0.0"))
    assert refusal("opencode", folder) == (
        f"{folder}/export.json: opencode `2.0.0` is not supported, only versions up to 1.x; "
        "a newer twoarm may support it"
    )


def test_a_newer_codex_is_refused(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    changed_lines(
        folder / "rollout.jsonl", lambda lines: lines[0]["payload"].update(cli_version="1.0.0")
    )
    assert "Codex `1.0.0` is not supported, only versions up to 0.x" in refusal("codex", folder)


def test_a_newer_inspect_log_is_refused(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda d: d.update(version=3))
    assert "log version 3 is not supported, only 1 to 2" in refusal("inspect", folder)


def test_a_newer_trajectory_is_refused(tmp_path: Path) -> None:
    folder = copied("mini-swe-agent/ok", tmp_path)
    changed(folder / "ok.traj.json", lambda d: d.update(trajectory_format="mini-swe-agent-9"))
    assert "trajectory format `mini-swe-agent-9`" in refusal("mini-swe-agent", folder)


def test_a_newer_report_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text('{"schema_version": 3, "resolved_ids": []}')
    with pytest.raises(
        InputError, match="report version `3` is not supported, only versions up to 2"
    ):
        collected("mini-swe-agent", FIXTURES / "mini-swe-agent" / "ok", reports={"a": str(report)})
