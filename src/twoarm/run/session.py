"""A run from its suite to its runs: everything that stands around the loop."""

import os
import sys
from collections.abc import Callable, Mapping

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.files.safe import OpenFolder
from twoarm.run.budget import Budget
from twoarm.run.changes import refuse_changes, refuse_removed
from twoarm.run.executor import Executor
from twoarm.run.job_maker import JobMaker, TrialContext, check_programs, model_of
from twoarm.run.ledger import WHOLE, MachineSettings, RunFolder
from twoarm.run.loop import End, Loop, LoopView, StoppedError, StopRequest
from twoarm.run.place import Place, choose_place, new_token
from twoarm.run.prepare import Preparation, Prepared, SetupContext
from twoarm.run.report import Collected, collect_runs, runs_by_jobs, write_receipt
from twoarm.run.setting import RunOptions, Setting, set_up
from twoarm.run.settle import RunReader
from twoarm.run.suite_file import CheckedSuite, read_suite
from twoarm.run.tree import lies_in
from twoarm.text.escape import counted, shortened, visible

# What was made of the suite, in the cache.
_PREPARED = "prepared.json"


class Session:
    """A run folder that is being worked on."""

    def __init__(self, folder: RunFolder, setting: Setting, machine: MachineSettings) -> None:
        from twoarm.run.executors.local import Local

        self.folder = folder
        self.setting = setting
        self.machine = machine
        self.place = choose_place(machine.token, os.environ)
        self.executor: Executor = Local(setting.jobs, folder.share)

    def prepare(self) -> Prepared:
        """Builds and trees; those of an earlier runner, if they are all there."""
        from twoarm.run.supervisor.processes import clear_process_limits, kill_marked

        # Of a runner that was killed together with its supervisors.
        if self.place.known:
            kill_marked(self.machine.token)
        clear_process_limits()
        self.place.clear_scratch()
        with self.place.folder as place:
            known = _known_prepared(place)
            if known is not None:
                self.check_trees(known)
                return known
            with self.folder.folder.made("setup") as logs:
                prepared = prepare_trials(
                    self.setting, self.place, self.executor, logs, self.machine.token, 1
                )
            place.write(_PREPARED, msgspec.json.encode(prepared))
        self.folder.say(WHOLE)
        return prepared

    def check_trees(self, prepared: Prepared) -> None:
        """Stop if the trees that trials start from are not what they were."""
        changed = list(prepared.changed())
        if not changed:
            self.folder.say(WHOLE)
            return
        doubtful = self.folder.since_whole()
        self.folder.doubt(doubtful)
        self.folder.say("trees changed", files=changed[:20], runs=doubtful)
        # Made anew by the next runner.
        self.place.forget(_PREPARED)
        more = f" and {counted(len(changed) - 1, 'more file')}" if len(changed) > 1 else ""
        doubts = (
            f"{counted(len(doubtful), 'run')} since the last check may have started from it or "
            f"been judged by it: {visible(shortened(', '.join(doubtful), 500))}; remove their "
            f"folders below {visible(self.folder.at('runs'))} to run them again"
            if doubtful
            else "no run was made since the last check"
        )
        raise StoppedError(
            f"a trial, or somebody else, changed the trees that trials start from: "
            f"{visible(changed[0])}{more}; {doubts}"
        )

    def run(
        self,
        prepared: Prepared,
        stop_request: Callable[[], StopRequest],
        show: Callable[[LoopView], None],
    ) -> End:
        """The loop, with everything it needs."""
        setting = self.setting
        limits = setting.checked.suite.limits
        loop = Loop(
            self.folder,
            self.job_maker(prepared),
            self.executor,
            Budget(setting.terms),
            self.reader(prepared),
            retries=limits.retries,
            retry_seconds=limits.retry_seconds,
        )
        try:
            end = loop.run(setting.frozen.blocks, stop_request, show)
        except StoppedError:
            self.check_trees(prepared)
            raise
        if end != "killed":
            self.check_trees(prepared)
        return end

    def job_maker(self, prepared: Prepared) -> JobMaker:
        """What makes the jobs of its trials."""
        setting = self.setting
        context = TrialContext(
            place=self.place,
            prepared=prepared,
            env=setting.env,
            secrets=setting.secrets,
            marker=self.machine.token,
            bwrap=self.machine.isolation == "bwrap",
            keep_workspace=self.machine.keep,
            prices=setting.prices,
            trial_usd=setting.terms.trial_usd,
        )
        return JobMaker(setting.checked, setting.agent, context)

    def reader(self, prepared: Prepared) -> RunReader:
        """What reads the folders of its runs."""
        setting = self.setting
        return RunReader(
            format=setting.agent.format,
            prices=setting.prices,
            acceptance_commands={t.id: t.acceptance_command for t in setting.checked.tasks},
            graders=prepared.graders,
            models={arm: model_of(setting.checked, arm) for arm in setting.checked.arms},
        )

    def report(self, prepared: Prepared, end: End) -> Collected:
        """Write what `score` reads, and the receipt."""
        collected = collect_runs(
            self.folder, self.setting.frozen, self.setting.prices, over_budget=end == "budget"
        )
        write_receipt(
            self.folder,
            self.setting.frozen,
            self.setting.program,
            prepared,
            isolation=self.machine.isolation,
            budget={"kind": self.setting.terms.kind, "usd": self.setting.terms.budget_usd},
            end=end,
        )
        return collected

    def jobs_of_runs(self) -> list[int]:
        """How many trials ran at a time; more than one number if that was changed meanwhile."""
        return sorted(runs_by_jobs(self.folder.runs()))

    def close(self, *, finished: bool) -> None:
        """End what runs, and leave the cache to the next runner or to nobody."""
        self.executor.close()
        if finished:
            self.place.remove()
        else:
            self.place.clear_scratch()
            self.place.close()
        self.folder.release()


def _known_prepared(place: OpenFolder) -> Prepared | None:
    """What an earlier runner has made; None if it never finished, or that was cleared."""
    try:
        prepared = msgspec.json.decode(place.read(_PREPARED), type=Prepared)
    except (OSError, ValueError):
        return None
    return prepared if all(map(os.path.isdir, prepared.paths())) else None


def prepare_trials(
    setting: Setting, place: Place, executor: Executor, logs: OpenFolder, marker: str, checks: int
) -> Prepared:
    """What trials start from, with acceptance tried `checks` times and the program looked for."""
    check_outside(setting.checked, "cache", place.path)
    context = SetupContext(
        place=place,
        executor=executor,
        logs=logs,
        marker=marker,
        env={**setting.env, **setting.checked.workspace.env},
        secrets=setting.secrets,
    )
    prepared = Preparation(setting.checked, setting.frozen, context).prepare(checks)
    check_programs(setting.checked, setting.agent, setting.frozen.suite.tasks, prepared)
    return prepared


def check_outside(checked: CheckedSuite, what: str, path: str) -> None:
    """Refuse a folder of this run inside the one that is copied: agents would find it."""
    copied = checked.workspace.copy
    if copied is not None and lies_in(path, checked.at(copied)):
        way = "--out" if what == "run folder" else "TWOARM_CACHE"
        raise UsageError(
            f"{visible(path)}: the {what} would be in workspace.copy, and so in every workspace; "
            f"name another folder with {way}"
        )


def start(path: str, out: str, options: RunOptions, setting: Setting) -> Session:
    """A new run folder."""
    check_outside(setting.checked, "run folder", os.path.abspath(out))
    machine = MachineSettings(
        token=new_token(),
        suite=os.path.abspath(path),
        jobs=setting.jobs,
        isolation=options.isolation,
        keep=options.keep,
        budget_usd=setting.terms.budget_usd,
        trial_usd=setting.terms.trial_usd,
    )
    folder = RunFolder(out)
    stale = folder.machine().token if os.path.exists(folder.at("place.json")) else None
    folder.create(setting.frozen, machine)
    try:
        if stale is not None:
            # Of a suite that never got to its first trial.
            choose_place(stale, os.environ).remove()
        return Session(folder, setting, machine)
    except BaseException:
        # Whatever it is, Ctrl-C too: a folder that nobody works on is held by nobody.
        folder.release()
        raise


def resume(
    out: str, path: str | None, options: RunOptions, environment: Mapping[str, str]
) -> Session:
    """A run folder that was begun earlier: the same suite, or none."""
    folder = RunFolder(out)
    frozen, machine = folder.frozen(), folder.machine()
    suite = os.path.abspath(path) if path is not None else machine.suite
    if not os.path.exists(suite):
        raise InputError(
            f"{visible(suite)}: the suite is not there; if it has moved, "
            f"give it as well: twoarm run SUITE --resume {visible(out)}"
        )
    if options.budget_usd and machine.budget_usd and options.budget_usd < machine.budget_usd:
        raise UsageError(f"--budget: it was ${machine.budget_usd:g}, and can only grow")
    options = msgspec.structs.replace(
        options,
        budget_usd=options.budget_usd or machine.budget_usd,
        trial_usd=machine.trial_usd,
        repeats=frozen.repeats,
        seed=frozen.seed,
        only=tuple(task.id for task in frozen.suite.tasks),
        tags=(),
        jobs=options.jobs or machine.jobs,
        isolation=machine.isolation,
    )
    # Without them no schedule can be made to compare with.
    refuse_removed(frozen, read_suite(suite).tasks)
    setting = set_up(suite, options, environment, frozen)
    refuse_changes(frozen, setting.frozen)
    folder.hold(machine.token)
    try:
        budget = setting.terms.budget_usd
        before = machine.jobs
        machine = msgspec.structs.replace(
            machine, suite=suite, jobs=setting.jobs, budget_usd=budget
        )
        folder.change(machine)
        folder.say("resumed", jobs=machine.jobs, jobs_before=before)
        return Session(folder, setting, machine)
    except BaseException:
        # As in `start`.
        folder.release()
        raise


def refuse_other_systems() -> None:
    """Process groups, locks and the rest exist only on POSIX."""
    if sys.platform == "win32":
        raise UsageError("`twoarm run` needs Linux or macOS; on Windows, run it inside WSL")
