"""A run that grows: more repeats, more tasks, and nothing of what was run is touched."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result, twoarm
from tests.support.collect_fixtures import set_keys
from tests.support.run_folders import QUICK, journal, records, run, runs, trials_of
from tests.support.suite_files import suite_of

pytestmark = pytest.mark.usefixtures("cache")


def tasks(*names: str, **changed: Any) -> list[dict[str, Any]]:
    return [
        {"id": name, "prompt": f"Do {name}.", "acceptance_command": "test -f answer.txt"} | changed
        for name in names
    ]


def resumed(out: Path, *more: str) -> Result:
    return twoarm("run", "--resume", str(out), *QUICK, *more)


def grew(out: Path, *more: str) -> str:
    result = resumed(out, *more)
    assert result.code == 0, result.err
    return result.err


def files(out: Path) -> dict[str, tuple[str, int]]:
    """Every file of every run: its digest, and when it was written."""
    return {
        str(path.relative_to(out)): (sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in out.glob("runs/**/*")
        if path.is_file()
    }


def parts(out: Path) -> list[dict[str, Any]]:
    return list(json.loads((out / "schedule.json").read_text())["parts"])


def repeats(out: Path) -> dict[str, list[int]]:
    """The repeats of each task that both arms have run."""
    made: dict[str, list[int]] = {}
    for name in runs(out):
        task, _, repeat = name.removeprefix("with/").rpartition(".")
        if name.startswith("with/") and f"without/{task}.{repeat}" in runs(out):
            made.setdefault(task, []).append(int(repeat))
    return {task: sorted(numbers) for task, numbers in made.items()}


def test_five_repeats_become_ten_and_no_byte_of_the_five_changes(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--repeats", "5", "--jobs", "2").code == 0
    before, (first,) = files(out), parts(out)
    told = grew(out, "--repeats", "10")
    assert "twoarm: 5 more repeats of 2 tasks: 20 more trials\n" in told
    after = files(out)
    assert {name: after[name] for name in before} == before
    assert repeats(out) == {"one": [*range(1, 11)], "two": [*range(1, 11)]}
    again, second = parts(out)
    assert again == first
    assert {trial["repeat"] for trial in second["trials"]} == {6, 7, 8, 9, 10}
    assert [event["part"] for event in journal(out) if event["event"] == "grown"] == [2]
    # What is there need not be made.
    assert "more trial" not in grew(out, "--repeats", "10")
    assert len(parts(out)) == 2


def test_an_added_task_gets_all_its_repeats(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--repeats", "2").code == 0
    before, (first,) = files(out), parts(out)
    # Among the others, and with a setup of its own.
    added = tasks("new", setup_commands=["touch made"], acceptance_command="test -f made")
    suite_of(tmp_path, tasks=[*tasks("one"), *added, *tasks("two")])
    assert "twoarm: 1 task added: 4 more trials\n" in grew(out)
    assert {name: files(out)[name] for name in before} == before
    assert repeats(out) == {"new": [1, 2], "one": [1, 2], "two": [1, 2]}
    assert parts(out)[0] == first
    assert {trial["task"] for trial in parts(out)[1]["trials"]} == {"new"}
    assert all(record["success"] for record in records(out))


def test_tasks_and_repeats_at_once_are_one_part_in_rounds_of_both(tmp_path: Path) -> None:
    names = ["one", "two"]
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    suite_of(tmp_path, tasks=tasks(*names, "new"))
    told = grew(out, "--repeats", "3")
    assert "twoarm: 1 task added, 2 more repeats of 2 tasks: 14 more trials\n" in told
    assert repeats(out) == {name: [1, 2, 3] for name in (*names, "new")}
    order = [trial["task"] for trial in parts(out)[1]["trials"]][::2]
    assert [sorted(order[:3]), sorted(order[3:6])] == [["new", "one", "two"]] * 2
    assert order[6:] == ["new"]
    # A third part goes on where the second has ended.
    assert "1 more repeat of 3 tasks: 6 more trials" in grew(out, "--repeats", "4")
    assert [part["number"] for part in parts(out)] == [1, 2, 3]
    assert len({part["seed"] for part in parts(out)}) == 3
    assert {trial["repeat"] for trial in parts(out)[2]["trials"]} == {4}
    planned = Counter((trial["arm"], trial["task"], trial["repeat"]) for trial in trials_of(out))
    assert (len(planned), set(planned.values())) == (24, {1})


def test_the_same_growth_is_the_same_schedule(tmp_path: Path) -> None:
    schedules = []
    for name in "ab":
        suite = suite_of(tmp_path)
        assert run(suite, tmp_path / name, "--repeats", "1").code == 0
        suite_of(tmp_path, tasks=tasks("one", "two", "new"))
        grew(tmp_path / name, "--repeats", "2")
        schedules.append((tmp_path / name / "schedule.json").read_bytes())
    assert schedules[0] == schedules[1]


def test_a_folder_keeps_to_the_tasks_that_were_asked_for(tmp_path: Path) -> None:
    every = [*tasks("one", tags=["x"]), *tasks("two")]
    suite, added = suite_of(tmp_path, tasks=every), tasks("new", tags=["x"])
    asked: dict[str, tuple[str, ...]] = {"only": ("--only", "one"), "tag": ("--tag", "x")}
    for name, words in asked.items():
        assert run(suite, tmp_path / name, *words).code == 0
    suite_of(tmp_path, tasks=[*every, *added, *tasks("another")])
    assert "added" not in grew(tmp_path / "only")
    assert runs(tmp_path / "only") == ["with/one.1", "without/one.1"]
    assert "twoarm: 1 task added: 2 more trials\n" in grew(tmp_path / "tag")
    assert repeats(tmp_path / "tag") == {"new": [1], "one": [1]}


def test_a_plain_resume_goes_on_with_what_a_growth_has_left(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    grew(out, "--repeats", "2")
    for name in ("with/one.2", "without/two.2", "without/one.1"):
        shutil.rmtree(out / "runs" / name)
    assert "more trial" not in grew(out)
    assert repeats(out) == {"one": [1, 2], "two": [1, 2]}


def test_every_line_says_which_part_it_is_of(tmp_path: Path) -> None:
    # By a path that is not frozen.
    agent = {"argv": ["sh", str(tmp_path / "agent.sh")]}
    suite, out = suite_of(tmp_path, agent=agent), tmp_path / "out"
    assert run(suite, out).code == 0
    assert [record["part"] for record in records(out)] == [1] * 4
    suite_of(tmp_path, script="exit 1", agent=agent)
    grew(out, "--repeats", "2")
    assert Counter((record["repeat"], record["part"]) for record in records(out)) == {
        (1, 1): 4,
        (2, 2): 4,
    }
    # What is missing has one as well, whoever writes the line.
    shutil.rmtree(out / "runs" / "with" / "one.2")
    (out / "collected.jsonl").unlink()
    assert twoarm("score", str(out), "--no-evidence").code == 0
    assert [(r["repeat"], r["part"]) for r in records(out) if r["failure"] == "missing"] == [(2, 2)]


def test_trials_that_were_added_and_not_begun_are_missing(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    lines = (out / "collected.jsonl").read_bytes()
    grew(out, "--repeats", "2")
    shutil.rmtree(out / "runs")
    shutil.copytree(out / ".attempts", out / "runs")
    (out / "collected.jsonl").write_bytes(lines)
    analysis = json.loads(twoarm("score", str(out), "--no-evidence", "--format", "json").out)
    assert [arm["missing"] for arm in analysis["trials"]] == [4, 4]


def test_receipt_and_status_tell_the_parts(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    over = twoarm("run", "--status", str(out)).out
    assert "part" not in over
    assert "continue" not in over
    grew(out, "--repeats", "3")
    shutil.rmtree(out / "runs" / "with" / "one.3")
    assert twoarm("run", "--status", str(out)).out.splitlines()[2:] == [
        "part 1: 4 of 4 trials done",
        "part 2: 7 of 8 trials done",
        f"continue with twoarm run --resume {out}",
    ]
    told = json.loads((out / "receipt.json").read_text())["parts"]
    for entry, part in zip(told, parts(out), strict=True):
        assert (entry["part"], entry["seed"], entry["digest"]) == (
            part["number"],
            part["seed"],
            part["digest"],
        )
        assert entry["trials"] == entry["done"] == len(part["trials"])
    assert told[0]["last_started_at_utc"] < told[1]["first_started_at_utc"]
    shown = [twoarm("show", str(out), "two", repeat).out for repeat in ("1", "2")]
    assert ["part 2" in text for text in shown] == [False, True]


# What is refused, in one line, with nothing run and nothing lost.


def refused(out: Path, *words: str) -> str:
    before, schedule = files(out), (out / "schedule.json").read_bytes()
    result = resumed(out, *words)
    assert result.code == 2, result.out
    assert (files(out), (out / "schedule.json").read_bytes()) == (before, schedule)
    assert len(result.err.splitlines()) == 1, result.err
    return result.err


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "a task": ({"tasks": tasks("one", prompt="Other.")}, "tasks.one.prompt"),
    "its limit": ({"tasks": tasks("one", timeout_seconds=3)}, "tasks.one.timeout_seconds"),
    "its setup": ({"tasks": tasks("one", setup_commands=["true"])}, "tasks.one.setup_commands"),
    "its acceptance": ({"tasks": tasks("one", acceptance_command="true")},
                       "tasks.one.acceptance_command"),
    "an arm": ({"arms": {"with": {"env": {"HINT": "2"}}}}, "arms.with.env.HINT"),
    "another arm": ({"arms": {"with": {"args": ["x"]}}}, "arms.with.args"),
    "a limit": ({"limits": {"timeout_seconds": 3}}, "limits.timeout_seconds"),
    "the agent": ({"agent": {"argv": ["true"]}}, "agent.argv"),
    "the workspace": ({"workspace": {"setup_commands": ["true"]}}, "workspace.setup_commands"),
    "the baseline": ({"baseline": "with"}, "baseline"),
    "the suite": ({"suite_id": "other"}, "suite_id"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_changed_is_refused_by_its_key_when_tasks_are_added(
    tmp_path: Path, what: str
) -> None:
    suite, out = suite_of(tmp_path, tasks=tasks("one")), tmp_path / "out"
    assert run(suite, out).code == 0
    changed, key = CHANGES[what]
    more = [*changed.pop("tasks", tasks("one")), *tasks("new")]
    suite_of(tmp_path, **{"tasks": more, **changed})
    told = refused(out, "--repeats", "2")
    assert told.startswith(f"twoarm: {key} has changed since the schedule was frozen: ")
    assert re.search(": .+ then, .+ now", told)


FILES: dict[str, tuple[str, str]] = {
    "a folder that is copied": ("app/README.md", "digests.workspace.copy"),
    "a file of an arm": ("note.md", "digests.arms.with.files.NOTE.md"),
    "a prompt": ("prompt.md", "digests.prompts.one"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_has_changed_is_refused_when_tasks_are_added(tmp_path: Path, what: str) -> None:
    file, key = FILES[what]
    for name in ("note.md", "prompt.md"):
        (tmp_path / name).write_text("then\n")
    task = {"id": "one", "prompt_file": "prompt.md", "acceptance_command": "true"}
    arms = {"with": {"files": {"NOTE.md": "note.md"}}}
    out = tmp_path / "out"
    assert run(suite_of(tmp_path, tasks=[task], arms=arms), out).code == 0
    suite_of(tmp_path, tasks=[task, *tasks("new")], arms=arms)
    (tmp_path / file).write_text("now\n")
    assert refused(out).startswith(f"twoarm: {key} has changed since the schedule was frozen: ")


def test_an_added_task_with_the_id_of_a_removed_one_is_a_changed_task(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    suite_of(tmp_path, tasks=[*tasks("one"), *tasks("two", prompt="Something else.")])
    assert refused(out, "--repeats", "2") == (
        "twoarm: tasks.two.prompt has changed since the schedule was frozen: Do two. then, "
        "Something else. now; change it back, or start over with another --out\n"
    )
    suite_of(tmp_path, tasks=tasks("one", "three"))
    assert "tasks.two has changed since the schedule was frozen: there then, not there now" in (
        refused(out, "--repeats", "2")
    )


def test_two_suites_for_one_folder_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path / "a"), out).code == 0
    other = suite_of(tmp_path / "b", suite_id="other", tasks=tasks("three"))
    assert refused(out, str(other)).startswith(
        "twoarm: suite_id has changed since the schedule was frozen: fake then, other now; "
    )
    other = suite_of(tmp_path / "b", agent={"argv": ["true"]})
    assert "agent.argv has changed" in refused(out, str(other))


def test_fewer_repeats_are_refused_with_both_numbers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out, "--repeats", "3").code == 0
    assert refused(out, "--repeats", "2") == (
        "twoarm: --repeats: every task has 3 repeats already, and 2 are fewer; a run can only "
        "grow\n"
    )


def test_a_run_with_planned_looks_does_not_grow(tmp_path: Path) -> None:
    out = tmp_path / "out"
    quick = ("--display", "quiet", "--format", "json", "--resamples", "100")
    first = twoarm("run", str(suite_of(tmp_path)), "--out", str(out), "--looks", "1,2", *quick)
    assert first.code == 0, first.err
    before, schedule = files(out), (out / "schedule.json").read_bytes()
    result = twoarm("run", "--resume", str(out), "--repeats", "3")
    assert (result.code, result.err) == (
        2,
        f"twoarm: {out} has planned looks, the last after 2 repeats, and so cannot grow (1 more "
        "repeat of 2 tasks: 4 more trials); start another run with --out\n",
    )
    suite_of(tmp_path, tasks=tasks("one", "two", "new"))
    result = twoarm("run", "--resume", str(out))
    assert result.code == 2
    assert "cannot grow (1 task added: 4 more trials)" in result.err
    assert (files(out), (out / "schedule.json").read_bytes()) == (before, schedule)
    suite_of(tmp_path)
    assert twoarm("run", "--resume", str(out), *quick).code == 0


def test_a_folder_of_an_older_layout_is_scored_and_not_continued(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    told = json.loads((out / "schedule.json").read_text())
    (part,) = told.pop("parts")
    (candidate,) = told.pop("candidates")
    older = told | {"schema": "twoarm.schedule/1", "trials": part["trials"], "twoarm": "0.1"}
    older["candidate"] = candidate
    (out / "schedule.json").write_text(json.dumps(older))
    assert refused(out) == (
        f"twoarm: {out} was made by twoarm 0.1, in a layout that is scored and shown but not "
        "continued; use that version, or start over with another --out\n"
    )
    assert twoarm("score", str(out), "--no-evidence").code == 0
    assert twoarm("show", str(out), "one", "1").code == 0
    (out / "collected.jsonl").unlink()
    assert twoarm("score", str(out), "--no-evidence").code == 0
    assert len(records(out)) == 4


def swapped(trials: list[dict[str, Any]]) -> None:
    trials[0], trials[1] = trials[1], trials[0]


def another(trials: list[dict[str, Any]]) -> None:
    for trial in trials[:2]:
        trial["task"] = "../x"


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("how", [swapped, another, list.pop])
def test_a_part_that_somebody_has_changed_is_refused(
    tmp_path: Path, number: int, how: Callable[[list[dict[str, Any]]], object]
) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    grew(out, "--repeats", "2")
    told = parts(out)
    how(told[number - 1]["trials"])
    set_keys(out / "schedule.json", parts=told)
    assert f"schedule.json: part {number} is not what was frozen; the file" in refused(out)


def test_trees_are_those_of_then(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    setup = f"echo x >> {counter}; cp {counter} made"
    suite, out = suite_of(tmp_path, workspace={"setup_commands": [setup]}), tmp_path / "out"
    assert run(suite, out).code == 0
    told = refused_in_setup(out)
    assert "twoarm: task `one`: its setup made other files than for the runs that are there" in told
    counter.unlink()
    grew(out, "--repeats", "2")


def refused_in_setup(out: Path) -> str:
    """It comes to its setup, and to no trial."""
    before = files(out)
    result = resumed(out, "--repeats", "2")
    assert (result.code, files(out)) == (2, before)
    return result.err


def test_somebody_is_asked_before_more_money_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    schedule = (out / "schedule.json").read_bytes()
    asked: list[int] = []

    def agreed(trials: int, *others: object) -> bool:
        asked.append(trials)
        return False

    monkeypatch.setattr("twoarm.commands.run._agreed", agreed)
    result = resumed(out, "--repeats", "2")
    assert (result.code, asked) == (130, [4])
    assert result.err.endswith("twoarm: nothing was started\n")
    assert (out / "schedule.json").read_bytes() == schedule
    grew(out, "--repeats", "2", "--yes")
    # Nothing is asked where nothing is added.
    grew(out)
    assert asked == [4]


def test_two_who_grow_one_folder_do_not_overwrite_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twoarm.run.ledger import RunFolder

    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    hold = RunFolder.hold

    def late(folder: RunFolder, token: str) -> None:
        monkeypatch.setattr(RunFolder, "hold", hold)
        grew(out, "--repeats", "3")
        hold(folder, token)

    monkeypatch.setattr(RunFolder, "hold", late)
    result = resumed(out, "--repeats", "2")
    assert (result.code, len(parts(out))) == (2, 2)
    assert "was resumed by somebody else just now" in result.err
    assert repeats(out) == {"one": [1, 2, 3], "two": [1, 2, 3]}
