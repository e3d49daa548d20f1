"""The collect command: options, output, summary, exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from tests.conftest import twoarm
from tests.support.collect_fixtures import FIXTURES, HARBOR, copied, sidecar
from tests.support.pseudo_terminal import shown_on, terminal

JOB = str(HARBOR)
KEY = ("--arm-key", "config.agent.kwargs.behaviour")
MAP = ("--arm-map", "solve=with_x", "--arm-map", "fail=without_x")


def test_records_go_to_stdout_and_the_summary_to_stderr() -> None:
    result = twoarm("collect", "harbor", JOB, *KEY, *MAP)
    assert result.code == 0
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert len(lines) == 8
    assert result.err.startswith("8 runs of 2 tasks, format harbor\n")


def test_a_file_is_written_whole_and_named(tmp_path: Path) -> None:
    path = tmp_path / "collected.jsonl"
    result = twoarm("collect", "harbor", JOB, *KEY, *MAP, "-o", str(path))
    assert (result.code, result.out) == (0, "")
    assert result.err.endswith(f"twoarm: wrote {path}\n")
    printed = twoarm("collect", "harbor", JOB, *KEY, *MAP).out
    # The files of a run are named relative to the file that the records are in.
    here, there = (
        [(one, (root / one.pop("run_path")).resolve()) for one in map(json.loads, lines)]
        for root, lines in (
            (tmp_path, path.read_text().splitlines()),
            (Path.cwd(), printed.splitlines()),
        )
    )
    assert here == there
    assert all(found.is_relative_to(JOB) and found.is_file() for _, found in here)
    assert os.listdir(tmp_path) == ["collected.jsonl"]
    assert twoarm("check", str(path)).out == (
        "no problems: 8 runs, 2 tasks, arms `with_x`, `without_x`\n"
    )


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        twoarm("collect", "auto", JOB, *KEY, *MAP, "-o", str(tmp_path / name))
        for name in ("1", "2")
    )
    assert first.code == second.code == 0
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "collected.jsonl"
    path.write_text("old\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = twoarm("collect", "harbor", JOB, *KEY, *MAP, "-o", str(path))
    assert result.code == 2
    assert result.err == f"twoarm: {path}: cannot be written: No space left on device\n"
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["collected.jsonl"]


def test_bad_inputs_are_listed_and_nothing_is_written(tmp_path: Path) -> None:
    bad = copied("opencode/ok", tmp_path / "runs" / "bad")
    copied("opencode/ok", tmp_path / "runs" / "good")
    (bad / "export.json").write_text("{")
    path = tmp_path / "collected.jsonl"
    arguments = ("collect", "opencode", "--arm", f"a={tmp_path / 'runs'}", "-o", str(path))
    result = twoarm(*arguments)
    line = f"{bad}/export.json: not JSON: input data was truncated"
    assert result.code == 2
    assert result.err == (
        f"{line}\ntwoarm: 1 problem; nothing was written; "
        "--skip-bad leaves out inputs that cannot be read\n"
    )
    assert not path.exists()
    result = twoarm(*arguments, "--skip-bad")
    assert result.code == 0
    assert f"left out: 1 bad input\n  {line}\n" in result.err
    assert len(path.read_text().splitlines()) == 1


def summary_of(*arguments: str) -> str:
    result = twoarm("collect", *arguments)
    assert result.code == 0
    return result.err.replace(f"{FIXTURES}{os.sep}", "")


def test_the_summary_says_what_was_found(golden: Callable[[str, str], None]) -> None:
    texts = [
        summary_of("harbor", JOB, *KEY, *MAP),
        summary_of(
            "auto",
            "--arm",
            f"with_x={FIXTURES / 'opencode'}",
            "--arm",
            f"without_x={FIXTURES / 'opencode-old'}",
            "--may-differ",
            "model",
        ),
        summary_of("codex", "--arm", f"a={FIXTURES / 'codex'}", "--may-differ", "model"),
    ]
    golden("collect.summary", "\n".join(texts))


def test_many_tasks_are_counted_and_not_all_listed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"task{n},1,1\n" for n in range(50))
    path.write_text(f"task_id,success,duration_seconds\n{rows}")
    result = twoarm("collect", "table", "--arm", f"a={path}")
    assert "50 runs of 50 tasks" in result.err
    assert "  ... and 30 more, not listed\n" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["harbor"], "nothing to collect; give --arm NAME=PATH for each arm"),
        (["harbor", JOB], "which arm? name it with --arm NAME=PATH"),
        (["nonsense", "--arm", f"a={JOB}"], "no format `nonsense`; the formats are auto, harbor,"),
        (["harbor", "--arm", JOB], "write NAME=PATH"),
        (["harbor", "--arm", f"={JOB}"], "write NAME=PATH"),
        (["harbor", "--arm", f"a={JOB}", *KEY], "--arm and --arm-key both decide the arm"),
        (["harbor", "--arm", f"a={JOB}", *MAP], "--arm-map without --arm-key"),
        (["harbor", JOB, *KEY, "--arm-map", "solve"], "--arm-map: write VALUE=NAME"),
        (
            ["harbor", JOB, *KEY, *MAP, "--arm-map", "solve=other"],
            "--arm-map `solve`: given twice, with different values",
        ),
        (["table", "--arm", f"a={JOB}", "--map", "x"], "--map `x`: write FIELD=COLUMN"),
        (["harbor", "--arm", f"a={JOB}", "--threshold", "nan"], "--threshold: write a number"),
        (["harbor", "--arm", "a=/no/such/folder"], "/no/such/folder: cannot be read"),
    ],
)
def test_bad_usage_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = twoarm("collect", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.startswith("twoarm: ")


def test_a_value_with_an_equals_sign_can_be_mapped(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    sidecar(folder, arm="skill=on")
    result = twoarm(
        "collect", "opencode", str(folder), "--arm-key", "arm", "--arm-map", "skill=on=with_x"
    )
    assert json.loads(result.out)["arm"] == "with_x"


def test_the_schema_of_the_sidecar_fits_every_sidecar(golden: Callable[[str, str], None]) -> None:
    result = twoarm("schema", "sidecar")
    assert result.code == 0
    golden("schema-sidecar.json", result.out)
    schema = json.loads(result.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    found = sorted(FIXTURES.glob("*/*/run.json"))
    assert found
    for path in found:
        validator.validate(json.loads(path.read_text()))
    assert not validator.is_valid({"task_id": "t"})
    assert all("description" in meaning for meaning in schema["properties"].values())


# A bar that does not wait to see whether there is anything to wait for.
IMPATIENT = """
import sys
from twoarm.commands import cli, progress as bar

class AtOnce:
    def __init__(self, seconds, appear):
        self.start = appear

    def cancel(self):
        pass

    join = cancel

bar.Timer = AtOnce
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_progress_bar_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    command = [sys.executable, "-c", IMPATIENT, "collect", "harbor", JOB, *KEY, *MAP]
    quiet = subprocess.run(command, capture_output=True, check=True)
    assert b"collecting" not in quiet.stderr
    assert b"\x1b" not in quiet.stderr
    # The collection waits for the bar, which otherwise appears only after a while.
    script = (
        "import sys, threading\n"
        "from twoarm.commands import collect as collect_command, progress as bar\n"
        "from twoarm.commands.cli import main\n"
        "appear, gathered, there = bar.Bar._appear, collect_command._gathered, threading.Event()\n"
        "def noted(self):\n"
        "    appear(self)\n"
        "    there.set()\n"
        "def waiting(*given):\n"
        "    assert there.wait(60)\n"
        "    return gathered(*given)\n"
        "bar.Bar._appear, collect_command._gathered = noted, waiting\n"
        "sys.exit(main())\n"
    )
    command[1:3] = ["-c", script]
    leader, follower = terminal()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=follower, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(follower)
        shown = shown_on(leader)
        assert process.stdout is not None
        assert process.stdout.read() == quiet.stdout
    assert b"collecting" in shown
    assert b"8 runs of 2 tasks" in shown


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"task{n},1,1\n" for n in range(5000))
    path.write_text(f"task_id,success,duration_seconds\n{rows}")
    process = subprocess.Popen(
        [sys.executable, "-m", "twoarm", "collect", "table", "--arm", f"a={path}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_a_format_of_another_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder and one entry point are a program."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "record.py").write_text(
        "from twoarm.programs.format import Attempt\n"
        "class Mine:\n"
        "    name = 'mine'\n"
        "    one_run_per_folder = False\n"
        "    def recognizes(self, folder):\n"
        "        return 'mine.txt' in folder\n"
        "    def claims(self, folder):\n"
        "        return ['mine.txt'] if 'mine.txt' in folder else []\n"
        "    def read(self, folder, name, settings):\n"
        "        yield Attempt(where=folder.where(name), task_id='t', repeat=1, success=True,\n"
        "            failure=None, duration_seconds=1.0, started=None, ended=None, cost_usd=None,\n"
        "            spends=None, took_steps=False, document={}, configuration=(), scope='',\n"
        "            caveats=())\n"
        "record = Mine\n"
    )
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[twoarm.programs]\nmine = mine\n")
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "mine.txt").write_text("x")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mine", "auto"):
        result = twoarm("collect", name, "--arm", f"a={runs}")
        assert (result.code, json.loads(result.out)["task_id"]) == (0, "t")


def test_a_format_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[twoarm.programs]\nbroken = no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = twoarm("collect", "broken", "--arm", f"a={JOB}")
    assert result.code == 2
    assert "format `broken` cannot be loaded: ModuleNotFoundError: No module named" in result.err
    assert twoarm("collect", "harbor", JOB, *KEY, *MAP).code == 0
