"""Hostile values: each is refused with its place, or left out on request; never a traceback."""

import json
import lzma
import sys
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
    left_out,
    only,
    refusal,
)
from tests.support.inspect_archives import EVAL, archive, members
from twoarm.collect.gather import ArmPath, gather
from twoarm.errors import InputError
from twoarm.files.zstd import zipfile as zstd_zipfile
from twoarm.programs.moment import utc_text
from twoarm.runs.record import LARGEST

# Links -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["events.jsonl", "export.json", "run.json"])
def test_a_link_to_itself_is_refused(link: str, tmp_path: Path) -> None:
    good = copied("opencode/ok", tmp_path / "good")
    bad = copied("opencode/ok", tmp_path / "bad")
    (bad / link).unlink()
    (bad / link).symlink_to(link)
    text = left_out("opencode", good, bad)
    assert text == f"{bad}/{link}: cannot be read: Too many levels of symbolic links"
    assert refusal("opencode", bad) == text


# Versions and keys -------------------------------------------------------------------------------

# All of them are digits to `str.isdigit`, and none is a number to `int`.
ODD_DIGITS = ("²", "1.²", "²³", "①.2.3")


@pytest.mark.parametrize("version", ODD_DIGITS)
def test_digits_that_are_no_number_are_no_version_of_opencode(version: str, tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    changed(folder / "export.json", lambda found: found["info"].update(version=version))
    if version[0] == "1":
        assert only("opencode", folder)["output_tokens"] == 110
    else:
        assert f"opencode `{version}` is not supported, only versions up to 1.x" in refusal(
            "opencode", folder
        )


@pytest.mark.parametrize("version", ODD_DIGITS)
def test_digits_that_are_no_number_are_no_version_of_codex(version: str, tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    changed_lines(
        folder / "rollout.jsonl", lambda lines: lines[0]["payload"].update(cli_version=version)
    )
    assert f"Codex `{version}` is not supported, only versions up to 0.x" in refusal(
        "codex", folder
    )


def test_digits_that_are_no_number_are_no_version_of_inspect(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["eval"].update(packages={"inspect_ai": "0.3.²"}))
    assert only("inspect", folder)["input_tokens"] == 1400


def test_digits_that_are_no_number_are_no_place_in_a_list(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["eval"].update(tags=["x"]))
    assert "no `eval.tags.²` in it" in refusal("inspect", folder, arm_key="eval.tags.²")
    assert collected("inspect", folder, arm_key="eval.tags.0", arm_map={"x": "a"})


def test_an_arm_key_of_any_depth_is_looked_up(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    assert "in it, so its arm is unknown" in refusal("opencode", folder, arm_key="a." * 5000 + "a")


def test_a_value_too_large_for_json_is_no_arm(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"task_id":"t","success":true,"duration_seconds":1,"n":%s}\n' % ("1" * 400))
    assert "which `arm_map=` maps to no arm" in refusal("table", path, arm_key="n")


# Times -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1e306, 1e308, -1e306, 1e300, float("inf"), float("nan"), 1e15])
def test_a_time_outside_the_calendar_has_no_text(at: float) -> None:
    assert utc_text(at) is None


BAD_TIMES = ["1e306", "1" + "0" * 400, "-1e306", "253402300800", "true", '"1e306"', "[1]"]


@pytest.mark.parametrize("value", BAD_TIMES)
def test_a_time_of_a_row_outside_the_calendar_is_refused(value: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = '{"task_id":"t","success":true,"duration_seconds":1,"repeat":%d,"started_at_utc":%s}\n'
    path.write_text(row % (1, value) + row % (2, "1794723676.132"))
    text = f"{path}:1: started_at_utc: expected a time such as 2026-11-15T06:21:16Z"
    assert refusal("table", path).startswith(text)
    with collection("table", path, skip_bad=True) as found:
        (record,) = [json.loads(line) for line in found.lines()]
    assert record["started_at_utc"] == "2026-11-15T06:21:16.132Z"


@pytest.mark.parametrize("value", [10**400, 10**306, -1, 253402300800000])
@pytest.mark.parametrize("key", ["created", "updated"])
def test_a_time_of_opencode_outside_the_calendar_is_refused(
    key: str, value: int, tmp_path: Path
) -> None:
    folder = copied("opencode/ok", tmp_path)
    changed(folder / "export.json", lambda found: found["info"]["time"].update({key: value}))
    assert f"at `$.info.time.{key}`" in refusal("opencode", folder)
    (folder / "export.json").unlink()
    changed_lines(folder / "events.jsonl", lambda lines: lines[1].update(timestamp=value))
    assert "events.jsonl:2: " in refusal("opencode", folder)


def test_a_time_of_mini_swe_agent_outside_the_calendar_is_refused(tmp_path: Path) -> None:
    folder = copied("mini-swe-agent/ok", tmp_path)

    def late(document: Any) -> None:
        document["messages"][-1]["extra"]["timestamp"] = 10**15

    changed(folder / "ok.traj.json", late)
    assert "timestamp`" in refusal("mini-swe-agent", folder)


# Repeats and counts ------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [10**30, 2**63, 2**53, 0, -1, 10**400])
def test_an_epoch_that_is_no_repeat_is_refused(epoch: int, tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["samples"][0].update(epoch=epoch))
    text = refusal("inspect", folder)
    assert text.startswith(f"{folder}/ok.json:sample 1: ")
    assert "`$.epoch`" in text


def test_the_largest_epoch_is_a_repeat(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["samples"][0].update(epoch=LARGEST))
    assert only("inspect", folder)["repeat"] == LARGEST


def test_counts_that_add_up_beyond_any_number_are_refused(tmp_path: Path) -> None:
    folder = copied("mini-swe-agent/ok", tmp_path)

    def many(document: Any) -> None:
        usage = {"prompt_tokens": LARGEST, "completion_tokens": LARGEST}
        message = {"role": "assistant", "extra": {"response": {"usage": usage}, "timestamp": 1.8e9}}
        document["messages"] += [message] * 5000

    changed(folder / "ok.traj.json", many)
    assert "input_tokens: expected a number from 0 to" in refusal("mini-swe-agent", folder)


# Archives ----------------------------------------------------------------------------------------


def test_a_damaged_lzma_member_does_not_stop_the_others(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    name = "samples/sum-1_epoch_2.json"
    archive(path, members(EVAL), zstd_zipfile.ZIP_LZMA)
    text = bytearray(path.read_bytes())
    with zstd_zipfile.ZipFile(path) as found:
        start = found.getinfo(name).header_offset + 30 + len(name)
    # The properties of the compression, after their version and length.
    text[start + 4] = 0xFF
    path.write_bytes(text)
    with zstd_zipfile.ZipFile(path) as found, pytest.raises(lzma.LZMAError):
        found.read(name)
    assert refusal("inspect", path).startswith(f"{path}:{name}: damaged: ")
    with collection("inspect", path, skip_bad=True) as made:
        assert (made.runs, len(made.problems)) == (5, 1)


# Prices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", ["1" * 5000, "1" + "0" * 400, "1e400", "nan", "-1", "1" * 4301])
def test_a_price_that_is_no_number_is_refused(price: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(f"[m]\ninput = {price}\noutput = 1.0\n")
    with pytest.raises(InputError, match="prices.toml: not"):
        only("codex", FIXTURES / "codex" / "ok", prices=str(path))


# Contradictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("resolved_ids", "unresolved_ids"),
        ("resolved_ids", "error_ids"),
        ("resolved_ids", "empty_patch_ids"),
        ("resolved_ids", "infra_failure_ids"),
        ("unresolved_ids", "error_ids"),
        ("empty_patch_ids", "incomplete_ids"),
    ],
)
def test_a_report_that_lists_a_task_twice_with_two_meanings_is_refused(
    one: str, two: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"resolved_ids": [], one: ["x", "ok"], two: ["ok", "y"]}))
    folder = FIXTURES / "mini-swe-agent" / "ok" / "ok.traj.json"
    with pytest.raises(InputError) as caught:
        collected("mini-swe-agent", folder, reports={"a": str(report)})
    assert str(caught.value) in (
        f"{report}: task `ok` is in {one} and in {two}; a task has one outcome",
        f"{report}: task `ok` is in {two} and in {one}; a task has one outcome",
    )


@pytest.mark.parametrize("listed", [{"resolved_ids": [["ok"]]}, {"resolved_ids": "ok"}])
def test_a_report_whose_lists_are_no_lists_of_names_is_refused(
    listed: dict[str, Any], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps(listed))
    folder = FIXTURES / "mini-swe-agent" / "ok" / "ok.traj.json"
    with pytest.raises(InputError, match="at `\\$.resolved_ids"):
        collected("mini-swe-agent", folder, reports={"a": str(report)})


def test_two_parquet_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    names = ["task_id", "success", "duration_seconds", "success"]
    columns = [pyarrow.array(values) for values in (["t"], [True], [1.0], [False])]
    write_table(pyarrow.Table.from_arrays(columns, names=names), path)
    assert refusal("table", path) == f"{path}: two columns named `success`"


def test_two_parquet_columns_of_one_name_inside_an_object_are_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    inner = pyarrow.StructArray.from_arrays(
        [pyarrow.array([True]), pyarrow.array([False])], names=["ok", "ok"]
    )
    table = pyarrow.table({"task_id": ["t"], "duration_seconds": [1.0], "outcome": inner})
    write_table(table, path)
    text = refusal("table", path, settings={"columns": {"success": "outcome.ok"}})
    assert text == f"{path}: two columns named `outcome.ok`"


@pytest.mark.parametrize("header", ["task_id,success,success,duration_seconds"])
def test_two_columns_of_one_name_in_a_header_are_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\nt,true,false,1\n")
    assert refusal("table", path) == f"{path}: two columns named `success`"


@pytest.mark.parametrize("value", [0.9, True, "0.9", [0], 1e300, "²", 2**53])
def test_an_exit_code_that_is_no_whole_number_is_refused(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = {"task_id": "t", "success": True, "duration_seconds": 1, "agent_exit_code": value}
    path.write_text(json.dumps(row))
    assert refusal("table", path).startswith(f"{path}:1: agent_exit_code: expected an exit code")


@pytest.mark.parametrize("value", [0, 0.0, "0", "0.0", "-11", -11.0])
def test_an_exit_code_may_be_spelled_as_any_whole_number(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = {"task_id": "t", "success": True, "duration_seconds": 1, "agent_exit_code": value}
    path.write_text(json.dumps(row))
    assert only("table", path)["agent_exit_code"] in (0, -11)


# Logs that look like none ------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["x" * 100, "x" * 10_000, {"a": "b" * 80}, None])
def test_a_log_of_inspect_with_any_version_is_told_as_one(version: Any, tmp_path: Path) -> None:
    good, bad = copied("inspect/ok", tmp_path / "good"), copied("inspect/ok", tmp_path / "bad")
    changed(bad / "ok.json", lambda log: log.update(version=version))
    assert left_out("inspect", good, bad).startswith(f"{bad}/ok.json: expected `int`, got ")


@pytest.mark.parametrize("samples", [[], None])
def test_a_log_of_inspect_without_samples_is_told(samples: Any, tmp_path: Path) -> None:
    good, bad = copied("inspect/ok", tmp_path / "good"), copied("inspect/ok", tmp_path / "bad")
    changed(bad / "ok.json", lambda log: log.update(samples=samples))
    text = f"{bad}/ok.json: a log without samples; write it with samples"
    assert left_out("inspect", good, bad) == text


def test_other_documents_that_start_with_a_version_are_no_logs(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    (folder / "manifest.json").write_text('{"version": 1, "files": []}')
    assert len(collected("inspect", folder)) == 1


# Many arms ---------------------------------------------------------------------------------------


def calls(many: int, tmp_path: Path) -> int:
    """How many functions a collection of so many arms calls."""
    places = []
    for number in range(many):
        path = tmp_path / f"{many}-{number}.jsonl"
        path.write_text('{"task_id":"t","success":true,"duration_seconds":1}')
        places.append(ArmPath(arm=str(number), path=str(path)))
    counted = 0

    def count(_frame: object, event: str, _given: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        with gather("table", places) as found:
            assert len(list(found.lines())) == many
    finally:
        sys.setprofile(None)
    return counted


def test_twice_as_many_arms_are_twice_the_work(tmp_path: Path) -> None:
    calls(1, tmp_path)
    assert calls(400, tmp_path) < 2.5 * calls(200, tmp_path)
