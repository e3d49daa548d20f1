"""What repeats tell: pass@k and pass^k."""

import math

import numpy as np

from twoarm.compare.screen import ArmRuns, Screening
from twoarm.evidence.results import ArmRepeats, PassRates
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.metric import SUCCESS

ATTEMPTS = (1, 2, 3, 5, 10)


def pass_rates(successes: Floats | Ints, sizes: Ints) -> tuple[PassRates, ...]:
    """Unbiased for every k that each task has attempts for: choose k of its runs at random."""
    fewest = int(sizes.min()) if len(sizes) else 0
    return tuple(
        PassRates(
            k=k,
            at_least_one=1.0 - math.fsum(_chosen(sizes - successes, sizes, k)) / len(sizes),
            all=math.fsum(_chosen(successes, sizes, k)) / len(sizes),
        )
        for k in ATTEMPTS
        if k <= fewest
    )


def _chosen(wanted: Floats | Ints, sizes: Ints, k: int) -> Floats:
    """The chance that k runs of each task, drawn without replacement, all have the outcome."""
    drawn = np.arange(k)[:, None]
    chances: Floats = np.prod(np.maximum(wanted - drawn, 0.0) / (sizes - drawn), axis=0)
    return chances


def both_repeats(screening: Screening, task_count: int) -> tuple[ArmRepeats, ArmRepeats]:
    """The figures of both arms."""
    ours, theirs = (_arm_repeats(arm, task_count) for arm in screening.arms)
    return ours, theirs


def _arm_repeats(arm: ArmRuns, task_count: int) -> ArmRepeats:
    sizes = np.bincount(arm.task, minlength=task_count)
    won = np.bincount(arm.task, weights=arm.values[SUCCESS.name], minlength=task_count)
    return ArmRepeats(arm=arm.arm, pass_rates=pass_rates(won[sizes > 0], sizes[sizes > 0]))
