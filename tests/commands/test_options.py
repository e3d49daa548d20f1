"""One struct of options: its bounds, its keywords, and the two functions that take it."""

import math
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import twoarm
from tests.compare.test_properties import many_runs
from tests.conftest import WITH, WITHOUT, both, lines, run
from tests.support.deterministic import given, settings
from twoarm.compare.screen import Arms
from twoarm.options import DEFAULTS, OptionKeywords, Options, chosen
from twoarm.runs.runfile import read
from twoarm.score import compare, score


def test_the_keywords_are_the_options() -> None:
    assert get_type_hints(OptionKeywords) == get_type_hints(Options)
    assert not OptionKeywords.__required_keys__


def test_every_option_has_a_default_that_is_allowed() -> None:
    assert Options() == DEFAULTS
    assert len(Options.__struct_defaults__) == len(Options.__struct_fields__)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"duplicates": "both"}, "duplicates: expected one of `error`, `first`, `last`, got 'both'"),
    ({"missing": "nan"}, "missing: expected one of `keep`, `zero`, got 'nan'"),
    ({"missing": None}, "missing: expected one of `keep`, `zero`, got None"),
    ({"promote_by": "rule"}, "promote_by: expected one of `gates`, `evidence`, `margin`, got 'rul"),
    ({"guard": "off"}, "guard: expected one of `all`, `none`, got 'off'"),
    (
        {"primary": "cost"},
        "primary: expected one of `success`, `duration`, `tokens`, `score`, got 'cost'",
    ),
    ({"primary": "duration_seconds"}, "primary: expected one of"),
    ({"allow_broken": -1}, "allow_broken: expected 0 or more tasks, got -1"),
    ({"level": 1.0}, "level: expected a number from 0.5 to 0.9999, got 1.0"),
    ({"level": 0.99991}, "level: expected a number"),
    ({"level": 0.49}, "level: expected a number"),
    ({"level": 95}, "level: expected a number"),
    ({"level": math.nan}, "level: expected a number"),
    ({"seed": -1}, "seed: expected an integer from 0 to 2^63 - 1, got -1"),
    ({"seed": 2**63}, "seed: expected an integer"),
    ({"resamples": 98}, "resamples: expected an integer from 99 to 1000000, got 98"),
    ({"resamples": 1_000_001}, "resamples: expected an integer"),
    ({"margin_success": 0.0}, "margin_success: expected a number above 0 and below 1, got 0.0"),
    ({"margin_success": 1.0}, "margin_success: expected"),
    ({"margin_ratio": -0.1}, "margin_ratio: expected"),
    ({"margin_ratio": 2.0}, "margin_ratio: expected"),
    ({"margin_ratio": math.nan}, "margin_ratio: expected"),
    ({"evidence": False, "promote_by": "evidence"}, "promote_by: `evidence` needs the evidence"),
    ({"evidence": False, "promote_by": "margin"}, "promote_by: `margin` needs the evidence"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_options_out_of_bounds_are_refused_however_they_are_given(
    given: dict[str, Any], message: str
) -> None:
    for refused in (
        lambda: Options(**given),
        lambda: chosen(None, given),
        lambda: chosen(Options(), given),
        lambda: score(both(), **given),
        lambda: compare(read(both()), **given),
    ):
        with pytest.raises(twoarm.UsageError) as caught:
            refused()
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("choice", ["promote_by", "missing", "duplicates", "guard", "primary"])
@pytest.mark.parametrize("evidence", [True, False])
def test_a_choice_that_is_none_is_refused_with_evidence_and_without(
    choice: str, evidence: bool
) -> None:
    with pytest.raises(twoarm.UsageError, match=f"{choice}: expected one of `"):
        Options(evidence=evidence, **{choice: "foo"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"level": 0.5},
        {"level": 0.9999},
        {"seed": 0},
        {"seed": 2**63 - 1},
        {"resamples": 99},
        {"resamples": 1_000_000},
        {"margin_success": 0.999, "margin_ratio": 0.001},
        {"primary": "success"},
        {"guard": "none", "allow_broken": 0},
        {"allow_broken": 10_000},
        {"evidence": False, "promote_by": "gates"},
    ],
)
def test_options_at_their_bounds_are_taken(given: Any) -> None:
    assert chosen(None, given) == Options(**given)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("promot_by", "; did you mean `promote_by`?"),
        ("sed", "; did you mean `seed`?"),
        ("x", "; expected one of allow_broken, baseline, "),
    ],
)
def test_a_keyword_that_is_no_option_is_answered_with_the_nearest(name: str, answer: str) -> None:
    unknown: Any = {name: "evidence"}
    for call in (partial(score, both(), **unknown), partial(compare, read(both()), **unknown)):
        # What Python raises for keywords, and what twoarm raises for whatever it refuses.
        for kind in (TypeError, twoarm.UsageError):
            with pytest.raises(kind, match="^unexpected keyword argument ") as caught:
                call()
            assert f"`{name}`{answer}" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "name", "answer"),
    [
        (read, "skip_bads", "; did you mean `skip_bad`?"),
        (read, "x", "; expected one of list_all, progress, skip_bad, times"),
        (twoarm.check, "skip_bda", "; it takes none"),
    ],
)
def test_reading_and_checking_answer_in_the_same_way(call: Any, name: str, answer: str) -> None:
    for kind in (TypeError, twoarm.UsageError):
        with pytest.raises(kind) as caught:
            call(both(), **{name: True})
        assert str(caught.value) == f"unexpected keyword argument `{name}`{answer}"


def test_keywords_change_a_value_of_options_and_leave_it_as_it_was() -> None:
    options = Options(seed=5, level=0.9)
    assert chosen(options, {"seed": 6}) == Options(seed=6, level=0.9)
    assert options == Options(seed=5, level=0.9)
    report = score(both(), options, seed=6)
    assert report.options == Options(seed=6, level=0.9)
    assert report.to_dict()["options"]["seed"] == 6


def test_one_value_and_keywords_give_the_same_bytes() -> None:
    given: Any = {"missing": "zero", "level": 0.9, "seed": 3, "resamples": 199}
    runs = [*both(), *both(repeat=2, total_cost_usd=None)]
    assert score(runs, Options(**given)).to_json() == score(runs, **given).to_json()


# Read and compare ---------------------------------------------------------------------------------


def timed() -> list[dict[str, Any]]:
    """Two arms one after the other, with everything that reading has to keep."""
    return [
        run(
            f"t{task}",
            arm,
            repeat,
            duration_seconds=100.0 + task * repeat,
            started_at_utc=f"2026-11-0{1 + (arm == WITH)}T10:{task}{repeat}:00Z",
            model=f"model of {arm}",
            colour="red",
        )
        for task in range(3)
        for repeat in (1, 2)
        for arm in (WITH, WITHOUT)
    ]


def test_to_score_is_to_read_and_to_compare(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(timed()))
    report = score(path)
    codes = {caveat.code for caveat in report.caveats}
    assert {"separate_time_blocks", "different_models", "unknown_keys"} <= codes
    assert compare(read(path)).to_json() == report.to_json()
    assert compare(read(path), options=Options()).to_html() == report.to_html()


@pytest.mark.parametrize(
    "given",
    [
        {"evidence": False},
        {"candidate": WITHOUT, "baseline": WITH},
        {"seed": 4, "resamples": 99, "level": 0.8},
        {"promote_by": "margin", "margin_ratio": 0.3},
        {"missing": "zero", "keep_infra": True},
    ],
)
def test_to_score_is_to_read_and_to_compare_with_the_same_options(given: Any) -> None:
    runs = [*timed(), run("t9", failure="infra", total_cost_usd=None)]
    assert compare(read(runs), **given).to_json() == score(runs, **given).to_json()


@settings(max_examples=30)
@given(many_runs)
def test_any_runs_are_scored_as_they_are_read_and_compared(runs: list[dict[str, Any]]) -> None:
    options = Options(resamples=99)
    assert compare(read(runs), options=options).to_json() == score(runs, options).to_json()


def test_runs_that_were_read_once_are_compared_as_often_as_one_likes() -> None:
    runs = read([*timed(), *(one | {"arm": "third"} for one in timed() if one["arm"] == WITH)])
    first = compare(runs, Arms(candidate=WITH, baseline=WITHOUT))
    other = compare(runs, Arms(candidate="third", baseline=WITHOUT))
    assert (first.candidate, other.candidate) == (WITH, "third")
    assert first.paired == other.paired
    assert compare(runs, Arms(candidate=WITH, baseline=WITHOUT)).to_json() == first.to_json()
    with pytest.raises(twoarm.ArmsError, match="which arms"):
        compare(runs)


@pytest.mark.parametrize("named", [{}, {"candidate": "new"}, {"baseline": "new"}])
def test_one_arm_is_too_few_whatever_is_named(named: dict[str, str]) -> None:
    only = [run(arm="new")]
    with pytest.raises(twoarm.ArmsError, match="^only one arm found: `new`; "):
        compare(read(only), candidate=named.get("candidate"), baseline=named.get("baseline"))


def test_the_time_of_a_report_is_given_and_never_taken() -> None:
    assert score(both()).generated_at_utc is None
    now = "2026-11-01T10:00:00Z"
    assert score(both(), generated_at_utc=now).generated_at_utc == now
    assert compare(read(both()), generated_at_utc=now).generated_at_utc == now
