"""Formats from other packages: they may raise anything, and what they give is checked."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import twoarm
from tests.support.collect_fixtures import FIXTURES, copied, refusal
from twoarm.errors import UsageError
from twoarm.programs.agent import load_agent
from twoarm.programs.inspect.record import InspectAi
from twoarm.programs.settings import Program
from twoarm.runs.record import LARGEST


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a package with one format, `odd`, from the text of its module."""

    def plug(code: str) -> None:
        package = tmp_path / "odd_program"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "record.py").write_text(f"{code}\nrecord = Odd\n")
        info = tmp_path / "odd-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[twoarm.programs]\nodd = odd_program\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        for part in ("", ".record", ".events", ".launch"):
            module = f"odd_program{part}"
            monkeypatch.delitem(sys.modules, module, raising=False)

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
from twoarm.programs.format import Attempt
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
    assert refusal("inspect", folder) == (
        f"{folder}/ok.json:sample 1: repeat: expected an integer from 1 to {LARGEST}, "
        "got 9007199254740992"
    )


def test_a_plug_in_does_not_take_the_name_of_a_format_of_twoarm(
    plugged: Callable[[str], None], tmp_path: Path
) -> None:
    plugged(plug_in())
    (tmp_path / "odd-1.0.dist-info" / "entry_points.txt").write_text(
        "[twoarm.programs]\nopencode = odd_program\n"
    )
    assert twoarm("collect", "opencode", "--arm", f"a={RUN}").code == 0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(0)", "cannot be loaded: SystemExit: 0"),
        ("def launch(program):\n    raise KeyError('x')", "cannot be loaded: KeyError: 'x'"),
        ("launch = 3", "cannot be loaded: TypeError: `launch` is not a function"),
        ("launch = lambda program: 3", "is not an agent: it has no `name`"),
    ],
)
def test_an_agent_that_cannot_be_loaded_is_named_and_breaks_no_other(
    code: str, reason: str, tmp_path: Path, plugged: Callable[[str], None]
) -> None:
    plugged("Odd = None")
    (tmp_path / "odd_program" / "launch.py").write_text(code)
    with pytest.raises(UsageError) as caught:
        load_agent(Program(program="odd"))
    assert str(caught.value) == f"agent `odd` {reason}"
    assert load_agent(Program(program="codex")).name == "codex"


def test_a_package_that_cannot_be_imported_hides_no_other_agent(
    tmp_path: Path, plugged: Callable[[str], None]
) -> None:
    plugged("Odd = None")
    (tmp_path / "odd_program" / "__init__.py").write_text("raise SystemExit(0)")
    with pytest.raises(UsageError, match="no agent `codec`; did you mean `codex`"):
        load_agent(Program(program="codec"))
    with pytest.raises(UsageError, match="agent `odd` cannot be loaded: SystemExit: 0"):
        load_agent(Program(program="odd"))
