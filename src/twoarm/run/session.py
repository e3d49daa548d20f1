"""A run from its suite to its runs: everything that stands around the loop."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from twoarm.errors import UsageError
from twoarm.files.safe import OpenFolder
from twoarm.run.budget import Budget
from twoarm.run.executor import LOCAL, Executor
from twoarm.run.freeze import changed_graders, changed_in_use
from twoarm.run.isolation import ChosenIsolation, clear_containers, sealer_of
from twoarm.run.job_maker import JobMaker, TrialContext, check_programs, clear_engines, model_of
from twoarm.run.ledger import WHOLE, MachineSettings, RunFolder
from twoarm.run.looks import (
    EarlyEnd,
    Judge,
    LookTaker,
    looks_receipt,
    looks_taken,
    remember,
)
from twoarm.run.loop import Loop, StoppedError
from twoarm.run.loop_view import End, LoopView, StopRequest
from twoarm.run.place import Place, choose_place, new_token
from twoarm.run.prepare import Preparation, Prepared, SetupContext
from twoarm.run.receipt import runs_by_jobs, write_receipt
from twoarm.run.reopen import Reopened
from twoarm.run.report import Collected, collect_runs, collected_lines
from twoarm.run.schedule import frozen_bytes
from twoarm.run.sealing import Sealer
from twoarm.run.setting import RunOptions, Setting, default_jobs
from twoarm.run.settle import RunReader
from twoarm.run.shard import sharded
from twoarm.run.suite import SuiteTask, read_as
from twoarm.run.suite_file import CheckedSuite
from twoarm.run.tree import lies_in
from twoarm.run.whole_trees import check_trees, keep_trees
from twoarm.runs.study import SCHEDULE, StopReason
from twoarm.text.escape import visible

if TYPE_CHECKING:
    from twoarm.run.fleet import Fleet

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
        clustered = setting.executor != LOCAL
        # What comes before the first trial is done here, wherever trials run.
        self.here = Local(default_jobs() if clustered else setting.jobs, folder.share)
        self.executor: Executor = self.here
        self.fleet: Fleet | None = None
        if clustered:
            self._join()
        # The look that the run ended at.
        self.ended: EarlyEnd | None = None
        # Whether it ended where no look can judge it.
        self.between_looks = False

    def _join(self) -> None:
        """Take the nodes of a cluster in place of this machine."""
        from twoarm.run.fleet import join

        try:
            out = (os.path.realpath(self.folder.path),)
            fleet = join(self.setting, self.place, self.machine.token, out)
        except BaseException:
            # What an earlier runner has made is there for the next one.
            if self.place.known:
                self.place.close()
            else:
                self.place.remove()
            raise
        self.fleet, self.executor, self.setting = fleet, fleet.executor, fleet.setting
        self.machine = msgspec.structs.replace(
            self.machine, jobs=fleet.setting.jobs, executor=fleet.setting.executor
        )
        self.folder.change(self.machine)
        self.folder.say("joined", nodes=fleet.slots)

    def prepare(self) -> Prepared:
        """Builds and trees; those of an earlier runner, if they are all there."""
        from twoarm.run.supervisor.process_limit import clear_process_limits

        if self.place.known:
            _end_all(self.setting, self.machine.token)
        clear_process_limits()
        self.place.clear_scratch()
        with self.place.folder as place:
            known = _known_prepared(place, self.setting.frozen.suite.tasks)
            if known is not None:
                self.check_trees(known)
                return known
            with self.folder.folder.made("setup") as logs:
                token, out = self.machine.token, self.run_folders
                prepared = prepare_trials(self.setting, self.place, self.here, logs, token, 1, out)
            keep_trees(self.folder, prepared.digests)
            self.machine = msgspec.structs.replace(self.machine, isolation=prepared.isolation)
            self.folder.change(self.machine)
            place.write(_PREPARED, msgspec.json.encode(prepared))
        self.folder.say(WHOLE)
        return prepared

    def check_trees(self, prepared: Prepared) -> None:
        """Stop if what trials start from, or are judged by, is not what it was."""
        nodes = None if self.fleet is None else self.fleet.executor
        try:
            check_trees(self.folder, prepared, nodes, self._changed_in_suite())
        except StoppedError:
            # Made anew by the next runner.
            self.place.forget(_PREPARED)
            raise

    def _changed_in_suite(self) -> list[str]:
        """What trials use of the suite, and is not what was frozen; nodes have copies of theirs."""
        checked, frozen = self.setting.checked, self.setting.frozen
        if self.fleet is not None:
            return []
        return [*changed_graders(checked, frozen), *changed_in_use(checked, frozen)]

    def run(
        self,
        prepared: Prepared,
        stop_request: Callable[[], StopRequest],
        show: Callable[[LoopView], None],
        judge: Judge,
    ) -> End:
        """The loop, with everything it needs."""
        setting = self.setting
        limits = setting.checked.suite.limits
        if self.fleet is not None:
            self.fleet.executor.seal(self._sealer())
        loop = Loop(
            self.folder,
            self.job_maker(prepared),
            self.executor,
            Budget(setting.terms),
            self.reader(prepared),
            retries=limits.retries,
            retry_seconds=limits.retry_seconds,
        )

        def judge_whole(look: int) -> Mapping[str, StopReason] | None:
            # Runs in doubt can be made again only before a look has counted on them.
            self.check_trees(prepared)
            return judge(look)

        looks = LookTaker(self.folder, setting.frozen.looks or (), judge_whole)
        try:
            end = loop.run(setting.frozen.blocks, looks, stop_request, show)
        except StoppedError:
            self.check_trees(prepared)
            raise
        self.ended = looks.ended
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
            sealer=self._sealer(),
            keep_workspace=self.machine.keep,
            prices=setting.prices,
            trial_usd=setting.terms.trial_usd,
        )
        return JobMaker(setting.checked, setting.agent, context)

    @property
    def run_folders(self) -> tuple[str, ...]:
        """What no step may see: the folders of the runs that it is about."""
        return (os.path.realpath(self.folder.path),)

    def _sealer(self) -> Sealer:
        setting, machine = self.setting, self.machine
        chosen = setting.isolation
        if machine.isolation != chosen.name:
            chosen = ChosenIsolation(name="copy")
        kept_back = (*self.run_folders, self.place.root, self.place.path)
        return sealer_of(setting.checked, chosen, setting.program.path, machine.token, kept_back)

    def reader(self, prepared: Prepared) -> RunReader:
        """What reads the folders of its runs."""
        setting = self.setting
        return RunReader(
            format=setting.agent.format,
            prices=setting.prices,
            acceptance_commands={t.id: t.whole_acceptance for t in setting.checked.tasks},
            graders=prepared.graders,
            models={arm: model_of(setting.checked, arm) for arm in setting.checked.arms},
            settings=read_as(setting.frozen.suite),
        )

    def lines_before(self, look: int) -> list[bytes]:
        """What `score` would read of the trials before a look."""
        return collected_lines(self.folder, self.setting.frozen, self.setting.prices, look).lines

    def report(self, prepared: Prepared, end: End) -> Collected:
        """Write what `score` reads, and the receipt."""
        frozen, ended = self.setting.frozen, self.ended
        collected = collect_runs(
            self.folder,
            frozen,
            self.setting.prices,
            None if ended is None else ended.after,
            over_budget=end == "budget",
        )
        looks = looks_taken(self.folder)
        if ended is not None:
            looks = msgspec.structs.replace(looks, ended=ended)
        elif end == "done":
            # Taken by the report, now that nothing is left to run.
            for after in sorted({*(frozen.looks or ())}.difference(looks.taken)):
                self.folder.say("look", after=after)
            looks = msgspec.structs.replace(looks, taken=frozen.looks or ())
        write_receipt(
            self.folder,
            frozen,
            self.setting.program,
            prepared,
            isolation=self.machine.isolation,
            budget={"kind": self.setting.terms.kind, "usd": self.setting.terms.budget_usd},
            end=end,
            looks=looks_receipt(frozen, looks),
        )
        if end in ("done", "decided") and frozen.looks:
            # Until here a resume would take the look again, and hear the same.
            remember(self.folder, looks)
        return collected

    def arms_run(self) -> frozenset[str]:
        """The arms that have a run."""
        return frozenset(run.arm for run in self.folder.runs())

    def jobs_of_runs(self) -> list[int]:
        """How many trials ran at a time; more than one number if that was changed meanwhile."""
        return sorted(runs_by_jobs(self.folder.runs()))

    def unswept(self) -> list[str]:
        """The nodes on which something is left of the run, once it is closed, and why."""
        return [] if self.fleet is None else self.fleet.executor.unswept

    def close(self, *, finished: bool) -> None:
        """End what runs, and leave the cache to the next runner or to nobody."""
        self.here.close()
        try:
            if self.fleet is not None:
                self.fleet.executor.close()
        finally:
            if finished:
                self.place.remove()
            else:
                self.place.clear_scratch()
                self.place.close()
            self.folder.release()


def _end_all(setting: Setting, token: str) -> None:
    """Leave nobody of a runner that was killed together with its supervisors."""
    from twoarm.run.supervisor.processes import kill_marked

    # First those who might still start a container.
    kill_marked(token)
    if setting.isolation.contained:
        clear_containers(setting.isolation, token)
    first = setting.frozen.suite.tasks[0]
    clear_engines(setting.checked, setting.agent, setting.env, first, token)


def _known_prepared(place: OpenFolder, tasks: Iterable[SuiteTask]) -> Prepared | None:
    """What an earlier runner has made for these tasks; None if it never finished, or that was
    cleared."""
    try:
        prepared = msgspec.json.decode(place.read(_PREPARED), type=Prepared)
    except (OSError, ValueError):
        return None
    complete = all(task.id in prepared.untouched for task in tasks)
    return prepared if complete and all(map(os.path.isdir, prepared.paths())) else None


def prepare_trials(
    setting: Setting,
    place: Place,
    executor: Executor,
    logs: OpenFolder,
    marker: str,
    checks: int,
    kept_back: tuple[str, ...] = (),
) -> Prepared:
    """What trials start from, with acceptance tried `checks` times and the program looked for."""
    check_outside(setting.checked, "cache", place.path)
    chosen, program = setting.isolation, setting.program.path
    kept_back = (*kept_back, place.root, place.path)
    sealer = sealer_of(setting.checked, chosen, program, marker, kept_back)
    open_sealer = sealer_of(setting.checked, ChosenIsolation(name="copy"))
    # What was asked for is taken, and compared with the open all the same.
    other = open_sealer if chosen.name == "bwrap" else None
    context = SetupContext(
        place=place,
        executor=executor,
        logs=logs,
        marker=marker,
        env=setting.env,
        secrets=setting.secrets,
        sealer=open_sealer if chosen.tentative else sealer,
        other=sealer if chosen.tentative else other,
    )
    prepared = Preparation(setting.checked, setting.frozen, context).prepare(checks)
    check_programs(setting.checked, setting.agent, setting.frozen.suite.tasks, prepared)
    if chosen.reason:
        return msgspec.structs.replace(prepared, isolation_reason=chosen.reason)
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
        # Not known yet, if it depends on what acceptance does.
        isolation="" if setting.isolation.tentative else setting.isolation.name,
        keep=options.keep,
        budget_usd=setting.budget_usd,
        trial_usd=setting.terms.trial_usd,
        shard=setting.shard,
        executor=setting.executor,
        jobs_asked=setting.jobs_asked,
    )
    folder = RunFolder(out)
    stale = folder.machine().token if os.path.exists(folder.at("place.json")) else None
    folder.create(setting.frozen, machine)
    try:
        if stale is not None:
            # Of a suite that never got to its first trial.
            _end_all(setting, stale)
            choose_place(stale, os.environ).remove()
        return Session(folder, own_share(setting), machine)
    except BaseException:
        # Whatever it is, Ctrl-C too: a folder that nobody works on is held by nobody.
        folder.release()
        raise


def own_share(setting: Setting) -> Setting:
    """With the trials that are run here."""
    return msgspec.structs.replace(setting, frozen=sharded(setting.frozen, setting.shard))


def resume(reopened: Reopened) -> Session:
    """A run folder that was begun earlier, with a part more if it grows."""
    folder, machine = reopened.folder, reopened.machine
    setting, schedule = reopened.setting, reopened.schedule
    folder.hold(machine.token)
    try:
        if folder.frozen() != reopened.then:
            raise UsageError(
                f"{visible(folder.path)} was resumed by somebody else just now; look at it with "
                "--status, then try again"
            )
        before = machine.jobs
        machine = msgspec.structs.replace(
            machine,
            suite=reopened.suite,
            jobs=setting.jobs,
            budget_usd=setting.budget_usd,
            executor=setting.executor,
            jobs_asked=setting.jobs_asked,
        )
        folder.change(machine)
        folder.say("resumed", jobs=machine.jobs, jobs_before=before)
        if reopened.more:
            # In one step: whoever comes after a kill has the one schedule or the other.
            folder.folder.write(SCHEDULE, frozen_bytes(schedule))
            folder.say("grown", part=len(schedule.parts), trials=reopened.more)
        # What is counted in the runs is what the suite says now.
        suite = msgspec.structs.replace(setting.frozen.suite, tasks=schedule.suite.tasks)
        frozen = msgspec.structs.replace(schedule, suite=suite)
        setting = own_share(msgspec.structs.replace(setting, frozen=frozen))
        return Session(folder, setting, machine)
    except BaseException:
        # As in `start`.
        folder.release()
        raise


def refuse_other_systems() -> None:
    """Process groups, locks and the rest exist only on POSIX."""
    if sys.platform == "win32":
        raise UsageError("`twoarm run` needs Linux or macOS; on Windows, run it inside WSL")
