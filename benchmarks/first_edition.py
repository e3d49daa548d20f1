"""The first edition's methods, for the tables that set the second beside them; nothing else."""

import math

from scipy import special

from twoarm.evidence.per_solved import Solving
from twoarm.runs.arrays import Floats, Ints


def ratio_over_tasks(totals: Floats, counts: Ints) -> tuple[float, float]:
    """A mean of log ratios over pairs: a task weighed as much as it had pairs (CR2)."""
    total = float(counts.sum())
    centre = math.fsum(totals) / total
    spread = math.fsum((totals - centre * counts) ** 2 / (1.0 - counts / total))
    df = total**2 / float((counts.astype(float) ** 2).sum()) - 1.0
    reach = float(special.stdtrit(df, 0.975)) * math.sqrt(spread) / total
    return centre - reach, centre + reach


def success_over_tasks(deltas: Floats, repeats: int) -> tuple[float, float]:
    """Success over tasks with the two pseudo observations counted in pairs."""
    tasks = len(deltas)
    pairs = tasks * repeats
    difference = math.fsum(deltas) / tasks
    variance = math.fsum((deltas - difference) ** 2) / (tasks * (tasks - 1))
    df = min(tasks - 1.0, max(float((deltas != 0).sum()) - 1.0, 5.0))
    shrink = pairs / (pairs + 2.0)
    reach = float(special.stdtrit(df, 0.975)) * math.sqrt(
        variance * shrink**2 + 2.0 / (pairs + 2.0) ** 2
    )
    centre = difference * shrink
    return max(-1.0, min(centre - reach, difference)), min(1.0, max(centre + reach, difference))


def per_solved_over_tasks(side: Solving) -> tuple[float, float] | None:
    """The ratio of two totals, linearized, on logarithms; None where nothing was solved."""
    if not side.count:
        return None
    apart = side.weights - side.solved_shares
    tasks = len(apart)
    error = math.sqrt(math.fsum(apart**2) * tasks / (tasks - 1))
    reach = float(special.stdtrit(tasks - 1.0, 0.975)) * error
    middle = math.log(side.figure)
    return middle - reach, middle + reach
