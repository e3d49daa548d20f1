"""The summary of a collection: what was found, what is missing, what failed and why."""

from twoarm.collect.gather import Collection, left_out
from twoarm.collect.uptake_summary import ArmUses
from twoarm.errors import Problems
from twoarm.text.escape import counted, named, shortened

# How many lines each list may take before the rest is only counted.
LISTED = 20


def summarize(collection: Collection) -> list[str]:
    """Lines for the reader; every name in them is safe to show."""
    arms = sorted({arm for row in collection.counts.values() for arm in row})
    how = f"{collection.format} (recognized)" if collection.recognized else collection.format
    lines = [
        f"{counted(collection.runs, 'run')} of {counted(len(collection.counts), 'task')}, "
        f"format {how}"
    ]
    for arm in arms:
        repeats = [row[arm] for row in collection.counts.values() if arm in row]
        lines.append(
            f"arm {named(arm)}: {counted(sum(repeats), 'run')}, "
            f"{counted(len(repeats), 'task')}, {_span(repeats)} per task"
        )
    lines += _limited([_task(task, row, arms) for task, row in collection.counts.items()])
    for field, counts in collection.missing.items():
        if counts:
            parts = ", ".join(f"{counts[arm]:,} of {named(arm)}" for arm in arms if arm in counts)
            lines.append(f"missing {field}: {parts}")
    failures = [
        f"{loss.failure} failure of {named(loss.arm)}: {loss.reason}: {counted(loss.runs, 'run')}"
        for loss in collection.lost
    ]
    lines += _limited(failures)
    lines += left_out(collection.left_out)
    lines += [_uptake(arm, collection.uptake[arm]) for arm in arms if arm in collection.uptake]
    lines += [f"caveat: {caveat.message}" for caveat in collection.caveats]
    if collection.problems:
        lines.append(f"left out: {counted(len(collection.problems), 'bad input')}")
        lines += [f"  {line}" for line in Problems(collection.problems).lines()]
    return lines


def _span(repeats: list[int]) -> str:
    low, high = min(repeats), max(repeats)
    return counted(low, "repeat") if low == high else f"{low:,} to {high:,} repeats"


def _uptake(arm: str, uses: ArmUses) -> str:
    if not uses.known:
        return f"uptake in {named(arm)}: not shown by any of its {counted(uses.runs, 'run')}"
    share = f"used in {uses.used:,} of {counted(uses.known, 'run')}"
    return f"uptake in {named(arm)}: {share}, {counted(uses.uses, 'use')}"


def _task(task: str, row: dict[str, int], arms: list[str]) -> str:
    parts = ", ".join(f"{named(arm)} {row.get(arm, 0):,}" for arm in arms)
    return f"  {shortened(task, 60)}: {parts}"


def _limited(lines: list[str]) -> list[str]:
    if len(lines) <= LISTED:
        return lines
    return [*lines[:LISTED], f"  ... and {len(lines) - LISTED:,} more, not listed"]
