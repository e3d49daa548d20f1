"""Whether machines differ in how long the same takes: against other ways to compute it."""

import math
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

import twoarm as package
from tests.conftest import WITH, WITHOUT, run
from tests.result.test_tested import study
from twoarm.evidence.nodes import BY_CHANCE, NodeSpeeds, compare_nodes

Design = tuple[list[float], list[int], list[int]]


def drawn(seed: int, nodes: int, groups: int, slower: float = 0.0, each: int = 3) -> Design:
    """Runs of groups of their own length on nodes; the first takes so much longer, as a log."""
    rng = random.Random(seed)
    lengths = [rng.uniform(0, 3) for _ in range(groups)]
    rows = [(group, rng.randrange(nodes)) for group in range(groups) for _ in range(each)]
    seconds = [
        math.exp(lengths[group] + slower * (node == 0) + rng.gauss(0, 0.2)) for group, node in rows
    ]
    return seconds, [group for group, _ in rows], [node for _, node in rows]


def compared(seconds: list[float], groups: list[int], nodes: list[int]) -> NodeSpeeds | None:
    return compare_nodes(np.array(seconds), np.array(groups), np.array(nodes))


def fitted(columns: np.ndarray, log: np.ndarray) -> tuple[float, int, np.ndarray]:
    """What is left by least squares, the rank, and the coefficients."""
    solution, _, rank, _ = np.linalg.lstsq(columns, log, rcond=None)
    return float(np.sum((log - columns @ solution) ** 2)), int(rank), solution


@pytest.mark.parametrize("seed", range(20))
def test_as_two_fits_by_least_squares_tell_it(seed: int) -> None:
    """With and without the nodes, each group and node a column of its own."""
    seconds, groups, nodes = drawn(seed, nodes=3, groups=7, slower=0.1 * (seed % 4))
    speeds = compared(seconds, groups, nodes)
    log = np.log(seconds)
    of_groups = np.equal.outer(groups, np.arange(7)).astype(float)
    of_nodes = np.equal.outer(nodes, np.arange(3)).astype(float)
    less, few, _ = fitted(of_groups, log)
    more, all_of_them, solution = fitted(np.hstack([of_groups, of_nodes]), log)
    extra, left = all_of_them - few, len(log) - all_of_them
    ratio = (less - more) / extra / (more / left)
    assert speeds is not None
    assert speeds.p == pytest.approx(stats.f.sf(ratio, extra, left), rel=1e-6)
    effects = solution[7:]
    assert (speeds.slowest, speeds.fastest) == (int(effects.argmax()), int(effects.argmin()))
    assert speeds.ratio == pytest.approx(math.exp(effects.max() - effects.min()))


def test_two_nodes_of_one_group_are_a_t_test() -> None:
    seconds = [1.0, 1.2, 1.1, 1.9, 2.1, 2.4, 2.0]
    nodes = [0, 0, 0, 1, 1, 1, 1]
    speeds = compared(seconds, [0] * 7, nodes)
    log = np.log(seconds)
    assert speeds is not None
    assert speeds.p == pytest.approx(stats.ttest_ind(log[:3], log[3:]).pvalue)
    assert speeds.ratio == pytest.approx(math.exp(log[3:].mean() - log[:3].mean()))
    assert (speeds.slowest, speeds.fastest) == (1, 0)


def test_chance_is_as_rare_as_it_says() -> None:
    p = [speeds.p for seed in range(1000) if (speeds := compared(*drawn(seed, 2, 10)))]
    assert len(p) == 1000
    assert stats.kstest(p, "uniform").pvalue > 0.001
    assert sum(each < BY_CHANCE for each in p) <= 25


def test_a_slower_node_is_seen_and_a_little_slower_one_is_not_worth_saying() -> None:
    clear = compared(*drawn(1, 3, 20, slower=math.log(1.5)))
    assert clear is not None
    assert clear.clear
    assert clear.slowest == 0
    little = compared(*drawn(1, 2, 500, slower=math.log(1.1)))
    assert little is not None
    assert little.p < BY_CHANCE
    assert not little.clear


@pytest.mark.parametrize(
    ("groups", "nodes"),
    [([0, 0, 1, 1], [0, 0, 1, 1]), ([0, 1, 2], [0, 1, 0]), ([0, 0], [0, 1])],
)
def test_where_nothing_can_be_compared_nothing_is_said(groups: list[int], nodes: list[int]) -> None:
    assert compared([float(at + 1) for at in range(len(groups))], groups, nodes) is None


def test_only_nodes_that_ran_something_of_the_same_are_compared() -> None:
    """Two pairs of nodes that share no group: the second pair is a hundred times slower."""
    seconds = [1.0, 1.1, 2.0, 2.1, 100.0, 101.0, 100.0, 102.0]
    groups = [0, 0, 0, 0, 1, 1, 1, 1]
    speeds = compared(seconds, groups, [0, 0, 1, 1, 2, 2, 3, 3])
    assert speeds is not None
    assert (speeds.slowest, speeds.fastest) == (1, 0)
    assert speeds.ratio == pytest.approx(math.sqrt(2.0 * 2.1 / 1.1))


def test_nodes_without_a_common_group_are_no_pair() -> None:
    """The slowest of the second three would be furthest from the fastest of the first three."""
    logs = [-2.0, 1.0, 1.0, -1.0, -1.0, 2.0]
    seconds = [math.exp(log + noise) for log in logs for noise in (-0.01, 0.01)]
    nodes = [node for node in range(6) for _ in range(2)]
    speeds = compared(seconds, [0] * 6 + [1] * 6, nodes)
    assert speeds is not None
    assert speeds.ratio == pytest.approx(math.exp(3.0))


def test_no_spread_at_all() -> None:
    assert compared([1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0], [0, 0, 1, 1]) == NodeSpeeds(
        fastest=1, slowest=0, ratio=1.0, p=1.0
    )
    exactly = compared([2.0, 2.0, 1.0, 1.0], [0, 0, 0, 0], [0, 0, 1, 1])
    assert exactly is not None
    assert (exactly.p, exactly.slowest) == (0.0, 0)


# The caveats.


def told(
    nodes: dict[tuple[str, str, int], str],
    seconds: dict[str, float],
    unchecked: frozenset[tuple[str, str, int]] = frozenset(),
) -> dict[str, str]:
    """The caveats about nodes of runs that take as long as their node says."""
    rng = random.Random(1)
    runs: list[dict[str, Any]] = [
        run(task, arm, repeat, duration_seconds=seconds[node] * rng.uniform(0.95, 1.05))
        for (task, arm, repeat), node in nodes.items()
    ]
    studies = (study(nodes=nodes, unchecked=unchecked),)
    read = msgspec.structs.replace(package.read(runs), studies=studies)
    report = package.compare(read, candidate=WITH, baseline=WITHOUT, evidence=False)
    return {
        caveat.code: str(caveat.message)
        for caveat in report.caveats
        if caveat.code in ("split_blocks", "nodes_differ", "trees_unchecked")
    }


def dealt(split: int = 0) -> dict[tuple[str, str, int], str]:
    """Blocks in turns on two nodes; so many of them on both."""
    nodes = {}
    for task in "abcd":
        for repeat in range(1, 7):
            first = second = f"n{repeat % 2 + 1}"
            if split:
                split -= 1
                second = "n1" if first == "n2" else "n2"
            nodes[task, WITH, repeat], nodes[task, WITHOUT, repeat] = first, second
    return nodes


def test_nodes_that_differ_are_a_caveat() -> None:
    assert told(dealt(), {"n1": 10.0, "n2": 10.0}) == {}
    message = told(dealt(), {"n1": 10.0, "n2": 20.0})["nodes_differ"]
    assert message.startswith("nodes differ in how long the same task takes: `n2` needs ")
    assert " times as long as `n1`; " in message
    assert float(message.partition("needs ")[2].split()[0]) == pytest.approx(2.0, abs=0.1)


def test_split_blocks_are_counted() -> None:
    assert told(dealt(3), {"n1": 10.0, "n2": 10.0}) == {
        "split_blocks": "3 of 24 blocks ran on more than one node, because a node was lost: "
        "whatever differs between these nodes is part of the difference"
    }


def test_runs_from_trees_that_nobody_could_look_at_are_counted() -> None:
    others = frozenset({("a", "another", 1), ("z", WITH, 1)})
    unchecked = frozenset({("a", WITH, 1), ("a", WITHOUT, 1)})
    assert told(dealt(), {"n1": 10.0, "n2": 10.0}, others) == {}
    assert told(dealt(), {"n1": 10.0, "n2": 10.0}, unchecked | others) == {
        "trees_unchecked": "2 runs started from trees on nodes that could not be checked "
        "afterwards: an earlier trial may have changed them"
    }


def test_runs_of_one_machine_have_no_such_caveat() -> None:
    assert told(dict.fromkeys(dealt(), "n1"), {"n1": 10.0}) == {}
    one_arm = {key: "n1" for key in dealt() if key[1] == WITH}
    both_arms = one_arm | dict.fromkeys(set(dealt()) - set(one_arm), "n1")
    assert told(both_arms, {"n1": 10.0}) == {}
