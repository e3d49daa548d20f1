"""An error names what its reader can change: a flag on the command line, an argument in Python."""

import re
from pathlib import Path
from typing import Any

import pytest

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from twoarm.collect.gather import ArmPath, CollectOptions, gather
from twoarm.options import flags_named, option
from twoarm.programs.format import Settings

# Options, what Python calls the wrong one, and what the command line does.
BOTH: list[tuple[dict[str, Any], list[str], str, str]] = [
    ({}, [], "name them with `candidate=` and `baseline=`;", "with --candidate and --baseline;"),
    ({"candidate": "a"}, ["--candidate", "a"], "with `baseline=`;", "with --baseline;"),
    ({"candidate": "x"}, ["--candidate", "x"], "`candidate=`: no runs", "--candidate: no runs of"),
    ({"baseline": "x"}, ["--baseline", "x"], "`baseline=`: no runs of", "--baseline: no runs of"),
    ({"level": 95}, ["--level", "95"], "level: expected", "twoarm: --level: expected"),
    ({"seed": -1}, ["--seed", "-1"], "seed: expected", "twoarm: --seed: expected"),
    ({"resamples": 3}, ["--resamples", "3"], "resamples: exp", "twoarm: --resamples: expected"),
    (
        {"margin_success": 1.5, "promote_by": "margin"},
        ["--margin-success", "1.5", "--promote-by", "margin"],
        "margin_success: expected",
        "twoarm: --margin-success: expected",
    ),
    (
        {"evidence": False, "promote_by": "margin"},
        ["--no-evidence", "--promote-by", "margin"],
        "promote_by: `margin` needs the evidence, which is off; use `gates`",
        "twoarm: --promote-by: `margin` needs the evidence, which is off; use `gates`",
    ),
]


@pytest.mark.parametrize(("given", "flags", "argument", "flag"), BOTH)
def test_an_option_is_named_as_its_reader_spells_it(
    given: dict[str, Any], flags: list[str], argument: str, flag: str, tmp_path: Path
) -> None:
    runs = [run(arm=arm) for arm in ("a", "b", "c")]
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(runs))
    with pytest.raises(package.TwoarmError) as caught:
        package.score(runs, **given)
    assert argument in str(caught.value)
    assert "--" not in str(caught.value)
    assert flag in twoarm("score", str(path), *flags).err


def test_runs_given_twice_name_the_choice_as_it_is_written(tmp_path: Path) -> None:
    runs = [*both(), *both()]
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(runs))
    with pytest.raises(package.BadRunsError) as caught:
        package.score(runs)
    assert 'choose with `duplicates="first"` or `"last"`' in str(caught.value)
    assert "--" not in str(caught.value)
    assert "choose with --duplicates first|last" in twoarm("score", str(path)).err
    assert "choose with --duplicates first|last" in twoarm("check", str(path)).out


def table(tmp_path: Path, text: str = "task_id,success,duration_seconds,v\na,1,2,x\n") -> str:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


COLLECT: list[tuple[CollectOptions, list[str], str, str]] = [
    (CollectOptions(), [], "`ArmPath(arm=..., path=...)`", "--arm NAME=PATH"),
    (
        CollectOptions(arm_map={"x": "a"}),
        ["--arm-map", "x=a"],
        "give the key that decides it with `arm_key=`",
        "give the key that decides it with --arm-key",
    ),
    (
        CollectOptions(arm_key="v", arm_map={"x": "a"}, settings=Settings(columns={"no": "v"})),
        ["--arm-key", "v", "--arm-map", "x=a", "--map", "no=v"],
        "`columns=`: no such field `no`",
        "--map: no such field `no`",
    ),
]


@pytest.mark.parametrize(("options", "flags", "argument", "flag"), COLLECT)
def test_so_is_an_option_of_collect(
    options: CollectOptions, flags: list[str], argument: str, flag: str, tmp_path: Path
) -> None:
    path = table(tmp_path)
    with pytest.raises(package.TwoarmError) as caught:
        gather("table", [ArmPath(arm=None, path=path)], options)
    assert argument in str(caught.value)
    assert "--" not in str(caught.value)
    assert flag in twoarm("collect", "table", path, *flags).err


def test_after_the_command_line_python_is_python_again() -> None:
    twoarm("score", "absent.jsonl")
    assert option("promote_by") == "`promote_by=`"
    with flags_named():
        assert option("promote_by") == "--promote-by"
    assert option("promote_by") == "`promote_by=`"


def test_no_error_of_the_library_spells_a_flag_by_itself() -> None:
    """A flag in the text of an error would be wrong for one of its two readers."""
    source = Path(package.__file__).parent
    # What is said of a whole command, and the flags of other programs.
    others = ("caveats.py", "shell.py", "launch.py", "options.py")
    files = [
        source / "options.py",
        source / "compare" / "screen.py",
        *(source / "runs" / name for name in ("runfile.py", "badline.py")),
        *(
            path
            for room in ("collect", "programs")
            for path in (source / room).rglob("*.py")
            if path.name not in others
        ),
    ]
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            spelled = re.search(r"(?<![`\w-])--[a-z]", line)
            allowed = re.search(
                r'flag=f?"|^\s*#|"""|_flags|_FLAGS|f"--\{|read as 0 \(--missing|what --arm-key arm',
                line,
            )
            assert not spelled or allowed, f"{path.name}:{number}: {line}"
