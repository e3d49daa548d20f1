"""What people are told by `twoarm run`: on a terminal, before it starts, and when it ends early."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.run.test_loop import cheap
from tests.support.loop_in_memory import Simulation, terms
from tests.support.run_folders import QUICK, WITHOUT_PAGE, run
from tests.support.suite_files import SOLVE, suite_of
from twoarm.commands.run_to_end import StopRequests, resumed_by
from twoarm.run.display import LogLines, progress_of
from twoarm.run.ledger import RunFolder
from twoarm.run.session import Session

USED = 'printf \'{"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.5}\' > $TWOARM_USAGE; '
pytestmark = pytest.mark.usefixtures("cache")


def on_a_terminal(answer: str, *words: str) -> tuple[int, str]:
    """`twoarm` with a terminal, on which somebody answers the first question."""
    here, there = pty.openpty()
    command = [sys.executable, "-c", WITHOUT_PAGE, *words]
    with subprocess.Popen(command, stdin=there, stdout=there, stderr=there) as process:
        os.close(there)
        os.write(here, f"{answer}\n".encode())
        shown, deadline = b"", time.monotonic() + 60
        while time.monotonic() < deadline:
            if not select.select([here], [], [], 1.0)[0]:
                continue
            try:
                shown += os.read(here, 65536)
            except OSError:
                # The other end was closed.
                break
        else:
            process.kill()
    os.close(here)
    return process.returncode, shown.decode("utf-8", "replace")


def test_on_a_terminal_it_asks_and_shows_slots(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path, f"{USED} {SOLVE}; sleep 0.3"), tmp_path / "out"
    words = ("run", str(suite), "--out", str(out), "--repeats", "1", "--jobs", "1")
    code, shown = on_a_terminal("n", *words)
    assert (code, out.exists()) == (130, False)
    assert f"4 trials with no budget, isolation copy, into {out}; start? [y/N]" in shown
    assert "twoarm: nothing was started" in shown
    code, shown = on_a_terminal("y", *words, "--no-evidence")
    assert code == 0, shown
    assert "slot 1" in shown
    assert "3 of 4 trials done, 1 running, $1.50 spent, about 1 s left" in shown
    assert "with (candidate) vs. without (baseline)" in shown


@pytest.mark.parametrize("option", ["--budget", "--trial-budget"])
def test_a_budget_of_nothing_is_not_one_without_limit(tmp_path: Path, option: str) -> None:
    result = run(suite_of(tmp_path), tmp_path / "out", option, "0")
    assert result.code == 2
    assert f"{option}: expected dollars above 0 and at most 1000000, got 0" in result.err
    assert not (tmp_path / "out").exists()


def outlook(suite: Path, *more: str) -> str:
    return twoarm("run", str(suite), "--dry-run", "--repeats", "1", *more).out


def test_the_most_that_a_run_may_cost_has_the_allowance_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude = tmp_path / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text("#!/bin/sh\necho 2.1.325\n")
    claude.chmod(0o755)
    monkeypatch.setenv("PATH", f"{claude.parent}:{os.environ['PATH']}")
    suite = suite_of(
        tmp_path, agent={"program": "claude-code", "argv": None}, limits={"trial_usd": 1.5}
    )
    assert (
        "cost: at most $7.50: 4 trials of $1.50, and 25% more for turns that begin below the limit"
    ) in outlook(suite)
    assert "; the budget is $20.00" in outlook(suite, "--budget", "20")
    # Nothing holds any command to it.
    soft = suite_of(tmp_path, agent={"program": "command"}, limits={"trial_usd": 1.5})
    assert "cost: about $6.00 if no trial exceeds $1.50, which nothing enforces" in outlook(soft)


def test_a_spent_budget_is_told_with_the_option_that_raises_it(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, USED + SOLVE, limits={"budget_usd": 1.5, "trial_usd": 0.5})
    result = run(suite, tmp_path / "out", "--exit-code", "--jobs", "1")
    assert "the budget does not cover another trial; " in result.err
    more = f"twoarm run --resume {tmp_path}/out --budget USD"
    told = more.replace(" --budget", " --no-evidence --exit-code --budget")
    assert f"raise it to continue: {told}" in result.err
    # It is an end, with a report of what there is, and no verdict.
    assert result.code == 3
    analysis = json.loads(result.out)
    assert analysis["promotion"]["reasons"][0] == "the budget ended it after 2 of 4 planned runs"
    assert analysis["next"][0]["message"] == (
        f"finish the run with `{more}`: 2 of 4 planned runs are missing"
    )
    enough = twoarm("run", "--resume", str(tmp_path / "out"), "--budget", "9", *QUICK)
    assert "budget" not in json.loads(enough.out)["promotion"]["reasons"][0]


def test_a_stop_request_and_a_pause_are_said_at_once() -> None:
    said: list[str] = []
    view = Simulation(terms(), cheap).views[3]
    with LogLines(said.append) as display:
        display.show(view)
        display.show(view)
        assert len(said) == 1
        view.paused_until = time.monotonic() + 60
        view.reason = "429"
        display.show(view)
        assert "paused for 1 min: 429" in said[1]
        view.stop_request = "finish"
        display.show(view)
        display.show(view)
        view.stop_request = "ctrl_c"
        display.show(view)
    assert len(said) == 4
    told = "stopping when the running trials have finished"
    assert said[2].endswith(told)
    assert said[3].endswith(f"{told}; a second Ctrl-C kills them")
    view.stop_request = "kill"
    assert progress_of(view).endswith("stopping now")


def test_only_who_has_pressed_ctrl_c_hears_of_a_second_one(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = RunFolder(str(tmp_path))
    # In the background of a script it would be ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with StopRequests(folder) as requests:
        assert requests.now() == "go"
        folder.folder.write("stop", b"")
        assert requests.now() == "finish"
        signal.raise_signal(signal.SIGINT)
        assert requests.now() == "ctrl_c"
        signal.raise_signal(signal.SIGINT)
        assert requests.now() == "kill"
    folder.release()


def test_a_run_folder_inside_the_folder_that_is_copied_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_of(tmp_path / "s", workspace={"copy": "."})
    result = run(suite, tmp_path / "s" / "out")
    assert result.code == 2
    assert "the run folder would be in workspace.copy, and so in every workspace" in result.err
    assert not (tmp_path / "s" / "out").exists()
    result = run(suite, tmp_path / "out")
    assert result.code == 0, result.err
    assert "the suite is in the folder that is copied, so agents of all arms can" in result.err
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "s" / "cache"))
    for more in ((), ("--dry-run",)):
        words = ("run", str(suite), *(more or ("--out", str(tmp_path / "out2"))))
        told = twoarm(*words).err
        assert "the cache would be in workspace.copy, and so in every workspace" in told


def commit(repo: Path, text: str) -> None:
    (repo / "README.md").write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=b", "-C", str(repo)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", text]):
        subprocess.run([*git, *words], check=True)


def test_work_goes_on_in_the_repository_while_a_run_is_stopped(tmp_path: Path) -> None:
    suite = suite_of(
        tmp_path, "cat README.md; which tool && tool",
        workspace={"copy": None, "repo": "app"},
        arms={"with": {"source": {"repo": "app"}, "build_commands": [
            "printf '#!/bin/sh\\necho built from ' > {build}/bin/tool; cat README.md >> "
            "{build}/bin/tool; chmod +x {build}/bin/tool"]}},
    )  # fmt: skip
    commit(tmp_path / "app", "first")
    out = tmp_path / "out"
    assert run(suite, out).code == 0
    done = (out / "runs" / "with" / "one.1" / "stdout.txt").read_text()
    for path in (out / "runs" / "with").iterdir():
        path.rename(tmp_path / path.name)
    commit(tmp_path / "app", "second")
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 0, result.err
    again = (out / "runs" / "with" / "one.1" / "stdout.txt").read_text()
    assert again.replace(*places(again, done)) == done
    assert "first" in again
    assert "second" not in again


def places(again: str, done: str) -> tuple[str, str]:
    """Where the tool was built, then and now."""
    return again.splitlines()[0], done.splitlines()[0]


def receipt(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "receipt.json").read_text()))


def test_the_receipt_has_the_arguments_of_the_arms_and_every_number_of_jobs(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, agent={"args": ["a"]}, arms={"with": {"args": ["--yolo"]}})
    out = tmp_path / "out"
    assert run(suite, out, "--jobs", "1").code == 0
    assert receipt(out)["agent"]["args"] == ["a"]
    assert receipt(out)["agent"]["arm_args"] == {"with": ["--yolo"], "without": []}
    assert receipt(out)["runs_by_jobs"] == {"1": 4}
    warned = "runs were made at 1 and 3 jobs; durations may differ for that alone"
    # Nothing is left to run.
    assert warned not in twoarm("run", "--resume", str(out), "--jobs", "3", *QUICK).err
    (out / "runs" / "with" / "one.1").rename(tmp_path / "aside")
    assert warned in twoarm("run", "--resume", str(out), *QUICK).err
    # Later reports have these runs in them, too.
    assert warned in twoarm("run", "--resume", str(out), *QUICK).err
    assert receipt(out)["runs_by_jobs"] == {"1": 3, "3": 1}


def test_half_a_line_of_the_journal_spoils_no_other(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    before = (out / "journal.jsonl").read_bytes()
    torn = b'{"at": 1, "event'
    with (out / "journal.jsonl").open("ab") as file:
        file.write(torn)
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    lines = (out / "journal.jsonl").read_bytes().removeprefix(before).splitlines()
    assert lines[0] == torn
    events = [json.loads(line)["event"] for line in lines[1:]]
    assert events == ["resumed", "trees whole", "started", "ended", "trees whole"]


def test_a_task_that_passes_untouched_is_said_before_it_is_paid_for(tmp_path: Path) -> None:
    tasks = [
        {"id": name, "prompt": "p", "acceptance_command": command}
        for name, command in (("passes", "true"), ("fails", "test -f answer.txt"))
    ]
    told = run(suite_of(tmp_path, tasks=tasks), tmp_path / "out").err
    assert "twoarm: warning: task `passes`: acceptance passes on the untouched workspace" in told
    assert "`fails`" not in told


def test_the_command_to_go_on_with_reports_as_this_one_would() -> None:
    given = {
        "out": "a folder",
        "promote_by": "evidence",
        "looks": (3, 5),
        "evidence": False,
        "exit_code": True,
        "seed": 3,
        "jobs": 2,
    }
    assert resumed_by(given) == (
        "twoarm run --resume 'a folder' --no-evidence --exit-code --looks 3,5 --promote-by evidence"
    )


def test_who_stops_a_run_before_its_first_trial_hears_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Session) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "prepare", interrupted)
    out = tmp_path / "out"
    result = twoarm("run", "--demo", "--out", str(out))
    assert result.code == 130
    assert f"stopped before the first trial; continue with twoarm run --resume {out}" in result.err
