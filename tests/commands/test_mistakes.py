"""What a new user gets wrong: each mistake is answered with what would do."""

import gzip
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import twoarm as package
from tests.conftest import WITH, WITHOUT, both, lines, run, twoarm


def study() -> list[dict[str, Any]]:
    return [one for task in "ab" for repeat in (1, 2) for one in both(task, repeat)]


def csv_of(runs: list[dict[str, Any]], delimiter: str = ",") -> str:
    rows = [list(runs[0]), *(map(str, one.values()) for one in runs)]
    return "".join(f"{delimiter.join(row)}\n" for row in rows)


# Not a run file -----------------------------------------------------------------------------------


def suggested(error: str) -> list[str]:
    """The command that an error ends with."""
    _, _, command = error.rstrip("\n").rpartition(": twoarm ")
    return shlex.split(command)


FOREIGN = [
    ("runs.csv", csv_of(study()), "a CSV table"),
    ("runs.tsv", csv_of(study(), "\t"), "a TSV table"),
    ("runs.json", json.dumps(study(), indent=2), "a JSON array"),
    ("one line.json", json.dumps(study()), "a JSON array"),
]


@pytest.mark.parametrize("command", ["score", "check"])
@pytest.mark.parametrize(("name", "text", "what"), FOREIGN)
def test_a_table_is_answered_with_the_command_that_makes_records_of_it(
    command: str, name: str, text: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text, encoding="utf-8")
    result = twoarm(command, name)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"twoarm: {name}: {what}, not run records; make them with: twoarm")
    assert len(result.err.splitlines()) == 1
    made = twoarm(*suggested(result.err))
    assert made.code == 0, made.err
    assert twoarm("score", "collected.jsonl").code == 0
    with pytest.raises(package.InputError) as caught:
        package.score(name)
    assert f"{name}: {what}, not run records; make them with `twoarm.gather" in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_parquet_file_is_answered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    monkeypatch.chdir(tmp_path)
    write_table(pyarrow.Table.from_pylist(study()), "runs.parquet")
    result = twoarm("score", "runs.parquet")
    assert "runs.parquet: a Parquet table, not run records; make them with: twoarm " in result.err
    assert "--arm-key COLUMN --arm-map VALUE=with_x --arm-map VALUE=without_x" in result.err


def test_columns_that_have_other_names_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.csv").write_text("case,variant,success,seconds\na,on,1,2\nb,off,1,3\n")
    error = twoarm("score", "r.csv").err
    assert suggested(error) == [
        *("collect", "table", "r.csv", "--arm-key", "COLUMN"),
        *("--arm-map", "VALUE=with_x", "--arm-map", "VALUE=without_x"),
        *("--map", "task_id=COLUMN", "--map", "duration_seconds=COLUMN", "-o", "collected.jsonl"),
    ]


def test_a_table_under_an_odd_name_or_packed_is_to_be_saved_first(tmp_path: Path) -> None:
    path = tmp_path / "runs.txt"
    path.write_text(csv_of(study()))
    assert (
        f"save it as {tmp_path}/runs.csv, then make them with: " in twoarm("score", str(path)).err
    )
    packed = tmp_path / "runs.csv.gz"
    packed.write_bytes(gzip.compress(csv_of(study()).encode()))
    assert f"save it as {tmp_path}/runs.csv, then" in twoarm("score", str(packed)).err
    with pytest.raises(package.InputError, match="<stream>: a CSV table, .* save it as runs.csv,"):
        package.score(io.BytesIO(csv_of(study()).encode()))


def test_a_pretty_printed_object_is_answered_with_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("".join(f"{json.dumps(one, indent=2)}\n" for one in study()))
    error = twoarm("score", str(path)).err
    assert "JSON objects over several lines; write one per line: jq -c . " in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("indent", [2, None])
def test_a_result_is_not_taken_for_runs(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "analysis.json"
    path.write_text(json.dumps(json.loads(package.score(study()).to_json()), indent=indent))
    said = twoarm("score", str(path)).err.removeprefix(f"twoarm: {path}: ")
    assert said == (
        "a twoarm analysis, not run records; name the run files that it was made from\n"
    )


def test_a_folder_is_answered_with_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs").mkdir()
    error = twoarm("score", "jobs").err
    assert error == (
        "twoarm: jobs: a folder, not a run file, and without schedule.json no run folder; make run "
        "records with: twoarm collect auto --arm with_x=jobs/FOLDER --arm without_x=jobs/FOLDER "
        "-o collected.jsonl\n"
    )
    for name in ("new tool", "old"):
        (Path("jobs") / name).mkdir()
    assert suggested(twoarm("score", "jobs").err) == [
        *("collect", "auto", "--arm", "new tool=jobs/new tool", "--arm", "old=jobs/old"),
        *("-o", "collected.jsonl"),
    ]
    (Path("jobs") / "collected.jsonl").write_bytes(lines(study()))
    error = twoarm("score", "jobs/").err
    said = "a folder, not a run file, and without schedule.json no run folder; score jobs/"
    assert error == f"twoarm: jobs/: {said}collected.jsonl\n"
    with pytest.raises(package.InputError, match=said):
        package.score("jobs")


@pytest.mark.parametrize(
    "text",
    [
        b"task,arm\n" + lines(study()),
        b"a,b\nc,d\n" + lines(study()),
        b'[\n{"a": 1}\n]\n' + lines(study()),
        b"{\n}\n" + lines(study()),
    ],
)
def test_a_file_that_has_runs_is_a_run_file_however_it_begins(text: bytes) -> None:
    assert len(package.read(io.BytesIO(text), skip_bad=True)) == len(study())
    with pytest.raises(package.BadRunsError, match="^<stream>:1: "):
        package.read(io.BytesIO(text))


@pytest.mark.parametrize(
    "text",
    [
        b"hello, world\n",
        b"a,b\n",
        b"a,b\nc\n",
        b'[1, 2]\n{"a": 1}\n',
        b"[{}]\n[{}]\n",
        b"1,2\n3,4\n",
        b"{}\n{\n",
    ],
)
def test_what_may_be_anything_is_listed_line_by_line(text: bytes) -> None:
    with pytest.raises(package.BadRunsError, match="^<stream>:1: "):
        package.read(io.BytesIO(text))


class _Slow(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(8)


def test_a_file_whose_runs_come_late_is_a_run_file_too() -> None:
    text = b"a,b\nc,d\n" + lines(study())
    assert len(package.read(_Slow(text), skip_bad=True)) == len(study())
    with pytest.raises(package.InputError, match="<stream>: a CSV table"):
        package.read(_Slow(csv_of(study()).encode()))


# The same mistake many times ----------------------------------------------------------------------


def listed(tmp_path: Path, text: bytes) -> list[str]:
    path = tmp_path / "r.jsonl"
    path.write_bytes(text)
    result = twoarm("score", str(path))
    assert (result.code, result.out) == (2, "")
    return result.err.replace(f"{tmp_path}/", "").splitlines()


def test_a_mistake_on_every_line_is_said_once(tmp_path: Path) -> None:
    runs = [one | {"success": "yes"} for repeat in range(1, 121) for one in both(repeat=repeat)]
    assert listed(tmp_path, lines(runs)) == [
        'r.jsonl:1: success: expected true or false, got "yes"; the same mistake in 240 places: '
        "r.jsonl:1, r.jsonl:2, r.jsonl:3, ...",
        "twoarm: 240 problems; nothing was scored",
    ]


def test_a_mistake_is_the_same_whatever_the_value(tmp_path: Path) -> None:
    """Numbers in quotes: no two of them are equal."""
    runs = [run(repeat=n, duration_seconds=str(n), arm="x" * (n % 2)) for n in range(1, 9)]
    found = listed(tmp_path, lines(runs))
    assert found[0] == (
        'r.jsonl:1: duration_seconds: expected a number from 0 to 9007199254740991, got "1"; the '
        "same mistake in 8 places: r.jsonl:1, r.jsonl:2, r.jsonl:3, ..."
    )
    assert found[1].startswith('r.jsonl:2: arm: expected a non-empty string, got ""; the same')
    assert found[1].endswith("in 4 places: r.jsonl:2, r.jsonl:4, r.jsonl:6, ...")
    assert found[2:] == ["twoarm: 12 problems; nothing was scored"]


def test_a_rare_mistake_is_seen_beside_a_frequent_one(tmp_path: Path) -> None:
    runs = [run(repeat=n, success=None) for n in range(1, 501)]
    runs[450]["arm"] = 3
    found = listed(tmp_path, lines(runs))
    assert found[1] == "r.jsonl:451: arm: expected a non-empty string, got 3"
    assert len(found) == 3


def test_up_to_three_places_are_listed_one_by_one(tmp_path: Path) -> None:
    found = listed(tmp_path, b"[]\n" * 3)
    assert [line.split(": ")[0] for line in found] == [
        "r.jsonl:1",
        "r.jsonl:2",
        "r.jsonl:3",
        "twoarm",
    ]


def test_numbers_of_another_kind_are_another_mistake(tmp_path: Path) -> None:
    values = ["yes"] * 4 + [1] * 4
    found = listed(tmp_path, lines([run(repeat=n, success=v) for n, v in enumerate(values, 1)]))
    assert len(found) == 3
    assert found[1].startswith("r.jsonl:5: success: expected true or false, got 1; the same")


def test_runs_given_twice_are_one_mistake(tmp_path: Path) -> None:
    found = listed(tmp_path, lines([*study(), *study()]))
    assert found[0].startswith("r.jsonl:9: repeat: task `a`, arm `with_skelly`, repeat 1 was alr")
    assert "; the same mistake in 8 places: r.jsonl:9, r.jsonl:" in found[0]
    assert found[1:] == ["twoarm: 8 problems; nothing was scored"]


def test_a_mistake_in_every_row_of_a_table_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"t{n},maybe{n},1\n" for n in range(9))
    path.write_text(f"task_id,success,duration_seconds\n{rows}")
    result = twoarm("collect", "table", "--arm", f"a={path}")
    assert result.code == 2
    first, last = result.err.replace(f"{tmp_path}/", "").splitlines()
    assert first == (
        "t.csv:2: success: expected true or false, 1 or 0, yes or no, got `maybe0`; the same "
        "mistake in 9 places: t.csv:2, t.csv:3, t.csv:4, ..."
    )
    assert last.startswith("twoarm: 9 problems; nothing was written")


def test_check_still_lists_every_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines([run(repeat=n, success="x") for n in range(1, 200)]))
    assert len(twoarm("check", str(path)).out.splitlines()) == 199


# Collect ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [["--arm", "a=nope", "--arm", "b=."], ["--arm", "a=.", "--arm", "b=./nope/deep"]]
)
def test_a_path_that_is_not_there_is_not_inside_another(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = twoarm("collect", "harbor", *given)
    assert result.code == 2
    assert result.err.endswith(": cannot be read: No such file or directory\n")
    assert result.err.startswith("twoarm: nope" if "nope" in given[1] else "twoarm: ./nope/deep")


UNUSED = [
    ("harbor", ["--map", "task_id=x"], "--map has no effect with format harbor; it applies to tab"),
    ("harbor", ["--where", "a=b"], "--where has no effect with format harbor; it applies to table"),
    ("codex", ["--input-includes-cache"], "--input-includes-cache has no effect with format codex"),
    ("codex", ["--scorer", "x"], "--scorer has no effect with format codex; it applies to harbor "),
    ("table", ["--threshold", "1"], "--threshold has no effect with format table; it applies to h"),
    ("table", ["--working-time"], "--working-time has no effect with format table; it applies to "),
    ("harbor", ["--task-names"], "--task-names has no effect with format harbor; it applies to in"),
    ("harbor", ["--report", "a=x"], "--report has no effect with format harbor; it applies to min"),
]


@pytest.mark.parametrize(("name", "given", "answer"), UNUSED)
def test_an_option_that_its_format_has_no_use_for_is_refused(
    name: str, given: list[str], answer: str, tmp_path: Path
) -> None:
    result = twoarm("collect", name, "--arm", f"a={tmp_path}", *given)
    assert result.code == 2
    assert result.err.startswith(f"twoarm: {answer}")


# Options without effect ---------------------------------------------------------------------------


def test_what_another_way_goes_by_has_an_effect_on_what_is_said_of_it() -> None:
    plain = twoarm("demo").out
    assert "; by margin: not yet" in plain
    wide = twoarm("demo", "--margin-success", "0.2", "--margin-ratio", "0.2")
    assert (wide.code, wide.err) == (0, "")
    assert "by margin" not in wide.out
    assert twoarm("demo", "--guard", "none").code == 0
    assert twoarm("demo", "--allow-broken", "1").code == 0


# No comparison ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", [WITH, WITHOUT, "with_lens", "without_lens"])
def test_one_arm_is_insufficient_data_and_says_why(arm: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines([run(f"t{n % 3}", arm, n) for n in range(1, 19)]))
    other = f"with_{arm.split('_')[1]}" if arm.startswith("without_") else arm.replace("_", "out_")
    result = twoarm("score", str(path), "--exit-code")
    assert result.code == 3
    why = f"no run of `{other}`; one arm alone cannot be compared"
    lines_of = " ".join(result.out.split())
    assert f"DECISION insufficient data: {why}" in lines_of
    assert why in result.err
    report = package.score(path)
    assert report.decision == "insufficient data"
    (caveat,) = [one for one in report.caveats if one.code == "insufficient_data"]
    assert caveat.message == f"no decision: {why}"
    assert why in " ".join(report.promotion.reasons)


@pytest.mark.parametrize("arm", ["new", "with_", "without_"])
def test_one_arm_of_another_name_is_still_an_error(arm: str) -> None:
    with pytest.raises(package.ArmsError, match="only one arm found"):
        package.score([run(arm=arm)])


def test_no_task_in_common_is_insufficient_data_and_says_why(tmp_path: Path) -> None:
    runs = [run(f"a{n % 2}", WITH, n) for n in range(1, 21)]
    runs += [run(f"b{n % 2}", WITHOUT, n, duration_seconds=200.0) for n in range(1, 21)]
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines(runs))
    result = twoarm("score", str(path), "--exit-code")
    assert result.code == 3
    why = "no task was run in both arms"
    assert f"DECISION   insufficient data: {why}\n" in result.out
    assert why in result.err
    report = package.score(path)
    assert (report.decision, report.paired.paired_runs) == ("insufficient data", 0)
    assert report.decision.kind == "insufficient"
    (caveat,) = [one for one in report.caveats if one.code == "insufficient_data"]
    assert caveat.message == f"no decision: {why}"
    for promote_by in ("gates", "evidence", "margin"):
        promotion = package.score(path, promote_by=promote_by).promotion
        assert promotion.verdict == "not enough data"
        assert why in " ".join(promotion.reasons)
    assert package.score(path, evidence=False).decision == "insufficient data"


def test_one_task_in_common_is_enough_for_a_decision() -> None:
    runs = [*both("shared"), run("a", WITH), run("b", WITHOUT)]
    assert package.score(runs).decision == f"prefer {WITH}"
    other_repeat = [run("shared", WITH, 1), run("shared", WITHOUT, 2)]
    assert package.score(other_repeat).decision == f"prefer {WITH}"


@pytest.mark.parametrize(
    ("candidate", "baseline", "swapped"),
    [
        ("without_lens", "with_lens", True),
        ("with_lens", "without_lens", False),
        ("without_lens", "with_other", False),
        ("new", "old", False),
    ],
)
def test_arms_that_look_swapped_are_a_caveat(candidate: str, baseline: str, swapped: bool) -> None:
    runs = [one | {"arm": candidate if one["arm"] == WITH else baseline} for one in study()]
    report = package.score(runs, candidate=candidate, baseline=baseline)
    found = [one.message for one in report.caveats if one.code == "arms_look_swapped"]
    assert found == (
        [
            "going by their names, the arms are swapped, and so is every delta: the candidate is "
            "`without_lens`, the baseline `with_lens`"
        ]
        if swapped
        else []
    )
    assert ("are swapped" in " ".join(report.to_text().split())) is swapped
