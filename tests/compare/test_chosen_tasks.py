"""Only some tasks, by tag and by name; what matches nothing; tags that contradict each other."""

import json
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both, lines, run
from tests.conftest import twoarm as command
from twoarm.errors import UsageError

TAGS = {"sql-1": ["sql", "slow"], "sql-2": ["sql"], "web-1": ["slow"], "web-2": []}


def tagged(repeats: int = 1, **more: Any) -> list[dict[str, Any]]:
    return [
        record | ({"task_tags": tags} if tags else {}) | more
        for task, tags in TAGS.items()
        for repeat in range(1, repeats + 1)
        for record in both(task, repeat)
    ]


def left(**chosen: Any) -> list[str]:
    return [task.task_id for task in twoarm.score(tagged(), **chosen).tasks]


def test_tasks_are_chosen_by_tag_and_by_name() -> None:
    assert left() == ["sql-1", "sql-2", "web-1", "web-2"]
    assert left(tag=("sql",)) == ["sql-1", "sql-2"]
    assert left(tag=("sql", "slow")) == ["sql-1", "sql-2", "web-1"]
    assert left(task=("*-1",)) == ["sql-1", "web-1"]
    assert left(task=("web-*", "sql-1")) == ["sql-1", "web-1", "web-2"]
    # Both have to hold.
    assert left(tag=("slow",), task=("web-*",)) == ["web-1"]


def test_a_name_is_matched_as_it_is_spelled() -> None:
    with pytest.raises(UsageError):
        left(task=("SQL-*",))
    assert left(task=("web-[12]",)) == ["web-1", "web-2"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"tag": ("sqll",)}, "tag: no task has `sqll`; tags found: `slow`, `sql`"),
        ({"tag": ("sql", "go")}, "tag: no task has `go`; tags found: `slow`, `sql`"),
        (
            {"task": ("web-*", "py-*")},
            "task: no task is like `py-*`; tasks found: `sql-1`, `sql-2`, `web-1`, `web-2`",
        ),
        ({"tag": ("sql",), "task": ("web-*",)}, "tag: no task that `task=` chooses has such a tag"),
        ({"tag": ()}, "tag: expected names, such as ('sql',), got ()"),
        ({"tag": "sql"}, "tag: expected names, such as ('sql',), got 'sql'"),
        ({"task": ("a", "")}, "task: expected names, such as ('sql',), got ('a', '')"),
    ],
)
def test_what_matches_nothing_is_an_error_that_names_what_there_is(
    chosen: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        twoarm.score(tagged(), **chosen)
    assert str(refused.value) == message


def test_runs_without_tags_say_so() -> None:
    with pytest.raises(UsageError, match="tag: no record has the tags of its task, `task_tags`"):
        twoarm.score(both(), tag=("sql",))


def test_the_command_line_takes_each_more_than_once(runs: Path) -> None:
    runs.write_bytes(lines(tagged()))
    done = command("score", str(runs), "--tag", "sql", "--tag", "slow", "--task", "*-1")
    assert done.out.splitlines()[1].startswith("2 of 4 tasks x 1 repeat; 4 of 8 runs counted, 4")
    done = command("score", str(runs), "--tag", "go")
    assert (done.code, done.err) == (
        2,
        "twoarm: --tag: no task has `go`; tags found: `slow`, `sql`\n",
    )


def test_every_run_that_was_left_out_is_accounted_for_once() -> None:
    grown = [record | {"part": 1 + (record["task_id"] == "web-1")} for record in tagged(2)]
    report = twoarm.score(grown, part=(1,), tag=("sql",))
    counts = {(group.kind, group.arm): group.runs for group in report.excluded}
    assert counts == {
        ("other part", WITH): 2,
        ("other part", WITHOUT): 2,
        ("other task", WITH): 2,
        ("other task", WITHOUT): 2,
    }
    assert report.effective_run_count + sum(counts.values()) == report.run_count


def test_failures_duplicates_and_missing_runs_of_other_tasks_do_not_matter() -> None:
    runs = tagged()
    runs += [run("web-2", WITH, 1), run("web-2", WITH, 2, failure="infra")]
    runs += [run("web-2", WITH, 3, failure="missing")]
    report = twoarm.score(runs, tag=("sql",))
    assert report.excluded_infra_failures == 0
    assert [arm.planned for arm in report.trials] == [2, 2]
    with pytest.raises(twoarm.BadRunsError):
        twoarm.score(runs, task=("web-*",))


def test_a_choice_of_all_tasks_leaves_nothing_out() -> None:
    report = twoarm.score(tagged(), task=("*",))
    assert report.chosen_tasks is None
    assert "chosen_tasks" not in [caveat.code for caveat in report.caveats]


def test_tasks_of_other_arms_are_not_those_that_were_left_out() -> None:
    runs = [*tagged(), run("only-third", "third")]
    report = twoarm.score(runs, candidate=WITH, baseline=WITHOUT, tag=("sql",))
    assert report.chosen_tasks is not None
    assert (report.chosen_tasks.tasks, report.chosen_tasks.of) == (2, 4)


def test_what_was_tested_is_of_the_chosen_tasks() -> None:
    runs = [record | {"model": record["task_id"]} for record in tagged()]
    assert twoarm.score(runs, tag=("sql",)).tested.models == ("sql-1", "sql-2")


def test_the_order_of_tags_and_a_tag_given_twice_make_no_difference() -> None:
    runs = [*both(task_tags=["b", "a"]), *both("t", 2, task_tags=["a", "b", "a"])]
    (task,) = twoarm.score(runs).tasks
    assert task.task_tags == ("a", "b")


@pytest.mark.parametrize("silent", [{}, {"task_tags": None}, {"task_tags": []}])
def test_a_run_that_does_not_say_has_the_tags_of_its_task(silent: dict[str, Any]) -> None:
    runs = [*both(), *(record | silent for record in both("t", 2)), *both("other", 1)]
    runs[1]["task_tags"] = ["sql"]
    report = twoarm.score(runs, tag=("sql",))
    assert (report.effective_run_count, report.tasks[0].task_tags) == (4, ("sql",))


def test_two_kinds_of_tags_of_a_task_are_refused_with_both_lines(runs: Path) -> None:
    records = [*both(task_tags=["sql", "slow"]), *both("t", 2), *both("t", 3, task_tags=["sql"])]
    message = (
        "{}:5: task_tags: task `t` has `sql` here, and `slow`, `sql` at {}:1; give all runs of a "
        "task the same tags"
    )
    with pytest.raises(twoarm.BadRunsError) as refused:
        twoarm.score(records)
    assert str(refused.value).splitlines()[0] == message.format("run", "run")
    runs.write_bytes(lines(records))
    done = command("check", str(runs))
    assert (done.code, len(done.out.splitlines())) == (2, 2)
    assert done.out.splitlines()[0] == message.format(runs, runs)


@pytest.mark.parametrize("tags", ["sql", [""], [1], {"sql": True}, ["x"] * 51])
def test_tags_are_a_list_of_names(tags: object) -> None:
    with pytest.raises(twoarm.BadRunsError, match="task_tags: expected a list of at most 50"):
        twoarm.score(both(task_tags=tags))


def test_tags_begin_and_end_anywhere_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twoarm.runs.runfile._ITEMS", 2)
    runs = [*both("a"), *both("b", task_tags=["sql"]), *both("c")]
    assert [task.task_tags for task in twoarm.score(runs).tasks] == [(), ("sql",), ()]
    assert twoarm.score(runs, tag=("sql",)).effective_run_count == 2
    assert twoarm.read(runs).tags.codes.tolist() == [-1, -1, 0, 0, -1, -1]


def test_lines_with_and_without_tags_are_read_in_batches(runs: Path) -> None:
    records = [record for repeat in range(1, 400) for record in both("t", repeat)]
    for number, record in enumerate(records):
        if number > 9 and number % 3:
            record["task_tags"] = ['a "quoted" tag', "b"]
    runs.write_bytes(lines([*records, *both("u")]))
    (task, other) = twoarm.score(runs, evidence=False).tasks
    assert task.task_tags == ('a "quoted" tag', "b")
    assert other.task_tags == ()
    assert json.loads(twoarm.score(runs, evidence=False).to_json())["tasks"][1]["task_tags"] == []
