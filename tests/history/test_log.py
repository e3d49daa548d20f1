"""`twoarm log`: one small file for each result, series that are never joined, and what is shown."""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twoarm as package
from tests.conftest import lines, twoarm
from tests.support.history_folder import TASKS, Folder, result
from tests.support.suite_files import suite_of
from twoarm.errors import OutputError
from twoarm.files.write import write_new_file
from twoarm.history.entry import METRICS, entry_of
from twoarm.history.overview import effects_of, overview


def test_a_result_is_one_small_file_named_by_time_commit_and_series(folder: Folder) -> None:
    done = folder.add(0, "--commit", "0123456789abcdef", "--label", "v1.0")
    (file,) = folder.files
    series = json.loads(file.read_text())["series"]
    assert file.name == f"20261001T050000Z-01234567-{series[:8]}.json"
    assert done.err == f"twoarm: added {file} to series {series}\n"
    assert done.out == ""
    assert file.stat().st_size < 3_000
    entry = json.loads(file.read_text())
    assert (entry["label"], entry["key"]["agents"], entry["key"]["models"]) == (
        "v1.0",
        ["opencode"],
        ["m-1"],
    )
    assert sorted(entry["changes"]["duration_seconds"]["tasks"]) == TASKS


def test_what_is_kept_of_each_task_is_what_the_evidence_has(folder: Folder) -> None:
    runs = result(3)
    report = package.score(runs)
    entry = entry_of(package.score(runs, generated_at_utc="2026-10-04T00:00:00Z"), None, None)
    for metric in METRICS:
        change, delta = entry.changes[metric.name], report.evidence.deltas[metric.name]  # type: ignore[union-attr]
        whole = delta.ratio if change.scale == "ratio" else delta.mean
        assert whole is not None
        mean = float(np.mean(list(change.tasks.values())))
        estimate = math.exp(mean) if change.scale == "ratio" else mean
        assert estimate == pytest.approx(whole.estimate, rel=1e-5, abs=1e-5)
        assert change.estimate == pytest.approx(whole.estimate, rel=1e-5)
    by_hand = {}
    for task in TASKS:
        logs = {
            arm: [math.log(one["duration_seconds"]) for one in runs
                  if (one["task_id"], one["arm"]) == (task, arm)]
            for arm in ("with_skelly", "without_skelly")
        }  # fmt: skip
        by_hand[task] = np.mean(logs["with_skelly"]) - np.mean(logs["without_skelly"])
    assert entry.changes["duration_seconds"].tasks == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize(("tasks", "scope"), [(2, "these_tasks"), (8, "tasks_like_these")])
def test_the_interval_is_the_one_that_the_report_shows(
    folder: Folder, tasks: int, scope: str
) -> None:
    runs = result(3, tasks=TASKS[:tasks], success=True)
    report = package.score(runs, generated_at_utc="2026-10-04T00:00:00Z")
    assert report.evidence is not None
    assert report.evidence.headline == scope
    for name, change in entry_of(report, None, None).changes.items():
        delta = report.evidence.deltas[name]
        shown = getattr(delta.ratio if change.scale == "ratio" else delta.mean, scope)
        kept = (change.low, change.high)
        assert kept == ((None, None) if shown is None else pytest.approx((shown.low, shown.high)))
    folder.add(3, tasks=TASKS[:tasks], success=True)
    table = folder.show().out
    assert " 0 pts" in table
    assert "+0" not in table
    page = folder.show("--format", "html").out
    charts = page.split('id="charts">')[1].split("</script>")[0]
    assert json.dumps(json.loads(charts)).count("datum.value === 0 ? '0' : format(100 *") == 1


def test_nothing_is_added_twice_or_overwritten(folder: Folder) -> None:
    folder.add(0)
    (file,) = folder.files
    before = file.read_bytes()
    again = folder.add(0, "--label", "other")
    assert again.code == 2
    assert f"{file} already has these runs; nothing was added" in again.err
    assert [each.read_bytes() for each in folder.files] == [before]
    # Other runs of the same second take nobody's place.
    assert folder.add(0, step=0.1).code == 0
    assert len(folder.files) == 2
    assert file.read_bytes() == before


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text("theirs")
    with pytest.raises(OutputError, match="File exists"):
        write_new_file(str(path), b"ours")
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


OTHERS: dict[str, dict[str, Any]] = {
    "another model": {"model": "m-2"},
    "another agent": {"agent": "codex"},
    "other tasks": {"tasks": TASKS[:7]},
    "another grader": {"grader": "f" * 64},
}


@pytest.mark.parametrize("what", OTHERS)
def test_series_are_never_joined(folder: Folder, what: str) -> None:
    folder.add(0)
    folder.add(1, **OTHERS[what])
    folder.add(2)
    shown = json.loads(folder.show("--format", "json").out)
    assert [len(each["results"]) for each in shown["series"]] == [2, 1]


def test_arms_of_other_names_are_another_series(folder: Folder, tmp_path: Path) -> None:
    folder.add(0)
    runs = [each | {"arm": each["arm"].replace("skelly", "other")} for each in result(1)]
    (tmp_path / "other.jsonl").write_bytes(lines(runs))
    twoarm("log", "add", str(tmp_path / "other.jsonl"), "--to", str(folder.path))
    assert len(overview(str(folder.path)).series) == 2


def test_chosen_tasks_are_another_series_and_so_are_others(folder: Folder) -> None:
    folder.add(0)
    folder.add(1, "--task", "task-[0-6]")
    folder.add(2, "--task", "task-[0-6]")
    folder.add(3, "--task", "task-[1-7]")
    folder.add(4, "--task", "task-*")
    shown = json.loads(folder.show("--format", "json").out)
    counts = [[each["task_count"] for each in series["results"]] for series in shown["series"]]
    assert sorted(counts) == [[7], [7, 7], [8, 8]]


def test_a_change_of_the_effect_is_named_with_its_commit(folder: Folder) -> None:
    folder.fill(12, step_at=7)
    shown = folder.show()
    assert shown.code == 0
    (line,) = shown.out.split("\n\n")[1].split("CHANGED")[1:]
    words = " ".join(line.split())
    assert "the effect on duration was -1" in words
    assert "and has been +3" in words
    assert "since 2026-10-08 (`07070707`)" in words
    report = overview(str(folder.path))
    (alarm,) = report.series[0].alarms
    assert (alarm.metric, alarm.since) == ("duration_seconds", 7)


def test_three_gates_share_the_error(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.fill(3)
    asked: list[float] = []

    def shifts(effects: object, alpha: float) -> list[object]:
        asked.append(alpha)
        return []

    monkeypatch.setattr("twoarm.history.overview.shifts", shifts)
    folder.show("--level", "0.94")
    assert asked == pytest.approx([0.02] * 3)


def test_a_steady_history_says_so_and_a_short_one_why_it_cannot_tell(folder: Folder) -> None:
    folder.fill(2)
    assert "an alarm needs at least 3 results, and it has 2" in folder.show().out
    folder.add(5)
    folder.add(6)
    assert "no change of the effect is clear in 4 results" in folder.show().out


def test_few_tasks_raise_no_alarm(folder: Folder) -> None:
    for number in range(4):
        folder.add(number, tasks=TASKS[:5])
    assert "an alarm needs at least 6 tasks, and it has 5" in folder.show().out


def test_the_order_is_that_of_the_runs_and_not_of_the_files(folder: Folder) -> None:
    for number in (3, 0, 2, 1):
        folder.add(number)
    days = [each.time_utc[:10] for each in overview(str(folder.path)).series[0].results]
    assert days == [f"2026-10-0{day}" for day in (1, 2, 3, 4)]


def test_a_metric_on_another_scale_is_not_compared(folder: Folder) -> None:
    for number in range(4):
        folder.add(number, total_cost_usd=0.0 if number < 2 else 1.5)
    results = overview(str(folder.path)).series[0].results
    assert results[0].changes["cost_usd"].scale == "difference"
    assert results[3].changes["cost_usd"].scale == "ratio"
    effects = effects_of(results, "cost_usd")
    assert np.isnan(effects[:2]).all()
    assert not np.isnan(effects[2:]).any()


def test_an_agent_that_was_updated_is_mentioned(folder: Folder, tmp_path: Path) -> None:
    folder.fill(3)
    last = folder.files[-1]
    for file, version in zip(folder.files, ("1.0", "1.0", "1.1"), strict=True):
        entry = json.loads(file.read_text()) | {"versions": [version]}
        file.write_text(json.dumps(entry))
    assert last.exists()
    shown = " ".join(folder.show().out.split())
    assert "the agent was updated at 2026-10-03 (`02020202`): `1.1`, before `1.0`" in shown


def test_results_without_a_task_in_both_arms_are_shown(folder: Folder, tmp_path: Path) -> None:
    for number in range(3):
        runs = [each | {"task_id": f"{each['task_id']}-{each['arm']}"} for each in result(number)]
        (tmp_path / "apart.jsonl").write_bytes(lines(runs))
        added = twoarm("log", "add", str(tmp_path / "apart.jsonl"), "--to", str(folder.path))
        assert added.code == 0
    for format_name in ("text", "html"):
        assert folder.show("--format", format_name).code == 0
    assert "an alarm needs at least 6 tasks, and it has 0" in folder.show().out


def test_a_fraction_of_a_second_is_later_than_none(folder: Folder) -> None:
    folder.fill(2)
    for file, time in zip(folder.files, ("00.5Z", "00Z"), strict=True):
        entry = json.loads(file.read_text()) | {"time_utc": f"2026-10-01T05:00:{time}"}
        file.write_text(json.dumps(entry))
    times = [each.time_utc[-5:] for each in overview(str(folder.path)).series[0].results]
    assert times == ["0:00Z", "00.5Z"]


@pytest.mark.parametrize("format_name", ["text", "json", "markdown", "html"])
def test_every_format_shows_every_result(folder: Folder, format_name: str) -> None:
    folder.fill(4)
    out = folder.show("--format", format_name).out
    for number in range(4):
        assert f"{number:02d}" * 4 in out


def test_the_reports_are_written(folder: Folder, tmp_path: Path) -> None:
    folder.fill(3)
    out = tmp_path / "shown"
    assert folder.show("--out", str(out)).code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "history.html",
        "history.json",
        "history.md",
    ]


def test_reports_are_not_written_among_results(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.fill(3)
    before = folder.files
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(folder.path)
    for out in (str(folder.path), "history/", "link"):
        refused = folder.show("--out", out)
        assert refused.code == 2
        assert "is the folder of results; reports in it would be taken for results" in refused.err
    assert folder.files == before


def test_one_series_is_chosen_by_its_first_digits(folder: Folder) -> None:
    folder.add(0)
    folder.add(1, model="m-2")
    names = [each.series for each in overview(str(folder.path)).series]
    shown = json.loads(folder.show("--series", names[1][:6], "--format", "json").out)
    assert [each["series"] for each in shown["series"]] == [names[1]]
    for wrong in ("zzz", ""):
        refused = folder.show(f"--series={wrong}")
        assert refused.code == 2
        assert names[0] in refused.err


def test_names_are_hostile(folder: Folder) -> None:
    evil = "::error::<script>alert(1)</script>\x1b[31m"
    for number in range(3):
        folder.add(number, "--label", evil, model=evil)
    for format_name in ("text", "markdown", "html"):
        out = folder.show("--format", format_name).out
        assert "\x1b" not in out
        assert not any(line.lstrip().startswith("::error") for line in out.splitlines())
    assert "<script>alert(1)" not in folder.show("--format", "html").out


BAD: dict[str, str] = {
    "empty": "",
    "half": '{"schema": "twoarm.history/1"',
    "another schema": '{"schema": "twoarm.analysis/1"}',
    "a list": "[]",
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_named_and_nothing_is_shown(folder: Folder, what: str) -> None:
    folder.add(0)
    (folder.path / "bad.json").write_text(BAD[what])
    (folder.path / "worse.json").mkdir()
    shown = folder.show()
    assert (shown.code, shown.out) == (2, "")
    assert "bad.json: " in shown.err
    assert "worse.json: not a file" in shown.err
    assert shown.err.endswith("twoarm: 2 problems; nothing was shown\n")


def test_nobody_waits_for_a_file_that_never_ends(folder: Folder) -> None:
    folder.add(0)
    os.mkfifo(folder.path / "pipe.json")
    assert "pipe.json: not a file" in folder.show().err
    assert "pipe.json: not a file" in folder.add(1).err


def one_change(value: float, scale: str = "ratio", **changed: float) -> dict[str, Any]:
    change = {"scale": scale, "estimate": None, "low": None, "high": None, "tasks": {"a": value}}
    return {"changes": {"duration_seconds": change | changed}}


def one_arm(**changed: float) -> dict[str, Any]:
    arm = {"arm": "with_skelly", "runs": 40, "successes": 30, "median_duration_seconds": 1.0,
           "median_non_cache_tokens": None, "median_cost_usd": None}  # fmt: skip
    return {"candidate": arm | changed}


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"time_utc": "yesterday"}, "time_utc: expected a time such as"),
    ({"time_utc": "2026-02-30T00:00:00Z"}, "time_utc: expected a time such as"),
    ({"time_utc": "２０２６-10-01T00:00:00Z"}, "time_utc: expected a time such as"),
    ({"series": "0" * 12}, "series: not that of its key; the file was changed"),
    ({"schema": "twoarm.history/2"}, "made by a newer twoarm: its schema is `twoarm.history/2`"),
    ({"schema": "twoarm.history/2", "key": 1}, "made by a newer twoarm"),
    ({"schema": "twoarm.history_report/1"}, "not a result that twoarm log add made: its schema is"),
    ({"level": 2.0}, "level: expected 0.5 to 0.9999, got 2"),
    (one_arm(runs=-1), "`with_skelly`: no arm has 30 of -1 runs"),
    (one_arm(runs=10**18), "`with_skelly`: no arm has"),
    (one_arm(successes=41), "`with_skelly`: no arm has 41 of 40 runs"),
    (one_arm(median_duration_seconds=1e308), "no median is negative or that large"),
    (one_arm(median_cost_usd=-1.0), "no median is negative or that large"),
    (one_change(0, estimate=1e308), "changes.duration_seconds: estimate: no ratio is 1e+308"),
    (one_change(0, low=-0.1), "changes.duration_seconds: low: no ratio is -0.1"),
    (one_change(0, "difference", high=1e308), "high: no difference is 1e+308"),
    (one_change(0, low=0.9, high=0.8), "low is 0.9, above high, 0.8"),
    (one_change(1e4), "changes.duration_seconds: `a`: no ratio is that large"),
    (
        one_change(-1e300, "difference"),
        "changes.duration_seconds: `a`: no difference is that large",
    ),
]


@pytest.mark.parametrize(("change", "message"), CHANGED, ids=range(len(CHANGED)))
def test_a_changed_file_is_refused(folder: Folder, change: dict[str, Any], message: str) -> None:
    folder.add(0)
    (file,) = folder.files
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    for format_name in ("text", "markdown", "html"):
        shown = folder.show("--format", format_name)
        assert (shown.code, shown.out) == (2, "")
        assert message in shown.err


def test_no_file_is_written_that_nobody_can_read(folder: Folder, tmp_path: Path) -> None:
    quick = {"duration_seconds": 1e-300}
    runs = [each | quick if each["arm"] == "with_skelly" else each for each in result(0)]
    (tmp_path / "odd.jsonl").write_bytes(lines(runs))
    added = twoarm("log", "add", str(tmp_path / "odd.jsonl"), "--to", str(folder.path))
    assert added.code == 2
    assert "no ratio is that large; nothing was added" in added.err
    assert not folder.files


WRONG: list[tuple[list[str], str]] = [
    (["add", "x.jsonl"], "--to: missing"),
    (["show", "a", "b"], "log show takes one folder"),
    (["show", "nowhere"], "nowhere: cannot be read"),
    (["show", "."], ".: no results in it; add one with twoarm log add"),
    (["show", ".", "--to", "x"], "--to has no effect without log add"),
    (["show", ".", "--promote-by", "margin"], "--promote-by has no effect without log add"),
    (["add", "x", "--to", "h", "--format", "json"], "--format has no effect without log show"),
    (["sho", "."], "did you mean `show`?"),
    (["add", "x.jsonl", "--to", "x.jsonl"], "--to: x.jsonl is not a folder"),
    (["add", "x.jsonl", "--to", "h", "--commit", "HEAD"], "--commit: expected a commit"),
    (["add", "x.jsonl", "--to", "h", "--no-evidence"], "a history needs the evidence"),
    (["show", ".", "--level", "1.5"], "--level: expected a number"),
]


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_a_mistake_is_told(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.jsonl").write_bytes(lines(result(0)))
    refused = twoarm("log", *words)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err


def test_a_run_folder_knows_its_suite(folder: Folder, tmp_path: Path, cache: Path) -> None:
    quick = ("--repeats", "1", "--display", "quiet", "--run-pages", "none")
    for name, prompt in (("first", "p"), ("second", "p"), ("third", "another")):
        tasks = [{"id": f"t{n}", "prompt": prompt, "acceptance_command": "true"} for n in range(2)]
        suite = suite_of(tmp_path / name, "true", suite_id="mine", tasks=tasks)
        out = str(tmp_path / f"{name}-out")
        assert twoarm("run", str(suite), "--out", out, *quick).code == 0
        added = twoarm("log", "add", out, "--to", str(folder.path))
        assert added.code == 0, added.err
    shown = overview(str(folder.path)).series
    # The same tasks in two folders, and tasks that ask for something else.
    assert sorted(len(each.results) for each in shown) == [1, 2]
    assert shown[0].key.suite_id == "mine"
