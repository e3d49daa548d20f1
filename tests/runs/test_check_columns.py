"""Scores and checks: what becomes of these keys of a record, and what is refused."""

import io
import json
import math
from typing import Any

import pytest

import twoarm
from tests.conftest import both, lines, run
from twoarm.runs import runfile
from twoarm.runs.runfile import read
from twoarm.runs.runs import Runs


def read_all(records: list[dict[str, Any]]) -> Runs:
    return read(io.BytesIO(lines(records)))


def checks_of(runs: Runs, row: int) -> dict[str, float]:
    columns = runs.checks
    return {
        columns.names[check]: passed
        for at, check, passed in zip(
            columns.row.tolist(), columns.check.tolist(), columns.passed.tolist(), strict=True
        )
        if at == row
    }


def test_scores_are_a_column_and_a_run_without_one_is_not_zero() -> None:
    runs = read_all(
        [run(repeat=1), run(repeat=2, score=0.25), run(repeat=3, score=None), run(repeat=4)]
    )
    known = [None if math.isnan(score) else score for score in runs.score]
    assert known == [None, 0.25, None, None]
    assert all(map(math.isnan, read_all(both()).score))
    assert len(read_all(both()).score) == len(both())


def test_checks_are_kept_by_name_with_what_is_not_known() -> None:
    runs = read_all(
        [
            run(repeat=1, checks={"unit": True, "lint": False}),
            run(repeat=2),
            run(repeat=3, checks={"lint": None, "unit": True}),
            run(repeat=4, checks={}),
        ]
    )
    assert checks_of(runs, 0) == {"unit": 1.0, "lint": 0.0}
    assert checks_of(runs, 1) == {}
    last = checks_of(runs, 2)
    assert last.pop("unit") == 1.0
    assert math.isnan(last["lint"])
    assert runs.checks.known.tolist() == [0, 2]
    assert runs.checks.sets == (("lint", "unit"),)


def test_a_batch_gives_what_its_lines_give() -> None:
    # The first lines teach the reader its keys; the others are decoded at once.
    records = [
        run(repeat=n, score=(n % 5) / 4, checks={"a": n % 2 == 0, "b": None})
        for n in range(1, 3000)
    ]
    runs = read_all(records)
    assert runs.score.tolist() == [record["score"] for record in records]
    assert runs.checks.passed[::2].tolist() == [float(n % 2 == 0) for n in range(1, 3000)]
    assert runs.checks.row.tolist() == [row for row in range(2999) for _ in "ab"]


def test_lines_with_scores_and_checks_are_decoded_in_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one_by_one = []
    whole = runfile._Reader._line

    def line(self: Any, text: bytes | None, where: Any) -> Any:
        one_by_one.append(where)
        return whole(self, text, where)

    monkeypatch.setattr(runfile._Reader, "_line", line)
    kept = {"score": 0.5, "checks": {"a": True, "b": None}, "part": 1}
    records = [run(repeat=n, **kept) for n in range(1, 30_000)]
    assert len(read_all(records)) == 29_999
    assert len(one_by_one) < 10_000


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("score", 1.5, "expected a number from 0 to 1, or null if there is none, got 1.5"),
        ("score", -0.1, "got -0.1"),
        ("score", "0.5", 'got "0.5"'),
        ("score", True, "got true"),
        ("checks", ["unit"], "got an array"),
        ("checks", {"unit": 1}, "each with true, false or null, or null if there are none"),
        ("checks", {"": True}, "expected an object of at most 50 names"),
        ("checks", {str(n): True for n in range(51)}, "expected an object of at most 50 names"),
    ],
)
def test_a_score_or_check_that_is_none_is_refused_by_line(
    field: str, value: Any, message: str
) -> None:
    with pytest.raises(twoarm.BadRunsError) as caught:
        read_all([*both(), run(repeat=9, **{field: value})])
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"<stream>:3: {field}: expected ")
    assert message in line


def test_a_score_that_is_not_a_number_is_refused_by_line() -> None:
    text = json.dumps(run(score=math.nan)).encode()
    with pytest.raises(twoarm.BadRunsError, match="score: expected a number from 0 to 1"):
        read(io.BytesIO(text))


def test_a_frame_may_have_both() -> None:
    import polars

    frame = polars.DataFrame(
        [
            run(repeat=1, score=0.5, checks={"unit": True, "lint": False}),
            run(repeat=2, score=None, checks=None),
        ]
    )
    runs = read(frame)
    assert runs.score[0] == 0.5
    assert math.isnan(runs.score[1])
    assert checks_of(runs, 0) == {"unit": 1.0, "lint": 0.0}
