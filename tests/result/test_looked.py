"""A folder that was reported on before it grew says so, and how to be sure."""

import re
from pathlib import Path
from typing import Any

import pytest

import twoarm as package
from tests.conftest import WITH, WITHOUT, both
from tests.result.test_tested import scored, study
from twoarm.errors import SERIOUS
from twoarm.result.looked import _FALSE_WINNERS, Seen, seen_before
from twoarm.result.step import Step
from twoarm.run.reported import count_looks
from twoarm.run.schedule import Trial
from twoarm.runs.study import EarlierReport

AT = "2026-11-16T08:00:00Z"


def report(*verdicts: str, decided: bool = True, **runs: int) -> EarlierReport:
    """`p1=8` is eight runs of part 1."""
    by_part = {int(part[1:]): count for part, count in runs.items()}
    verdicts = verdicts or ("promote",)
    return EarlierReport(at_utc=AT, runs=by_part, verdicts=verdicts, decided=decided)


NO = "not enough data"
# The runs of each part now, the reports so far, the parts that are asked for, and what follows.
SEEN: dict[str, tuple[dict[int, int], list[EarlierReport], tuple[int, ...] | None, Any]] = {
    "nobody has looked": ({1: 8, 2: 8}, [], None, None),
    "the same runs": ({1: 8}, [report(p1=8)], None, None),
    "the same runs, twice": ({1: 8}, [report(p1=8), report("do not promote", p1=8)], None, None),
    "then it grew": ({1: 8, 2: 6}, [report(p1=8)], None, (1, 6, 14, (2,))),
    "no verdict, then it grew": ({1: 8, 2: 6}, [report(NO, p1=8)], None, (1, 6, 14, (2,))),
    "no decision, then it grew": ({1: 8, 2: 6}, [report(NO, decided=False, p1=8)], None, None),
    "not to be promoted": ({1: 8, 2: 6}, [report("do not promote", p1=8)], None, (1, 6, 14, (2,))),
    "looked at in the middle": ({1: 8}, [report(p1=5)], None, (1, 3, 8, ())),
    "grew twice": ({1: 8, 2: 6, 3: 4}, [report(p1=8), report(p1=8, p2=6)], None, (2, 4, 18, (3,))),
    "grew twice, seen once": ({1: 8, 2: 6, 3: 4}, [report(p1=8)], None, (1, 10, 18, (2, 3))),
    "reported on again": ({1: 8, 2: 6}, [report(p1=8), report(p1=8, p2=6)], None, (1, 6, 14, (2,))),
    "the new part judged alone": (
        {1: 8, 2: 6},
        [report(p1=8), report(p1=8, p2=6), report(p2=6)],
        None,
        (1, 6, 14, (2,)),
    ),
    "the new part alone": ({1: 8, 2: 6}, [report(p1=8)], (2,), None),
    "the new part, in two": ({1: 8, 2: 6}, [report(p1=8), report(p2=2)], (2,), (1, 4, 6, ())),
    "the old part alone": ({1: 8, 2: 6}, [report(p1=8)], (1,), None),
    "both by name": ({1: 8, 2: 6}, [report(p1=8)], (1, 2), (1, 6, 14, (2,))),
    "nothing is made yet": ({1: 8, 2: 0}, [report(p1=8)], None, None),
}  # fmt: skip


@pytest.mark.parametrize("what", SEEN)
def test_a_look_is_one_at_some_of_the_runs_and_not_at_others(what: str) -> None:
    made, reports, parts, expected = SEEN[what]
    seen = seen_before(study(made=made, reports=tuple(reports)), parts)
    if expected is not None:
        expected = Seen(**dict(zip(("looks", "new", "runs", "fresh"), expected, strict=True)))
    assert seen == expected


@pytest.mark.parametrize("what", [what for what in SEEN if SEEN[what][2] is None])
def test_what_records_say_is_what_their_folder_says(what: str) -> None:
    made, reports, _, expected = SEEN[what]
    runs = {
        part: [Trial(task="t", repeat=at, arm=str(part)) for at in range(count)]
        for part, count in made.items()
    }
    counts = count_looks(reports, runs)
    last = max(counts.values())
    new = sum(count == last for count in counts.values())
    looks, unseen, total, _ = expected or (0, len(counts), len(counts), ())
    assert (last - min(counts.values()), new, len(counts)) == (looks, unseen, total)
    # The first of a part are those that a report had.
    for trials in runs.values():
        assert [counts[trial] for trial in trials] == sorted(counts[trial] for trial in trials)


def test_planned_looks_are_no_looks_before() -> None:
    looked = {"made": {1: 8, 2: 6}, "reports": (report(p1=8),)}
    assert seen_before(study(**looked, planned_looks=True), None) is None


def grown(repeats: int, more: int, tasks: int = 6) -> list[dict[str, Any]]:
    return [
        run | {"part": 1 if repeat <= repeats else 2}
        for task in range(tasks)
        for repeat in range(1, repeats + more + 1)
        for run in both(f"t{task}", repeat)
    ]


def looked(repeats: int, more: int, *earlier: EarlierReport, **keywords: Any) -> package.Report:
    made = {1: 12 * repeats, 2: 12 * more}
    folder = study(made=made, reports=earlier or (report(p1=12 * repeats),))
    return scored(grown(repeats, more), folder, resamples=99, **keywords)


def message(result: package.Report, code: str) -> str | None:
    items: list[package.Caveat | Step] = [*result.caveats, *result.next]
    return next((str(item.message) for item in items if item.code == code), None)


def test_a_report_after_a_report_says_what_that_does() -> None:
    result = looked(5, 5)
    assert message(result, "looked_before") == (
        "a second look at these runs: 60 of 120 came after a report on the others, which turns "
        "4.7% false winners into 9.2%"
    )
    assert message(result, "score_new_part") == (
        "to be sure, judge the new runs alone: `twoarm score out --part 2`"
    )
    assert "looked_before" in SERIOUS
    third = looked(5, 5, report(p1=60), report(p1=60, p2=8))
    assert message(third, "looked_before") == (
        "a third look at these runs: 52 of 120 came after a report on the others, which turns "
        "4.7% false winners into 9.6%"
    )
    fourth = looked(5, 5, report(p1=9), report(p1=60), report(p1=60, p2=8))
    assert str(message(fourth, "looked_before")).startswith("look number 4 at these runs: 52 of ")
    assert str(message(fourth, "looked_before")).endswith("winners into at least 9.6%")


def test_records_whose_folder_is_not_known_say_it_themselves() -> None:
    runs = [run | {"looked_before": run["part"] - 1} for run in grown(5, 5)]
    assert message(scored(runs, resamples=99), "looked_before") == (
        "a second look at these runs: 60 of 120 came after a report on the others, which turns "
        "4.7% false winners into 9.2%"
    )
    for other in (
        scored(runs, resamples=99, part=(2,)),
        scored(runs, resamples=99, looks=(5, 10)),
        scored(grown(5, 5), resamples=99),
        # A folder knows better.
        scored(runs, study(made={1: 60, 2: 60}), resamples=99),
    ):
        assert message(other, "looked_before") is None
    third = [run | {"looked_before": 2 if run["repeat"] > 8 else 0} for run in grown(5, 5)]
    assert str(message(scored(third, resamples=99), "looked_before")).startswith(
        "a third look at these runs: 24 of 120 came after"
    )


def test_the_figures_are_those_that_were_measured() -> None:
    text = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()
    rows = re.findall(r"a false winner by the (?:first|second|third) look \| ([\d.]+) \|", text)
    assert tuple(map(float, rows)) == _FALSE_WINNERS


def test_a_part_alone_has_not_been_looked_at() -> None:
    result = looked(5, 5, part=(2,))
    assert message(result, "looked_before") is None
    assert message(result, "score_new_part") is None
    assert result.effective_run_count == 60


def test_too_few_repeats_are_not_judged_alone() -> None:
    result = looked(5, 4)
    assert message(result, "looked_before") is not None
    assert message(result, "score_new_part") is None


def test_looks_that_are_planned_say_nothing_of_it() -> None:
    result = looked(5, 5, looks=(5, 10))
    assert message(result, "looked_before") is None
    assert message(result, "score_new_part") is None


# One part alone.


def test_a_part_is_scored_as_if_there_were_no_other() -> None:
    runs = [run | {"duration_seconds": run["part"] * 10.0} for run in grown(3, 2, 2)]
    alone = package.compare(
        package.read([run for run in runs if run["part"] == 2]), part=(2,), resamples=99
    )
    result = package.compare(package.read(runs), part=(2,), resamples=99)
    for name in ("arm_summaries", "paired", "gates", "decision", "tasks", "evidence", "trials"):
        assert getattr(result, name) == getattr(alone, name), name
    excluded = [(group.kind, group.arm, group.runs) for group in result.excluded]
    assert excluded == [("other part", WITH, 6), ("other part", WITHOUT, 6)]
    assert message(result, "other_parts") == "12 runs of other parts excluded: this is part 2 alone"
    assert result.run_count == result.effective_run_count + 12


def test_several_parts_are_scored_together() -> None:
    runs = [*grown(1, 1, 2), *(run | {"part": 3, "repeat": 3} for run in both("t0"))]
    result = package.compare(package.read(runs), part=(1, 3), evidence=False)
    assert result.effective_run_count == 6
    assert message(result, "other_parts") == (
        "4 runs of other parts excluded: this is part 1 and 3 alone"
    )


def test_a_part_that_is_not_there_is_refused_by_what_there_is() -> None:
    runs = package.read(grown(1, 1, 1))
    with pytest.raises(package.UsageError, match="^part: no run of part 3; parts found: 1, 2$"):
        package.compare(runs, part=(3,))
    none = package.read(list(both("t")))
    with pytest.raises(package.UsageError, match="^part: no run says which part it is of; only"):
        package.compare(none, part=(1,))
    for wrong in ((), (0,), (-1, 1)):
        with pytest.raises(package.UsageError, match="^part: expected parts such as 2 or 1,2, got"):
            package.compare(runs, part=wrong)


def test_what_was_tested_is_what_was_run_in_that_part() -> None:
    runs = [
        run | {"started_at_utc": f"2026-11-0{run['part']}T08:00:00Z", "model": f"m{run['part']}"}
        for run in grown(1, 1, 1)
    ]
    tested = package.compare(package.read(runs), part=(2,), resamples=99).tested
    assert (tested.models, tested.first_started_at_utc) == (("m2",), "2026-11-02T08:00:00Z")
