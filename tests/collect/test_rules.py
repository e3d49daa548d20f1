"""What holds for every format: zeros, repeats, the order of records, tags."""

import json
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.support.collect_fixtures import (
    BEHAVIOUR,
    FIXTURES,
    HARBOR,
    collected,
    collection,
    copied,
    only,
    records,
    sidecar,
)
from twoarm.errors import BadRunsError
from twoarm.programs.moment import utc_text

# Zero is not "unknown" ---------------------------------------------------------------------------


def table(path: Path, **cells: Any) -> dict[str, Any]:
    row = {"task_id": "t", "success": "1", "duration_seconds": "1"} | cells
    path.write_text(",".join(row) + "\n" + ",".join(str(cell) for cell in row.values()) + "\n")
    return only("table", path)


@pytest.mark.parametrize(
    ("steps", "tokens", "cost", "expected"),
    [
        (3, 0, 0, (None, None, ["cost_unknown", "usage_unknown"])),
        (3, 10, 0, (10, None, ["cost_unknown"])),
        ("", 10, 0, (10, None, ["cost_unknown"])),
        (3, 0, 0.5, (None, 0.5, ["usage_unknown"])),
        (0, 0, 0, (0, 0, None)),
        ("", 0, 0, (0, 0, None)),
        (3, 10, 0.5, (10, 0.5, None)),
    ],
)
def test_zeros_of_a_run_that_took_steps_are_not_known(
    steps: Any, tokens: int, cost: float, expected: tuple[Any, ...], tmp_path: Path
) -> None:
    record = table(
        tmp_path / "t.csv",
        step_count=steps,
        total_cost_usd=cost,
        input_tokens=tokens,
        output_tokens=tokens,
        cache_read_tokens=tokens,
        cache_write_tokens=tokens,
    )
    assert (record["input_tokens"], record["total_cost_usd"], record.get("tags")) == expected


def test_each_null_is_a_caveat_with_its_count_and_first_path() -> None:
    case = FIXTURES / "opencode" / "nousage"
    with collection("opencode", case) as found:
        caveats = {caveat.code: caveat.message for caveat in found.caveats}
    assert caveats["usage_unknown"] == (
        "steps were taken but no usage was reported, so token counts are null, not 0: "
        f"1 run, first {case}/events.jsonl"
    )


# Repeats and order -------------------------------------------------------------------------------


def many(tmp_path: Path, *given: tuple[str, int | None, str | None]) -> None:
    for number, (task, repeat, started) in enumerate(given):
        folder = copied("opencode/ok", tmp_path / f"{number:02}")
        sidecar(folder, task_id=task, repeat=repeat, started_at_utc=started, run_id=str(number))
        sidecar(folder, ended_at_utc="2026-11-15T23:00:00Z")


def test_repeats_are_numbered_by_start_time_within_task_and_arm(tmp_path: Path) -> None:
    many(
        tmp_path,
        ("b", None, "2026-11-15T07:00:00Z"),
        ("a", None, "2026-11-15T09:00:00Z"),
        ("b", None, "2026-11-15T06:00:00Z"),
        ("a", None, "2026-11-15T08:00:00+02:00"),
    )
    with collection("opencode", tmp_path) as found:
        rows = [(r["task_id"], r["repeat"], r["run_id"]) for r in records(found)]
        codes = [caveat.code for caveat in found.caveats]
    assert rows == [("a", 1, "3"), ("a", 2, "1"), ("b", 1, "2"), ("b", 2, "0")]
    assert codes == ["repeats_numbered"]


def test_repeats_of_the_source_stay(tmp_path: Path) -> None:
    many(tmp_path, ("a", 7, "2026-11-15T07:00:00Z"), ("a", 2, "2026-11-15T08:00:00Z"))
    with collection("opencode", tmp_path) as found:
        assert [(r["repeat"], r["run_id"]) for r in records(found)] == [(2, "1"), (7, "0")]
        assert found.caveats == ()
    renumbered = collected("opencode", tmp_path, renumber=True)
    assert [(r["repeat"], r["run_id"]) for r in renumbered] == [(1, "0"), (2, "1")]


def test_two_runs_of_one_repeat_are_refused(tmp_path: Path) -> None:
    many(tmp_path, ("a", 1, None), ("a", 1, None))
    for skip_bad in (False, True):
        with pytest.raises(BadRunsError) as caught:
            collected("opencode", tmp_path, skip_bad=skip_bad)
        assert str(caught.value) == (
            f"{tmp_path}/01/opencode-ok/events.jsonl: task `a`, arm `a`, repeat 1 is already in "
            f"{tmp_path}/00/opencode-ok/events.jsonl; give each its own repeat, or pass "
            "`renumber=True`"
        )


def test_repeats_are_given_for_all_runs_of_a_task_or_for_none(tmp_path: Path) -> None:
    many(tmp_path, ("a", 1, None), ("a", None, None))
    with pytest.raises(BadRunsError, match="no repeat, but other runs of its task and arm"):
        collected("opencode", tmp_path)


def test_the_order_of_paths_does_not_change_the_records(tmp_path: Path) -> None:
    many(tmp_path, ("b", 2, None), ("a", 1, None), ("b", 1, None))
    folders = [tmp_path / name for name in ("00", "01", "02")]
    forward = collected("opencode", *folders)
    assert forward == collected("opencode", *reversed(folders))
    assert [(r["task_id"], r["repeat"]) for r in forward] == [("a", 1), ("b", 1), ("b", 2)]


def test_many_records_wait_outside_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = collected("harbor", HARBOR, **BEHAVIOUR)
    monkeypatch.setattr("twoarm.collect.spool.IN_MEMORY", 100)
    assert collected("harbor", HARBOR, **BEHAVIOUR) == expected


def test_a_collection_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "collected.jsonl"
    with collection("harbor", HARBOR, **BEHAVIOUR) as found:
        path.write_bytes(b"".join(found.lines()))
    analysis = twoarm.score(str(path))
    assert analysis.candidate == "with_x"
    assert [summary.successes for summary in analysis.arm_summaries] == [4, 0]
    assert not any(caveat.code == "unknown_keys" for caveat in analysis.caveats)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1794722148.581, "2026-11-15T05:55:48.581Z"),
        (-1, "1969-12-31T23:59:59.000Z"),
        (1e300, None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_a_moment_is_text_in_utc(at: float | None, text: str | None) -> None:
    assert utc_text(at) == text


def test_the_tags_of_a_record_explain_themselves() -> None:
    from twoarm.programs.caveats import CAVEATS

    root = Path(__file__).parents[2] / "src" / "twoarm"
    paths = (
        path for room in ("programs", "collect", "run") for path in (root / room).rglob("*.py")
    )
    source = "".join(path.read_text() for path in paths if path.name != "caveats.py")
    for code in CAVEATS:
        # Or by a constant of that name.
        spelled = (f'"{code}"', f"'{code}'", f"({code.upper()})", f"({code.upper()},)")
        assert any(one in source for one in spelled), f"{code} is raised by nothing"


def test_what_is_collected_is_what_json_says(tmp_path: Path) -> None:
    with collection("harbor", HARBOR, **BEHAVIOUR) as found:
        for line in found.lines():
            assert line.endswith(b"}\n")
            assert json.loads(line)["failure"] is None
