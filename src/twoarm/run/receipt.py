"""The receipt: how a run was made, for who trusts nothing else; and what was graded again."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from twoarm._version import __version__
from twoarm.errors import InputError
from twoarm.files.safe import OpenFolder
from twoarm.files.write import Output, write
from twoarm.programs.sidecar import NAME
from twoarm.run.attempted import Attempted
from twoarm.run.freeze import ProgramFile
from twoarm.run.ledger import DOUBTS, TREES, TRIAL, UNCHECKED, RunFolder
from twoarm.run.merged import shards_told
from twoarm.run.prepare import Prepared
from twoarm.run.schedule import Frozen
from twoarm.run.tree import file_digest
from twoarm.runs.study import COLLECTED, SCHEDULE
from twoarm.text.escape import visible

RECEIPT = "receipt.json"
# What a folder of runs that were graded again has besides.
REGRADED = "regraded.json"
# What stands beside the runs and is taken for what it was when the receipt was written.
_BESIDE = (COLLECTED, TREES, DOUBTS, UNCHECKED, REGRADED)
# In the facts of a run: when it was graded again, or why it was not.
REGRADED_AT, NOT_REGRADED = "regraded_at_utc", "not_regraded"


class RegradedFrom(msgspec.Struct, frozen=True, kw_only=True):
    """`regraded.json`: the run folder that runs were graded again from, and since when."""

    schedule_sha256: str
    begun_at_utc: str
    # Whether all of them were; until then nobody knows what is left to run.
    finished: bool = False


def write_receipt(
    folder: RunFolder, frozen: Frozen, program: ProgramFile, prepared: Prepared, **more: Any
) -> None:
    """Everything that somebody who trusts nothing else would need to know."""
    receipt = {
        "schema": "twoarm.receipt/1",
        "twoarm": __version__,
        "digests": {**frozen.digests, **prepared.digests},
        "agent": {
            "program": frozen.suite.agent and frozen.suite.agent.program,
            "version": program.version,
            "sha256": program.digest,
            "args": frozen.suite.agent and frozen.suite.agent.args,
            "arm_args": {name: arm.args for name, arm in frozen.suite.arms.items()},
            "secrets": frozen.suite.agent and frozen.suite.agent.secrets,
            "variables": sorted(_variables(frozen)),
        },
        **more,
        **told_by_folder(folder, frozen),
    }
    write([receipt_output(folder, receipt)])


def receipt_output(folder: RunFolder, receipt: Mapping[str, Any]) -> Output:
    """The file `receipt.json`, to be written."""
    text = msgspec.json.format(msgspec.json.encode(receipt, order="sorted"), indent=1)
    return Output(path=folder.at(RECEIPT), content=[text, b"\n"], append=False, named=False)


def told_by_folder(folder: RunFolder, frozen: Frozen) -> dict[str, Any]:
    """What the schedule and the runs say themselves, wherever they were made."""
    runs, attempts = list(folder.runs()), list(folder.attempts())
    return {
        "suite_id": frozen.suite_id,
        "schedule_sha256": file_digest(folder.at(SCHEDULE)),
        "origin": frozen.origin,
        "doubtful_runs": folder.doubtful(),
        # Trees of a node that was lost cannot be compared with what they were.
        "unchecked_runs": folder.doubtful(UNCHECKED),
        "sources": frozen.sources,
        "candidates": frozen.candidates,
        "baseline": frozen.baseline,
        "seed": frozen.seed,
        "repeats": frozen.repeats,
        "parts": list(_parts(frozen, runs)),
        **_regraded(folder, runs),
        **shards_told(folder),
        "trials": len(frozen.trials),
        "done": len(runs),
        "runs_by_jobs": {str(jobs): runs for jobs, runs in runs_by_jobs(runs).items()},
        "spent_usd": sum(attempt.charged_usd or 0.0 for attempt in (*runs, *attempts)),
        "costs_not_known": sum(attempt.charged_usd is None for attempt in (*runs, *attempts)),
        "attempts_without_run": [
            {"attempt": attempt.id, "state": attempt.state, "reason": attempt.reason}
            | ({} if attempt.node is None else {"node": attempt.node})
            for attempt in attempts
        ],
        **_nodes(runs),
        "files_sha256": dict(file_digests(folder, runs, attempts)),
    }


def file_digests(
    folder: RunFolder, runs: Iterable[Attempted], attempts: Iterable[Attempted]
) -> Iterator[tuple[str, str]]:
    """The digest of each file that says how a run went, by its path in the folder."""
    yield from _digests(folder.folder, _BESIDE)
    places = [f"runs/{run.trial.id}" for run in runs]
    places += [f".attempts/{attempt.id}" for attempt in attempts]
    for place in places:
        with folder.folder.within(place) as opened:
            for name, digest in _digests(opened, (NAME, TRIAL)):
                yield f"{place}/{name}", digest


def _digests(folder: OpenFolder, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if folder.is_file(name):
            yield name, sha256(folder.read(name)).hexdigest()


def _nodes(runs: Sequence[Attempted]) -> dict[str, Any]:
    """Which machine of a cluster ran what."""
    nodes = {run.trial.id: run.node for run in runs if run.node is not None}
    return {"nodes": nodes} if nodes else {}


def regraded_from(folder: RunFolder) -> RegradedFrom | None:
    """Where the runs of a folder are from, if they were graded again."""
    try:
        return msgspec.json.decode(folder.folder.read(REGRADED), type=RegradedFrom)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{visible(folder.at(REGRADED))}: {visible(str(error))}") from error


def _regraded(folder: RunFolder, runs: Sequence[Attempted]) -> dict[str, Any]:
    source = regraded_from(folder)
    if source is None:
        return {}
    told = {
        **msgspec.structs.asdict(source),
        "runs": sum(REGRADED_AT in run.facts for run in runs),
        "left_as_they_were": {
            run.trial.id: run.facts[NOT_REGRADED] for run in runs if NOT_REGRADED in run.facts
        },
    }
    return {"regraded": told}


def _parts(frozen: Frozen, runs: Iterable[Attempted]) -> Iterator[dict[str, Any]]:
    """Each part of the schedule, and when its runs were made."""
    started = {run.trial: run.facts.get("started_at_utc") for run in runs}
    for part in frozen.parts:
        times = sorted(filter(None, map(started.get, part.trials)))
        yield {
            "part": part.number,
            "seed": part.seed,
            "digest": part.digest,
            "trials": len(part.trials),
            "done": sum(trial in started for trial in part.trials),
            "first_started_at_utc": times[0] if times else None,
            "last_started_at_utc": times[-1] if times else None,
        }


def runs_by_jobs(runs: Iterable[Attempted]) -> Counter[int]:
    """How many runs were made with how many trials at a time."""
    return Counter(run.jobs for run in runs)


def _variables(frozen: Frozen) -> set[str]:
    suite = frozen.suite
    tables = [suite.agent and suite.agent.env, suite.workspace and suite.workspace.env]
    return set().union(*(table or () for table in (*tables, *(a.env for a in suite.arms.values()))))
