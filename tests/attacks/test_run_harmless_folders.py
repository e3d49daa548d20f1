"""Run folders that somebody has prepared: nothing outside is written, moved or deleted by them."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result
from tests.support.canaries import pipe
from tests.support.run_folders import QUICK, unaccounted
from tests.support.suite_files import SOLVE
from tests.support.yard import Yard, a_yard

# What may be planted at a name of the run folder.
Plant = Callable[[Yard, Path], None]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a whole run."""
    folder = tmp_path_factory.mktemp("finished")
    with a_yard(folder / "yard") as yard:
        yard.app()
        result = yard.run(yard.suite())
        assert result.code == 0, result.err
        return yard.out.rename(folder / "out")


@pytest.fixture
def old(yard: Yard, finished: Path) -> Yard:
    """A yard with a run folder in which one trial is left to run."""
    shutil.copytree(finished, yard.out, symlinks=True)
    shutil.rmtree(yard.out / "runs" / "with" / "one.1")
    yard.app()
    yard.suite()
    return yard


def suite_in(yard: Yard) -> Path:
    return yard.folder / "suite.json"


def calm(result: Result) -> None:
    """It has ended in a way that is meant for people."""
    assert result.code in (0, 2, 3), (result.code, result.err)
    assert "Traceback" not in result.err
    assert "bug" not in result.err


def resumed(yard: Yard) -> Result:
    result = yard.twoarm("run", suite_in(yard), "--resume", yard.out, *QUICK)
    calm(result)
    if result.code == 0:
        assert unaccounted(yard.out) == []
    return result


def changed_home(yard: Yard, **changed: Any) -> None:
    path = yard.out / "place.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def precious(yard: Yard) -> Path:
    """A folder of the user that looks like one of ours."""
    folder = yard.user / "trap"
    for name in (*("t", "trees", "builds", "trees/start", "trees/tree0", "with", "without"),
                 *("acceptance.one.1", "with/one.1", "with/one.1.1", "with/one.1.2")):  # fmt: skip
        (folder / name).mkdir(parents=True)
        (folder / name / "precious.txt").write_text("mine\n")
    return folder


# The token, which becomes a folder of the cache.

TOKENS = ("../user/trap", "{user}/trap", "", ".", "..", "./.", "../cache", "a/b", "x" * 300,
          "new\nline", "nul\0", "-rf", "not hex", "é" * 12)  # fmt: skip


@pytest.mark.parametrize("token", TOKENS, ids=[ascii(token)[:20] for token in TOKENS])
def test_a_token_is_hexadecimal_or_refused(old: Yard, token: str) -> None:
    precious(old)
    (old.cache / "theirs").mkdir()
    (old.cache / "theirs" / "precious.txt").write_text("of another run\n")
    changed_home(old, token=token.format(user=old.user))
    result = resumed(old)
    assert result.code == 2, result.err
    assert "place.json" in result.err
    assert (old.cache / "theirs" / "precious.txt").exists()


@pytest.mark.parametrize("token", TOKENS, ids=[ascii(token)[:20] for token in TOKENS])
def test_an_old_token_leads_a_new_run_nowhere(old: Yard, token: str) -> None:
    precious(old)
    (old.cache / "theirs").mkdir()
    (old.cache / "theirs" / "precious.txt").write_text("of another run\n")
    changed_home(old, token=token.format(user=old.user))
    for path in old.out.iterdir():
        if path.name not in ("place.json", "schedule.json"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    result = old.run(suite_in(old))
    calm(result)
    assert (old.cache / "theirs" / "precious.txt").exists()


@pytest.mark.parametrize("token", ["", "f", "feedfacecafe", "TRIAL"])
def test_a_token_ends_no_process_of_another_run(old: Yard, token: str) -> None:
    # Whatever it is a part of: a run whose token starts the same is still another one.
    env = {"PATH": os.environ["PATH"], "TWOARM_TRIAL": "feedfacecafe0-12345678"}
    with subprocess.Popen(["sleep", "60"], env=env) as theirs:
        try:
            changed_home(old, token=token)
            calm(old.twoarm("run", suite_in(old), "--resume", old.out, *QUICK))
            assert theirs.poll() is None
        finally:
            theirs.kill()


def test_workspaces_are_made_below_no_link_that_somebody_laid(yard: Yard) -> None:
    # Where everybody may write, the name of the folder can be foreseen.
    yard.app()
    (yard.user / ".cache" / "AGENTS.md").parent.mkdir()
    (yard.user / ".cache" / "AGENTS.md").write_text("be kind\n")
    (yard.tmp / f"twoarm-{os.getuid()}").symlink_to(yard.user / "docs")
    yard.env = {"TWOARM_CACHE": ""}
    calm(yard.run(yard.suite()))


# Links and pipes at the names of the folder's own files.


def _a_linked_file(yard: Yard, path: Path) -> None:
    path.symlink_to(yard.user / "docs" / "hard.txt")


def _a_linked_folder(yard: Yard, path: Path) -> None:
    path.symlink_to(precious(yard))


def _a_dangling_link(yard: Yard, path: Path) -> None:
    path.symlink_to(yard.user / "docs" / "new")


def _a_pipe(yard: Yard, path: Path) -> None:
    pipe(path)


def _a_folder(yard: Yard, path: Path) -> None:
    path.mkdir()


PLANTS: dict[str, Plant] = {
    "a linked file": _a_linked_file,
    "a linked folder": _a_linked_folder,
    "a dangling link": _a_dangling_link,
    "a pipe": _a_pipe,
    "a folder": _a_folder,
}

FILES = ("place.json.tmp", "schedule.json.tmp", "journal.jsonl", "lock", ".attempts/lock",
         "collected.jsonl", "receipt.json", "analysis.json", "analysis.md", "report.html",
         ".attempts/with/one.1.1/trial.json.tmp", "runs/without/one.1/trial.json",
         "schedule.json", "place.json")  # fmt: skip
FOLDERS = (".attempts", "runs", "setup", ".attempts/with", "runs/with", "runs/without",
           ".attempts/with/one.1.1", "runs/with/one.1", "run-pages")  # fmt: skip


def planted(yard: Yard, name: str, plant: Plant) -> None:
    path = yard.out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    plant(yard, path)


@pytest.mark.parametrize("what", ["a linked file", "a dangling link", "a pipe"])
@pytest.mark.parametrize("name", FILES)
def test_a_resume_writes_through_no_link_and_waits_at_no_pipe(
    old: Yard, name: str, what: str
) -> None:
    planted(old, name, PLANTS[what])
    resumed(old)


@pytest.mark.parametrize("what", ["a linked folder", "a dangling link", "a pipe"])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_resume_goes_into_no_linked_folder(old: Yard, name: str, what: str) -> None:
    planted(old, name, PLANTS[what])
    resumed(old)


@pytest.mark.parametrize("word", ["--status", "--stop"])
@pytest.mark.parametrize("what", ["a linked folder", "a dangling link", "a pipe"])
@pytest.mark.parametrize("name", ["place.json", "schedule.json", "lock", "runs", ".attempts",
                                  "runs/without/one.1/trial.json"])  # fmt: skip
def test_who_only_looks_changes_nothing_and_waits_for_nobody(
    old: Yard, name: str, what: str, word: str
) -> None:
    planted(old, name, PLANTS[what])
    calm(old.twoarm("run", word, old.out))


@pytest.mark.parametrize("name", ["place.json", "schedule.json", "runs/without/one.1/trial.json"])
def test_a_file_that_is_a_link_to_a_good_one_is_not_written(old: Yard, name: str) -> None:
    real = old.user / "docs" / "real.json"
    (old.out / name).rename(real)
    (old.out / name).symlink_to(real)
    resumed(old)


@pytest.mark.parametrize("what", ["a link", "a dangling link", "a pipe"])
@pytest.mark.parametrize(
    "name",
    ["lock", ".attempts", ".attempts/lock", "runs", "setup", "journal.jsonl", "stop",
     "place.json", "schedule.json", "place.json.tmp", "schedule.json.tmp"],
)  # fmt: skip
def test_a_new_run_uses_nothing_that_was_prepared(yard: Yard, name: str, what: str) -> None:
    yard.app()
    yard.out.mkdir()
    if what == "a link":
        what = "a linked folder" if name in FOLDERS else "a linked file"
    planted(yard, name, PLANTS[what])
    calm(yard.run(yard.suite()))


def test_a_run_folder_may_be_named_by_a_link(yard: Yard) -> None:
    yard.app()
    (yard.made / "real").mkdir()
    yard.out.symlink_to("real")
    cycle = yard.cycle(yard.suite())
    assert cycle.resumed.code == 0, cycle.resumed.err
    assert unaccounted(yard.made / "real") == []


@pytest.mark.parametrize("what", ["a linked file", "a dangling link", "a pipe", "a folder"])
def test_a_stop_writes_through_no_link(yard: Yard, what: str) -> None:
    yard.app()
    process = yard.running(yard.suite())
    assert process.poll() is None, process.communicate()
    with yard.untouched("--stop"):
        planted(yard, "stop", PLANTS[what])
        calm(yard.twoarm("run", "--stop", yard.out))
        # The run ends by itself, stopped or not.
        yard.gate.touch()
        (yard.signs / "kill").touch()
        process.terminate()
        yard.ended(process, "a run that was stopped")


# What the runner finds in the folders of its attempts.

EVERY = ("trial.json.tmp", "run.json", "run.json.tmp", "usage.json", "usage.json.tmp",
         "outcome.tmp", "prompt.txt", "stdout.txt", "stderr.log", "acceptance.log", "diff.patch",
         "ignored.patch", "setup.log", "git.log")  # fmt: skip


@pytest.mark.parametrize("what", ["a linked file", "a dangling link", "a pipe"])
def test_an_attempt_starts_with_an_empty_folder_or_not_at_all(old: Yard, what: str) -> None:
    for name in EVERY:
        planted(old, f".attempts/with/one.1.1/{name}", PLANTS[what])
    resumed(old)


@pytest.mark.parametrize("state", ["running", "run", "infra", "lost", "interrupted"])
@pytest.mark.parametrize("key", ["arm", "task"])
def test_names_in_a_trial_lead_nobody_out(old: Yard, key: str, state: str) -> None:
    shutil.copytree(old.out / "runs" / "without" / "one.1", old.user / "trap.1.1")
    told = json.loads((old.user / "trap.1.1" / "trial.json").read_text())
    told |= {"attempt": 1, "state": state, "task": "trap", "arm": "../../../user"}
    if key == "task":
        told |= {"task": "../../../../user/trap", "arm": "with"}
    (old.user / "trap.1.1" / "trial.json").write_text(json.dumps(told))
    folder = old.out / ".attempts" / "with" / "one.1.1"
    folder.mkdir(parents=True)
    (folder / "trial.json").write_text(json.dumps(told))
    resumed(old)


def test_names_in_a_schedule_lead_nobody_out(old: Yard) -> None:
    path = old.out / "schedule.json"
    told = json.loads(path.read_text())
    for trial in told["parts"][0]["trials"]:
        trial |= {"task": "../../../../user/docs/x"}
    path.write_text(json.dumps(told))
    assert resumed(old).code == 2


# An agent in a copy can reach the run folder, too.


@pytest.mark.parametrize("name", ["runs", ".attempts", "setup", "run-pages", "journal.jsonl",
                                  "collected.jsonl", "receipt.json", "stop"])  # fmt: skip
def test_a_link_that_an_agent_puts_into_the_run_folder_is_not_followed(
    yard: Yard, name: str
) -> None:
    folder = precious(yard)
    target = yard.user / "docs" / "hard.txt" if "." in name.lstrip(".") else folder
    at = yard.out / name
    yard.app()
    script = f"mv '{at}' '{at}.old'; ln -s '{target}' '{at}'; {SOLVE}"
    calm(yard.run(yard.suite(script), "--jobs", "1"))


@pytest.mark.parametrize("put", ["mkfifo", "mkdir", "ln -s {real}", "ln -s {new}", "rm -rf"])
def test_an_agent_that_spoils_the_folder_of_its_attempt_holds_up_nobody(
    yard: Yard, put: str
) -> None:
    yard.app()
    put = put.format(real=f"'{yard.user}/docs/hard.txt'", new=f"'{yard.user}/docs/new'")
    script = f"""
for folder in '{yard.out}'/.attempts/*/*; do
    for name in {" ".join(EVERY)} trial.json outcome; do
        rm -f $folder/$name; {put} $folder/$name
    done
done
"""
    calm(yard.run(yard.suite(script), "--jobs", "1"))


def test_an_agent_that_removes_the_run_folder_is_told_of(yard: Yard) -> None:
    yard.app()
    calm(yard.run(yard.suite(f"rm -rf '{yard.out}'"), "--jobs", "1"))


# The pages of the runs.


def pages(yard: Yard, finished: Path, kind: str) -> Path:
    folder = yard.user / "pages"
    if kind == "full":
        shutil.copytree(finished / "run-pages", folder)
    elif kind == "empty":
        folder.mkdir()
    return folder


@pytest.mark.parametrize("runs", ["all", "none"])
@pytest.mark.parametrize("kind", ["full", "empty", "missing"])
@pytest.mark.parametrize("command", ["score", "resume"])
def test_pages_that_are_a_link_stay_as_they_are(
    old: Yard, finished: Path, kind: str, runs: str, command: str
) -> None:
    planted(old, "run-pages", lambda yard, path: path.symlink_to(pages(yard, finished, kind)))
    if command == "resume":
        words = ("run", suite_in(old), "--resume", old.out, "--run-pages", runs, *QUICK)
    else:
        words = ("score", finished / "collected.jsonl", "--out", old.out, "--run-pages", runs,
                 "--baseline", "without", "--candidate", "with", "--no-evidence")  # fmt: skip
    calm(old.twoarm(*words))
