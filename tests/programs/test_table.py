"""`collect table`: rows and arms that are left out, tasks of several columns, a mapping file."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.collect_fixtures import collected, collection
from twoarm.collect.gather import left_out
from twoarm.errors import BadRunsError, InputError, TwoarmError
from twoarm.programs.format import Condition
from twoarm.programs.table.mapping import read_mapping

# Two agents, three variants, two splits: 24 rows.
HEAD = "agent,task,variant,split,try,passed,seconds"
ROWS = [
    {
        "agent": agent,
        "task": task,
        "variant": variant,
        "split": split,
        "try": attempt,
        "passed": True,
        "seconds": 3.5,
    }
    for agent in ("x", "y")
    for task in ("a", "b")
    for variant in ("on", "off", "other")
    for split, attempt in (("test", 1), ("train", 2))
]
COLUMNS = {"task_id": "task", "repeat": "try", "success": "passed", "duration_seconds": "seconds"}
ARMS = {"on": "with_x", "off": "without_x"}
MAP = [word for field, column in COLUMNS.items() for word in ("--map", f"{field}={column}")]
ARM = ["--arm-key", "variant", "--arm-map", "on=with_x", "--arm-map", "off=without_x"]
ONE = ["--where", "agent=x", "--where", "split!=train"]


def write(folder: Path, kind: str = "csv", rows: list[dict[str, Any]] = ROWS) -> Path:
    path = folder / f"t.{kind}"
    if kind == "csv":
        lines = [",".join(map(str, row.values())) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "json":
        path.write_text(json.dumps(rows, indent=2))
    else:
        import pyarrow
        from pyarrow.parquet import write_table

        write_table(pyarrow.Table.from_pylist(rows), path)
    return path


KINDS = ["csv", "jsonl", "json", "parquet"]


# Rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_chosen_by_a_value_and_the_others_counted(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    result = twoarm("collect", "table", str(path), *ARM, *MAP, *ONE)
    assert result.code == 0, result.err
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [(one["task_id"], one["arm"], one["repeat"]) for one in found] == [
        ("a", "with_x", 1),
        ("a", "without_x", 1),
        ("b", "with_x", 1),
        ("b", "without_x", 1),
    ]
    lines = result.err.splitlines()
    assert "left out: 12 rows, not agent=x" in lines
    assert "left out: 6 rows, not split!=train" in lines
    assert "left out: 2 runs whose variant is `other`, an arm that was not asked for" in lines


def test_a_value_is_compared_as_text_and_nothing_as_an_empty_text(tmp_path: Path) -> None:
    rows = [
        {"task_id": str(n), "success": True, "duration_seconds": 1, "n": value}
        for n, value in enumerate([1, True, None, "", "1"])
    ]
    path = write(tmp_path, "jsonl", rows)

    def tasks(value: str, *, equal: bool = True) -> list[str]:
        where = (Condition(column="n", value=value, equal=equal),)
        return [one["task_id"] for one in collected("table", path, settings={"where": where})]

    assert tasks("1") == ["0", "4"]
    assert tasks("true") == ["1"]
    assert tasks("") == ["2", "3"]
    assert tasks("", equal=False) == ["0", "1", "4"]


def test_a_condition_may_hold_any_sign(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("task_id,success,duration_seconds,q\na,1,1,x=y!=z\nb,1,1,n\n")
    arm = ["--arm", f"a={path}"]
    assert "1 row, not q=x=y!=z" in twoarm("collect", "table", *arm, "--where", "q=x=y!=z").err
    assert "1 row, not q!=n" in twoarm("collect", "table", *arm, "--where", "q!=n").err
    for bad in ("q", "=x", "!=x"):
        result = twoarm("collect", "table", *arm, "--where", bad)
        assert result.err == f"twoarm: --where `{bad}`: write COLUMN=VALUE or COLUMN!=VALUE\n"


def test_conditions_that_leave_nothing_say_so(tmp_path: Path) -> None:
    path = write(tmp_path)
    result = twoarm("collect", "table", str(path), *ARM, *MAP, "--where", "agent=z")
    assert result.code == 2
    assert result.err == (
        f"twoarm: {path}: no runs of format table; left out: 24 rows, not agent=z\n"
    )


# Columns ------------------------------------------------------------------------------------------

FOUND = "columns found: `agent`, `task`, `variant`, `split`, `try`, `passed`, `seconds`"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--map", "model=llm"], "no column `llm` for model"),
        (["--where", "agnt=x"], "no column `agnt` for --where"),
        (["--arm-key", "varient"], "no `varient` in it, so its arm is unknown"),
        (["--map", "task_id=agent+tsk"], "no column `tsk` for task_id"),
    ],
)
def test_a_column_that_is_missing_is_said_once_with_those_found(
    kind: str, given: list[str], said: str, tmp_path: Path
) -> None:
    path = write(tmp_path, kind)
    mapped = [*MAP, "--arm-map", "on=with_x", "--arm-map", "off=without_x"]
    if "--arm-key" not in given:
        mapped += ["--arm-key", "variant"]
    if given[1].startswith("task_id"):
        mapped = mapped[2:]
    result = twoarm("collect", "table", str(path), *mapped, *given)
    assert result.code == 2
    first, last = result.err.splitlines()
    in_every_row = kind in ("json", "jsonl") or "--arm-key" in given
    assert ("the same mistake in" in first) is in_every_row
    assert f": {said}; {FOUND if 'column' in said else FOUND.removeprefix('columns ')}" in first
    assert "nothing was written" in last


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("field", ["task_id", "success", "duration_seconds"])
def test_a_field_that_every_run_needs_is_asked_for_once(
    kind: str, field: str, tmp_path: Path
) -> None:
    path = write(tmp_path, kind)
    at = MAP.index(f"{field}={COLUMNS[field]}")
    result = twoarm("collect", "table", str(path), *ARM, *MAP[: at - 1], *MAP[at + 1 :])
    first, last = result.err.splitlines()
    assert f": no column for {field}; name it with --map {field}=COLUMN; {FOUND}" in first
    assert "nothing was written" in last


def test_a_column_of_a_wide_table_is_listed_with_few_others(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    head = ",".join(f"c{n}" for n in range(200))
    path.write_text(f"{head}\n{head}\n")
    with pytest.raises(BadRunsError) as caught:
        collected("table", path)
    assert "`c19` and 180 more" in str(caught.value)


# Tasks of several columns -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_may_be_made_of_several_columns(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind, [row for row in ROWS if row["variant"] == "on"])
    columns = COLUMNS | {"task_id": "agent+task"}
    found = collected("table", path, settings={"columns": columns})
    assert sorted({one["task_id"] for one in found}) == ["x/a", "x/b", "y/a", "y/b"]


def test_a_column_whose_name_has_a_plus_is_that_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,a+b,success,duration_seconds\n1,2,three,1,1\n")
    (found,) = collected("table", path, settings={"columns": {"task_id": "a+b"}})
    assert found["task_id"] == "three"


def test_two_tasks_never_become_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,success,duration_seconds\nx/y,z,1,1\nx,y/z,1,1\n")
    with pytest.raises(BadRunsError) as caught:
        collected("table", path, settings={"columns": {"task_id": "a+b"}})
    assert str(caught.value) == (
        f"{path}:3: two tasks would both be `x/y/z`: `x/y` + `z` and `x` + `y/z`; rename one"
    )


def test_a_part_that_is_empty_is_no_task(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,success,duration_seconds\nx,,1,1\n")
    with pytest.raises(BadRunsError, match=r"t.csv:2: no task_id; column `b` is empty$"):
        collected("table", path, settings={"columns": {"task_id": "a+b"}})


# Arms ---------------------------------------------------------------------------------------------


def test_arms_that_were_not_asked_for_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path)
    columns = COLUMNS | {"task_id": "agent+task"}
    with collection(
        "table", path, arm_key="variant", arm_map=ARMS, settings={"columns": columns}
    ) as found:
        assert found.runs == 16
        assert left_out(found.left_out) == [
            "left out: 8 runs whose variant is `other`, an arm that was not asked for"
        ]


def test_an_arm_that_was_asked_for_and_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path)
    columns = COLUMNS | {"task_id": "agent+task"}
    with pytest.raises(TwoarmError) as caught:
        collected(
            "table",
            path,
            arm_key="variant",
            arm_map={"on": "with_x", "of": "without_x"},
            settings={"columns": columns},
        )
    assert str(caught.value) == (
        "`arm_map=`: no run for arm `without_x`: variant is never `of`; values found: `off`, `on`, "
        "`other`"
    )


def test_several_values_may_stand_for_an_arm_and_some_never_occur(tmp_path: Path) -> None:
    path = write(tmp_path)
    columns = COLUMNS | {"task_id": "agent+task"}
    arms = ARMS | {"never": "with_x"}
    found = collected("table", path, arm_key="variant", arm_map=arms, settings={"columns": columns})
    assert len(found) == 16


def test_without_any_map_the_values_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path)
    result = twoarm("collect", "table", str(path), *MAP, "--arm-key", "variant")
    first, *_, last = result.err.splitlines()
    assert "variant is `on`, which --arm-map maps to no arm; add --arm-map on=NAME" in first
    assert last.startswith("twoarm: 24 problems; nothing was written")


def test_values_without_end_are_counted_but_not_all_listed(tmp_path: Path) -> None:
    rows = [
        {"task_id": "t", "success": 1, "duration_seconds": 1, "repeat": n, "v": f"v{n}"}
        for n in range(1, 301)
    ]
    path = write(tmp_path, "jsonl", rows)
    result = twoarm("collect", "table", str(path), "--arm-key", "v", "--arm-map", "v1=a")
    assert result.code == 0
    lines = [line for line in result.err.splitlines() if "left out" in line]
    assert len(lines) < 30
    assert "left out: 279 runs of other arms that were not asked for" in result.err


# A mapping file -----------------------------------------------------------------------------------

MAPPING = """
arm_key = "variant"
where = ["agent=x", "split!=train"]
input_includes_cache = false

[arms]
on = "with_x"
off = "without_x"

[columns]
task_id = "agent+task"
repeat = "try"
success = "passed"
duration_seconds = "seconds"
"""


def test_a_mapping_file_is_the_same_as_its_options(tmp_path: Path) -> None:
    path = write(tmp_path)
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(MAPPING)
    options = [*MAP[2:], "--map", "task_id=agent+task", *ARM, *ONE]
    long = twoarm("collect", "table", str(path), *options)
    short = twoarm("collect", "table", str(path), "--mapping", str(mapping))
    assert short.code == 0, short.err
    assert (short.out, short.err) == (long.out, long.err)
    assert len(short.out.splitlines()) == 4


def test_options_add_to_a_mapping_file_but_do_not_contradict_it(tmp_path: Path) -> None:
    path = write(tmp_path)
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(MAPPING)
    given = ["collect", "table", str(path), "--mapping", str(mapping)]
    assert len(twoarm(*given, "--where", "task=a").out.splitlines()) == 2
    for more, said in (
        (["--map", "task_id=task"], "--map `task_id`: given twice, with different values"),
        (["--arm-key", "split"], "--arm-key: given twice, as `variant` and `split`"),
        (["--arm-map", "on=other"], "--arm-map `on`: given twice, with different values"),
    ):
        result = twoarm(*given, *more)
        assert (result.code, result.err) == (2, f"twoarm: {said}\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arm_kye = 'x'", "not a mapping: Object contains unknown field `arm_kye`"),
        ("where = ['x']", "where `x`: write COLUMN=VALUE or COLUMN!=VALUE"),
        ("[columns]\ntask_id = 3", "not a mapping: Expected `str`, got `int`"),
        ("a = = b", "not TOML: "),
    ],
)
def test_a_bad_mapping_file_is_named_with_the_reason(text: str, said: str, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(text)
    with pytest.raises(InputError) as caught:
        read_mapping(str(mapping))
    assert str(caught.value).startswith(f"{mapping}: {said}")
    assert "\n" not in str(caught.value)


def test_a_mapping_file_is_never_written_over(tmp_path: Path) -> None:
    path = write(tmp_path)
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(MAPPING)
    result = twoarm("collect", "table", str(path), "--mapping", str(mapping), "-o", str(mapping))
    assert result.code == 2
    assert mapping.read_text() == MAPPING


def test_a_mapping_file_is_for_tables(tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(MAPPING)
    result = twoarm("collect", "harbor", str(tmp_path), "--mapping", str(mapping))
    assert result.err == "twoarm: --mapping has no effect with format harbor; it applies to table\n"


# JSON arrays --------------------------------------------------------------------------------------


def test_a_bad_row_of_an_array_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    rows: list[Any] = [{"task_id": "a", "success": 1, "duration_seconds": 1}, 7]
    path.write_text(json.dumps([*rows, {**rows[0], "success": "maybe"}]))
    with pytest.raises(BadRunsError) as caught:
        collected("table", path)
    second, third = str(caught.value).splitlines()
    assert second == f"{path}:row 2: expected an object, got 7"
    assert third.startswith(f"{path}:row 3: success: expected true or false")


def test_a_document_that_is_no_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"runs": []}')
    with pytest.raises(BadRunsError, match=r"t.json: expected `array`, got `object`"):
        collected("table", path)


def test_in_a_folder_no_json_document_is_taken_for_a_table(tmp_path: Path) -> None:
    write(tmp_path, "csv", [{"task_id": "a", "success": 1, "duration_seconds": 1}])
    (tmp_path / "run.json").write_text("{}")
    assert len(collected("table", tmp_path)) == 1
