"""A run from its suite to its runs: everything that stands around the loop."""

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from twoarm.collect.prices import Prices, read_prices
from twoarm.errors import InputError, UsageError
from twoarm.escape import named, visible
from twoarm.run.agent import Agent, Cost, load_agent
from twoarm.run.agents.command import UNREAD
from twoarm.run.budget import Budget, Terms, check_terms
from twoarm.run.changes import refuse_changes, refuse_removed
from twoarm.run.executor import Executor
from twoarm.run.freeze import (
    Found,
    choose_tasks,
    commits_again,
    commits_of,
    find_program,
    freeze,
)
from twoarm.run.ledger import Home, RunFolder, write_file
from twoarm.run.loop import End, Loop, View, Wish
from twoarm.run.orders import (
    Orders,
    Surroundings,
    check_arguments,
    check_programs,
    missing_files,
    model_of,
)
from twoarm.run.place import Place, choose_place
from twoarm.run.prepare import Ground, Preparation, Workshop
from twoarm.run.remove import clear
from twoarm.run.report import Collected, collect_runs, runs_by_jobs, write_receipt
from twoarm.run.schedule import Frozen
from twoarm.run.settle import Reader
from twoarm.run.suite import NO_FORMAT
from twoarm.run.suite_file import Plan, read_suite
from twoarm.run.tree import is_committed, lies_in, uncommitted

# A shorter value would be struck out of everything.
SHORTEST_SECRET = 8

Isolation = Literal["copy", "bwrap"]
Keep = Literal["none", "failed", "all"]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for beside the suite; None is what the suite or the folder says."""

    repeats: int = 5
    seed: int = 1
    jobs: int | None = None
    budget_usd: float | None = None
    trial_usd: float | None = None
    only: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    isolation: Isolation = "copy"
    keep: Keep = "none"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A suite that could be run: what it means on this machine."""

    plan: Plan
    agent: Agent
    found: Found
    frozen: Frozen
    terms: Terms
    prices: Mapping[str, Prices] | None
    prices_path: str | None
    secrets: dict[str, str]
    # PATH, LANG and TERM.
    env: dict[str, str]
    jobs: int


def set_up(
    path: str, wanted: Wanted, environment: Mapping[str, str], earlier: Frozen | None = None
) -> Setting:
    """Read and check everything that can be without running anything of the suite.

    With an earlier schedule its commits are used, whatever has been committed since.
    """
    plan = read_suite(path)
    agent = load_agent(plan.agent)
    check_isolation(wanted.isolation, agent)
    limits = plan.suite.limits
    prices_path = None if limits.prices is None else plan.at(limits.prices)
    prices = None if prices_path is None else read_prices(prices_path)
    terms = Terms(
        budget_usd=wanted.budget_usd or limits.budget_usd,
        trial_usd=wanted.trial_usd or limits.trial_usd,
        cost=_cost(plan, prices),
        overshoot=agent.overshoot,
    )
    check_terms(terms)
    found = find_program(agent, plan)
    tasks = choose_tasks(plan, wanted.only, wanted.tags)
    check_arguments(plan, agent, tasks)
    commits = commits_of(plan) if earlier is None else commits_again(plan, earlier)
    frozen = freeze(plan, found.version, tasks, wanted.repeats, wanted.seed, commits)
    values = _secrets(plan, environment)
    text = msgspec.json.encode(frozen).decode()
    for name, value in values.items():
        if value in text:
            raise InputError(
                f"{visible(plan.path)}: the value of the secret {named(name)} is in the suite; "
                "name the variable and leave the value out"
            )
    kept = {key: environment[key] for key in ("PATH", "LANG", "LC_ALL") if key in environment}
    return Setting(
        plan=plan,
        agent=agent,
        found=found,
        frozen=frozen,
        terms=terms,
        prices=prices,
        prices_path=prices_path,
        secrets=values,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "dumb", **kept},
        jobs=wanted.jobs or default_jobs(),
    )


def _cost(plan: Plan, prices: Mapping[str, Prices] | None) -> Cost:
    """How well the cost of any trial is known: the arms may have models of their own."""
    models = {model_of(plan, arm) for arm in plan.arms}
    programs = (msgspec.structs.replace(plan.agent, model=model) for model in models)
    known = {load_agent(program).cost(prices) for program in programs}
    worst: tuple[Cost, ...] = ("unknown", "told", "held")
    return next(cost for cost in worst if cost in known)


def _secrets(plan: Plan, environment: Mapping[str, str]) -> dict[str, str]:
    values = {}
    for name in plan.agent.secrets:
        value = environment.get(name)
        if not value:
            raise InputError(f"secret {named(name)} is not set; export it before you run")
        if len(value) < SHORTEST_SECRET:
            raise InputError(
                f"secret {named(name)} has fewer than {SHORTEST_SECRET} characters; "
                "a value that short cannot be redacted safely"
            )
        values[name] = value
    return values


def default_jobs() -> int:
    """Half the cores, a gigabyte each, at most four."""
    cores = (os.cpu_count() or 2) // 2
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    except (ValueError, OSError):
        memory = 4
    return max(1, min(cores, memory, 4))


def notes(setting: Setting) -> list[str]:
    """What has to be said before anything runs."""
    said = []
    repo = setting.plan.workspace.repo
    if repo is not None and uncommitted(setting.plan.at(repo)):
        commit = setting.frozen.origin[:12]
        said.append(f"uncommitted changes in {named(repo)} are ignored; trials start from {commit}")
    if repo is not None and is_committed(
        setting.plan.at(repo), setting.frozen.origin, setting.plan.path
    ):
        said.append(
            "the suite is committed in the repository, so agents of both arms can read it, and "
            "any files of the arms that are committed with it; keep them elsewhere"
        )
    copied = setting.plan.workspace.copy
    if copied is not None and lies_in(setting.plan.path, setting.plan.at(copied)):
        said.append(
            "the suite is in the folder that is copied, so agents of both arms can read it; keep "
            "it in another folder"
        )
    if setting.agent.format == UNREAD and setting.plan.agent.format == NO_FORMAT:
        said.append(
            'format = "none" measures no tokens: the three gates can only end in '
            "`insufficient data`"
        )
    if setting.terms.kind == "soft":
        said.append(
            "the budget is soft: nothing stops a trial at its limit, so the last ones may exceed it"
        )
    suite = setting.plan.suite
    if setting.agent.format == UNREAD and any(
        (suite.uptake, *(arm.uptake for arm in suite.arms.values()))
    ):
        said.append(
            "uptake cannot be seen: what a command prints is read only with agent.output and "
            "agent.format; see docs/explain.md for what each format shows"
        )
    said.extend(missing_files(setting.plan))
    return said


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
        from twoarm.run.processes import clear_herds, kill_marked

        # Of a runner that was killed together with its supervisors.
        while kill_marked(self.home.token):
            time.sleep(0.01)
        clear_herds()
        clear(self.place.scratch)
        os.makedirs(self.place.scratch, 0o700, exist_ok=True)
        known = os.path.join(self.place.path, "ground.json")
        try:
            with open(known, "rb") as file:
                ground = msgspec.json.decode(file.read(), type=Ground)
            if all(map(os.path.isdir, ground.paths())):
                return ground
        except (OSError, ValueError):
            # Never finished, or cleared: made anew.
            pass
        ground = prepared(
            self.setting, self.place, self.executor, self.folder.at("setup"), self.home.token, 1
        )
        write_file(known, msgspec.json.encode(ground))
        return ground

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
        return loop.run(setting.frozen.blocks, wish, show)

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
        self.folder.release()
        clear(self.place.path if finished else self.place.scratch)


def prepared(
    setting: Setting, place: Place, executor: Executor, logs: str, marker: str, checks: int
) -> Ground:
    """What trials start from; acceptance tried so many times, and the program looked for in it."""
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


def check_isolation(isolation: Isolation, agent: Agent) -> None:
    """Refuse a sandbox that this machine does not have, or that the agent does not work in."""
    if isolation != "bwrap":
        return
    if not agent.nests:
        raise UsageError(
            f"--isolation bwrap: {named(agent.name)} has a sandbox of its own, which does not "
            "start inside another; use --isolation copy, or turn its own off in agent.args"
        )
    if shutil.which("bwrap") is None:
        raise UsageError("--isolation bwrap: bubblewrap is not installed; see your package manager")
    argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "true"]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise UsageError(f"--isolation bwrap: not allowed on this machine: {visible(said)}")


def start(path: str, out: str, wanted: Wanted, setting: Setting) -> Session:
    """A new run folder."""
    check_outside(setting.plan, "run folder", os.path.abspath(out))
    home = Home(
        token=secrets.token_hex(6),
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
    if stale is not None:
        # Of a suite that never came to its first trial.
        clear(choose_place(stale, os.environ).path)
    try:
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
    folder.hold()
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
    """Process groups, locks and the rest are there on POSIX alone."""
    if sys.platform == "win32":
        raise UsageError("`twoarm run` needs Linux or macOS; on Windows, run it inside WSL")
