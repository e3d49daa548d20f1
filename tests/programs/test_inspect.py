"""Logs of Inspect: what they say, and what is made of it."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    FIXTURES,
    changed,
    collected,
    copied,
    only,
    refused,
    set_keys,
)

ARMS = {
    "arm_key": "eval.task_args.arm",
    "arm_map": {"baseline": "without_x", "treatment": "with_x"},
}


@pytest.mark.parametrize("kind", ["json", "eval"])
def test_inspect_logs_give_a_run_per_sample_and_epoch(kind: str) -> None:
    found = collected("inspect", FIXTURES / "inspect" / kind, **ARMS)
    assert [(r["task_id"], r["arm"], r["repeat"]) for r in found] == [
        (task, arm, epoch)
        for task in ("sum-1", "sum-2")
        for arm in ("with_x", "without_x")
        for epoch in (1, 2, 3)
    ]
    assert {(r["input_tokens"], r["output_tokens"]) for r in found} == {(130, 30)}
    assert {(r["cache_read_tokens"], r["cache_write_tokens"]) for r in found} == {(180, 80)}
    assert [r["success"] for r in found if r["arm"] == "with_x"] == [True] * 3 + [False] * 3


def test_an_inspect_sample_that_raised_is_infra() -> None:
    found = collected("inspect", FIXTURES / "inspect" / "errors")
    failed = [record for record in found if record["failure"]]
    assert len(found) == 6
    assert [(r["task_id"], r["repeat"], r["failure"]) for r in failed] == [("sum-2", 2, "infra")]
    assert failed[0]["failure_reason"] == "RuntimeError('sandbox died (scripted)')"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return copied("inspect/ok", tmp_path) / "ok.json"


def set_sample(log: Path, **keys: Any) -> None:
    changed(log, lambda document: document["samples"][0].update(keys))


@pytest.mark.parametrize(
    ("value", "settings", "success"),
    [
        ("C", {}, True),
        ("I", {}, False),
        (1, {}, True),
        (0.0, {}, False),
        (True, {}, True),
        ("P", {"threshold": 0.5}, True),
        ("N", {"threshold": 0.5}, False),
        (0.7, {"threshold": 0.8}, False),
        (0.7, {"threshold": 0.7}, True),
    ],
)
def test_an_inspect_score_is_a_success_or_not(
    log: Path, value: Any, settings: dict[str, Any], success: bool
) -> None:
    set_sample(log, scores={"match": {"value": value}})
    assert only("inspect", log, settings=settings)["success"] is success


@pytest.mark.parametrize("value", ["P", "N", 0.7])
def test_an_inspect_score_in_between_needs_a_threshold(log: Path, value: Any) -> None:
    set_sample(log, scores={"match": {"value": value}})
    assert "`threshold=` sets the least that is a success" in refused("inspect", log)


def test_an_inspect_scorer_is_chosen_or_the_headline_one(log: Path) -> None:
    set_sample(log, scores={"match": {"value": "C"}, "includes": {"value": "I"}})
    assert only("inspect", log)["success"] is True
    assert only("inspect", log)["tags"] == ["scorer_chosen"]
    chosen = only("inspect", log, settings={"scorer": "includes"})
    assert chosen["success"] is False
    assert "tags" not in chosen
    assert "choose one of `includes`, `match`" in refused(
        "inspect", log, settings={"scorer": "missing"}
    )


@pytest.mark.parametrize(
    ("kind", "score", "failure", "success"),
    [
        ("message", "I", "agent", False),
        ("message", "C", None, True),
        ("token", "C", None, True),
        ("time", "C", "agent", False),
        ("working", "C", "agent", False),
        ("context", "C", "agent", False),
        ("operator", "C", "infra", False),
    ],
)
def test_an_inspect_limit_is_the_agents(
    log: Path, kind: str, score: str, failure: str | None, success: bool
) -> None:
    set_sample(log, scores={"match": {"value": score}}, limit={"type": kind, "limit": 10})
    record = only("inspect", log)
    assert (record["failure"], record["success"]) == (failure, success)


@pytest.mark.parametrize(
    ("version", "total", "counted"),
    [
        ("0.3.285", 3620, 1400),
        ("0.3.185", 3620, 1400),
        ("0.3.180", 3620, 1400),
        ("0.3.180", 1520, None),
        ("0.3.180", 3500 + 120, 1400),
    ],
)
def test_inspect_input_excludes_the_cache_since_0_3_185(
    log: Path, version: str, total: int, counted: int | None
) -> None:
    changed(log, lambda d: d["eval"]["packages"].update(inspect_ai=version))
    changed(
        log,
        lambda d: d["samples"][0]["model_usage"]["mockllm/model"].update(total_tokens=total),
    )
    if counted is None:
        assert "2,100 cached tokens, but only 1,400 input tokens" in refused("inspect", log)
    else:
        assert only("inspect", log)["input_tokens"] == counted


def test_an_old_inspect_log_that_counts_the_cache_as_input_is_told_by_its_total(
    log: Path,
) -> None:
    changed(log, lambda d: d["eval"]["packages"].update(inspect_ai="0.3.160"))
    changed(
        log,
        lambda d: d["samples"][0]["model_usage"]["mockllm/model"].update(
            input_tokens=3500, total_tokens=3620
        ),
    )
    assert only("inspect", log)["input_tokens"] == 1400
    changed(log, lambda d: d["samples"][0]["model_usage"]["mockllm/model"].update(total_tokens=9))
    assert "may or may not include the cache" in refused("inspect", log)


def test_an_inspect_grader_is_not_the_agent(log: Path) -> None:
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    changed(log, lambda d: d["samples"][0]["model_usage"].update({"grader/model": usage}))
    record = only("inspect", log)
    assert record["input_tokens"] == 1400
    assert "other_models_left_out" in record["tags"]


def test_inspect_offers_both_times(log: Path) -> None:
    assert only("inspect", log)["duration_seconds"] == 0.693
    assert only("inspect", log, settings={"working_time": True})["duration_seconds"] == 0.692


def test_an_inspect_log_that_did_not_finish_is_a_caveat(log: Path) -> None:
    set_keys(log, status="error")
    assert "log_unfinished" in only("inspect", log)["tags"]


def test_inspect_tasks_that_share_ids_are_told_apart_on_request(tmp_path: Path) -> None:
    folder = FIXTURES / "inspect"
    with pytest.raises(Exception, match="eval.task is `sums`, but `sums_boom`"):
        collected("inspect", folder / "errors", folder / "eval", **ARMS)
    found = collected(
        "inspect", folder / "errors", folder / "eval", settings={"task_names": True}, **ARMS
    )
    assert {record["task_id"] for record in found} == {
        "sums/sum-1",
        "sums/sum-2",
        "sums_boom/sum-1",
        "sums_boom/sum-2",
    }


@pytest.mark.parametrize(
    ("value", "threshold", "score"),
    [
        ("C", None, 1.0),
        ("I", None, 0.0),
        ("P", 0.5, 0.5),
        (True, None, 1.0),
        (0.25, 0.5, 0.25),
        (7, 5, None),
        (-1, 0, None),
    ],
)
def test_an_inspect_score_from_0_to_1_is_the_score(
    log: Path, value: Any, threshold: float | None, score: float | None
) -> None:
    set_sample(log, scores={"match": {"value": value}})
    assert only("inspect", log, settings={"threshold": threshold}).get("score") == score


def test_the_other_inspect_scores_are_checks(log: Path) -> None:
    others = {"a": True, "b": "I", "c": 1.0, "d": "P", "e": {"x": 1}, "f": "text", "g": 0.5}
    values = {"match": "C", **others}
    set_sample(log, scores={name: {"value": value} for name, value in values.items()})
    record = only("inspect", log, settings={"scorer": "match"})
    assert record["score"] == 1.0
    assert record["checks"] == {
        "a": True,
        "b": False,
        "c": True,
        "d": None,
        "e": None,
        "f": None,
        "g": None,
    }


def test_an_inspect_sample_that_was_not_scored_has_neither(log: Path) -> None:
    set_sample(log, scores=None, error={"message": "no sandbox"})
    assert {"score", "checks"}.isdisjoint(only("inspect", log))
