"""Hostile values: each is refused with its place, or left out on request; never a traceback."""

import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.collecting import (
    FIXTURES,
    changed,
    changed_lines,
    collected,
    collection,
    copied,
    only,
    sidecar,
)
from tests.conftest import twoarm
from tests.test_collect_bad import EVAL, archive, members, refused
from twoarm.collect import folder as folder_module
from twoarm.collect.gather import Place, gather
from twoarm.collect.inspect_ai import InspectAi
from twoarm.collect.moment import utc_text
from twoarm.errors import InputError
from twoarm.record import LARGEST
from twoarm.zstd import zipfile as zstd_zipfile


def left_out(name: str, good: Path, bad: Path) -> str:
    """The one problem of a collection that goes on without the bad one of two runs."""
    with collection(name, good, bad, skip_bad=True) as found:
        assert found.runs == 1
        (problem,) = found.problems
        return str(problem)


# Links -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["events.jsonl", "export.json", "run.json"])
def test_a_link_to_itself_is_refused(link: str, tmp_path: Path) -> None:
    good = copied("opencode/ok", tmp_path / "good")
    bad = copied("opencode/ok", tmp_path / "bad")
    (bad / link).unlink()
    (bad / link).symlink_to(link)
    text = left_out("opencode", good, bad)
    assert text == f"{bad}/{link}: cannot be read: Too many levels of symbolic links"
    assert refused("opencode", bad) == text


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
        assert f"opencode `{version}` is not supported, only versions up to 1.x" in refused(
            "opencode", folder
        )


@pytest.mark.parametrize("version", ODD_DIGITS)
def test_digits_that_are_no_number_are_no_version_of_codex(version: str, tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    changed_lines(
        folder / "rollout.jsonl", lambda lines: lines[0]["payload"].update(cli_version=version)
    )
    assert f"Codex `{version}` is not supported, only versions up to 0.x" in refused(
        "codex", folder
    )


def test_digits_that_are_no_number_are_no_version_of_inspect(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["eval"].update(packages={"inspect_ai": "0.3.²"}))
    assert only("inspect", folder)["input_tokens"] == 1400


def test_digits_that_are_no_number_are_no_place_in_a_list(tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["eval"].update(tags=["x"]))
    assert "no `eval.tags.²` in it" in refused("inspect", folder, arm_key="eval.tags.²")
    assert collected("inspect", folder, arm_key="eval.tags.0", arm_map={"x": "a"})


def test_an_arm_key_of_any_depth_is_looked_up(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    assert "in it, so its arm is unknown" in refused("opencode", folder, arm_key="a." * 5000 + "a")


def test_a_value_too_large_for_json_is_no_arm(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"task_id":"t","success":true,"duration_seconds":1,"n":%s}\n' % ("1" * 400))
    assert "which `arm_map=` maps to no arm" in refused("table", path, arm_key="n")


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
    assert refused("table", path).startswith(text)
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
    assert f"at `$.info.time.{key}`" in refused("opencode", folder)
    (folder / "export.json").unlink()
    changed_lines(folder / "events.jsonl", lambda lines: lines[1].update(timestamp=value))
    assert "events.jsonl:2: " in refused("opencode", folder)


def test_a_time_of_mini_swe_agent_outside_the_calendar_is_refused(tmp_path: Path) -> None:
    folder = copied("mini-swe-agent/ok", tmp_path)

    def late(document: Any) -> None:
        document["messages"][-1]["extra"]["timestamp"] = 10**15

    changed(folder / "ok.traj.json", late)
    assert "timestamp`" in refused("mini-swe-agent", folder)


# Repeats and counts ------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [10**30, 2**63, 2**53, 0, -1, 10**400])
def test_an_epoch_that_is_no_repeat_is_refused(epoch: int, tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["samples"][0].update(epoch=epoch))
    text = refused("inspect", folder)
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
    assert "input_tokens: expected a number from 0 to" in refused("mini-swe-agent", folder)


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
    assert refused("inspect", path).startswith(f"{path}:{name}: damaged: ")
    with collection("inspect", path, skip_bad=True) as made:
        assert (made.runs, len(made.problems)) == (5, 1)


# Prices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", ["1" * 5000, "1" + "0" * 400, "1e400", "nan", "-1", "1" * 4301])
def test_a_price_that_is_no_number_is_refused(price: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(f"[m]\ninput = {price}\noutput = 1.0\n")
    with pytest.raises(InputError, match="prices.toml: not"):
        only("codex", FIXTURES / "codex" / "ok", prices=str(path))


# Plug-ins ----------------------------------------------------------------------------------------


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a package with one format, `odd`, from the text of its module."""

    def plug(code: str) -> None:
        (tmp_path / "odd_format.py").write_text(code)
        info = tmp_path / "odd-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[twoarm.formats]\nodd = odd_format:Odd\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "odd_format", raising=False)

    return plug


RUN = FIXTURES / "opencode" / "ok"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def Odd():\n    raise KeyError('x')", "KeyError: 'x'"),
        ("x = (", "SyntaxError: "),
        ("Odd = None", "TypeError: "),
        ("Odd = lambda: 3", "not a format: it has no `name`"),
    ],
)
def test_a_plug_in_that_cannot_be_loaded_breaks_no_other(
    code: str, reason: str, plugged: Callable[[str], None]
) -> None:
    plugged(code)
    for name in ("opencode", "auto"):
        result = twoarm("collect", name, "--arm", f"a={RUN}")
        assert (result.code, len(result.out.splitlines())) == (0, 1)
    assert f"caveat: format `odd` cannot be loaded: {reason}" in result.err
    result = twoarm("collect", "odd", "--arm", f"a={RUN}")
    assert (result.code, result.out) == (2, "")
    assert f"format `odd` cannot be loaded: {reason}" in result.err


PLUG_IN = """
from twoarm.collect.format import Attempt
class Odd:
    name = 'odd'
    one_run_per_folder = True
    def recognizes(self, folder):
        %(recognizes)s
        return 'odd.txt' in folder
    def claims(self, folder):
        one = folder.path.endswith('one')
        %(claims)s
        return ['odd.txt'] if 'odd.txt' in folder else []
    def read(self, folder, name, settings):
        one = folder.path.endswith('one')
        %(read)s
        yield Attempt(where=folder.where(name), task_id=folder.read(name).decode(),
            repeat=%(repeat)s, success=True, failure=None, duration_seconds=1.0,
            started=%(started)s, ended=None, cost_usd=%(cost)s, spends=None, took_steps=False,
            document={}, configuration=(), scope='', caveats=())
"""


def plug_in(**parts: object) -> str:
    fine = {"recognizes": "", "claims": "", "read": "", "repeat": 1, "started": None, "cost": None}
    return PLUG_IN % (fine | parts)


def odd_runs(folder: Path) -> Path:
    for name in ("one", "two"):
        (folder / "runs" / name).mkdir(parents=True)
        (folder / "runs" / name / "odd.txt").write_text(name)
    return folder / "runs"


def test_a_plug_in_that_raises_while_others_are_recognized_breaks_none(
    plugged: Callable[[str], None],
) -> None:
    plugged(plug_in(recognizes="raise RuntimeError('odd')"))
    for name in ("opencode", "auto"):
        assert twoarm("collect", name, "--arm", f"a={RUN}").code == 0


@pytest.mark.parametrize(
    ("where", "do", "message"),
    [
        ("claims", "raise RuntimeError('odd')", "RuntimeError: odd"),
        ("claims", "raise SystemExit(0)", "SystemExit: 0"),
        ("claims", "return 3", "TypeError: 'int' object is not iterable"),
        ("read", "1 / 0", "ZeroDivisionError: division by zero"),
        ("read", "yield 3", "TypeError: it gave a `int`, not an `Attempt`"),
        ("read", "yield Attempt()", "TypeError: Missing required argument"),
    ],
)
def test_a_plug_in_that_fails_on_a_folder_is_a_problem_of_that_folder(
    where: str, do: str, message: str, plugged: Callable[[str], None], tmp_path: Path
) -> None:
    plugged(plug_in(**{where: f"if one: {do}"}))
    runs = odd_runs(tmp_path)
    result = twoarm("collect", "odd", "--arm", f"a={runs}")
    assert (result.code, result.out) == (2, "")
    assert f"format `odd` failed: {message}" in result.err
    assert "twoarm: 1 problem; nothing was written" in result.err
    result = twoarm("collect", "odd", "--arm", f"a={runs}", "--skip-bad")
    assert (result.code, json.loads(result.out)["task_id"]) == (0, "two")
    assert f"format `odd` failed: {message}" in result.err


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"repeat": 0}, "Expected `int` >= 1 - at `$.repeat`"),
        ({"repeat": 2**53}, f"Expected `int` <= {LARGEST} - at `$.repeat`"),
        ({"repeat": 1.5}, "Expected `int | null`, got `float` - at `$.repeat`"),
        ({"started": "'now'"}, "Expected `float | null`, got `str` - at `$.started`"),
        ({"cost": "float('nan')"}, "total_cost_usd: expected a number from 0 to"),
        ({"cost": -1.0}, "total_cost_usd: expected a number from 0 to"),
        ({"started": "float('inf')"}, None),
    ],
)
def test_what_a_plug_in_gives_is_checked_before_it_is_written(
    parts: dict[str, Any], message: str | None, plugged: Callable[[str], None], tmp_path: Path
) -> None:
    plugged(plug_in(**parts))
    result = twoarm("collect", "odd", "--arm", f"a={odd_runs(tmp_path)}")
    if message is None:
        assert result.code == 0
        return
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "2 problems" in result.err


def test_a_repeat_is_checked_whatever_format_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the format is twoarm's own, and not looked at by the guard of plug-ins."""
    folder = copied("inspect/ok", tmp_path)
    read = InspectAi.read

    def far(*given: Any) -> Any:
        for attempt in read(*given):
            yield msgspec.structs.replace(attempt, repeat=2**53)

    monkeypatch.setattr(InspectAi, "read", far)
    assert refused("inspect", folder) == (
        f"{folder}/ok.json:sample 1: repeat: expected an integer from 1 to {LARGEST}, "
        "got 9007199254740992"
    )


def test_a_plug_in_does_not_take_the_name_of_a_format_of_twoarm(
    plugged: Callable[[str], None], tmp_path: Path
) -> None:
    plugged(plug_in())
    (tmp_path / "odd-1.0.dist-info" / "entry_points.txt").write_text(
        "[twoarm.formats]\nopencode = odd_format:Odd\n"
    )
    assert twoarm("collect", "opencode", "--arm", f"a={RUN}").code == 0


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
    assert refused("table", path) == f"{path}: two columns named `success`"


def test_two_parquet_columns_of_one_name_inside_an_object_are_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    inner = pyarrow.StructArray.from_arrays(
        [pyarrow.array([True]), pyarrow.array([False])], names=["ok", "ok"]
    )
    table = pyarrow.table({"task_id": ["t"], "duration_seconds": [1.0], "outcome": inner})
    write_table(table, path)
    text = refused("table", path, settings={"columns": {"success": "outcome.ok"}})
    assert text == f"{path}: two columns named `outcome.ok`"


@pytest.mark.parametrize("header", ["task_id,success,success,duration_seconds"])
def test_two_columns_of_one_name_in_a_header_are_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\nt,true,false,1\n")
    assert refused("table", path) == f"{path}: two columns named `success`"


@pytest.mark.parametrize("value", [0.9, True, "0.9", [0], 1e300, "²", 2**53])
def test_an_exit_code_that_is_no_whole_number_is_refused(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = {"task_id": "t", "success": True, "duration_seconds": 1, "agent_exit_code": value}
    path.write_text(json.dumps(row))
    assert refused("table", path).startswith(f"{path}:1: agent_exit_code: expected an exit code")


@pytest.mark.parametrize("value", [0, 0.0, "0", "0.0", "-11", -11.0])
def test_an_exit_code_may_be_spelled_as_any_whole_number(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = {"task_id": "t", "success": True, "duration_seconds": 1, "agent_exit_code": value}
    path.write_text(json.dumps(row))
    assert only("table", path)["agent_exit_code"] in (0, -11)


# Parquet -----------------------------------------------------------------------------------------

MEASURE = """
import resource, sys
from twoarm.collect import parquet
from twoarm.collect.gather import Place, gather
from twoarm.errors import BadRunsError
import pyarrow.parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    with gather("table", [Place(arm="a", path=sys.argv[1])]) as found:
        print(found.runs, "runs")
except BadRunsError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def measured(path: Path) -> tuple[str, int]:
    """What a collection says, and the MiB that its memory grew by at most."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    said, grown = done.stdout.rstrip().rsplit("\n", 1)
    return said, int(grown)


def bomb(path: Path, kind: str) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    rows = 300 if kind == "delta" else 1200
    text = "x" * 2_000_000
    # Made without ever holding the text more than once, but for the kind that cannot be.
    codes = pyarrow.array([0] * rows, pyarrow.int32())
    task = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array([text]))
    columns: dict[str, Any] = {
        "task_id": pyarrow.repeat(text[: 2**20], rows) if kind == "delta" else task,
        "success": pyarrow.array([True] * rows),
        "duration_seconds": pyarrow.array([1.0] * rows),
        "repeat": pyarrow.array(range(1, rows + 1)),
    }
    options: dict[str, Any] = {"use_dictionary": True}
    if kind == "nested":
        columns["task_id"] = pyarrow.array([str(n) for n in range(rows)])
        columns["note"] = pyarrow.StructArray.from_arrays([task], names=["text"])
    if kind == "list":
        columns["task_id"] = pyarrow.array([str(n) for n in range(rows)])
        ends = pyarrow.array([0] + [rows] * rows, pyarrow.int32())
        columns["note"] = pyarrow.ListArray.from_arrays(ends, task)
    if kind == "delta":
        options = {"use_dictionary": False, "column_encoding": {"task_id": "DELTA_BYTE_ARRAY"}}
    write_table(pyarrow.table(columns), path, compression="zstd", write_statistics=False, **options)


@pytest.mark.parametrize("kind", ["text", "nested", "delta"])
def test_a_long_text_that_a_small_parquet_file_repeats_is_refused(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    bomb(path, kind)
    assert path.stat().st_size < 64 * 2**10
    said, grown = measured(path)
    assert "unpacks to more than 268,435,456 bytes" in said
    assert grown < 500


def test_a_list_in_a_parquet_row_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    bomb(path, "list")
    said, grown = measured(path)
    assert said == "1200 runs"
    assert grown < 200


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
        places.append(Place(arm=str(number), path=str(path)))
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


# Sizes that a Parquet file only claims -----------------------------------------------------------


def varint(number: int, width: int = 0) -> bytes:
    """A number as Parquet spells it, in at least so many bytes."""
    left, made = number * 2, bytearray()
    while left > 127 or len(made) + 1 < width:
        made.append(left & 127 | 128)
        left >>= 7
    return bytes([*made, left])


def test_the_sizes_that_a_parquet_file_claims_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetFile, write_table

    path = tmp_path / "t.parquet"
    texts = pyarrow.array(["x" * 8_000_000, "t"])
    # No row has the long text, so that nothing but its page tells that it is there.
    task = pyarrow.DictionaryArray.from_arrays(pyarrow.array([1], pyarrow.int32()), texts)
    columns = {"task_id": task, "success": [True], "duration_seconds": [1.0]}
    write_table(pyarrow.table(columns), path, compression="zstd", write_statistics=False)
    group = ParquetFile(path).metadata.row_group(0)
    text = path.read_bytes()
    for size in {group.total_byte_size, group.column(0).total_uncompressed_size}:
        text = text.replace(varint(size), varint(100, len(varint(size))))
    path.write_bytes(text)
    assert ParquetFile(path).metadata.row_group(0).total_byte_size == 100
    assert only("table", path)["task_id"] == "t"
    monkeypatch.setattr(folder_module, "LEAST_UNPACKED", 2**20)
    assert "unpacks to more than 1,0" in refused("table", path)
    assert "it may be a decompression bomb" in refused("table", path)


def test_the_pages_of_every_kind_of_parquet_file_are_found(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    rows = [
        {"task_id": str(n), "success": n % 2 == 0, "duration_seconds": n / 7, "note": {"a": [n]}}
        for n in range(5000)
    ]
    table = pyarrow.Table.from_pylist(rows)
    path = tmp_path / "t.parquet"
    for options in (
        {},
        {"compression": "none", "use_dictionary": False},
        {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 700},
        {"compression": "brotli", "data_page_size": 100, "write_page_index": True},
        {"write_page_checksum": True, "write_statistics": True, "version": "1.0"},
    ):
        write_table(table, path, **options)
        assert len(collected("table", path)) == 5000


def test_a_parquet_file_of_lists_has_no_rows(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    write_table(pyarrow.table({"task_id": [["a"]]}), path)
    assert refused("table", path) == f"{path}: every column holds lists"


def test_categories_of_any_type_are_read_from_parquet(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    columns = {
        "task_id": pyarrow.array(["t", None, "u"]).dictionary_encode(),
        "repeat": pyarrow.array([1, 2, 3]).dictionary_encode(),
        "success": [True, True, False],
        "duration_seconds": [1.0, 1.0, 1.0],
    }
    write_table(pyarrow.table(columns), path)
    with collection("table", path, skip_bad=True) as found:
        kept = [json.loads(line) for line in found.lines()]
        assert [str(problem) for problem in found.problems] == [
            f"{path}:2: no task_id; column `task_id` is empty"
        ]
    assert [(one["task_id"], one["repeat"]) for one in kept] == [("t", 1), ("u", 3)]


@pytest.mark.parametrize("task", [None, 3, ["a"], {"b": 1}])
def test_a_log_of_inspect_whose_task_has_no_name_is_told(task: Any, tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["eval"].update(task=task))
    text = refused("inspect", folder, settings={"task_names": True})
    assert text.endswith("sample 1: no task name in eval.task, which `task_names=` needs")


def test_a_resumed_run_that_cannot_be_read_is_a_problem_of_the_run_that_resumed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = copied("codex/ok", tmp_path / "good")
    bad = copied("codex/nousage", tmp_path / "bad")
    (bad / "earlier").mkdir()
    sidecar(bad, resumed_from="earlier")
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if path.endswith("earlier"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    text = left_out("codex", good, bad)
    assert text == (
        f"{bad}/run.json: resumed_from: {bad}/earlier: cannot be read: Permission denied"
    )
