"""The demo of `twoarm run`: a real run of a scripted agent, and what is shown meanwhile."""

import io
import json
import shlex
import shutil
import time
from pathlib import Path

import pytest

from tests.conftest import Result, twoarm
from tests.run.test_loop import cheap
from tests.support.loop_in_memory import Simulation, terms
from twoarm.run.display import Display, Live, LogLines, duration, progress_of
from twoarm.run.suite_file import read_suite

pytestmark = pytest.mark.usefixtures("cache")


def test_the_demo_needs_no_key_and_no_agent_and_ends_in_a_verdict(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = twoarm("run", "--demo", "--out", str(out), "--repeats", "2", "--no-evidence")
    assert result.code == 0, result.err
    assert "24 of 24 trials done" in result.err
    assert f"run it with twoarm run {out}-suite/suite.toml" in result.err
    assert "with_guide (candidate)" in result.out
    assert len(list(out.glob("runs/*/*/diff.patch"))) == 24
    analysis = json.loads((out / "analysis.json").read_text())
    tokens = [arm["median_non_cache_tokens"] for arm in analysis["arm_summaries"]]
    assert tokens[0] < tokens[1]
    assert "SUITE has no effect with --demo" in twoarm("run", "x.toml", "--demo").err


def test_the_demo_leaves_its_suite_beside_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = twoarm("run", "--demo", "--repeats", "1", "--no-evidence")
    assert result.code == 0, result.err
    (made,) = tmp_path.glob("twoarm-demo-*")
    assert sorted(path.name for path in made.iterdir()) == ["run", "suite"]
    suite = made / "suite" / "suite.toml"
    assert json.loads((made / "run" / "place.json").read_text())["suite"] == str(suite)
    told = (
        f"twoarm: the suite is {suite}; change it as you like, and run it with twoarm run {suite}"
    )
    assert result.err.splitlines()[-1] == told
    # Whatever has become of the package.
    monkeypatch.setattr("twoarm.run.first_suite.demo_suite", None)
    lost = made / "run" / "runs" / "with_guide" / "is-even.1"
    shutil.rmtree(lost)
    resumed = twoarm("run", "--resume", str(made / "run"), "--no-evidence")
    assert (resumed.code, lost.exists()) == (0, True), resumed.err
    suite.write_text(suite.read_text().replace("20 percent", "twenty percent"))
    words = shlex.split(told.partition(" run it with twoarm ")[2])
    changed = twoarm(*words, "--dry-run")
    assert (changed.code, changed.err) == (0, "")
    assert "\nready: no problems; " in changed.out


def test_a_demo_writes_over_nothing_and_bad_options_leave_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "--repeats: expected a number" in demo(out, "--repeats", "0").err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out-suite").mkdir()
    (tmp_path / "out-suite" / "mine").touch()
    assert demo(out).err == (
        f"twoarm: {out}-suite: not empty: it has `mine`; name a new folder, or an empty one\n"
    )
    assert not out.exists()


def demo(out: Path, *more: str) -> Result:
    return twoarm("run", "--demo", "--out", f"{out}/", *more)


def test_no_task_of_the_demo_passes_untouched(tmp_path: Path) -> None:
    result = twoarm("run", "--demo", "--dry-run")
    assert "--demo has no effect with --dry-run" in result.err
    from importlib.resources import files

    suite = str(files("twoarm").joinpath("run", "demo", "suite.toml"))
    result = twoarm("run", suite, "--dry-run")
    assert result.code == 0, result.err
    assert "warning" not in result.out
    assert "6 tasks x 5 repeats x 2 arms = 60 trials" in result.out
    one, other = read_suite(suite).arms.values()
    assert (len(one.files), one.args, one.env) == (1, other.args, other.env)


def test_lines_are_few_and_say_where_it_stands() -> None:
    said: list[str] = []
    views = Simulation(terms(), cheap).views
    with LogLines(said.append) as display:
        for view in views:
            display.show(view)
    assert (
        said[0] == "twoarm: 0 of 60 trials done, 3 running, $0.00 of $10.00 spent, $9.00 reserved"
    )
    assert said[-1].startswith("twoarm: 60 of 60 trials done")
    assert len(said) == 2


def test_the_live_display_shows_slots_money_and_no_effect() -> None:
    terminal = io.StringIO()
    views = Simulation(terms(), cheap).views
    with Live(terminal) as display:
        for view in views:
            display.show(view)
            display._drawn.refresh()
    shown = terminal.getvalue()
    assert "slot 3" in shown
    assert "60 of 60 trials done, $6.00 of $10.00 spent, $0.00 reserved" in shown
    assert "success" not in shown
    with Display() as quiet:
        quiet.show(views[0])


def test_a_pause_and_unknown_costs_are_shown() -> None:
    view = Simulation(terms(), cheap).views[3]
    view.paused_until = time.monotonic() + 90
    view.reason = "429 too many\nrequests"
    view.unknown_costs = 2
    view.infra = 1
    told = progress_of(view)
    assert "paused for 1 min 30 s: 429 too many\\nrequests" in told
    assert "at least $0." in told
    assert "1 infra" in told
    view.budget, view.spent = None, 0.0
    assert "cost not known" in progress_of(view)
    view.stop_request = "finish"
    assert "stopping" in progress_of(view)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "1 s"), (59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (120, "2 min")],
)
def test_a_time_is_told_as_people_say_it(seconds: float, said: str) -> None:
    assert duration(seconds) == said
