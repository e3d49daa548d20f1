"""Paths of a suite that lead through links, and trees that somebody has changed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import QUICK, run, runs
from tests.support.suite_files import SOLVE, attempt, job_of, suite_of
from twoarm.errors import UsageError
from twoarm.run.place import MARK, choose_place


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("twoarm.render.report.Report.to_html", lambda self, links: "")
    return tmp_path / "cache"


@pytest.mark.parametrize("path", [".", "./", "a/..", "./a", "a//b", "..", ".git/config", "/etc"])
@pytest.mark.parametrize("key", ["remove", "files", "home", "acceptance_files"])
def test_a_path_that_is_not_inside_is_an_error_that_names_its_key(
    tmp_path: Path, key: str, path: str
) -> None:
    (tmp_path / "app").mkdir()
    changed: dict[str, Any] = {"arms": {"with": {key: {path: "app"}}}}
    where = f"arms.with.{key}"
    if key == "remove":
        changed = {"arms": {"with": {key: [path]}}}
    elif key == "acceptance_files":
        changed, where = {key: [path]}, f"tasks[0].{key}"
    result = twoarm("run", str(suite_of(tmp_path, **changed)), "--dry-run")
    assert result.code == 2
    assert f"{where}: `{path}` is not a path inside; write it relative" in result.err
    assert "nothing was run" in result.err


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"arms": {"with": {"remove": ["link/file"]}}}, "arms.with.remove"),
        ({"arms": {"with": {"files": {"link/new": "agent.sh"}}}}, "arms.with.files"),
        ({"arms": {"with": {"files": {"link/a/b/new": "agent.sh"}}}}, "arms.with.files"),
        ({"acceptance_files": ["link/file"]}, "acceptance_files"),
    ],
)
def test_a_path_through_a_link_of_the_workspace_is_an_error_before_any_trial(
    tmp_path: Path, changed: dict[str, Any], key: str
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "file").write_text("precious")
    suite = suite_of(tmp_path, **changed)
    (tmp_path / "app" / "link").symlink_to(real)
    result = twoarm("run", str(suite), "--dry-run")
    assert result.code == 2
    assert result.err.startswith(f"twoarm: {key}: `link/")
    assert "link is a link, which is not followed; name a path without links" in result.err
    assert [(path.name, path.read_text()) for path in real.iterdir()] == [("file", "precious")]


def test_a_file_of_home_is_not_put_through_a_link_of_another_entry(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "link").symlink_to(real)
    changed: dict[str, Any] = {
        "agent": {"home": {".config": "config"}},
        "arms": {"with": {"home": {".config/link/new": "agent.sh", ".config/new": "agent.sh"}}},
    }
    result = twoarm("run", str(suite_of(tmp_path, **changed)), "--dry-run")
    assert result.code == 2
    assert "arms.with.home..config/link/new: it would be put through" in result.err
    assert "1 problem; nothing was run" in result.err
    assert list(real.iterdir()) == []


def changing(cache: Path, change: str) -> str:
    """An agent that solves its task, and changes what later trials start from."""
    return f'{SOLVE}; [ -n "$HINT" ] || for tree in {cache}/*/trees/tree0; do {change}; done'


@pytest.mark.parametrize(
    ("change", "file"),
    [
        ("echo more >> $tree/README.md", "README.md"),
        ("echo new > $tree/new", "new"),
        ("rm $tree/README.md", "README.md"),
        ("touch $tree/$(printf 'latin-\\351')", r"latin-\xe9"),
        ("chmod +x $tree/README.md", "README.md"),
        ("rm $tree/README.md; ln -s /etc/passwd $tree/README.md", "README.md"),
        ("echo x > $tree/.git/hooks-of-mine", ".git/hooks-of-mine"),
        ("rm $tree.manifest", ""),
        ("echo x > $tree.manifest", ""),
        ("rm -rf $tree; ln -s / $tree", ""),
    ],
)
def test_a_trial_that_changes_the_trees_stops_the_run_at_the_end(
    tmp_path: Path, cache: Path, change: str, file: str
) -> None:
    # By a path that is not frozen.
    agent = {"argv": ["sh", str(tmp_path / "agent.sh")]}
    suite = suite_of(tmp_path, changing(cache, change), agent=agent)
    out = tmp_path / "out"
    result = run(suite, out, "--only", "one")
    assert result.code == 2
    assert "changed the trees that trials start from: " in result.err
    assert f"/trees/tree0/{file}".rstrip("/") in result.err
    # A tree that is not there at all starts no second trial.
    done = runs(out)
    assert len(done) == 2 or not file
    assert f"{len(done)} run{'s' * (len(done) > 1)} since the last check" in result.err
    assert all(name in result.err for name in done)
    # Made anew for the next one, and what was paid for is there.
    suite_of(tmp_path, SOLVE, agent=agent)
    again = twoarm("run", "--resume", str(out), *QUICK)
    assert again.code == 0, again.err
    assert runs(out) == ["with/one.1", "without/one.1"]
    assert f"caveat: {len(done)} run" in again.err
    assert json.loads((out / "receipt.json").read_text())["doubtful_runs"] == done
    # Run again, they are in doubt no longer.
    for name in done:
        shutil.rmtree(out / "runs" / name)
    again = twoarm("run", "--resume", str(out), *QUICK)
    assert "in doubt" not in again.err
    assert "had been changed" not in again.err


def test_trees_that_are_changed_between_two_runners_are_seen_by_the_second(
    tmp_path: Path, cache: Path
) -> None:
    suite = suite_of(tmp_path, f"{SOLVE}; touch {tmp_path}/out/stop")
    out = tmp_path / "out"
    assert run(suite, out).code in (0, 3)
    done = runs(out)
    (tree,) = cache.glob("*/trees/tree1")
    (tree / "README.md").write_text("other\n")
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 2
    assert "tree1/README.md; no run was made since the last check" in result.err
    again = twoarm("run", "--resume", str(out), *QUICK)
    assert again.code in (0, 3), again.err
    assert set(done) <= set(runs(out))


def test_what_acceptance_restores_is_what_it_was(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    good = job_of(tmp_path, "true", restore=("tests/check.sh",))
    assert attempt(good).facts["acceptance_exit_code"] == 1
    for script, changed in (
        (f"echo true > {tree}/tests/check.sh", "tests/check.sh"),
        (f"echo x > {tree}/tests/conftest.py", "tests/conftest.py"),
        (f"rm -rf {tree}/tests/", "tests/check.sh"),
    ):
        ran = attempt(job_of(tmp_path, script, restore=("tests",)))
        assert ran.facts["tree_changed"] == changed
        assert "acceptance_exit_code" not in ran.facts
        (tree / "tests").mkdir(exist_ok=True)
        (tree / "tests" / "check.sh").write_text("test -f answer.txt\n")


def test_a_run_whose_restored_files_were_changed_is_no_run_and_stops_all(
    tmp_path: Path, cache: Path
) -> None:
    change = 'echo exit 0 > "$tree/check.sh"'
    suite = suite_of(tmp_path, f"for tree in {cache}/*/trees/tree*/; do {change}; done")
    (tmp_path / "app" / "check.sh").write_text("test -f answer.txt\n")
    changed = json.loads(suite.read_text()) | {"acceptance_files": ["check.sh"]}
    suite.write_text(json.dumps(changed))
    out = tmp_path / "out"
    result = run(suite, out, "--only", "one")
    assert result.code == 2
    assert "changed the trees that trials start from: " in result.err
    assert "check.sh" in result.err
    assert runs(out) == []


def test_runs_that_were_judged_before_a_change_was_found_are_in_doubt(
    tmp_path: Path, cache: Path
) -> None:
    # Seen only when the second trial is to be judged.
    change = f"""
{SOLVE}; [ -e {tmp_path}/second ] || {{ touch {tmp_path}/second; exit 0; }}
for tree in {cache}/*/trees/tree*/; do echo exit 0 > "$tree/check.sh"; done
"""
    suite = suite_of(tmp_path, change)
    (tmp_path / "app" / "check.sh").write_text("test -f answer.txt\n")
    changed = json.loads(suite.read_text()) | {"acceptance_files": ["check.sh"]}
    suite.write_text(json.dumps(changed))
    out = tmp_path / "out"
    result = run(suite, out, "--only", "one", "--jobs", "1")
    assert result.code == 2
    (done,) = runs(out)
    assert f"1 run since the last check may have started from it or been judged by it: {done};" in (
        result.err
    )


def test_half_a_run_folder_that_somebody_left_holds_up_nobody(tmp_path: Path) -> None:
    out = tmp_path / "out"
    suite = suite_of(tmp_path, SOLVE)
    assert run(suite, out, "--only", "one").code == 0
    (out / "runs" / "with" / "one.1" / "trial.json").unlink()
    again = twoarm("run", "--resume", str(out), *QUICK)
    assert again.code == 0, again.err
    assert (out / "runs" / "with" / "one.1" / "trial.json").exists()
    assert list((out / ".attempts" / "with").glob("one.1.1.aside-*/diff.patch"))


def test_a_cache_folder_that_was_only_half_marked_is_marked(tmp_path: Path, cache: Path) -> None:
    token = "0123456789ab"
    (cache / token).mkdir(parents=True)
    (cache / token / f"{MARK}.tmp").write_text("01")
    place = choose_place(token, {"TWOARM_CACHE": str(cache)})
    assert (cache / token / MARK).read_text() == token
    with pytest.raises(UsageError, match="in use by another runner"):
        choose_place(token, {"TWOARM_CACHE": str(cache)})
    place.close()
    choose_place(token, {"TWOARM_CACHE": str(cache)}).remove()
    assert list(cache.iterdir()) == []
