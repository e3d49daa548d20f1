"""Bad input: bombs, links, endless lines, cut files, mixed programs, new versions, any bytes."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.collecting import (
    FIXTURES,
    changed,
    changed_lines,
    collected,
    collection,
    copied,
    records,
    sidecar,
)
from tests.deterministic import HealthCheck, given, settings, st
from twoarm.collect import folder as folder_module
from twoarm.collect import inspect_archive
from twoarm.errors import BadRunsError, InputError, TwoarmError
from twoarm.zstd import zipfile as zstd_zipfile


def refused(name: str, *paths: Path, **options: Any) -> str:
    with pytest.raises(BadRunsError) as caught:
        collected(name, *paths, **options)
    return str(caught.value)


# Archives ----------------------------------------------------------------------------------------


def archive(
    path: Path, members: dict[str, bytes], method: int = zstd_zipfile.ZIP_ZSTANDARD
) -> None:
    with zstd_zipfile.ZipFile(path, "w", method) as made:
        for name, text in members.items():
            made.writestr(name, text)


def members(path: Path) -> dict[str, bytes]:
    with zstd_zipfile.ZipFile(path) as found:
        return {name: found.read(name) for name in found.namelist()}


EVAL = FIXTURES / "inspect" / "eval" / "baseline.eval"


@pytest.mark.parametrize(
    "method",
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zstd_zipfile.ZIP_ZSTANDARD],
)
def test_an_archive_is_read_however_it_was_packed(method: int, tmp_path: Path) -> None:
    archive(tmp_path / "log.eval", members(EVAL), method)
    assert collected("inspect", tmp_path) == collected("inspect", EVAL)


def test_the_fixture_is_packed_as_inspect_packs() -> None:
    with zstd_zipfile.ZipFile(EVAL) as found:
        assert {member.compress_type for member in found.infolist()} == {93}


@pytest.mark.parametrize("name", ["header.json", "samples/sum-1_epoch_1.json"])
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zstd_zipfile.ZIP_ZSTANDARD])
def test_a_zip_bomb_is_refused(name: str, method: int, tmp_path: Path) -> None:
    bomb = members(EVAL) | {name: b" " * (inspect_archive.LARGEST_MEMBER + 1)}
    path = tmp_path / "log.eval"
    archive(path, bomb, method)
    assert path.stat().st_size < 2**20
    text = refused("inspect", path)
    assert text.startswith(f"{path}: {name} unpacks to more than an archive may: 256 MiB")


def test_many_members_together_are_a_bomb_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LEAST_UNPACKED", 2**16)
    monkeypatch.setattr(folder_module, "LARGEST_RATIO", 1)
    bomb = members(EVAL) | {f"samples/{n}.json": b" " * 2**15 for n in range(9)}
    path = tmp_path / "log.eval"
    archive(path, bomb)
    assert "it may be a decompression bomb" in refused("inspect", path)


def test_a_size_that_the_archive_claims_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("header.json", b" " * (inspect_archive.LARGEST_MEMBER + 1))
    text = path.read_bytes()
    size = (inspect_archive.LARGEST_MEMBER + 1).to_bytes(4, "little")
    path.write_bytes(text.replace(size, (100).to_bytes(4, "little")))
    refused("inspect", path)


def test_an_encrypted_or_foreign_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    archive(path, {"readme.txt": b"hello"})
    assert "not a log of Inspect: it has neither a header nor a journal" in refused("inspect", path)
    text = bytearray(EVAL.read_bytes())
    # The flag of encryption, in the entries of the directory.
    start = 0
    while (start := text.find(b"PK\x01\x02", start)) >= 0:
        text[start + 8] |= 1
        start += 4
    path.write_bytes(text)
    assert "cannot be unpacked" in refused("inspect", path)


def test_an_archive_without_a_header_is_read_from_its_journal(tmp_path: Path) -> None:
    found = members(EVAL)
    found.pop("header.json")
    archive(tmp_path / "log.eval", found)
    with collection("inspect", tmp_path) as made:
        assert made.runs == 6
        assert "log_unfinished" in [caveat.code for caveat in made.caveats]


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes(EVAL.read_bytes()[:-100])
    assert "damaged archive" in refused("inspect", path)


def test_a_bad_sample_does_not_stop_the_others(tmp_path: Path) -> None:
    found = members(EVAL)
    found["samples/sum-1_epoch_2.json"] = b"{"
    path = tmp_path / "log.eval"
    archive(path, found)
    assert refused("inspect", path) == (
        f"{path}:samples/sum-1_epoch_2.json: not JSON: input data was truncated"
    )
    with collection("inspect", path, skip_bad=True) as made:
        assert made.runs == 5
        assert len(made.problems) == 1


def test_a_parquet_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    rows = [{"task_id": "t" * 10_000 + str(n)} for n in range(100)]
    write_table(pyarrow.Table.from_pylist(rows), path, compression="zstd")
    monkeypatch.setattr(folder_module, "LEAST_UNPACKED", 1000)
    monkeypatch.setattr(folder_module, "LARGEST_RATIO", 1)
    assert "it may be a decompression bomb" in refused("table", path)


# Links, sizes, half-written files ----------------------------------------------------------------


def test_a_file_that_leaves_the_folder_through_a_link_is_refused(tmp_path: Path) -> None:
    inside = copied("opencode/ok", tmp_path / "given")
    outside = copied("opencode/ok", tmp_path / "outside")
    (inside / "export.json").unlink()
    (inside / "export.json").symlink_to(outside / "export.json")
    assert refused("opencode", tmp_path / "given") == (
        f"{inside}/export.json: a symbolic link that leaves the folder; copy what it points to"
    )
    (inside / "export.json").unlink()
    (inside / "export.json").symlink_to("/dev/zero")
    assert "leaves the folder" in refused("opencode", tmp_path / "given")


def test_a_link_that_stays_inside_is_read(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    (folder / "export.json").rename(tmp_path / "kept.json")
    (folder / "export.json").symlink_to(tmp_path / "kept.json")
    assert len(collected("opencode", tmp_path)) == 1


def test_a_folder_that_leaves_through_a_link_is_listed(tmp_path: Path) -> None:
    copied("opencode/ok", tmp_path / "given")
    outside = copied("opencode/ok", tmp_path / "outside")
    (tmp_path / "given" / "link").symlink_to(outside)
    assert refused("opencode", tmp_path / "given") == (
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
    assert "agent/trajectory.json: a symbolic link that leaves" in refused("harbor", trial)
    (trial / "agent").unlink()
    (trial / "agent").mkdir()
    (trial / "agent" / "trajectory.json").symlink_to(tmp_path / "outside" / "trajectory.json")
    assert "agent/trajectory.json: a symbolic link that leaves" in refused("harbor", trial)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    (folder / "export.json").unlink()
    os.mkfifo(folder / "export.json")
    assert f"{folder}/export.json: not a plain file" in refused("opencode", folder)


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied("opencode/ok", tmp_path)
    path = folder / "events.jsonl"
    with path.open("ab") as file:
        # A file with a hole: two gigabytes to read, a few blocks on the disk.
        file.truncate(2 * 2**30)
    assert refused("opencode", folder) == (
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
    assert refused("opencode", folder) == (
        f"{folder}/export.json: 2,147,483,648 bytes; one JSON document may have 1,073,741,824"
    )


def test_a_cut_document_is_listed_and_skipped_on_request(tmp_path: Path) -> None:
    good = copied("opencode/ok", tmp_path / "good")
    bad = copied("opencode/ok", tmp_path / "bad")
    text = (bad / "export.json").read_bytes()
    (bad / "export.json").write_bytes(text[:300])
    line = f"{bad}/export.json: not JSON: input data was truncated"
    assert refused("opencode", tmp_path) == line
    with collection("opencode", tmp_path, skip_bad=True) as made:
        assert [str(problem) for problem in made.problems] == [line]
        assert records(made) == collected("opencode", good)


def test_a_cut_line_is_listed_with_its_number(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert refused("codex", folder) == (f"{path}:10: not JSON: input data was truncated")


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
    found = refused("opencode", folder)
    assert found.startswith(f"{folder}/export.json: ")
    assert message in found


def test_counts_below_zero_are_refused(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)

    def negative(document: Any) -> None:
        document["messages"][1]["info"]["tokens"]["input"] = -5

    changed(folder / "export.json", negative)
    assert ">= 0 - at `$.messages[1].info.tokens.input`" in refused("opencode", folder)


def test_sums_too_large_for_a_record_are_refused(tmp_path: Path) -> None:
    folder = copied("claude-code/result_success", tmp_path)

    def huge(document: Any) -> None:
        for used in document["modelUsage"].values():
            used["inputTokens"] = 2**53 - 1

    changed(folder / "result.json", huge)
    assert "input_tokens: expected a number from 0 to" in refused("claude-code", folder)


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
    assert "more than 32 folders deep" in refused("opencode", tmp_path)


def test_hidden_folders_are_left_out(tmp_path: Path) -> None:
    copied("opencode/ok", tmp_path / "shown")
    copied("opencode/ok", tmp_path / ".hidden")
    assert len(collected("opencode", tmp_path)) == 1


def test_names_that_are_no_text_are_shown_as_escapes(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    (folder / "run.json").write_text("{")
    name = os.path.join(os.fsencode(tmp_path), b"run-\xff\x1b[31m")
    os.rename(folder, name)
    assert f"{tmp_path}/run-\\xff\\x1b[31m/run.json: " in refused("opencode", tmp_path)


# Mixed programs ----------------------------------------------------------------------------------


def test_two_programs_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    rollout = FIXTURES / "codex" / "ok" / "rollout.jsonl"
    (folder / "rollout.jsonl").write_bytes(rollout.read_bytes())
    assert refused("opencode", folder) == (
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
    assert f"files of {other} in it, collected as {name}" in refused(name, folder)


def test_a_run_of_another_program_among_good_ones_is_refused(tmp_path: Path) -> None:
    copied("codex/flaky_reconnect", tmp_path / "1")
    other = copied("opencode/nousage", tmp_path / "2")
    (other / "export.json").unlink()
    text = refused("codex", tmp_path)
    assert text.startswith(f"{other}")


def test_two_outputs_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder = copied("claude-code/result_success", tmp_path)
    (folder / "stdout.txt").write_text("{}")
    assert "result.json and stdout.txt in one folder" in refused("claude-code", folder)


# Unknown versions --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.0.0", "local"])
def test_a_subagent_of_an_unknown_opencode_is_refused(version: str, tmp_path: Path) -> None:
    folder = copied("opencode/subagent", tmp_path)
    changed(folder / "export.child.json", lambda d: d["info"].update(version=version))
    assert refused("opencode", folder).startswith(
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
    assert refused("opencode", folder) == (
        f"{folder}/export.json: opencode `2.0.0` is not supported, only versions up to 1.x; "
        "a newer twoarm may support it"
    )


def test_a_newer_codex_is_refused(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    changed_lines(
        folder / "rollout.jsonl", lambda lines: lines[0]["payload"].update(cli_version="1.0.0")
    )
    assert "Codex `1.0.0` is not supported, only versions up to 0.x" in refused("codex", folder)


def test_a_newer_inspect_log_is_refused(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda d: d.update(version=3))
    assert "log version 3 is not supported, only 1 to 2" in refused("inspect", folder)


def test_a_newer_trajectory_is_refused(tmp_path: Path) -> None:
    folder = copied("mini-swe-agent/ok", tmp_path)
    changed(folder / "ok.traj.json", lambda d: d.update(trajectory_format="mini-swe-agent-9"))
    assert "trajectory format `mini-swe-agent-9`" in refused("mini-swe-agent", folder)


def test_a_newer_report_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text('{"schema_version": 3, "resolved_ids": []}')
    with pytest.raises(
        InputError, match="report version `3` is not supported, only versions up to 2"
    ):
        collected("mini-swe-agent", FIXTURES / "mini-swe-agent" / "ok", reports={"a": str(report)})


# Any bytes ---------------------------------------------------------------------------------------

FOLDERS = [
    ("harbor", "harbor/ab-demo/hello__NWPfFvL"),
    ("opencode", "opencode/subagent"),
    ("opencode", "opencode-old/ok"),
    ("claude-code", "claude-code/stream"),
    ("claude-code", "claude-code/result_success"),
    ("codex", "codex/ok"),
    ("inspect", "inspect/ok"),
    ("inspect", "inspect/eval"),
    ("gemini-cli", "gemini-cli/ok_json"),
    ("gemini-cli", "gemini-cli/ok_stream"),
    ("gemini-cli", "gemini-cli/err_http401_json"),
    ("mini-swe-agent", "mini-swe-agent/ok"),
    ("table", "table"),
]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["ses_x", "result", "step_finish", "2026-11-15T06:00:00Z", "C", "1.2.3"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)


def tries_to_collect(name: str, folder: Path) -> None:
    """Records that scoring can read, or an error of ours."""
    for one in (name, "auto"):
        try:
            with collection(one, folder, skip_bad=True, may_differ=["eval", "config"]) as found:
                for record in records(found):
                    assert record["task_id"]
        except TwoarmError:
            continue


@pytest.mark.parametrize(("name", "case"), FOLDERS)
@given(data=st.data())
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_any_bytes_in_any_file_give_records_or_an_error(
    name: str, case: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = copied(case, tmp_path_factory.mktemp("any"))
    path = data.draw(st.sampled_from(sorted(folder.rglob("*.*"))))
    text = path.read_bytes()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    path.write_bytes(text[:start] + data.draw(st.binary(max_size=50)) + text[end:])
    tries_to_collect(name, folder)


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every object or list of a document with each of its keys."""
    found: list[tuple[Any, Any]] = []
    keys = (
        list(document)
        if isinstance(document, dict)
        else range(len(document) if isinstance(document, list) else 0)
    )
    for key in keys:
        found.append((document, key))
        found += places(document[key])
    return found


@pytest.mark.parametrize(("name", "case"), [one for one in FOLDERS if one[0] != "table"])
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_any_value_at_any_key_gives_records_or_an_error(
    name: str, case: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = copied(case, tmp_path_factory.mktemp("any"))
    texts = sorted(
        path for path in folder.rglob("*.*") if path.suffix in (".json", ".jsonl", ".txt")
    )
    path = data.draw(st.sampled_from(texts or [folder]))
    if not path.is_file() or not path.read_bytes().strip():
        return
    try:
        document = [json.loads(path.read_text())]
    except json.JSONDecodeError:
        document = [json.loads(line) for line in path.read_text().splitlines()]
    within, key = data.draw(st.sampled_from(places(document)))
    within[key] = data.draw(JSON)
    path.write_text("\n".join(json.dumps(one) for one in document))
    tries_to_collect(name, folder)


def test_nothing_in_a_folder_is_executed(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    mark = tmp_path / "executed"
    sidecar(folder, acceptance_command=f"touch {mark}")
    for name in ("sitecustomize.py", "conftest.py", "json.py"):
        (folder / name).write_text(f"open({str(mark)!r}, 'w')")
    collected("codex", folder)
    assert not mark.exists()


def test_a_file_that_fails_while_it_is_read_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied("opencode/ok", tmp_path)

    def broken(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", broken)
    text = refused("opencode", folder)
    assert text == f"{folder}/export.json: cannot be read: Input/output error"
