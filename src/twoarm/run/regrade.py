"""Runs graded again: acceptance on what each of them left, without an agent, in a new run folder.

The folder that they are from stays as it is. A run that cannot be graded again keeps its verdict.
"""

import os
import time
from collections.abc import Mapping
from typing import cast

import msgspec

from twoarm._version import __version__
from twoarm.errors import InputError, UsageError
from twoarm.programs.agent import load_agent
from twoarm.programs.moment import utc_text
from twoarm.programs.prices import read_prices
from twoarm.run.beside import agent_digests
from twoarm.run.budget import Terms
from twoarm.run.changes import refuse_all_but_acceptance, refuse_changes, refuse_removed
from twoarm.run.freeze import ProgramFile, choose_tasks, commits_of, freeze
from twoarm.run.graded import Graded
from twoarm.run.harbor_tasks import HARBOR
from twoarm.run.isolation import Isolation, choose_isolation, frozen_images
from twoarm.run.ledger import MachineSettings, RunFolder
from twoarm.run.parts import sealed_anew
from twoarm.run.place import new_token
from twoarm.run.receipt import REGRADED, RegradedFrom, regraded_from
from twoarm.run.regrading import Regrading
from twoarm.run.schedule import SCHEMA, Frozen
from twoarm.run.session import check_outside, own_share
from twoarm.run.setting import Setting, default_jobs, plain_env
from twoarm.run.suite_file import read_suite
from twoarm.run.tree import lies_in
from twoarm.text.escape import visible


def start_regrading(
    path: str, suite: str | None, out: str, jobs: int | None, environment: Mapping[str, str]
) -> Regrading:
    """A new run folder for the runs of another, or one that was begun earlier."""
    source = Graded(path)
    agent = source.frozen.suite.agent
    if agent is not None and agent.program == HARBOR:
        raise UsageError(
            f"{visible(path)}: its runs were graded by the verifiers of Harbor's tasks, in "
            "containers that are gone; run the suite again with another --out"
        )
    if lies_in(out, path):
        raise UsageError(f"--out {visible(out)}: in {visible(path)}, which stays as it is")
    suite = os.path.abspath(suite or source.machine.suite)
    if not os.path.exists(suite):
        raise InputError(
            f"{visible(suite)}: the suite is not there; name it: twoarm regrade {visible(path)} "
            f"SUITE --out {visible(out)}"
        )
    setting = _set_up(source, suite, jobs, environment)
    check_outside(setting.checked, "run folder", os.path.abspath(out))
    folder = RunFolder(out)
    machine = msgspec.structs.replace(
        source.machine, token=new_token(), suite=suite, jobs=setting.jobs, keep="none"
    )
    try:
        if (begun := _begun(folder, source)) is None:
            _create(folder, source, setting.frozen, machine)
        else:
            if len(folder.frozen().parts) != len(setting.frozen.parts):
                raise UsageError(
                    f"{visible(out)} has grown since its runs were graded again; choose another "
                    "folder with --out"
                )
            refuse_changes(folder.frozen(), setting.frozen)
            machine = msgspec.structs.replace(machine, token=begun.token)
            folder.hold(machine.token)
            folder.change(machine)
        return Regrading(folder, own_share(setting), machine, source)
    except BaseException:
        # As a run does: a folder that nobody works on is held by nobody.
        folder.release()
        raise


def _begun(folder: RunFolder, source: Graded) -> MachineSettings | None:
    """The settings of a folder that was begun from the same runs; None if it is a new one."""
    if not os.path.isdir(folder.path):
        return None
    earlier = regraded_from(folder)
    if earlier is None:
        if folder.begun():
            raise UsageError(
                f"{visible(folder.path)} has runs that were not graded again; choose another "
                "folder with --out"
            )
        return None
    if earlier.schedule_sha256 != source.digest:
        raise UsageError(
            f"{visible(folder.path)} has runs of another run folder than "
            f"{visible(source.folder.path)}; choose another folder with --out"
        )
    return folder.machine()


def _create(folder: RunFolder, source: Graded, frozen: Frozen, machine: MachineSettings) -> None:
    folder.create(frozen, machine)
    told = RegradedFrom(schedule_sha256=source.digest, begun_at_utc=utc_text(time.time()) or "")
    folder.folder.write(REGRADED, msgspec.json.encode(told))


def _set_up(source: Graded, path: str, jobs: int | None, environment: Mapping[str, str]) -> Setting:
    """What a suite means on this machine, as far as grading needs it: no agent and no secrets."""
    then = source.frozen
    checked = read_suite(path)
    refuse_removed(then, checked.tasks)
    tasks = choose_tasks(checked, tuple(task.id for task in then.suite.tasks), ())
    commits = commits_of(checked, then)
    now = freeze(checked, then.version, tasks, then.repeats, then.seed, commits, then)
    agent = load_agent(checked.agent)
    isolation = cast("Isolation", source.machine.isolation)
    chosen = choose_isolation(isolation, checked, tasks, agent, then)
    # The trials are those that were run, and a suite without a name of its own may be in any file.
    frozen = msgspec.structs.replace(
        then,
        suite=now.suite,
        origin=now.origin,
        digests=now.digests | agent_digests(then) | frozen_images(checked, chosen.images),
        sources=now.sources,
    )
    refuse_all_but_acceptance(then, frozen)
    prices = checked.suite.limits.prices
    prices_path = None if prices is None else checked.at(prices)
    return Setting(
        checked=checked,
        agent=agent,
        program=ProgramFile(
            path=agent.executable, digest=source.receipt.agent.sha256, version=then.version
        ),
        frozen=sealed_anew(msgspec.structs.replace(frozen, schema=SCHEMA, twoarm=__version__)),
        terms=Terms(budget_usd=None, trial_usd=None, cost="unknown", overshoot=0.0),
        budget_usd=None,
        prices=None if prices_path is None else read_prices(prices_path),
        prices_path=prices_path,
        secrets={},
        env=plain_env(environment),
        jobs=jobs or default_jobs(),
        isolation=chosen,
        shard=source.machine.shard,
    )
