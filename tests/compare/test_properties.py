"""What holds for any runs, and for any bytes at all."""

import io
import json
import math
import statistics
from collections.abc import Iterable
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.conftest import lines, run
from tests.support.deterministic import given, settings, st
from twoarm.compare.tasks import HIGH_SPREAD
from twoarm.result.analysis import Analysis
from twoarm.runs.metric import COST, DURATION, JUDGED, METRICS, NON_CACHE_TOKENS, SUCCESS, Metric

CORPUS = Path(__file__).parent.parent / "corpus"
ARMS = ("with_skelly", "without_skelly")

amounts = st.one_of(
    st.none(),
    st.integers(0, 10),
    st.integers(0, 10**12),
    st.floats(0, 1e9, allow_nan=False),
)
run_values = st.fixed_dictionaries(
    {
        "success": st.booleans(),
        "duration_seconds": amounts.filter(lambda amount: amount is not None),
        "total_cost_usd": amounts,
        "input_tokens": amounts,
        "output_tokens": amounts,
        "cache_read_tokens": amounts,
        "cache_write_tokens": amounts,
    },
    optional={
        "step_count": amounts,
        "failure": st.sampled_from([None, "agent", "infra", "missing"]),
        "agent_exit_code": st.sampled_from([0, 1, 86]),
        "acceptance_exit_code": st.sampled_from([0, 1, 99]),
    },
)
keys = st.tuples(
    st.sampled_from(["a", "b", "c", "ü|`<"]),
    st.sampled_from(ARMS),
    st.one_of(st.integers(1, 4), st.sampled_from([2**53 - 1])),
)
many_runs = st.dictionaries(keys, run_values, min_size=1, max_size=24).map(
    lambda found: [
        {"task_id": task, "arm": arm, "repeat": repeat, **values}
        for (task, arm, repeat), values in found.items()
    ]
)


def figures(analysis: Analysis) -> dict[str, Any]:
    """Everything but where it came from."""
    found = analysis.to_dict()
    del found["inputs"]
    return found


@given(many_runs)
def test_nothing_is_lost_on_the_way(runs: list[dict[str, Any]]) -> None:
    analysis = twoarm.score(runs)
    assert analysis.run_count == len(runs)
    excluded = sum(group.runs for group in analysis.excluded)
    assert analysis.effective_run_count + excluded == len(runs)
    paired = analysis.paired
    assert 2 * paired.paired_runs + paired.unpaired_runs == analysis.effective_run_count
    assert sum(t.candidate.runs + t.baseline.runs for t in analysis.tasks) == (
        analysis.effective_run_count
    )


@given(many_runs)
def test_swapping_the_arms_negates_every_delta(runs: list[dict[str, Any]]) -> None:
    here = twoarm.score(runs).paired
    swapped = {ARMS[0]: ARMS[1], ARMS[1]: ARMS[0]}
    there = twoarm.score([one | {"arm": swapped[one["arm"]]} for one in runs]).paired
    for metric in METRICS:
        for name in (f"mean_{metric.delta}", f"median_{metric.delta}"):
            ours, theirs = getattr(here, name), getattr(there, name)
            assert ours == (None if theirs is None else -theirs)


@given(many_runs, st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_matter(runs: list[dict[str, Any]], random: Any) -> None:
    shuffled = list(runs)
    random.shuffle(shuffled)
    assert figures(twoarm.score(runs)) == figures(twoarm.score(shuffled))


# An independent computation: dicts, `statistics` and `fractions`, nothing of ours.


def left_out(one: dict[str, Any]) -> bool:
    if "failure" in one:
        return one["failure"] in ("infra", "missing")
    code = one.get("agent_exit_code")
    return code == 86 or (bool(code) and one.get("acceptance_exit_code") == 99)


def value_of(metric: Metric, one: dict[str, Any]) -> float | None:
    if metric is SUCCESS:
        return float(one["success"] and one.get("failure") != "agent")
    values = [one.get(part) for part in metric.parts]
    # Not `sum`, which since Python 3.12 rounds otherwise than one addition after another.
    return None if None in values else reduce(add, [float(value or 0) for value in values])


def known_values(metric: Metric, runs: Iterable[dict[str, Any]]) -> list[float]:
    return [value for value in (value_of(metric, one) for one in runs) if value is not None]


def median_of(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def mean_of(values: list[float]) -> float | None:
    return float(statistics.mean(values)) if values else None


def counted_runs(runs: list[dict[str, Any]]) -> dict[str, dict[tuple[str, int], dict[str, Any]]]:
    """The runs that are neither infra failures nor missing: by arm, then by task and repeat."""
    by_arm: dict[str, dict[tuple[str, int], dict[str, Any]]] = {arm: {} for arm in ARMS}
    for one in runs:
        if not left_out(one):
            by_arm[one["arm"]][one["task_id"], one["repeat"]] = one
    return by_arm


def deltas_of(metric: Metric, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[float]:
    both = [(value_of(metric, ours), value_of(metric, theirs)) for ours, theirs in pairs]
    return [a - b for a, b in both if a is not None and b is not None]


@given(many_runs)
def test_figures_agree_with_the_standard_library(runs: list[dict[str, Any]]) -> None:
    analysis = twoarm.score(runs)
    by_arm = counted_runs(runs)
    for summary in analysis.arm_summaries:
        kept = list(by_arm[summary.arm].values())
        assert summary.runs == len(kept)
        assert summary.successes == sum(known_values(SUCCESS, kept))
        for metric in METRICS:
            known = known_values(metric, kept)
            if metric.median:
                assert getattr(summary, metric.median) == median_of(known)
            assert summary.missing[metric.name] == len(kept) - len(known)
    shared = by_arm[ARMS[0]].keys() & by_arm[ARMS[1]].keys()
    assert analysis.paired.paired_runs == len(shared)
    pairs = [(by_arm[ARMS[0]][key], by_arm[ARMS[1]][key]) for key in shared]
    for metric in METRICS:
        deltas = deltas_of(metric, pairs)
        mean = mean_of(deltas)
        found = getattr(analysis.paired, f"mean_{metric.delta}")
        assert (found is None) == (mean is None)
        if mean is not None:
            assert math.isclose(found, mean, rel_tol=1e-12, abs_tol=1e-12)
        assert getattr(analysis.paired, f"median_{metric.delta}") == median_of(deltas)


@given(many_runs)
def test_tasks_agree_with_the_standard_library(runs: list[dict[str, Any]]) -> None:
    by_arm = counted_runs(runs)
    tasks = twoarm.score(runs, evidence=False).tasks
    assert [task.task_id for task in tasks] == sorted(
        {t for kept in by_arm.values() for t, _ in kept}
    )
    for task in tasks:
        cells = [
            {repeat: one for (name, repeat), one in by_arm[arm].items() if name == task.task_id}
            for arm in ARMS
        ]
        won = [int(sum(known_values(SUCCESS, cell.values()))) for cell in cells]
        for found, cell, wins in zip((task.candidate, task.baseline), cells, won, strict=True):
            assert (found.runs, found.successes) == (len(cell), wins)
            for metric in (COST, DURATION, NON_CACHE_TOKENS):
                assert metric.median is not None
                known = known_values(metric, cell.values())
                assert getattr(found, metric.median) == median_of(known)
            missing = len(cell) - len(known_values(NON_CACHE_TOKENS, cell.values()))
            assert found.missing == ({NON_CACHE_TOKENS.name: missing} if missing else {})
        pairs = [(cells[0][repeat], cells[1][repeat]) for repeat in cells[0] if repeat in cells[1]]
        flips = deltas_of(SUCCESS, pairs)
        expected = len(pairs), flips.count(1.0), flips.count(-1.0)
        assert (task.pairs, task.gained, task.lost) == expected
        for metric in JUDGED:
            assert_added_in_order(getattr(task, f"mean_{metric.delta}"), deltas_of(metric, pairs))
        if not all(cells):
            assert task.standing is None
        else:
            ours, theirs = (Fraction(w, len(cell)) for w, cell in zip(won, cells, strict=True))
            word = "higher" if ours > theirs else "lower" if ours < theirs else "unchanged"
            assert task.standing == word


def assert_added_in_order(found: float | None, values: list[float]) -> None:
    """The mean, but for the rounding of one addition after another."""
    mean = mean_of(values)
    assert (found is None) == (mean is None)
    if found is not None and mean is not None:
        size = math.fsum(map(abs, values))
        assert abs(found - mean) <= 2**-52 * len(values) * size


@given(many_runs)
def test_high_variance_agrees_with_the_standard_library(runs: list[dict[str, Any]]) -> None:
    by_arm = counted_runs(runs)
    for task in twoarm.score(runs, evidence=False).tasks:
        cells = [
            [one for (name, _), one in by_arm[arm].items() if name == task.task_id] for arm in ARMS
        ]
        flipped = any(len(set(known_values(SUCCESS, cell))) == 2 for cell in cells)
        assert (SUCCESS.name in task.high_variance) == flipped
        for metric in (DURATION, NON_CACHE_TOKENS):
            known = [known_values(metric, cell) for cell in cells]
            widest = max(
                (
                    statistics.stdev(values) / statistics.mean(values)
                    for values in known
                    if len(values) > 1 and any(values)
                ),
                default=0.0,
            )
            # At the limit itself, rounding decides.
            if not math.isclose(widest, HIGH_SPREAD, rel_tol=1e-9):
                assert (metric.name in task.high_variance) == (widest > HIGH_SPREAD)


@given(many_runs)
def test_no_output_ever_holds_nan_or_infinity(runs: list[dict[str, Any]]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = twoarm.score(runs).to_json()
    json.loads(text, parse_constant=refuse)


def outcome(text: bytes) -> Analysis | twoarm.TwoarmError:
    try:
        analysis = twoarm.score(io.BytesIO(text))
    except twoarm.TwoarmError as error:
        return error
    for report in (analysis.to_text(), analysis.to_markdown(), analysis.to_json()):
        assert report.endswith("\n")
    return analysis


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_any_bytes_are_an_analysis_or_an_error(text: bytes) -> None:
    outcome(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from([*run(), "failure", "tags", "x"]), json_values))
def test_any_values_are_an_analysis_or_an_error_with_a_position(changed: dict[str, Any]) -> None:
    found = outcome(lines([run() | changed, run(arm="without_skelly")]))
    if isinstance(found, twoarm.BadRunsError):
        assert all(problem.where.startswith("<stream>:1") for problem in found.problems)


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_file_is_an_analysis_or_an_error(data: st.DataObject) -> None:
    text = bytearray(lines([run(repeat=r) for r in (1, 2)] + [run(arm="without_skelly")]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.integers(0, 255))
    outcome(bytes(text[: data.draw(st.integers(1, len(text)))]))


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_odd_files(path: Path) -> None:
    found = outcome(path.read_bytes())
    refused = not path.name.startswith("good-")
    assert isinstance(found, twoarm.TwoarmError) == refused
