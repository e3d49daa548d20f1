"""At the end: the runs as one file for `score`, and a receipt of how they were made."""

import os
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from twoarm import __version__
from twoarm.collect.gather import CollectOptions, Place, gather
from twoarm.run.freeze import Found
from twoarm.run.ledger import Attempted, RunFolder
from twoarm.run.prepare import Ground
from twoarm.run.schedule import Frozen
from twoarm.run.suite import Suite
from twoarm.write import Output, write

COLLECTED = "collected.jsonl"
RECEIPT = "receipt.json"


def collect_runs(folder: RunFolder, prices: str | None, suite: Suite) -> set[str]:
    """Write every run and every infra failure as `collected.jsonl`; the arms that have runs."""
    places: dict[str, list[Place]] = {}
    runs = list(folder.runs())
    for run in runs:
        place = Place(arm=run.arm, path=folder.run_of(run.trial))
        places.setdefault(run.format or "", []).append(place)
    for attempted in folder.attempts():
        if attempted.state == "infra":
            place = Place(arm=attempted.arm, path=folder.folder_of(attempted))
            places.setdefault(attempted.format or "", []).append(place)
    options = CollectOptions(
        prices=prices,
        uptake=suite.uptake,
        uptake_of={name: arm.uptake for name, arm in suite.arms.items()},
        relative_to=folder.path,
    )
    batches: list[bytes] = []
    for format_name, found in sorted(places.items()):
        with gather(format_name, found, options) as collection:
            batches += collection.batches()
    if batches:
        write([Output(path=folder.at(COLLECTED), content=batches, append=False)])
    return {run.arm for run in runs}


def write_receipt(
    folder: RunFolder, frozen: Frozen, found: Found, ground: Ground, **more: Any
) -> None:
    """Everything that somebody would need to know who trusts nothing else."""
    runs, attempts = list(folder.runs()), list(folder.attempts())
    receipt = {
        "schema": "twoarm.receipt/1",
        "twoarm": __version__,
        "suite_id": frozen.suite_id,
        "schedule_sha256": _digest(folder.at("schedule.json")),
        "origin": frozen.origin,
        "sources": frozen.sources,
        "digests": {**frozen.digests, **ground.digests},
        "agent": {
            "program": frozen.suite.agent and frozen.suite.agent.program,
            "version": found.version,
            "sha256": found.digest,
            "args": frozen.suite.agent and frozen.suite.agent.args,
            "arm_args": {name: arm.args for name, arm in frozen.suite.arms.items()},
            "secrets": frozen.suite.agent and frozen.suite.agent.secrets,
            "variables": sorted(_variables(frozen)),
        },
        "seed": frozen.seed,
        "repeats": frozen.repeats,
        **more,
        "trials": len(frozen.trials),
        "done": len(runs),
        "runs_by_jobs": {str(jobs): runs for jobs, runs in runs_by_jobs(runs).items()},
        "spent_usd": sum(one.charged_usd or 0.0 for one in (*runs, *attempts)),
        "costs_not_known": sum(one.charged_usd is None for one in (*runs, *attempts)),
        "attempts_without_run": [
            {"attempt": one.id, "state": one.state, "reason": one.reason} for one in attempts
        ],
        "run_json_sha256": {
            run.trial.id: _digest(os.path.join(folder.run_of(run.trial), "run.json"))
            for run in runs
        },
    }
    text = msgspec.json.format(msgspec.json.encode(receipt, order="sorted"), indent=1)
    write([Output(path=folder.at(RECEIPT), content=[text, b"\n"], append=False)])


def runs_by_jobs(runs: Iterable[Attempted]) -> Counter[int]:
    """How many runs were made with how many trials at a time."""
    return Counter(run.jobs for run in runs)


def _variables(frozen: Frozen) -> set[str]:
    names: set[str] = set()
    suite = frozen.suite
    tables = [suite.agent and suite.agent.env, suite.workspace and suite.workspace.env]
    for table in (*tables, *(arm.env for arm in suite.arms.values())):
        names |= set(table or {})
    return names


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return sha256(file.read()).hexdigest()
