"""Run folders as inputs of a report: the run file of each, up to date, and what it was made for."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from twoarm.errors import InputError, UsageError
from twoarm.programs.prices import Prices, read_prices
from twoarm.run.ledger import Attempted, RunFolder
from twoarm.run.looks import looks_taken, saved
from twoarm.run.report import NOT_REGRADED, collect_runs, is_collected, regraded_from
from twoarm.run.schedule import Frozen
from twoarm.run.tree import tree_digest
from twoarm.runs.study import COLLECTED, EarlierReport, KeptVerdict, Study
from twoarm.text.escape import visible

# Who has seen how many runs judged, a line for each report.
_REPORTS = "reports.jsonl"
_REPORT = msgspec.json.Decoder(EarlierReport)


class OpenStudy(msgspec.Struct, frozen=True, kw_only=True):
    """A run folder that can be scored."""

    run_file: str
    study: Study


def open_study(path: str) -> OpenStudy:
    """Read a run folder; if runs were made since its run file was written, write that anew."""
    if sys.platform == "win32":
        raise UsageError(
            f"{visible(path)}: run folders are read on Linux and macOS; on Windows, score "
            f"{visible(os.path.join(path, COLLECTED))}"
        )
    folder = RunFolder(path)
    try:
        frozen = folder.frozen()
        runs = list(folder.runs())
        infra = [attempt for attempt in folder.attempts() if attempt.state == "infra"]
        looks, regraded = looks_taken(folder), regraded_from(folder)
        ended, done = looks.ended, {run.trial for run in runs}
        if not is_collected(folder, frozen, (*runs, *infra)):
            upto = None if ended is None else ended.after
            collect_runs(folder, frozen, _prices(folder, frozen), upto)
        suite = frozen.suite
        return OpenStudy(
            run_file=os.path.join(path, COLLECTED),
            study=Study(
                path=path,
                suite_id=frozen.suite_id,
                description=suite.description,
                agent=None if suite.agent is None else suite.agent.program,
                version=frozen.version,
                commit=frozen.origin if suite.workspace and suite.workspace.repo else None,
                sources=frozen.sources,
                candidates=frozen.candidates,
                baseline=frozen.baseline,
                seed=frozen.seed,
                unfinished=any(
                    trial not in done and not looks.closes(trial) for trial in frozen.trials
                ),
                running=folder.held_by_another(),
                made=_made(frozen, runs),
                reports=earlier_reports(folder),
                planned_looks=frozen.looks is not None,
                judging=frozen.judging,
                regraded_at_utc=None if regraded is None else regraded.begun_at_utc,
                not_regraded=tuple(_not_regraded(frozen, runs)),
                stopped={} if ended is None else ended.because,
                planned_runs=len(frozen.trials),
                saved_runs=0 if ended is None else saved(frozen, ended),
            ),
        )
    except OSError as error:
        where = visible(str(error.filename or path))
        raise InputError(f"{where}: cannot be read: {error.strerror}") from error
    finally:
        folder.release()


def _made(frozen: Frozen, runs: Iterable[Attempted]) -> dict[int, int]:
    """How many runs there are of each part."""
    done = {run.trial for run in runs}
    return {part.number: len(done.intersection(part.trials)) for part in frozen.parts}


def _not_regraded(frozen: Frozen, runs: Iterable[Attempted]) -> Iterator[KeptVerdict]:
    """The runs that kept the verdict of then."""
    left = {run.trial for run in runs if NOT_REGRADED in run.facts}
    for part in frozen.parts:
        for trial in sorted(left.intersection(part.trials), key=lambda trial: trial.id):
            yield KeptVerdict(arm=trial.arm, path=trial.id, part=part.number)


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


def _prices(folder: RunFolder, frozen: Frozen) -> Mapping[str, Prices] | None:
    """The price table of the suite, which has to be the one that the run began with."""
    name = frozen.suite.limits.prices
    if name is None:
        return None
    suite = os.path.dirname(folder.machine().suite)
    path = os.path.normpath(os.path.join(suite, os.path.expanduser(name)))
    if os.path.exists(path) and tree_digest(path) == frozen.digests.get("limits.prices"):
        return read_prices(path)
    state = "has changed" if os.path.exists(path) else "is not there"
    raise InputError(
        f"{visible(path)}: the price table {state}, and without it nobody knows what the runs "
        f"in {visible(folder.path)} cost that are not in {COLLECTED} yet; put it back"
    )
