"""Run folders as inputs of a report: the run file of each, up to date, and what it was made for."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.programs.prices import Prices, read_prices
from twoarm.run.attempted import Attempted
from twoarm.run.ledger import UNCHECKED, RunFolder
from twoarm.run.looks import looks_taken, saved
from twoarm.run.merged import merged_shards
from twoarm.run.receipt import NOT_REGRADED, regraded_from
from twoarm.run.report import collect_runs, is_collected
from twoarm.run.reported import earlier_reports
from twoarm.run.schedule import Frozen, Trial, task_keys
from twoarm.run.tree import tree_digest
from twoarm.runs.study import COLLECTED, Study, StudyRun
from twoarm.text.escape import visible


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
        frozen = folder.planned()
        runs = list(folder.runs())
        infra = [attempt for attempt in folder.attempts() if attempt.state == "infra"]
        looks, regraded = looks_taken(folder), regraded_from(folder)
        ended, done = looks.ended, {run.trial for run in runs}
        if not is_collected(folder, frozen, (*runs, *infra)):
            upto = None if ended is None else ended.after
            collect_runs(folder, frozen, _prices(folder, frozen), upto)
        suite, shard = frozen.suite, folder.shard()
        merged = merged_shards(folder)
        settled = done | {attempt.trial for attempt in infra}
        return OpenStudy(
            run_file=os.path.join(path, COLLECTED),
            study=Study(
                path=path,
                suite_id=frozen.suite_id,
                suite_sha256=_suite_digest(frozen),
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
                not_regraded=_named(frozen, (r.trial for r in runs if NOT_REGRADED in r.facts)),
                doubtful=_named(frozen, _doubted(folder, runs)),
                stopped={} if ended is None else ended.because,
                planned_runs=len(frozen.trials),
                saved_runs=0 if ended is None else saved(frozen, ended),
                shard="" if shard is None else str(shard),
                shards=0 if merged is None else merged.of,
                missing_shards=() if merged is None else merged.still_missing(frozen, settled),
                nodes={(r.task, r.arm, r.repeat): r.node for r in runs if r.node is not None},
                unchecked=frozenset(_unchecked(folder, runs)),
            ),
        )
    except OSError as error:
        where = visible(str(error.filename or path))
        raise InputError(f"{where}: cannot be read: {error.strerror}") from error
    finally:
        folder.release()


def _unchecked(folder: RunFolder, runs: Iterable[Attempted]) -> Iterator[tuple[str, str, int]]:
    """The runs whose trees nobody could look at afterwards, where an agent can change them."""
    left = folder.doubtful(UNCHECKED)
    if left and folder.machine().isolation == "copy":
        yield from ((r.task, r.arm, r.repeat) for r in runs if r.trial.id in left)


def _suite_digest(frozen: Frozen) -> str:
    """Of the tasks: what is asked, what they are set up with, and what grades them."""
    tasks = [
        (
            task.id,
            task.acceptance,
            task.setup_commands,
            task.acceptance_files,
            [frozen.digests.get(key, "") for key in task_keys(task.id)],
        )
        for task in sorted(frozen.suite.tasks, key=lambda task: task.id)
    ]
    return sha256(msgspec.json.encode(tasks, order="sorted")).hexdigest()


def _made(frozen: Frozen, runs: Iterable[Attempted]) -> dict[int, int]:
    """How many runs there are of each part."""
    done = {run.trial for run in runs}
    return {part.number: len(done.intersection(part.trials)) for part in frozen.parts}


def _doubted(folder: RunFolder, runs: Iterable[Attempted]) -> Iterator[Trial]:
    doubtful = set(folder.doubtful())
    return (run.trial for run in runs if run.trial.id in doubtful)


def _named(frozen: Frozen, trials: Iterable[Trial]) -> tuple[StudyRun, ...]:
    """The runs of trials, part by part."""
    wanted = set(trials)
    return tuple(
        StudyRun(arm=trial.arm, path=trial.id, part=part.number)
        for part in frozen.parts
        for trial in sorted(wanted.intersection(part.trials), key=lambda trial: trial.id)
    )


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
