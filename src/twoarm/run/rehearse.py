"""The dry run: everything but the agent, and what to expect of it."""

import os
import tempfile
from collections.abc import Iterator
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import msgspec

from twoarm.errors import InputError
from twoarm.files.safe import OpenFolder
from twoarm.programs.agent import ArgumentCheck
from twoarm.run.abandoned import note_dry_run
from twoarm.run.budget import Terms
from twoarm.run.display import duration
from twoarm.run.executor import LOCAL
from twoarm.run.freeze import asked
from twoarm.run.isolation import isolation_said
from twoarm.run.job_maker import argv_of
from twoarm.run.place import Place, choose_place, new_token
from twoarm.run.prepare import Prepared
from twoarm.run.schedule import Frozen
from twoarm.run.session import prepare_trials
from twoarm.run.setting import Setting, notes
from twoarm.run.untouched import results_of, warnings_of
from twoarm.text.escape import counted, named, series, shortened, visible

if TYPE_CHECKING:
    from twoarm.run.fleet import Fleet

# Acceptance runs twice on each task: one that flips is flaky.
_CHECKS = 2
_SHOWN = 12


class Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    """What was made and tried."""

    prepared: Prepared
    # As it is where trials would run.
    setting: Setting
    # The nodes of a cluster, and what is odd about it.
    nodes: str = ""
    warnings: tuple[str, ...] = ()


def rehearse(setting: Setting) -> Rehearsed:
    """Build, set up and try acceptance, in folders that are gone afterwards."""
    from twoarm.run.executors.local import Local

    _refuse_unknown_options(setting)
    token = new_token()
    place = choose_place(token, os.environ)
    executor = Local(setting.jobs, place.share)
    fleet = None
    try:
        note_dry_run(place, setting.isolation.name)
        path = os.path.realpath(tempfile.mkdtemp(prefix="twoarm-dry-run-"))
        if setting.executor != LOCAL:
            fleet = _look_at_nodes(setting, place, token)
            setting = fleet.setting
        with OpenFolder(path) as logs:
            prepared = prepare_trials(setting, place, executor, logs, token, _CHECKS)
            # The logs are for what goes wrong, and nothing did.
            for name in logs.names():
                logs.clear(name)
        os.rmdir(path)
        if fleet is None:
            return Rehearsed(prepared=prepared, setting=setting)
        nodes, warnings = fleet.note, (*fleet.warnings, *fleet.executor.unswept)
        return Rehearsed(prepared=prepared, setting=setting, nodes=nodes, warnings=warnings)
    finally:
        executor.close()
        place.remove()


def _refuse_unknown_options(setting: Setting) -> None:
    """Refuse arguments that the program does not know, if it can say so without running."""
    agent, checked = setting.agent, setting.checked
    if not isinstance(agent, ArgumentCheck):
        return
    task, quiet = setting.frozen.suite.tasks[0], getattr(agent, "quiet", {})
    for arm in checked.arms:
        _, *words = agent.checking(argv_of(checked, agent, arm, task))
        done = asked(setting.program.path, words, setting.env["PATH"], quiet)
        if done.returncode:
            why = agent.complaint(done.stderr.decode("utf-8", "replace"))
            raise InputError(
                f"{visible(checked.path)}: {named(agent.name)} does not take the args of arm "
                f"{named(arm)}: {visible(shortened(why, 300))}"
            )


def _look_at_nodes(setting: Setting, place: Place, token: str) -> "Fleet":
    """What trials would run with on the nodes of a cluster, which are left as they were."""
    from twoarm.run.fleet import join

    fleet = join(setting, place, token)
    fleet.executor.close()
    return fleet


def outlook(setting: Setting, rehearsed: Rehearsed, command: str) -> list[str]:
    """What the run would do, cost at most, and be able to see; finally, whether it is ready."""
    prepared = rehearsed.prepared
    frozen, terms, program = setting.frozen, setting.terms, setting.program
    tasks, trials = len(frozen.suite.tasks), len(frozen.trials)
    arms = 1 + len(frozen.candidates)
    limits = frozen.suite.limits
    longest = sum(task.timeout_seconds or limits.timeout_seconds for task in frozen.suite.tasks) * (
        arms * frozen.repeats
    )
    version = f" {program.version}" if program.version else ""
    lines = [
        f"suite {named(frozen.suite_id)}: {counted(tasks, 'task')} x "
        f"{counted(frozen.repeats, 'repeat')} x {arms} arms = {counted(trials, 'trial')}",
        f"agent {named(setting.agent.name)}{version}: {visible(program.path)}",
        f"{_workspace(frozen)}, {rehearsed.nodes or counted(setting.jobs, 'job')}",
        isolation_said(prepared.isolation, prepared.isolation_reason, setting.checked),
        f"time: at most {duration(longest / setting.jobs)}, if every trial runs into its timeout",
        f"cost: {_cost(terms, trials)}",
        _smallest(tasks, frozen.repeats, len(frozen.candidates)),
        *_looks(frozen),
    ]
    lines.append("order:")
    for number, block in enumerate(frozen.blocks[:_SHOWN], 1):
        order = ", then ".join(visible(trial.arm) for trial in block)
        lines.append(f"  {number}. {visible(block[0].task)}, repeat {block[0].repeat}: {order}")
    if len(frozen.blocks) > _SHOWN:
        lines.append(f"  and {len(frozen.blocks) - _SHOWN} more")
    if results := results_of(prepared.untouched):
        lines.append("acceptance where nothing was done yet:")
        lines += [f"  {text}" for text in results[:_SHOWN]]
        if len(results) > _SHOWN:
            lines.append(f"  and {len(results) - _SHOWN} more")
    warnings = [*notes(setting), *rehearsed.warnings, *prepared.warnings]
    warnings += warnings_of(prepared.untouched)
    lines += [f"warning: {text}" for text in warnings]
    if warnings:
        conclusion = f"ready, with {counted(len(warnings), 'warning')}; start it with {command}"
    else:
        conclusion = f"ready: no problems; start it with {command}"
    return [*lines, conclusion]


def _workspace(frozen: Frozen) -> str:
    return f"workspace at {frozen.origin[:12]}" if frozen.origin else "workspaces by Harbor"


def _looks(frozen: Frozen) -> Iterator[str]:
    """How much is run before the first answer, if there are looks."""
    if frozen.looks:
        first = sum(trial.repeat <= frozen.looks[0] for trial in frozen.trials)
        yield (
            f"looks after {series([str(look) for look in frozen.looks])} repeats: at most "
            f"{counted(len(frozen.trials), 'trial')}, {first:,} before the first look"
        )


def _cost(terms: Terms, trials: int) -> str:
    each = terms.trial_usd
    if each is None:
        return "nothing limits it; set limits.trial_usd and limits.budget_usd"
    if terms.cost == "held":
        most = each * trials * (1 + terms.overshoot)
        cost = (
            f"at most ${most:,.2f}: {counted(trials, 'trial')} of ${each:,.2f}, and "
            f"{terms.overshoot:.0%} more for turns that begin below the limit"
        )
    else:
        cost = (
            f"about ${each * trials:,.2f} if no trial exceeds ${each:,.2f}, which nothing enforces"
        )
    return cost if terms.budget_usd is None else f"{cost}; the budget is ${terms.budget_usd:,.2f}"


def _smallest(tasks: int, repeats: int, candidates: int) -> str:
    """For these tasks, at a success rate of one half, where a difference is hardest to see.

    Two-sided 5 %, of which each of several candidates has its share, and a power of 80 %.
    """
    normal = NormalDist()
    deviations = normal.inv_cdf(1.0 - 0.025 / candidates) + normal.inv_cdf(0.8)
    points = 100 * deviations * sqrt(0.5 / (tasks * repeats))
    if points >= 100:
        return "can see: no difference in success, however large; add tasks or repeats"
    return (
        f"can see: a difference of about {points:.0f} points in success on these tasks"
        f"{' for each candidate' if candidates > 1 else ''}, four times out of five"
    )
