"""Drawn tasks and runs, and their medians: held to every resample written out."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tests.support.task_arrays import PARTS, grouped, together
from twoarm.evidence import resample, stability
from twoarm.evidence.resample import MedianTable, draws, resample_tasks, task_medians


def test_every_resample_is_listed_with_its_chance() -> None:
    every = resample._every_resample(4)
    listed = dict(zip(map(tuple, every.weights.tolist()), every.chances, strict=True))
    brute: dict[tuple[int, ...], float] = {}
    for drawn in itertools.product(range(4), repeat=4):
        weights = tuple(drawn.count(task) for task in range(4))
        brute[weights] = brute.get(weights, 0.0) + 1 / 4**4
    assert every.exact
    assert listed == pytest.approx(brute)


def test_task_medians_are_those_of_every_resample() -> None:
    support = task_medians(*together(PARTS))
    found: dict[float, float] = {}
    for middle, chance in zip(support.values.tolist(), support.chances, strict=True):
        found[middle] = found.get(middle, 0.0) + chance
    brute: dict[float, float] = {}
    for drawn in itertools.product(range(3), repeat=3):
        middle = float(np.median([value for task in drawn for value in PARTS[task]]))
        brute[middle] = brute.get(middle, 0.0) + 1 / 27
    assert found == pytest.approx(brute)


def test_the_median_table_agrees_with_the_median_of_the_drawn_values() -> None:
    generator = np.random.default_rng(3)
    for trial in range(60):
        tasks = int(generator.integers(2, 12))
        sizes = generator.integers(0 if trial % 3 else 1, 6, tasks)
        highest = 20 if trial % 2 else 10**6
        parts = [generator.integers(0, highest, n).astype(float).tolist() for n in sizes]
        if not sizes.sum():
            continue
        weights = generator.multinomial(tasks, [1 / tasks] * tasks, size=30).astype(float)
        table = MedianTable(grouped(parts), np.arange(tasks), tasks)
        for row, found in zip(weights, table.medians(weights), strict=True):
            values = [v for w, part in zip(row, parts, strict=True) for v in part * int(w)]
            if values:
                assert found == np.median(values)
            else:
                assert np.isnan(found)


def test_the_median_table_finds_medians_far_from_the_middle_too() -> None:
    generator = np.random.default_rng(9)
    parts = [generator.normal(0, 1, 400).tolist() for _ in range(11)]
    # One small task far above all others, one far below, and one of one value.
    parts += [(100 + generator.normal(0, 1, 30)).tolist(), [-50.0] * 20, [7.0]]
    tasks = len(parts)
    table = MedianTable(grouped(parts), np.arange(tasks), tasks)
    assert len(table._edges) > 2, "several blocks"
    assert table._edges[0] > 0, "and not of all values"
    alone = np.eye(tasks) * tasks
    drawn = generator.multinomial(tasks, [1 / tasks] * tasks, size=200)
    mostly = np.eye(tasks)[11] * (tasks * 40) + drawn[:5]
    weights = np.vstack((alone, drawn, mostly, np.zeros((1, tasks))))
    found = table.medians(weights.astype(np.float64))
    for row, middle in zip(weights, found[:-1], strict=False):
        values = [v for w, part in zip(row, parts, strict=True) for v in part * int(w)]
        if values:
            assert middle == np.median(values)
    assert math.isnan(found[-1])


def test_medians_of_drawn_runs_are_those_of_the_runs_written_out() -> None:
    generator = np.random.default_rng(5)
    for trial in range(40):
        runs = int(generator.integers(1, 30))
        values = generator.integers(0, 8 if trial % 2 else 10**6, runs).astype(float)
        values[generator.random(runs) < trial % 4 / 4] = math.nan
        times = generator.multinomial(runs, [1 / runs] * runs, size=20)
        for row, found in zip(times, stability._row_medians(values, times), strict=True):
            written_out = np.repeat(values, row)
            measured = written_out[~np.isnan(written_out)]
            if len(measured):
                assert found == np.median(measured)
            else:
                assert math.isnan(found)


def test_drawn_runs_are_of_the_drawn_tasks_and_as_many() -> None:
    values, starts = together([[1.0] * 3, [1.0] * 5, [1.0]])
    parts = stability.ArmSample(
        arm="a", tasks=np.arange(3), starts=starts, values={"success_rate": values}
    )
    drawn = draws([1], 200, 3, 3)
    total = int(parts.sizes[drawn].sum())
    times = stability._times_drawn(parts, drawn, draws([2], 1, total, 1 << 31)[0])
    for row, tasks in zip(times, drawn, strict=True):
        for task, size in enumerate(parts.sizes):
            here = row[parts.starts[task] : parts.starts[task + 1]]
            assert here.sum() == size * (tasks == task).sum()
    # Each run of a task is drawn as often as the others.
    assert times[:, :3].sum(axis=0) == pytest.approx(times[:, :3].sum() / 3, rel=0.2)
    assert times[:, 3:8].sum(axis=0) == pytest.approx(times[:, 3:8].sum() / 5, rel=0.2)


def test_bundled_tasks_keep_the_total_and_the_spread() -> None:
    resamples = resample_tasks(5_000, 1, 199)
    assert resamples.weights.shape == (199, 1_000)
    sums = resamples.sums(np.ones(5_000))
    assert sums == pytest.approx(5_000.0)
    drawn = resamples.sums(np.arange(5_000) % 10) / 5_000
    assert drawn.std() == pytest.approx(np.std(np.arange(10)) / math.sqrt(5_000), rel=0.25)


def test_draws_are_uniform_and_never_change() -> None:
    drawn = draws(7, 1_000, 10, 6)
    assert drawn.min() == 0
    assert drawn.max() == 5
    assert stats.chisquare(np.bincount(drawn.ravel())).pvalue > 0.001
    assert draws(1, 1, 12, 1_000).ravel().tolist() == [*draws(1, 2, 6, 1_000).ravel().tolist()]
