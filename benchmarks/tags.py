"""Effects by tag: whether all of their intervals hold at once, and how often any of them is clear
where nothing differs on average.

A task has one of several languages and perhaps other tags, all at random, so that the tasks with a
tag are a sample of all that could have it. log value = task + arm * (effects of its tags + tau * u)
+ noise, as in benchmarks/generators.py; tokens go with durations. Success has log odds of its own.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from benchmarks.counting import Cell, Count
from benchmarks.generators import RUN_SD, RUNAWAY_SD, logistic
from twoarm.evidence.by_tag import weigh_tags
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.interval import Frame
from twoarm.evidence.tag_parts import Tags
from twoarm.runs.arrays import Flags, Floats
from twoarm.runs.metric import DURATION, NON_CACHE_TOKENS, SUCCESS

FRAME = Frame(level=0.95, tests=0.95, seed=1, resamples=99)
POPULATION = 400_000
# How much of the noise of a task's duration and of a run is that of its tokens.
TOGETHER = 0.8
# Shares of tasks: one language each; and tags that any task may have.
LANGUAGES = {"go": 0.2, "js": 0.3, "python": 0.5}
OTHERS = {"hard": 0.4}
MANY = {f"t{number}": 0.1 + 0.05 * number for number in range(8)}


class Tagged(NamedTuple):
    """What tags do: to the log of a duration, and to the log odds of success.

    `jump`: a share of tasks whose effect is larger by so much. `level`: mean and sd of the log odds
    of success; `broken`: the share of tasks that the candidate never solves.
    """

    effects: Mapping[str, float] = MappingProxyType({})
    odds: Mapping[str, float] = MappingProxyType({})
    tau: float = 0.30
    odds_sd: float = 0.7
    jump: tuple[float, float] = (0.0, 0.0)
    runaway: tuple[float, float] = (0.08, 0.9)
    level: tuple[float, float] = (1.0, 1.5)
    broken: float = 0.0
    others: Mapping[str, float] = MappingProxyType(OTHERS)
    equal: bool = False


_DIFFER = {"python": -0.25, "js": 0.10, "hard": -0.15}
_ODDS = {"python": 0.8, "js": -0.4, "hard": 0.5}

TAGGED = {
    "E1 equal arms": Tagged(tau=0.0, odds_sd=0.0, equal=True),
    "E2 equal on average": Tagged(level=(0.0, 1.5), equal=True),
    "E3 tags differ": Tagged(effects=_DIFFER, odds=_ODDS),
    "E4 tags differ, skewed": Tagged(effects=_DIFFER, odds=_ODDS, tau=0.2, jump=(0.10, 0.993)),
    "E5 tags differ, heavy": Tagged(effects=_DIFFER, odds=_ODDS, tau=0.5, runaway=(0.15, 1.2)),
    "E6 breaks 10% of easy tasks": Tagged(level=(5.0, 0.5), odds_sd=0.0, broken=0.10),
    "E7 eleven tags, equal on average": Tagged(level=(0.0, 1.5), others=MANY, equal=True),
    "E8 eleven tags, they differ": Tagged(
        effects={**_DIFFER, "t0": 0.3, "t7": -0.1}, odds={**_ODDS, "t0": -0.5}, others=MANY
    ),
}


class Drawn(NamedTuple):
    """The tasks of a data set: their tags, and what is true of each."""

    tags: dict[str, Flags]
    effect: Floats
    rates: Floats


def tasks_of(kind: Tagged, count: int, draw: np.random.Generator) -> Drawn:
    language = draw.choice(list(LANGUAGES), count, p=list(LANGUAGES.values()))
    tags: dict[str, Flags] = {name: language == name for name in LANGUAGES}
    tags |= {name: draw.random(count) < share for name, share in kind.others.items()}
    effect = kind.tau * draw.normal(size=count)
    effect += kind.jump[1] * (draw.random(count) < kind.jump[0])
    level = draw.normal(*kind.level, count)
    odds = kind.odds_sd * draw.normal(size=count)
    for name, flags in tags.items():
        effect += kind.effects.get(name, 0.0) * flags
        odds += kind.odds.get(name, 0.0) * flags
    rates = logistic(np.array([level + odds, level]))
    rates[0, draw.random(count) < kind.broken] = 0.0
    return Drawn(tags=tags, effect=effect, rates=rates)


def runs_of_tags(
    kind: Tagged, tasks: Drawn, repeats: int, draw: np.random.Generator
) -> list[TaskRuns]:
    """The runs of a data set, on the scale of the tests."""
    count = len(tasks.effect)
    shape = (2, count, repeats)
    noise = draw.normal(0.0, RUN_SD, shape)
    runaway = draw.random(shape) < kind.runaway[0]
    noise = np.where(runaway, draw.normal(kind.runaway[1], RUNAWAY_SD, shape), noise)
    change = np.stack([tasks.effect, np.zeros(count)])[:, :, None]
    logs = draw.normal(5.0, 0.8, (1, count, 1)) + change + noise
    own = draw.normal(0.0, RUN_SD, shape)
    tokens = 9.0 + change + TOGETHER * noise + (1.0 - TOGETHER**2) ** 0.5 * own
    passed = (draw.random(shape) < tasks.rates[:, :, None]).astype(np.float64)
    layout = Layout(tasks=np.arange(count), sizes=np.full((2, count), repeats))
    return [
        TaskRuns(
            metric=metric, logs=False, values=table.transpose(1, 0, 2).ravel(), layout=layout
        ).on_test_scale()
        for metric, table in (
            (SUCCESS, passed),
            (DURATION, np.exp(logs)),
            (NON_CACHE_TOKENS, np.exp(tokens)),
        )
    ]


@lru_cache
def population(name: str) -> dict[str, tuple[float, float]]:
    """What is true of all tasks that could have a tag: of logarithms, and of success."""
    kind = TAGGED[name]
    everything = tasks_of(kind, POPULATION, np.random.default_rng([71, len(name)]))
    # What is equal on average is so exactly.
    return {
        tag: (0.0, 0.0) if kind.equal else _mean(everything, flags)
        for tag, flags in everything.tags.items()
    }


def _mean(tasks: Drawn, flags: Flags) -> tuple[float, float]:
    ours, theirs = tasks.rates[:, flags]
    return float(tasks.effect[flags].mean()), float((ours - theirs).mean())


def tags_cell(name: str, count: int, repeats: int, datasets: int) -> Cell:
    """How often all intervals of a report hold at once, and how often any shows a difference."""
    kind = TAGGED[name]
    draw = np.random.default_rng([73, list(TAGGED).index(name), count, repeats])
    held, alarms = [0, 0], [0, 0]
    counted = Count()
    for _ in range(datasets):
        tasks = tasks_of(kind, count, draw)
        runs = runs_of_tags(kind, tasks, repeats, draw)
        names = [[tag for tag, flags in tasks.tags.items() if flags[at]] for at in range(count)]
        tags = weigh_tags(runs, names, FRAME)
        assert tags is not None
        missed, clear = _missed(tags, tasks, name, counted)
        held[0] += not missed
        held[1] += 1
        alarms[0] += clear
        alarms[1] += 1
    cell: Cell = {"tags: all intervals hold": [*held]}
    if kind.equal:
        cell["false alarm: any tag"] = [*alarms]
    return cell | counted.cell()


def _missed(tags: Tags, tasks: Drawn, name: str, counted: Count) -> tuple[bool, bool]:
    """Whether any interval misses what is true of what it is for, and whether any is clear."""
    missed = clear = False
    for effect in tags.largest:
        here = _mean(tasks, tasks.tags[effect.tag])
        everywhere = population(name)[effect.tag]
        for metric, change in effect.changes.items():
            if change.low is None or change.high is None:
                continue
            true = (here if change.scope == "these_tasks" else everywhere)[metric == SUCCESS.name]
            ends = np.array([change.low, change.high])
            low, high = np.log(np.maximum(ends, 1e-300)) if change.ratio else ends
            what = "success" if metric == SUCCESS.name else "ratio"
            where = "(a)" if change.scope == "these_tasks" else "(b)"
            missed |= not low - 1e-9 <= true <= high + 1e-9
            # On these very tasks something may be true although it is not on average.
            clear |= true == 0.0 and change.standing in ("better", "worse")
            entry = counted.hits[f"tags: {what} {where}, each"]
            entry[0] += int(low - 1e-9 <= true <= high + 1e-9)
            entry[1] += 1
    return missed, clear
