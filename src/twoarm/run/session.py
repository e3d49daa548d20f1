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
from twoarm.run.ledger import WHOLE, Home, RunFolder
from twoarm.run.loop import End, Loop, StoppedError, View, Wish
from twoarm.run.orders import Orders, Surroundings, check_programs
from twoarm.run.place import Place, choose_place, new_token
from twoarm.run.prepare import Ground, Preparation, Workshop
from twoarm.run.report import Collected, collect_runs, runs_by_jobs, write_receipt
from twoarm.run.setting import Setting, Wanted, set_up
from twoarm.run.settle import Reader
from twoarm.run.suite_file import Plan, read_suite
from twoarm.run.tree import lies_in
from twoarm.text.escape import counted, shortened, visible

# What was made of the suite, in the cache.
_GROUND = "ground.json"


class Session:
    """A run folder that is being worked on."""

    def __init__(self, folder: RunFolder, setting: Setting, home: Home) -> None:
        from twoarm.run.executors.local import Local

        self.folder = folder
        self.setting = setting
        self.home = home
        self.place = choose_place(home.token, os.environ)
        self.executor: Executor = Local(setting.jobs, folder.share)

    def prepare(self) -> Ground:
        """Builds and trees; those of an earlier runner, if they are all there."""
        from twoarm.run.supervisor.processes import clear_herds, kill_marked

        # Of a runner that was killed together with its supervisors.
        if self.place.known:
            kill_marked(self.home.token)
        clear_herds()
        self.place.clear_scratch()
        with self.place.folder as place:
            known = _known_ground(place)
            if known is not None:
                self.check_trees(known)
                return known
            with self.folder.folder.made("setup") as logs:
                ground = prepared(self.setting, self.place, self.executor, logs, self.home.token, 1)
            place.write(_GROUND, msgspec.json.encode(ground))
        self.folder.say(WHOLE)
        return ground

    def check_trees(self, ground: Ground) -> None:
        """Stop if the trees that trials start from are not what they were."""
        changed = list(ground.changed())
        if not changed:
            self.folder.say(WHOLE)
            return
        doubtful = self.folder.since_whole()
        self.folder.doubt(doubtful)
        self.folder.say("trees changed", files=changed[:20], runs=doubtful)
        # Made anew by the next runner.
        self.place.forget(_GROUND)
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

    def run(self, ground: Ground, wish: Callable[[], Wish], show: Callable[[View], None]) -> End:
        """The loop, with everything it needs."""
        setting = self.setting
        limits = setting.plan.suite.limits
        around = Surroundings(
            place=self.place,
            ground=ground,
            env=setting.env,
            secrets=setting.secrets,
            marker=self.home.token,
            bwrap=self.home.isolation == "bwrap",
            keep_workspace=self.home.keep,
            prices=setting.prices,
            trial_usd=setting.terms.trial_usd,
        )
        orders = Orders(setting.plan, setting.agent, around)
        reader = Reader(
            format=setting.agent.format,
            prices=setting.prices,
            acceptance_commands={t.id: t.acceptance_command for t in setting.plan.tasks},
            models={arm: orders.model(arm) for arm in setting.plan.arms},
        )
        loop = Loop(
            self.folder,
            orders,
            self.executor,
            Budget(setting.terms),
            reader,
            retries=limits.retries,
            retry_seconds=limits.retry_seconds,
        )
        try:
            end = loop.run(setting.frozen.blocks, wish, show)
        except StoppedError:
            self.check_trees(ground)
            raise
        if end != "killed":
            self.check_trees(ground)
        return end

    def report(self, ground: Ground, end: End) -> Collected:
        """Write what `score` reads, and the receipt."""
        collected = collect_runs(self.folder, self.setting.frozen, self.setting.prices)
        write_receipt(
            self.folder,
            self.setting.frozen,
            self.setting.found,
            ground,
            isolation=self.home.isolation,
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


def _known_ground(place: OpenFolder) -> Ground | None:
    """What an earlier runner has made; None if it never finished, or that was cleared."""
    try:
        ground = msgspec.json.decode(place.read(_GROUND), type=Ground)
    except (OSError, ValueError):
        return None
    return ground if all(map(os.path.isdir, ground.paths())) else None


def prepared(
    setting: Setting, place: Place, executor: Executor, logs: OpenFolder, marker: str, checks: int
) -> Ground:
    """What trials start from, with acceptance tried `checks` times and the program looked for."""
    check_outside(setting.plan, "cache", place.path)
    workshop = Workshop(
        place=place,
        executor=executor,
        logs=logs,
        marker=marker,
        env={**setting.env, **setting.plan.workspace.env},
        secrets=setting.secrets,
    )
    ground = Preparation(setting.plan, setting.frozen, workshop).ground(checks)
    check_programs(setting.plan, setting.agent, setting.frozen.suite.tasks, ground)
    return ground


def check_outside(plan: Plan, what: str, path: str) -> None:
    """Refuse a folder of this run inside the one that is copied: agents would find it."""
    copied = plan.workspace.copy
    if copied is not None and lies_in(path, plan.at(copied)):
        way = "--out" if what == "run folder" else "TWOARM_CACHE"
        raise UsageError(
            f"{visible(path)}: the {what} would be in workspace.copy, and so in every workspace; "
            f"name another folder with {way}"
        )


def start(path: str, out: str, wanted: Wanted, setting: Setting) -> Session:
    """A new run folder."""
    check_outside(setting.plan, "run folder", os.path.abspath(out))
    home = Home(
        token=new_token(),
        suite=os.path.abspath(path),
        jobs=setting.jobs,
        isolation=wanted.isolation,
        keep=wanted.keep,
        budget_usd=setting.terms.budget_usd,
        trial_usd=setting.terms.trial_usd,
    )
    folder = RunFolder(out)
    stale = folder.home().token if os.path.exists(folder.at("place.json")) else None
    folder.create(setting.frozen, home)
    try:
        if stale is not None:
            # Of a suite that never got to its first trial.
            choose_place(stale, os.environ).remove()
        return Session(folder, setting, home)
    except BaseException:
        # Whatever it is, Ctrl-C too: a folder that nobody works on is held by nobody.
        folder.release()
        raise


def resume(out: str, path: str | None, wanted: Wanted, environment: Mapping[str, str]) -> Session:
    """A run folder that was begun earlier: the same suite, or none."""
    folder = RunFolder(out)
    frozen, home = folder.frozen(), folder.home()
    suite = os.path.abspath(path) if path is not None else home.suite
    if not os.path.exists(suite):
        raise InputError(
            f"{visible(suite)}: the suite is not there; if it has moved, "
            f"give it as well: twoarm run SUITE --resume {visible(out)}"
        )
    if wanted.budget_usd and home.budget_usd and wanted.budget_usd < home.budget_usd:
        raise UsageError(f"--budget: it was ${home.budget_usd:g}, and can only grow")
    wanted = msgspec.structs.replace(
        wanted,
        budget_usd=wanted.budget_usd or home.budget_usd,
        trial_usd=home.trial_usd,
        repeats=frozen.repeats,
        seed=frozen.seed,
        only=tuple(task.id for task in frozen.suite.tasks),
        tags=(),
        jobs=wanted.jobs or home.jobs,
        isolation=home.isolation,
    )
    # Without them no schedule can be made to compare with.
    refuse_removed(frozen, read_suite(suite).tasks)
    setting = set_up(suite, wanted, environment, frozen)
    refuse_changes(frozen, setting.frozen)
    folder.hold(home.token)
    try:
        budget = setting.terms.budget_usd
        before = home.jobs
        home = msgspec.structs.replace(home, suite=suite, jobs=setting.jobs, budget_usd=budget)
        folder.change(home)
        folder.say("resumed", jobs=home.jobs, jobs_before=before)
        return Session(folder, setting, home)
    except BaseException:
        # As in `start`.
        folder.release()
        raise


def refuse_other_systems() -> None:
    """Process groups, locks and the rest exist only on POSIX."""
    if sys.platform == "win32":
        raise UsageError("`twoarm run` needs Linux or macOS; on Windows, run it inside WSL")
