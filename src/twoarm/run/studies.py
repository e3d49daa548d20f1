"""Run folders as inputs of a report: the run file of each, up to date, and what it was made for."""

import os
import sys
from collections.abc import Mapping

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.programs.prices import Prices, read_prices
from twoarm.run.ledger import RunFolder
from twoarm.run.report import collect_runs, run_ids
from twoarm.run.schedule import Frozen
from twoarm.run.tree import tree_digest
from twoarm.runs.runfile import COLLECTED
from twoarm.runs.study import Study
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
        frozen = folder.frozen()
        runs = list(folder.runs())
        infra = [attempt for attempt in folder.attempts() if attempt.state == "infra"]
        collected = run_ids(folder)
        if collected is None or any(made.id not in collected for made in (*runs, *infra)):
            collect_runs(folder, frozen, _prices(folder, frozen))
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
                candidate=frozen.candidate,
                baseline=frozen.baseline,
                seed=frozen.seed,
                unfinished=len(runs) < len(frozen.trials),
                running=folder.held_by_another(),
            ),
        )
    except OSError as error:
        where = visible(str(error.filename or path))
        raise InputError(f"{where}: cannot be read: {error.strerror}") from error
    finally:
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
