"""The use of the change in a report: every figure and every caveat, worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

import twoarm as library
from tests.conftest import run, twoarm
from tests.support.collect_fixtures import copied, sidecar
from tests.support.suite_files import suite_of
from twoarm.run.suite_file import SuiteError, read_suite

WITH, WITHOUT = "with_skelly", "without_skelly"


def runs(
    candidate: dict[str, list[int | None]], baseline: dict[str, list[int | None]]
) -> list[dict[str, Any]]:
    """One run per count of uses, by task."""
    return [
        run(task_id=task, arm=arm, repeat=repeat, uptake_count=count)
        for arm, tasks in ((WITH, candidate), (WITHOUT, baseline))
        for task, counts in tasks.items()
        for repeat, count in enumerate(counts, 1)
    ]


def caveats(found: list[dict[str, Any]], **options: Any) -> dict[str, str]:
    analysis = library.score(found, **options)
    return {
        caveat.code: str(caveat.message)
        for caveat in analysis.caveats
        if caveat.code.startswith("uptake")
    }


def test_the_shares_of_runs_and_tasks_and_the_uses_per_run() -> None:
    found = library.score(runs({"a": [2, 0, None], "b": [1], "c": [0]}, {"a": [0, 3], "b": [0]}))
    assert found.uptake is not None
    ours, theirs = found.uptake.candidate, found.uptake.baseline
    assert (ours.runs, ours.known_runs, ours.used_runs, ours.uses) == (5, 4, 2, 3)
    assert (ours.used_share, ours.uses_per_run) == (0.5, 0.75)
    assert (ours.tasks, ours.tasks_used, ours.tasks_share) == (3, 2, 2 / 3)
    assert (theirs.runs, theirs.known_runs, theirs.used_runs, theirs.uses) == (3, 3, 1, 3)
    assert [
        (t.task_id, t.candidate.used_runs, t.candidate.known_runs) for t in found.uptake.tasks
    ] == [
        ("a", 1, 2),
        ("b", 1, 1),
        ("c", 0, 1),
    ]


def test_a_file_that_says_nothing_of_uses_has_no_uptake() -> None:
    found = library.score(runs({"a": [None]}, {"a": [None]}))
    assert found.uptake is None
    assert "change was used" not in found.to_text(full=True)
    assert found.to_dict()["uptake"] is None


def test_uptake_that_was_asked_for_and_that_no_run_shows_is_the_first_caveat() -> None:
    asked = [
        {**one, "tags": ["usage_unknown", "uptake_not_shown"]}
        for one in runs({"a": [None] * 5}, {"a": [None] * 5})
    ]
    found = library.score(asked)
    assert found.uptake is None
    assert found.caveats[0].code == "uptake_not_shown"
    assert str(found.caveats[0].message) == (
        "no run shows whether it used the change, though that was asked for: what was read of the "
        "agent's output does not tell"
    )
    # One run is enough to know that it was asked for, unless it does not count.
    assert list(caveats([asked[0], *runs({"b": [None]}, {"a": [None]})])) == ["uptake_not_shown"]
    infra = {**asked[0], "failure": "infra", "failure_reason": "down"}
    assert caveats([infra, *runs({"b": [None]}, {"b": [None]})]) == {}
    # Where some runs show it, that is said instead.
    assert list(caveats([asked[0], *runs({"b": [1]}, {"b": [0]})])) == ["uptake_partly_known"]
    for tags in ("uptake_not_shown", {"uptake_not_shown": 1}, [["uptake_not_shown"]], 7, None):
        others = [{**one, "tags": tags} for one in runs({"a": [None]}, {"a": [None]})]
        assert caveats(others) == {}, tags


def test_excluded_runs_count_for_nothing() -> None:
    found = runs({"a": [0, 0]}, {"a": [0, 0]})
    found.append(run(task_id="a", arm=WITH, repeat=3, uptake_count=7, failure="infra"))
    assert set(caveats(found)) == {"uptake_never"}


def test_a_candidate_that_never_used_it_is_the_first_caveat() -> None:
    found = library.score(runs({"a": [0] * 5}, {"a": [0] * 5}))
    assert found.caveats[0].code == "uptake_never"
    assert str(found.caveats[0].message) == (
        "the candidate `with_skelly` never used the change, in 5 runs: whatever differs between "
        "the arms, using it is not why"
    )
    assert "never used the change" in found.to_text()
    assert set(caveats(runs({"a": [0] * 5}, {"a": [0] * 5}))) == {"uptake_never"}


@pytest.mark.parametrize(("used", "rare"), [(1, True), (2, True), (3, False), (6, False)])
def test_use_in_less_than_half_of_the_runs_is_said(used: int, rare: bool) -> None:
    counts: list[int | None] = [*[1] * used, *[0] * (6 - used)]
    found = caveats(runs({"a": counts}, {"a": [0] * 6}))
    assert ("uptake_rare" in found) is rare
    if used == 2:
        assert found["uptake_rare"] == (
            "the candidate `with_skelly` used the change in 2 of 6 runs (33.3%), less than half"
        )


def test_a_baseline_that_used_it_is_contaminated() -> None:
    assert caveats(runs({"a": [1, 1]}, {"a": [0, 4]})) == {
        "uptake_contaminated": "the baseline `without_skelly` used the change as well, in 1 of 2 "
        "runs (50.0%): it is contaminated, and the arms differ less than they should"
    }


@pytest.mark.parametrize(("failed", "said"), [(1, False), (2, True), (3, True), (None, False)])
def test_uses_of_which_most_failed_are_said(failed: int | None, said: bool) -> None:
    found = [
        run(arm=WITH, uptake_count=4, failed_uptake_count=failed),
        run(arm=WITHOUT, uptake_count=0, failed_uptake_count=0),
    ]
    assert ("uptake_failed" in caveats(found)) is said
    if failed == 3:
        assert caveats(found)["uptake_failed"] == (
            "3 of 4 uses of the change failed: is it allowed, does it work?"
        )


def test_a_screen_has_room_for_what_to_ask_about_uses_that_failed() -> None:
    found = [
        run(arm=WITH, uptake_count=240, failed_uptake_count=239),
        run(arm=WITHOUT, uptake_count=0, failed_uptake_count=0),
    ]
    line = "CAVEATS    239 of 240 uses of the change failed: is it allowed, does it work? (5"
    assert line in library.score(found).to_text().splitlines()


def test_more_uses_that_failed_than_uses_tell_nothing() -> None:
    found = [
        run(arm=WITH, repeat=1, uptake_count=1, failed_uptake_count=9),
        run(arm=WITH, repeat=2, uptake_count=None, failed_uptake_count=9),
        run(arm=WITHOUT, uptake_count=0, failed_uptake_count=0),
    ]
    assert "uptake_failed" not in caveats(found)
    uptake = library.score(found).uptake
    assert uptake is not None
    assert uptake.candidate.failed_uses is None
    more = library.score([*found, run(arm=WITH, repeat=3, uptake_count=2, failed_uptake_count=2)])
    assert more.uptake is not None
    assert more.uptake.candidate.failed_uses == 2


def test_tasks_on_which_it_was_never_used_are_named() -> None:
    assert caveats(runs({"a": [1, 1], "b": [0], "c": [0], "d": [None]}, {"a": [0]})) == {
        "uptake_some_tasks": "the candidate `with_skelly` used the change on 1 of 3 tasks; never "
        "on `b`, `c`",
        "uptake_partly_known": "use of the change is not known for 1 of the 5 runs of "
        "`with_skelly`",
    }


def test_uses_that_are_known_for_one_arm_only_are_said_to_be() -> None:
    assert caveats(runs({"a": [1]}, {"a": [None]})) == {
        "uptake_one_arm": "use of the change is known for `with_skelly` only; whether "
        "`without_skelly` used the change as well cannot be said"
    }
    assert caveats(runs({"a": [None]}, {"a": [0]})) == {
        "uptake_one_arm": "use of the change is known for `without_skelly` only; whether "
        "`with_skelly` used the change at all cannot be said"
    }


def test_the_headline_counts_all_runs_and_says_so() -> None:
    used = library.score(runs({"a": [1, 0, 0]}, {"a": [0, 0, 0]}))
    plain = library.score(runs({"a": [None] * 3}, {"a": [None] * 3}))
    assert used.arm_summaries == plain.arm_summaries
    assert used.gates == plain.gates
    for report in (used.to_text(full=True, width=200), used.to_markdown()):
        assert "All other figures count every run" in " ".join(report.split())
    said = "1 of 3 candidate runs and 0 of 3 baseline runs used the change; all runs count"
    assert said in " ".join(used.to_text().split())


@pytest.mark.parametrize("key", ["uptake_count", "failed_uptake_count"])
@pytest.mark.parametrize("value", [-1, 1.5, "2", True, 2**53])
def test_a_count_of_uses_is_a_whole_number(key: str, value: object) -> None:
    checked = library.check([run(**{key: value}), run(arm=WITHOUT)])
    (problem,) = checked.problems
    assert problem.field == key
    assert "expected a whole number from 0" in problem.message
    assert "or null if it cannot be seen" in problem.message


@pytest.mark.parametrize(
    "value",
    [
        {"Bash": -1},
        {"Bash": 1.5},
        {"": 1},
        {"Bash": None},
        ["Bash"],
        3,
        {f"t{i}": 1 for i in range(51)},
    ],
)
@pytest.mark.parametrize("key", ["tool_calls", "failed_tool_calls"])
def test_calls_are_whole_numbers_under_at_most_fifty_names(key: str, value: object) -> None:
    checked = library.check([run(**{key: value}), run(arm=WITHOUT)])
    (problem,) = checked.problems
    assert problem.field == key
    assert "expected an object of at most 50 names" in problem.message


def test_the_new_keys_are_known_in_files_of_any_layout(tmp_path: Path) -> None:
    keys: list[dict[str, Any]] = [
        {"uptake_count": 1, "tool_calls": {'Ba"sh': 2}},
        {},
        {"tool_calls": None, "failed_tool_calls": {}, "run_path": "x/events.jsonl"},
    ]
    lines = [
        run(arm=arm, repeat=i, **more) for arm in (WITH, WITHOUT) for i, more in enumerate(keys, 1)
    ]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = library.check(path)
    assert (found.problems, found.unknown_keys) == ((), ())
    read = library.read(path)
    assert read.tools.made.known.tolist() == [0, 3]
    assert read.tools.failed.known.tolist() == [2, 5]
    assert read.tools.names == ("(other)", 'Ba"sh')
    assert [None if x != x else x for x in read.tools.uptake.tolist()] == [
        1,
        None,
        None,
        1,
        None,
        None,
    ]


def test_names_beyond_the_first_thousand_are_summed() -> None:
    found = [
        run(repeat=i, arm=arm, tool_calls={f"tool-{i}-{n}": 1 for n in range(50)})
        for arm in (WITH, WITHOUT)
        for i in range(1, 31)
    ]
    columns = library.read(found).tools
    assert len(columns.names) == 1000
    other = columns.made.tool == columns.names.index("(other)")
    assert other.sum() == 2 * (1500 - 999)


# On the command line -----------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A run of Claude Code in each arm."""
    for arm in ("with_x", "without_x"):
        folder = copied("claude-code/real_ok", tmp_path / arm)
        sidecar(folder, task_id="t", repeat=1)
    return tmp_path


def collect(folder: Path, *patterns: str) -> Any:
    arms = [f"--arm={arm}={folder / arm}" for arm in ("with_x", "without_x")]
    return twoarm("collect", "claude-code", *arms, *(f"--uptake={one}" for one in patterns))


def counts(result: Any) -> dict[str, Any]:
    assert result.code == 0, result.err
    found = map(json.loads, result.out.splitlines())
    return {one["arm"]: one.get("uptake_count", "none") for one in found}


def test_a_pattern_counts_in_all_arms_or_in_one(two: Path) -> None:
    assert counts(collect(two)) == {"with_x": "none", "without_x": "none"}
    assert counts(collect(two, "command:printf *")) == {"with_x": 1, "without_x": 1}
    one = collect(two, "with_x=command:printf *", "with_x=tool:Bash")
    assert counts(one) == {"with_x": 2, "without_x": "none"}
    # A pattern may hold an equals sign itself.
    assert counts(collect(two, "command:A=tool:*")) == {"with_x": 0, "without_x": 0}


def test_the_summary_tells_what_was_used(two: Path) -> None:
    said = collect(two, "command:printf *").err
    assert "uptake in `with_x`: used in 1 of 1 run, 1 use\n" in said
    assert "caveat: uptake" not in said


def test_a_pattern_that_matches_nothing_or_everything_is_named(two: Path) -> None:
    said = collect(two, "tool:bash", "tool:B*").err
    assert "uptake `tool:bash` matches none of 4 calls; tools called: `Bash`\n" in said
    assert (
        "uptake `tool:B*` matches every one of 4 calls, so it cannot tell use from no use" in said
    )


def test_a_pattern_is_held_against_the_calls_of_its_arms_alone(two: Path) -> None:
    said = collect(two, "command:printf *", "with_x=tool:B*", "with_x=tool:bash").err
    assert "uptake `tool:B*` matches every one of 2 calls" in said
    assert "uptake `tool:bash` matches none of 2 calls" in said


def test_a_pattern_that_is_given_twice_counts_once(two: Path) -> None:
    # Half of the calls, counted twice, would be all of them.
    assert "caveat: uptake" not in collect(two, *["command:printf *"] * 2).err
    said = collect(two, "tool:B*", "with_x=tool:B*").err
    assert "uptake `tool:B*` matches every one of 4 calls" in said


def test_an_output_that_cannot_show_it_is_null_and_said(two: Path) -> None:
    stream = two / "with_x" / "claude-code-real_ok" / "stream.jsonl"
    result = [json.loads(line) for line in stream.read_text().splitlines()][-1]
    stream.unlink()
    (stream.parent / "result.json").write_text(json.dumps(result))
    found = collect(two, "tool:Bash")
    assert counts(found) == {"with_x": "none", "without_x": 2}
    assert "uptake in `with_x`: not shown by any of its 1 run\n" in found.err
    assert (
        "the output does not show what --uptake asks for, so the count of uses is null" in found.err
    )


@pytest.mark.parametrize("text", ["skelly", "with_x=skelly", "tool:", "other=tool:x"])
def test_a_bad_pattern_is_refused_before_anything_is_read(text: str, two: Path) -> None:
    result = collect(two, text)
    assert result.code == 2
    assert "uptake `" in result.err
    assert result.out == ""


def test_a_suite_may_name_patterns_for_all_arms_or_one(tmp_path: Path) -> None:
    arms = {"with": {"uptake": ["skill:x"]}, "without": {}}
    plan = read_suite(str(suite_of(tmp_path, uptake=["tool:a"], arms=arms)))
    assert plan.suite.uptake == ("tool:a",)
    assert plan.arms["with"].uptake == ("skill:x",)


def test_a_bad_pattern_in_a_suite_is_named_by_its_key(tmp_path: Path) -> None:
    arms = {"with": {"uptake": ["tool:x", "skelly"]}}
    with pytest.raises(SuiteError) as caught:
        read_suite(str(suite_of(tmp_path, uptake=["nothing"], arms=arms)))
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["uptake[0]", "arms.with.uptake[1]"]


def test_arms_that_differ_in_what_is_counted_alone_do_not_differ(tmp_path: Path) -> None:
    arms = {"with": {"env": None, "uptake": ["tool:x"]}}
    with pytest.raises(SuiteError, match="do not differ"):
        read_suite(str(suite_of(tmp_path, arms=arms)))
