"""Who has seen the runs of a folder judged: a note of each report, and which runs came later."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from twoarm.run.attempted import Attempted
from twoarm.run.ledger import RunFolder
from twoarm.run.schedule import Frozen, Trial
from twoarm.runs.study import EarlierReport, Study

# Who has seen how many runs judged, a line for each report.
_REPORTS = "reports.jsonl"
_REPORT = msgspec.json.Decoder(EarlierReport)


def earlier_reports(folder: RunFolder) -> tuple[EarlierReport, ...]:
    """What is known of reports on a run folder; half a line says nothing, and neither does a link
    that somebody has laid."""
    try:
        lines = folder.folder.read(_REPORTS).splitlines()
    except OSError:
        return ()
    reports = []
    for line in lines:
        with suppress(ValueError):
            reports.append(_REPORT.decode(line))
    return tuple(reports)


def note_report(
    study: Study, verdicts: tuple[str, ...], parts: tuple[int, ...] | None, *, decided: bool
) -> None:
    """Remember that somebody has seen these runs judged; not in a folder that takes no notes."""
    runs = {part: count for part, count in study.made.items() if parts is None or part in parts}
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    note = EarlierReport(at_utc=at, runs=runs, verdicts=verdicts, decided=decided)
    if any(replace(report, at_utc=at) == note for report in study.reports):
        return
    line = msgspec.json.encode(note)
    folder = RunFolder(study.path)
    with suppress(OSError):
        notes = folder.folder.open_own(_REPORTS, append=True)
        try:
            size = os.fstat(notes).st_size
            torn = bool(size) and os.pread(notes, 1, size - 1) != b"\n"
            # In one write: others may take notes at the same time.
            os.write(notes, (b"\n" if torn else b"") + line + b"\n")
        finally:
            os.close(notes)
    folder.release()


def looks_before_runs(
    folder: RunFolder, frozen: Frozen, runs: Iterable[Attempted]
) -> dict[Trial, int]:
    """How many looks at the other runs came before each; none that were planned."""
    if frozen.looks is not None:
        return {}
    ended = {run.trial: str(run.facts.get("ended_at_utc", run.started)) for run in runs}
    made = {
        part.number: sorted(ended.keys() & set(part.trials), key=ended.__getitem__)
        for part in frozen.parts
    }
    return count_looks(earlier_reports(folder), made)


def count_looks(
    reports: Iterable[EarlierReport], made: Mapping[int, Sequence[Trial]]
) -> dict[Trial, int]:
    """The same for the runs of each part, in the order in which they ended: a report had the first.

    The same runs reported on again are the same look, and to judge later parts alone is no look.
    """
    had = {tuple(report.runs.get(part, 0) for part in made) for report in reports if report.decided}
    looks = [
        look
        for look in had
        if any(look) and all(earlier or not later for earlier, later in pairwise(look))
    ]
    return {
        trial: sum(at >= look[number] for look in looks)
        for number, trials in enumerate(made.values())
        for at, trial in enumerate(trials)
    }
