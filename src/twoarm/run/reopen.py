"""A run folder that was begun earlier, and what its suite asks for now: the same, or more."""

import os
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from twoarm.errors import InputError, UsageError
from twoarm.run.changes import refuse_another_suite, refuse_changes, refuse_removed
from twoarm.run.ledger import MachineSettings, RunFolder
from twoarm.run.parts import grown, growth_in_words, refuse_forged
from twoarm.run.receipt import regraded_from
from twoarm.run.schedule import SCHEMA, Frozen
from twoarm.run.setting import RunOptions, Setting, set_up
from twoarm.run.suite import SuiteTask
from twoarm.run.suite_file import read_suite
from twoarm.runs.study import SCHEDULE
from twoarm.text.escape import visible


class Reopened(msgspec.Struct, frozen=True, kw_only=True):
    """What a resume is about to do; nothing is held or written yet."""

    folder: RunFolder
    # As they are in the folder.
    then: Frozen
    machine: MachineSettings
    # With the schedule as it will be.
    setting: Setting
    suite: str

    @property
    def schedule(self) -> Frozen:
        """What the folder will have: what was frozen, and a part more if the run grows."""
        return grown(self.then, self.setting.frozen)

    @property
    def more(self) -> int:
        """How many trials are added."""
        return len(self.schedule.trials) - len(self.then.trials)

    @property
    def growth(self) -> str:
        """What is added, in words."""
        return growth_in_words(self.then, self.schedule)


def reopen(
    out: str, path: str | None, options: RunOptions, environment: Mapping[str, str]
) -> Reopened:
    """Look at a run folder and its suite; refuse whatever has changed and is no addition."""
    folder = RunFolder(out)
    then, machine = folder.frozen(), folder.machine()
    if then.schema != SCHEMA:
        raise InputError(
            f"{visible(out)} was made by twoarm {visible(then.twoarm)}, in a layout that is scored "
            "and shown but not continued; use that version, or start over with another --out"
        )
    refuse_forged(then, folder.at(SCHEDULE))
    if (regraded := regraded_from(folder)) is not None and not regraded.finished:
        raise InputError(
            f"{visible(out)}: not all of its runs were graded again yet; go on with "
            "`twoarm regrade` and the same --out"
        )
    suite = os.path.abspath(path) if path is not None else machine.suite
    if not os.path.exists(suite):
        raise InputError(
            f"{visible(suite)}: the suite is not there; if it has moved, "
            f"give it as well: twoarm run SUITE --resume {visible(out)}"
        )
    if options.budget_usd and machine.budget_usd and options.budget_usd < machine.budget_usd:
        raise UsageError(f"--budget: it was ${machine.budget_usd:g}, and can only grow")
    repeats = options.repeats or then.repeats
    if repeats < then.repeats:
        raise UsageError(
            f"--repeats: every task has {then.repeats} repeats already, and {repeats} are fewer; "
            "a run can only grow"
        )
    checked = read_suite(suite)
    refuse_another_suite(then, checked)
    # Without them no schedule can be made to compare with.
    refuse_removed(then, checked.tasks)
    options = replace(
        options,
        budget_usd=options.budget_usd or machine.budget_usd,
        trial_usd=machine.trial_usd,
        repeats=repeats,
        seed=then.seed,
        looks=then.looks,
        judging=then.judging,
        only=_wanted(then, checked.tasks),
        tags=(),
        jobs=options.jobs or machine.jobs_asked,
        executor=options.executor or machine.executor,
        shard=machine.shard,
        # Nothing, if it was never settled.
        isolation=machine.isolation or None,
    )
    setting = _with_jobs(set_up(suite, options, environment, then), machine)
    refuse_changes(then, setting.frozen)
    reopened = Reopened(folder=folder, then=then, machine=machine, setting=setting, suite=suite)
    if then.looks is not None and reopened.more:
        raise UsageError(
            f"{visible(out)} has planned looks, the last after {then.looks[-1]} repeats, and so "
            f"cannot grow ({reopened.growth}); start another run with --out"
        )
    return reopened


def _with_jobs(setting: Setting, machine: MachineSettings) -> Setting:
    """As many jobs as before, unless somebody has said how many; on a cluster, until it is known
    what nodes there are now."""
    if setting.jobs_asked is None and setting.executor == machine.executor:
        return replace(setting, jobs=machine.jobs)
    return setting


def _wanted(then: Frozen, tasks: tuple[SuiteTask, ...]) -> tuple[str, ...]:
    """The tasks of the schedule, and those that were added and that its choice takes in."""
    known = {task.id for task in then.suite.tasks}
    return tuple(
        task.id
        for task in tasks
        if task.id in known
        or (not then.only and (not then.tags or set(then.tags) & set(task.tags)))
    )
