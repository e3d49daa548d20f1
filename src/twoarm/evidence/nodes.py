"""Whether machines differ in how long the same takes, and which blocks ran on more than one."""

from collections import defaultdict
from collections.abc import Iterator

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.metric import DURATION

# Nodes differ clearly if chance is rarer than this, and the slowest takes so many times as long.
BY_CHANCE = 0.01
LEAST_RATIO = 1.2
# What is no difference at all, after sums of decimal fractions.
_ROUNDING = 1e-9


class NodeSpeeds(msgspec.Struct, frozen=True, kw_only=True):
    """How much longer the slowest machine takes for the same than the fastest."""

    fastest: int
    slowest: int
    ratio: float
    p: float

    @property
    def clear(self) -> bool:
        """Whether it is worth saying."""
        return self.p < BY_CHANCE and self.ratio >= LEAST_RATIO


def compare_nodes(seconds: Floats, group: Ints, node: Ints) -> NodeSpeeds | None:
    """An analysis of variance of log durations: nodes beside groups of what should take as long.

    None where no two nodes ran anything of the same group, or nothing is left to tell chance by.
    """
    counts = np.bincount(group)
    log = _centered(np.log(seconds)[:, None], group, counts)[:, 0]
    which = np.equal.outer(node, np.arange(node.max() + 1)).astype(float)
    within = _centered(which, group, counts)
    squares = within.T @ within
    rank = int(np.linalg.matrix_rank(squares, tol=_ROUNDING))
    left = len(seconds) - int(np.count_nonzero(counts)) - rank
    if not rank or left < 1:
        return None
    inverse = np.linalg.pinv(squares, rcond=_ROUNDING, hermitian=True).astype(np.float64)
    effects = inverse @ (within.T @ log)
    total, rest = float(log @ log), float(np.sum((log - within @ effects) ** 2))
    pairs = list(_comparable(squares, inverse))
    slowest, fastest = max(pairs, key=lambda pair: effects[pair[0]] - effects[pair[1]])
    return NodeSpeeds(
        fastest=fastest,
        slowest=slowest,
        ratio=float(np.exp(effects[slowest] - effects[fastest])),
        p=_by_chance(total - rest, rest, rank, left),
    )


def _centered(columns: Floats, group: Ints, counts: Ints) -> Floats:
    """Without the mean of each group."""
    sums = np.stack([np.bincount(group, column, len(counts)) for column in columns.T], axis=1)
    means: Floats = sums / np.maximum(counts, 1)[:, None]
    centered: Floats = columns - means[group]
    return centered


def _comparable(squares: Floats, inverse: Floats) -> Iterator[tuple[int, int]]:
    """Pairs of nodes, either way, that groups connect, directly or through others."""
    unknown = np.eye(len(squares)) - inverse @ squares
    for each in range(len(squares)):
        for other in range(len(squares)):
            if each != other and np.abs(unknown[:, each] - unknown[:, other]).max() < 1e-6:
                yield each, other


def _by_chance(explained: float, rest: float, rank: int, left: int) -> float:
    if rest <= _ROUNDING * (explained + rest):
        return 1.0 if explained <= _ROUNDING else 0.0
    from scipy import special

    return float(special.fdtrc(rank, left, max(explained, 0.0) / rank / (rest / left)))


class NodesOfRuns(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the machines that the runs of a comparison were made on."""

    names: tuple[str, ...]
    speeds: NodeSpeeds | None
    # Blocks whose arms ran on different machines, and all blocks of which that is known.
    split: int
    blocks: int
    # Runs that started from trees which nobody could look at afterwards.
    unchecked: int


def nodes_of(comparison: Comparison) -> NodesOfRuns | None:
    """What is known of them; None where every run was made on one machine."""
    runs = comparison.runs
    known = {key: node for study in runs.studies for key, node in study.nodes.items()}
    names = tuple(sorted(set(known.values())))
    if not names:
        return None
    unseen = {key for study in runs.studies for key in study.unchecked}
    unchecked = 0
    seconds, groups, nodes = [], [], []
    blocks: dict[tuple[int, int], set[str]] = defaultdict(set)
    arms: dict[tuple[int, int], int] = defaultdict(int)
    for number, arm in enumerate(comparison.screening.arms):
        durations = arm.values[DURATION.name]
        for row, duration in zip(arm.rows, durations, strict=True):
            task, repeat = int(runs.task[row]), int(runs.repeat[row])
            key = runs.tasks[task], arm.arm, repeat
            node = known.get(key)
            if node is None:
                continue
            unchecked += key in unseen
            blocks[task, repeat].add(node)
            arms[task, repeat] += 1
            if duration > 0:
                seconds.append(float(duration))
                groups.append(2 * task + number)
                nodes.append(names.index(node))
    whole = [block for block, count in arms.items() if count == 2]
    return NodesOfRuns(
        names=names,
        speeds=compare_nodes(np.array(seconds), np.array(groups), np.array(nodes))
        if seconds
        else None,
        split=sum(len(blocks[block]) > 1 for block in whole),
        blocks=len(whole),
        unchecked=unchecked,
    )
