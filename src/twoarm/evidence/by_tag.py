"""The change by tag of task, with intervals that all hold at once.

Whoever looks at many tags finds one that stands out. So each interval takes its share of the error
(Bonferroni), whatever the tags have in common: a task may have several.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from twoarm.compare.decide import GATES
from twoarm.evidence.cells import BOUNDED, TaskRuns
from twoarm.evidence.interval import Frame, by_interval
from twoarm.evidence.means import bounded_estimate, mean_estimate, ratio_estimate
from twoarm.evidence.results import FEWEST_TASKS, Interval, Scope
from twoarm.evidence.tag_parts import TagChange, TagEffect, Tags
from twoarm.runs.arrays import Flags

# This many of the tags that most tasks have are looked at.
MOST_TAGS = 20


def weigh_tags(
    runs: Sequence[TaskRuns], names: Sequence[Sequence[str]], frame: Frame
) -> Tags | None:
    """The change of each gate's metric by tag; None where no tag tells tasks apart.

    `runs` are on the scale of the tests, and `names` the tags of each of their tasks.
    """
    tagged = _flags(names)
    if not tagged:
        return None
    ranked = sorted(tagged, key=lambda tag: (-int(tagged[tag].sum()), tag))[:MOST_TAGS]
    by_name = {measure.metric.name: measure for measure in runs}
    family = [by_name[gate.metric.name] for gate in GATES]
    parts = {
        tag: [part for measure in family if (part := _among(measure, tagged[tag])).shared.any()]
        for tag in ranked
    }
    count = sum(map(len, parts.values()))
    each = msgspec.structs.replace(frame, level=1.0 - (1.0 - frame.level) / max(count, 1))
    return Tags(
        names=len(tagged),
        intervals=count,
        level=frame.level,
        level_of_each=each.level,
        largest=tuple(
            TagEffect(
                tag=tag,
                tasks=int(tagged[tag].sum()),
                changes={part.metric.name: _change(part, each) for part in parts[tag]},
            )
            for tag in ranked
        ),
    )


def _flags(names: Sequence[Sequence[str]]) -> Mapping[str, Flags]:
    """Which tasks have each tag, of the tags that some tasks have and others do not."""
    tagged: dict[str, Flags] = {}
    for place, tags in enumerate(names):
        for tag in tags:
            tagged.setdefault(tag, np.zeros(len(names), dtype=bool))[place] = True
    return {tag: flags for tag, flags in tagged.items() if not flags.all()}


def _among(runs: TaskRuns, tasks: Flags) -> TaskRuns:
    return runs.among(tasks[runs.layout.task])


def _change(runs: TaskRuns, frame: Frame) -> TagChange:
    """One metric in the tasks with a tag: for tasks like them from six families on, otherwise for
    them."""
    independent = len(runs.independent)
    many = independent >= FEWEST_TASKS
    scope: Scope = "tasks_like_these" if many else "these_tasks"
    weigh = bounded_estimate if runs.metric in BOUNDED else mean_estimate
    estimate = ratio_estimate(runs, frame) or weigh(runs, frame)
    interval: Interval | None = getattr(estimate, scope)
    return TagChange(
        tasks=int(runs.shared.sum()),
        families=None if runs.layout.family is None else independent,
        ratio=runs.logs,
        estimate=estimate.estimate,
        scope=scope,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        withheld=" ".join(estimate.reasons(scope)) if interval is None else None,
        standing=by_interval(interval, 1.0 if runs.logs else 0.0, runs.metric.better),
    )
