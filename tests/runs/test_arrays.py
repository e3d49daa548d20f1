"""Sums, medians and totals of arrays, task by task: held to the standard library."""

import math
import random
import statistics
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.task_arrays import floats, ints, together
from twoarm.runs import arrays


def tasks_at_random(*, fewest: int, missing: float) -> Iterator[list[list[float]]]:
    """Tasks with few distinct values or many, of one size or several, some of them not measured."""
    draw = random.Random(11)
    for trial in range(120):
        tasks = draw.randint(1, 9)
        highest = 3 if trial % 2 else 10**6
        sizes = [draw.randint(fewest, 12) for _ in range(tasks)]
        if trial % 3 == 0:
            sizes = [max(fewest, sizes[0])] * tasks
        yield [
            [
                math.nan if draw.random() < missing else draw.randint(-highest, highest) / 7
                for _ in range(size)
            ]
            for size in sizes
        ]


def test_sums_of_tasks_are_those_of_each_alone() -> None:
    for parts in tasks_at_random(fewest=1, missing=0.0):
        found = arrays.sums(*together(parts))
        assert found.tolist() == pytest.approx([math.fsum(part) for part in parts], abs=1e-9)


def test_squares_of_tasks_are_those_of_each_alone() -> None:
    for parts in tasks_at_random(fewest=1, missing=0.0):
        means = [math.fsum(part) / len(part) for part in parts]
        brute = [
            math.fsum((value - mean) ** 2 for value in part)
            for part, mean in zip(parts, means, strict=True)
        ]
        assert arrays.squares(*together(parts)).tolist() == pytest.approx(brute, rel=1e-9, abs=1e-9)


def test_squares_of_equal_values_are_exactly_zero() -> None:
    parts = [[value] * size for value in (0.1, 0.7, 1 / 3, 1e300) for size in range(1, 30)]
    values, starts = together(parts)
    means = arrays.sums(values, starts) / np.diff(starts)
    assert (means != values[starts[:-1]]).any(), "some means should be other numbers by rounding"
    assert arrays.squares(values, starts).tolist() == [0.0] * len(parts)
    assert arrays.squares(*together([[0.1] * 3, [0.1, 0.3]]))[1] == pytest.approx(0.02)


def test_a_value_not_measured_stays_in_its_task() -> None:
    values, starts = together([[1.0, 2.0], [3.0, math.nan], [4.0]])
    for found in (arrays.sums(values, starts), arrays.squares(values, starts)):
        assert [math.isnan(one) for one in found] == [False, True, False]


def test_no_tasks_have_no_sums_no_squares_and_no_medians() -> None:
    nothing = together([])
    for of_tasks in (arrays.sums, arrays.squares, arrays.medians):
        assert of_tasks(*nothing).tolist() == []


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
def test_medians_of_tasks_are_those_of_what_each_has(missing: float) -> None:
    empty = unmeasured = tied = 0
    for parts in tasks_at_random(fewest=0, missing=missing):
        found = arrays.medians(*together(parts)).tolist()
        assert len(found) == len(parts)
        for middle, part in zip(found, parts, strict=True):
            known = [value for value in part if not math.isnan(value)]
            empty += not part
            unmeasured += len(part) > len(known)
            tied += len(known) > len(set(known))
            if known:
                assert middle == statistics.median(known)
            else:
                assert math.isnan(middle)
    assert empty, "the example should have empty tasks"
    assert tied, "and ties"
    assert bool(unmeasured) == bool(missing)


def test_medians_of_tasks_that_are_empty_first_and_last() -> None:
    values, starts = together([[], [5.0, 1.0], [], [math.nan], [2.0, 2.0, 9.0], []])
    found = arrays.medians(values, starts)
    assert found[[1, 4]].tolist() == [3.0, 2.0]
    assert np.isnan(found[[0, 2, 3, 5]]).all()


def test_the_whole_median_is_that_of_the_standard_library() -> None:
    assert arrays.median(floats([])) is None
    assert arrays.mean(floats([])) is None
    for parts in tasks_at_random(fewest=1, missing=0.0):
        for part in parts:
            assert arrays.median(floats(part)) == statistics.median(part)


def test_a_total_is_rounded_once_whatever_the_order() -> None:
    draw = random.Random(3)
    values = [draw.uniform(-1, 1) * 10 ** draw.randint(-9, 9) for _ in range(500)]
    values += [1e16, 1.0, -1e16]
    for _ in range(5):
        draw.shuffle(values)
        assert arrays.total(floats(values)) == math.fsum(values)
    # Whole numbers, as far as a double holds each of them, and beyond.
    for whole in ([2.0**52, 1.0, 2.0], [2.0**53, 1.0, 1.0], [2.0**53, 1.0, -(2.0**53)]):
        assert arrays.total(floats(whole)) == math.fsum(whole)
    assert arrays.total(floats([])) == 0.0
    many = floats([0.1] * 70_000)
    assert arrays.total(many) == math.fsum(many.tolist())


def test_what_was_measured_is_all_but_nan() -> None:
    assert arrays.measured(floats([1.0, math.nan, 0.0, math.nan])).tolist() == [1.0, 0.0]
    assert arrays.measured(floats([math.nan])).tolist() == []
    assert arrays.measured(floats([2.0, -0.0])).tolist() == [2.0, 0.0]


def test_starts_are_where_each_code_begins() -> None:
    assert arrays.starts_of(ints([0, 0, 2, 2, 2]), 4).tolist() == [0, 2, 2, 5, 5]
    assert arrays.starts_of(ints([]), 2).tolist() == [0, 0, 0]
    assert arrays.starts_of(ints([]), 0).tolist() == [0]


@pytest.mark.parametrize("size", [1, 2, 5, 7, 8, 97])
def test_long_arrays_are_thinned_by_rank_with_both_ends(size: int) -> None:
    values = [float((i * 37) % 101) - 20 for i in range(size)]
    found = floats(values)[arrays.spaced(floats(values), 7)].tolist()
    ordered = sorted(values)
    if size <= 7:
        assert found == ordered
    else:
        assert found == [ordered[round(i / 6 * (size - 1))] for i in range(7)]
    assert (found[0], found[-1]) == (min(values), max(values))
    shares = [0.75, 0.0, 0.25, 1.0, 0.5]
    expected = [ordered[round(share * (size - 1))] for share in shares]
    assert arrays.at_ranks(floats(values), shares) == expected
